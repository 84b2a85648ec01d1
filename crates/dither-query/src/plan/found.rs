//! Whether bounds can be found from the data at all, as far as that is public.

use super::QueryPlan;
use crate::error::{Code, Refusal};

impl QueryPlan {
    /// The part of the declared rows that lies beyond each of the bounds that are found, about; more than one half means
    /// that they are chosen blindly.
    pub(crate) fn beyond(&self, index: usize) -> Option<f64> {
        let rows = self.public.rows.filter(|rows| *rows > 0)?;
        Some(self.mechanism.found[index].margin() as f64 / rows as f64)
    }

    /// Refuses to look for bounds where the declared number of rows says that noise alone would choose them.
    ///
    /// # Errors
    /// A [`Refusal`] that names the column.
    pub fn check_found(&self) -> Result<(), Refusal> {
        for (index, found) in self.found.iter().enumerate() {
            if self.beyond(index).is_some_and(|part| part >= 0.5) {
                let margin = self.mechanism.found[index].margin();
                let message = format!(
                    "the bounds of `{}` cannot be found: each would lie about {margin} rows from the end, of {} declared ones",
                    found.name,
                    self.public.rows.unwrap_or(0)
                );
                let hint = "use a larger epsilon, fewer rows of a unit, or declare `bounds` of the column";
                return Err(Refusal::new(Code::Range, message).hint(hint));
            }
        }
        Ok(())
    }
}
