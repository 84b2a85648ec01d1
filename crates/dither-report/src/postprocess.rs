//! What a report may do to an answer after its release: free for privacy, not always for the error.
//!
//! Every [`Step`] reads released numbers only, so it cannot weaken the guarantee (Dwork and Roth, *The
//! Algorithmic Foundations of Differential Privacy*, 2014, Proposition 2.1). What it does to the error is said
//! in its [`Label`], and the interval of every number follows. A number that is shown with two intervals, for noise and
//! with sampling, stays one number: a step changes both columns, and one that moves numbers together is refused.
//!
//! # How intervals are combined
//! The noise of different cells is independent, so half-widths combine in quadrature. For Gaussian noise that
//! is exact. For Laplace noise it is conservative: a sum of Laplace variables is closer to a Gaussian one than
//! each by itself, and its 95 % point is nearer to the middle (1.96 to 2.12 standard deviations). Where the two
//! sides of an interval differ, the wider one counts.

mod consistent;
mod label;
mod reconcile;
mod smooth;

use std::collections::BTreeMap;

use dither_core::{Answer, Audience, Cell, Column, Estimate, Explain, Role};
use serde::{Deserialize, Serialize};

use crate::language::{Language, WITH_SAMPLING};

pub use consistent::Consistent;
pub use label::Label;
pub(crate) use smooth::{numeric, places};

/// One declared step.
///
/// ```
/// use dither_report::{Step, postprocess::Total};
/// #[derive(serde::Deserialize)]
/// struct Part { postprocess: Vec<Step> }
/// let part: Part = toml::from_str(r#"
/// postprocess = [
///     { step = "sum-to-total", column = "n", total = { section = "all", column = "n" } },
///     { step = "non-negative", column = "n" },
/// ]"#)?;
/// let total = Total::Released { section: "all".into(), column: "n".into() };
/// assert_eq!(part.postprocess[0], Step::SumToTotal { column: "n".into(), total, by: None });
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Moves what lies outside a range to its end. The range must be a public fact.
    Clamp {
        /// The value column.
        column: String,
        /// The lower end.
        min: Option<f64>,
        /// The upper end.
        max: Option<f64>,
    },
    /// Moves what is negative to zero.
    NonNegative {
        /// The value column.
        column: String,
    },
    /// Rounds to so many decimals; a negative number rounds to tens, hundreds and so on.
    Round {
        /// The value column.
        column: String,
        /// The number of decimals, −9 to 9.
        #[serde(default)]
        digits: i32,
    },
    /// Moves the rows as little as their noise allows, so that they sum to a total.
    SumToTotal {
        /// The value column.
        column: String,
        /// What the rows sum to.
        total: Total,
        /// The key column whose groups sum to a total each; absent where all rows sum to one.
        by: Option<String>,
    },
    /// Changes the unit: `value × multiply + add`.
    Convert {
        /// The value column.
        column: String,
        /// The factor.
        #[serde(default = "one")]
        multiply: f64,
        /// What is added then.
        #[serde(default)]
        add: f64,
        /// The new name of the column, absent to keep it.
        rename: Option<String>,
    },
    /// Averages each cell of a grid with its neighbours, weighted by a Gaussian kernel.
    Smooth {
        /// The key column of one direction.
        x: String,
        /// The key column of the other direction.
        y: String,
        /// The value column.
        value: String,
        /// The width of the kernel in cells, more than 0 and at most 20.
        #[serde(default = "one")]
        sigma: f64,
    },
}

fn one() -> f64 {
    1.0
}

/// What rows sum to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields, expecting = "a total is a number or { section = \"…\", column = \"…\" }")]
pub enum Total {
    /// A public number.
    Public(f64),
    /// A number of another section, released by itself.
    Released {
        /// The section.
        section: String,
        /// Its value column.
        column: String,
    },
}

/// The answers of a report by the id of their section, for steps that read another section.
pub type Sections = BTreeMap<String, Answer>;

/// Why a step was refused. All of it follows from the declaration.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// A column that the answer does not have.
    #[error("`{step}` names the column `{column}`, which the answer does not have")]
    UnknownColumn {
        /// The step.
        step: &'static str,
        /// The name that was given.
        column: String,
        /// The nearest name that exists.
        nearest: Option<String>,
    },
    /// A key where a value is needed, or the other way round.
    #[error("`{step}` needs a {needed} column, and `{column}` is not one")]
    WrongRole {
        /// The step.
        step: &'static str,
        /// The name that was given.
        column: String,
        /// `key` or `value`.
        needed: &'static str,
    },
    /// A plot of two directions with one column in both.
    #[error("`plot` has the column `{column}` in both directions")]
    OneDirection {
        /// The column.
        column: String,
    },
    /// A section that the report does not have before this one.
    #[error("a step names the section `{section}`, which is not in the report")]
    UnknownSection {
        /// The name that was given.
        section: String,
        /// The nearest name that exists.
        nearest: Option<String>,
    },
    /// A total that is not one number, or not one number per group.
    #[error("the section `{section}` must have {needed} to be a total here")]
    NotOneTotal {
        /// The section.
        section: String,
        /// Its key columns in words.
        needed: String,
    },
    /// A section with a key that the most detailed one lacks.
    #[error(
        "the section `{section}` has a key that `{finest}` lacks, so its numbers are no sums of those of `{finest}`"
    )]
    NotNested {
        /// The section.
        section: String,
        /// The section with the most keys.
        finest: String,
    },
    /// A name that another column has.
    #[error("`convert` renames `{column}` to `{rename}`, which is the name of another column")]
    NameTaken {
        /// The column.
        column: String,
        /// Its new name.
        rename: String,
    },
    /// A parameter out of its range.
    #[error("`{step}` needs {needed}")]
    Parameter {
        /// The step.
        step: &'static str,
        /// What is needed.
        needed: &'static str,
    },
}

impl Explain for StepError {
    fn code(&self) -> &'static str {
        match self {
            Self::UnknownColumn { .. } => "step-unknown-column",
            Self::WrongRole { .. } => "step-wrong-column",
            Self::UnknownSection { .. } => "step-unknown-section",
            Self::NotOneTotal { .. } => "step-not-one-total",
            Self::NotNested { .. } => "step-not-nested",
            Self::OneDirection { .. } => "plot-one-direction",
            Self::NameTaken { .. } => "step-name-taken",
            Self::Parameter { .. } => "step-parameter",
        }
    }
    fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownColumn { nearest, .. } | Self::UnknownSection { nearest, .. } => {
                nearest.as_ref().map(|name| format!("did you mean `{name}`?"))
            }
            Self::NotOneTotal { .. } => Some("ask for the total with the same groups, and name them in `by`".into()),
            Self::NotNested { .. } => Some("list a section that has all keys of the others".into()),
            Self::OneDirection { .. } => Some("name two different key columns".into()),
            Self::NameTaken { .. } => Some("choose another name in `rename`".into()),
            Self::WrongRole { .. } | Self::Parameter { .. } => None,
        }
    }
    fn audience(&self) -> Audience {
        Audience::Analyst
    }
}

/// Runs the steps in order, and says what each did.
///
/// `sections` holds the answers that a total may be taken from, as they are shown.
///
/// # Errors
/// [`StepError`], for reasons that [`check`] finds before anything is charged.
///
/// # Privacy
/// Free: the result is a function of released numbers.
///
/// ```
/// use dither_core::{Answer, Cell, Column, Estimate, Role};
/// use dither_report::{Language, Step, postprocess};
/// let released = Answer {
///     columns: vec![Column { name: "n".into(), role: Role::Value }],
///     rows: vec![vec![Cell::Value(Estimate::new(-3.0, -9.0, 3.0))]],
/// };
/// let steps = [Step::NonNegative { column: "n".into() }];
/// let (shown, labels) = postprocess::apply(&steps, released, &Default::default(), Language::En)?;
/// assert_eq!(shown.rows[0][0], Cell::Value(Estimate::new(0.0, 0.0, 3.0)));
/// assert_eq!(labels[0].step, "n: negative numbers moved to 0");
/// # Ok::<(), dither_report::StepError>(())
/// ```
pub fn apply(
    steps: &[Step],
    answer: Answer,
    sections: &Sections,
    language: Language,
) -> Result<(Answer, Vec<Label>), StepError> {
    let mut labels = Vec::new();
    let mut answer = answer;
    for step in steps {
        let before = answer.clone();
        answer = step.run(answer, sections)?;
        labels.push(Label::of(step, &before, &answer, language));
    }
    Ok((answer, labels))
}

/// Finds whatever is wrong with the steps before anything is charged, from the columns alone.
///
/// Gives the columns of the answer after the steps. `sections` holds answers without rows.
///
/// # Errors
/// Every [`StepError`] that [`apply`] would give.
pub fn check(steps: &[Step], columns: Vec<Column>, sections: &Sections) -> Result<Vec<Column>, StepError> {
    let (answer, _) = apply(steps, Answer { columns, rows: Vec::new() }, sections, Language::En)?;
    Ok(answer.columns)
}

impl Step {
    /// The name of the step in a declaration.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Clamp { .. } => "clamp",
            Self::NonNegative { .. } => "non-negative",
            Self::Round { .. } => "round",
            Self::SumToTotal { .. } => "sum-to-total",
            Self::Convert { .. } => "convert",
            Self::Smooth { .. } => "smooth",
        }
    }

    fn run(&self, answer: Answer, sections: &Sections) -> Result<Answer, StepError> {
        let step = self.name();
        match self {
            Self::Clamp { column, min, max } => {
                let (low, high) = (min.unwrap_or(f64::NEG_INFINITY), max.unwrap_or(f64::INFINITY));
                if !(low <= high && (min.is_some() || max.is_some())) {
                    return Err(StepError::Parameter { step, needed: "`min`, `max` or both, with min ≤ max" });
                }
                each(answer, step, column, |estimate| clamp(estimate, low, high))
            }
            Self::NonNegative { column } => each(answer, step, column, |estimate| clamp(estimate, 0.0, f64::INFINITY)),
            Self::Round { column, digits } => {
                if !(-9..=9).contains(digits) {
                    return Err(StepError::Parameter { step, needed: "`digits` from -9 to 9" });
                }
                each(answer, step, column, |estimate| round(estimate, *digits))
            }
            Self::SumToTotal { column, total, by } => reconcile::run(answer, column, total, by.as_deref(), sections),
            Self::Convert { column, multiply, add, rename } => {
                if !(multiply.is_finite() && *multiply != 0.0 && add.is_finite()) {
                    return Err(StepError::Parameter { step, needed: "finite numbers, and `multiply` other than 0" });
                }
                let answer = each(answer, step, column, |estimate| estimate.map(|value| value * multiply + add))?;
                match rename {
                    Some(rename) => renamed(answer, step, column, rename),
                    None => Ok(answer),
                }
            }
            Self::Smooth { x, y, value, sigma } => smooth::run(answer, x, y, value, *sigma),
        }
    }
}

/// The index of a column with this role.
pub(crate) fn find(answer: &Answer, step: &'static str, column: &str, role: Role) -> Result<usize, StepError> {
    let Some(index) = answer.columns.iter().position(|known| known.name == column) else {
        let nearest = nearest(column, answer.columns.iter().filter(|c| c.role == role).map(|c| c.name.as_str()));
        return Err(StepError::UnknownColumn { step, column: column.to_owned(), nearest });
    };
    if answer.columns[index].role != role {
        let needed = match role {
            Role::Key => "key",
            Role::Value => "value",
        };
        return Err(StepError::WrongRole { step, column: column.to_owned(), needed });
    }
    Ok(index)
}

/// The most similar name, if any is similar at all.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let scored = known.map(|known| (strsim::jaro_winkler(name, known), known));
    scored.filter(|(score, _)| *score > 0.7).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known.to_owned())
}

/// What a number is called, whichever of its intervals stands beside it.
fn bare(column: &str) -> &str {
    column.strip_suffix(WITH_SAMPLING).unwrap_or(column)
}

/// The columns of a number: one for each of its intervals.
fn intervals(answer: &Answer, step: &'static str, column: &str) -> Result<Vec<usize>, StepError> {
    find(answer, step, column, Role::Value)?;
    let same = |known: &Column| known.role == Role::Value && bare(&known.name) == bare(column);
    Ok(answer.columns.iter().enumerate().filter(|(_, known)| same(known)).map(|(index, _)| index).collect())
}

/// The index of a value column whose numbers are moved together: how their intervals for sampling follow is not known.
fn find_single(answer: &Answer, step: &'static str, column: &str) -> Result<usize, StepError> {
    match intervals(answer, step, column)?.as_slice() {
        [index] => Ok(*index),
        _ => Err(StepError::Parameter {
            step,
            needed: "a column without intervals for sampling: ask without `sampling`",
        }),
    }
}

/// The answer with a number under another name.
fn renamed(mut answer: Answer, step: &'static str, column: &str, rename: &str) -> Result<Answer, StepError> {
    let mine = intervals(&answer, step, column)?;
    let names = mine.iter().map(|&index| {
        let with_sampling = answer.columns[index].name.ends_with(WITH_SAMPLING) && mine.len() > 1;
        format!("{}{}", bare(rename), if with_sampling { WITH_SAMPLING } else { "" })
    });
    let names: Vec<String> = names.collect();
    let others = answer.columns.iter().enumerate().filter(|(index, _)| !mine.contains(index));
    if others.map(|(_, other)| &other.name).any(|name| names.contains(name)) {
        return Err(StepError::NameTaken { column: column.to_owned(), rename: rename.to_owned() });
    }
    for (index, name) in mine.into_iter().zip(names) {
        answer.columns[index].name = name;
    }
    Ok(answer)
}

/// The answer with every estimate of one number transformed.
fn each(
    mut answer: Answer,
    step: &'static str,
    column: &str,
    change: impl Fn(Estimate) -> Estimate,
) -> Result<Answer, StepError> {
    let columns = intervals(&answer, step, column)?;
    for row in &mut answer.rows {
        for &index in &columns {
            if let Some(Cell::Value(estimate)) = row.get_mut(index) {
                *estimate = change(*estimate);
            }
        }
    }
    Ok(answer)
}

/// A number and its interval, moved into a range that is known to hold the exact answer.
///
/// An interval that lies wholly outside keeps half its width inside the range: a width of zero would claim a
/// certainty that nobody has.
fn clamp(estimate: Estimate, min: f64, max: f64) -> Estimate {
    let moved = estimate.map(|value| value.max(min).min(max));
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) if high <= min => Estimate { high: Some((min + (high - low) / 2.0).min(max)), ..moved },
        (Some(low), Some(high)) if low >= max => Estimate { low: Some((max - (high - low) / 2.0).max(min)), ..moved },
        _ => moved,
    }
}

/// The nearest multiple of 10^-digits; the ends of the interval move outwards.
fn round(estimate: Estimate, digits: i32) -> Estimate {
    // Dividing by a power of ten keeps decimals such as 0.1 at their nearest float; multiplying does not.
    let power = 10f64.powi(digits.abs());
    let to = |value: f64, rounding: fn(f64) -> f64| match digits {
        0.. => rounding(value * power) / power,
        _ => rounding(value / power) * power,
    };
    Estimate {
        value: estimate.value.map(|value| to(value, f64::round)),
        low: estimate.low.map(|value| to(value, f64::floor)),
        high: estimate.high.map(|value| to(value, f64::ceil)),
    }
}

/// The variance of an estimate in units of squared half-widths, from the wider side of its interval.
fn variance(estimate: Estimate) -> Option<f64> {
    let (value, low, high) = (estimate.value?, estimate.low?, estimate.high?);
    let half = (value - low).max(high - value);
    Some(half * half).filter(|square| square.is_finite())
}

#[cfg(test)]
mod tests;
