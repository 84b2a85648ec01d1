//! Values computed from rows, which nothing but a mechanism may read.

/// A value that depends on unprotected data.
///
/// It has no `Debug`, `Display`, `Serialize`, `Clone` or `Deref`; it can be carried and handed to
/// [`Charged::release`](crate::Charged::release), where noise is added, and nowhere else.
///
/// ```compile_fail
/// let secret = dither_core::Sensitive::new(42);
/// println!("{secret:?}");
/// ```
pub struct Sensitive<T>(pub(crate) T);

impl<T> Sensitive<T> {
    /// Marks a value as sensitive. There is no way back but through a mechanism.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Several sensitive values as one.
    pub fn all(values: impl IntoIterator<Item = Self>) -> Sensitive<Vec<T>> {
        Sensitive(values.into_iter().map(|value| value.0).collect())
    }

    /// Transforms the value without revealing it. The function must not leak what it sees.
    pub fn map<U>(self, transform: impl FnOnce(T) -> U) -> Sensitive<U> {
        Sensitive(transform(self.0))
    }
}
