//! What every error of Dither can say about itself.

/// Who may read the details of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// The error follows from the request and the policy alone; anybody who asked may read it.
    Analyst,
    /// The error may have been caused by the data or the machine. The analyst sees one constant text, the
    /// operator's log gets the rest.
    Operator,
}

/// A stable code, a hint with the value to change, and who may read it.
pub trait Explain: std::error::Error {
    /// A short stable code in kebab case.
    fn code(&self) -> &'static str;
    /// Which parameter to change, and to what.
    fn hint(&self) -> Option<String>;
    /// Who may read the message.
    fn audience(&self) -> Audience;
}
