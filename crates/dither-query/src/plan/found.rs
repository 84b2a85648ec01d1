//! Whether bounds can be found from the data at all, as far as that is public.

use super::QueryPlan;
use crate::error::{Code, Refusal};
use crate::release::CONFIDENCE;

/// How many rows lie beyond bounds that are found, of those that count at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Beyond {
    /// The declared rows that count, in all groups together: fewer where a filter leaves fewer.
    pub rows: u64,
    /// About which part of them lies beyond either bound.
    pub about: f64,
    /// Which part at most, 95 times in 100.
    pub most: f64,
}

impl QueryPlan {
    /// Which part of the declared rows that count lies beyond the bounds of a column. Contribution bounds drop rows before
    /// bounds are looked for, so that fewer may count than are declared.
    pub(crate) fn beyond(&self, index: usize) -> Option<Beyond> {
        let (rows, found) = (self.counted_rows().filter(|rows| *rows > 0)?, &self.mechanism.found[index]);
        let part = |beyond: f64| (beyond / rows as f64).min(1.0);
        let (about, most) = (part(2.0 * found.margin() as f64), part(found.most_beyond(CONFIDENCE)?));
        Some(Beyond { rows, about, most })
    }

    /// Refuses to look for bounds where the number of rows that count says that noise alone would choose them.
    ///
    /// # Errors
    /// A [`Refusal`] that names the column.
    pub fn check_found(&self) -> Result<(), Refusal> {
        for (index, found) in self.found.iter().enumerate() {
            let Some(beyond) = self.beyond(index).filter(|beyond| beyond.about >= 1.0) else { continue };
            let (margin, rows) = (self.mechanism.found[index].margin(), beyond.rows);
            let dropped = match self.public.rows {
                Some(declared) if declared > rows => format!(" that count, of {declared}"),
                _ => " declared ones".into(),
            };
            let message = format!(
                "the bounds of `{}` cannot be found: each would lie about {margin} rows from the end, of {rows}{dropped}",
                found.name
            );
            let hint = "use a larger epsilon, fewer rows of a unit, or declare `bounds` of the column";
            return Err(Refusal::new(Code::Range, message).hint(hint));
        }
        Ok(())
    }
}
