//! Refusals at plan time: what in the question cannot be answered, and what to write instead.

use std::fmt;

use dither_core::{Audience, Explain};

/// A place in the SQL text: line and column of its first and last character, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// First line and column.
    pub start: (u64, u64),
    /// Last line and column.
    pub end: (u64, u64),
}

/// Why a question is refused. Each has a stable text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// The text is not SQL.
    Syntax,
    /// The text is too long or too deeply nested.
    TooLarge,
    /// A part of SQL that is not analysed, and therefore not answered.
    Unsupported,
    /// Rows of the input would not belong to one unit each, or would depend on the rows of other units.
    NotUnitStable,
    /// A table that the policy does not declare.
    UnknownTable,
    /// A column that the policy does not declare.
    UnknownColumn,
    /// A function that is not on the list.
    UnknownFunction,
    /// Types that do not fit.
    Type,
    /// A query that would show rows as they are.
    NotAggregated,
    /// A value without bounds would have unlimited sensitivity.
    MissingBounds,
    /// The policy does not say how much a unit may contribute.
    MissingContributionBounds,
    /// Keys from the data need δ > 0.
    MissingDelta,
    /// No ε was given.
    MissingEpsilon,
    /// More ε than one question may use.
    EpsilonOverCap,
    /// Keys from the data under a neighbour relation for which the threshold is not proven.
    PrivateKeys,
    /// Public keys that cannot be read or do not fit what is grouped by.
    Keys,
    /// Too many public keys.
    TooManyKeys,
    /// An option that does not exist or has an odd value.
    Option,
    /// No ε reaches the target error.
    TargetError,
    /// A number left the range of exact arithmetic.
    Range,
}

impl Code {
    /// The stable text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::TooLarge => "too-large",
            Self::Unsupported => "unsupported",
            Self::NotUnitStable => "not-unit-stable",
            Self::UnknownTable => "unknown-table",
            Self::UnknownColumn => "unknown-column",
            Self::UnknownFunction => "unknown-function",
            Self::Type => "type",
            Self::NotAggregated => "not-aggregated",
            Self::MissingBounds => "missing-bounds",
            Self::MissingContributionBounds => "missing-contribution-bounds",
            Self::MissingDelta => "missing-delta",
            Self::MissingEpsilon => "missing-epsilon",
            Self::EpsilonOverCap => "epsilon-over-cap",
            Self::PrivateKeys => "private-keys",
            Self::Keys => "keys",
            Self::TooManyKeys => "too-many-keys",
            Self::Option => "option",
            Self::TargetError => "target-error",
            Self::Range => "range",
        }
    }
}

/// A question that is refused before anything is charged. It follows from the question and the policy alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Why.
    pub code: Code,
    /// One sentence.
    pub message: String,
    /// What to change, and to what.
    pub hint: Option<String>,
    /// Where in the text.
    pub place: Option<Place>,
    /// Whether the cause stands in the policy, so that no place of the text shows it.
    pub in_policy: bool,
}

impl Refusal {
    /// A refusal without hint and place.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, place: None, in_policy: false }
    }

    /// Adds what to change.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds where, unless it is known already.
    pub fn at(mut self, place: Option<Place>) -> Self {
        if !self.in_policy {
            self.place = self.place.or(place);
        }
        self
    }

    /// The clause with a caret under it, as in a compiler's message.
    ///
    /// ```
    /// use dither_query::error::{Code, Place, Refusal};
    /// let place = Place { start: (1, 8), end: (1, 10) };
    /// let refusal = Refusal::new(Code::UnknownFunction, "`MAX` is not offered").at(Some(place));
    /// assert_eq!(refusal.pointer("SELECT MAX(x) FROM t").unwrap(), "  1 | SELECT MAX(x) FROM t\n    |        ^^^");
    /// ```
    pub fn pointer(&self, sql: &str) -> Option<String> {
        let place = self.place?;
        let line = sql.lines().nth(usize::try_from(place.start.0).ok()?.checked_sub(1)?)?;
        let start = usize::try_from(place.start.1).ok()?.checked_sub(1)?;
        let width = if place.end.0 == place.start.0 { place.end.1.saturating_sub(place.start.1) + 1 } else { 1 };
        let number = place.start.0;
        let room = line.chars().count().saturating_sub(start).max(1);
        let carets = "^".repeat(usize::try_from(width).unwrap_or(1).clamp(1, room));
        Some(format!("{number:>3} | {line}\n    | {:start$}{carets}", ""))
    }
}

impl Explain for Refusal {
    fn code(&self) -> &'static str {
        self.code.as_str()
    }
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
    fn audience(&self) -> Audience {
        Audience::Analyst
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
