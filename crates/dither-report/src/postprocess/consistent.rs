//! Sections that count the same rows in more and in less detail, made to agree: generalised least squares.
//!
//! Let x be the exact numbers of the most detailed section, its cells. Every row of every section is a measurement of a
//! sum of cells, y = Ax + noise, with the variances V of its rows. The estimate that minimises (y − Ax)ᵀV⁻¹(y − Ax) is
//! x̂ = (AᵀV⁻¹A)⁻¹AᵀV⁻¹y, unbiased and of the smallest variance among linear ones, with covariance (AᵀV⁻¹A)⁻¹. Each row a of
//! any section becomes aᵀx̂, with variance aᵀ(AᵀV⁻¹A)⁻¹a: never more than its own, since its own measurement is one of those
//! that are combined. Rows, columns and totals of a cross-tabulation agree exactly, because all are sums of the same cells.
//!
//! # References
//! Aitken, *On least squares and linear combination of observations*, 1935 (the estimate and its covariance). Hay, Rastogi,
//! Miklau and Suciu, *Boosting the Accuracy of Differentially Private Histograms Through Consistency*, VLDB 2010, for
//! noisy counts in a hierarchy.

use std::collections::BTreeMap;

use dither_core::{Answer, Cell, Estimate, Role};
use serde::{Deserialize, Serialize};

use super::reconcile::{estimate, group_name, is_whole, whole_numbers};
use super::{Label, Sections, StepError, find_single, nearest, variance};
use crate::language::Language;

const STEP: &str = "consistent";

/// A dense system is solved; a thousand cells take a second.
const MAX_CELLS: usize = 1_000;

/// Numbers of several sections that are to agree.
///
/// The sections must count the same rows, so that each number of a section with fewer keys is the sum of those of the
/// section with the most keys. That is so if they differ in `GROUP BY` alone and no unit is cut by the contribution
/// bounds.
///
/// ```
/// use dither_core::{Answer, Cell, Column, Estimate, Key, Role};
/// use dither_report::{Language, postprocess::{Consistent, Sections}};
/// let column = |name: &str, role| Column { name: name.into(), role };
/// let number = |value: f64| Cell::Value(Estimate::new(value, value - 2.0, value + 2.0));
/// let total = Answer { columns: vec![column("n", Role::Value)], rows: vec![vec![number(10.5)]] };
/// let rows = [("a", 3.5), ("b", 4.0)].map(|(key, n)| vec![Cell::Key(Key::Text(key.into())), number(n)]);
/// let parts = Answer { columns: vec![column("k", Role::Key), column("n", Role::Value)], rows: rows.into() };
/// let mut sections = Sections::from([("all".into(), total), ("by-k".into(), parts)]);
/// let consistent = Consistent { column: "n".into(), sections: vec!["all".into(), "by-k".into()] };
/// consistent.run(&mut sections, Language::En)?;
/// // The three share the gap of 3: 10.5 − 1 = (3.5 + 1) + (4 + 1).
/// let shown = |section: &str, row: usize| match sections[section].rows[row].last() {
///     Some(Cell::Value(estimate)) => estimate.value.unwrap(),
///     _ => f64::NAN,
/// };
/// assert!((shown("all", 0) - 9.5).abs() < 1e-9 && (shown("by-k", 0) - 4.5).abs() < 1e-9);
/// # Ok::<(), dither_report::StepError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consistent {
    /// The value column, under the same name in every section.
    pub column: String,
    /// The sections: their keys are keys of the one with the most.
    pub sections: Vec<String>,
}

impl Consistent {
    /// Finds whatever is wrong with it from the columns of the answers alone, before anything is charged.
    ///
    /// # Errors
    /// Unknown sections and columns, fewer than two sections, a section with a key that the most detailed one lacks.
    pub fn check(&self, sections: &Sections) -> Result<(), StepError> {
        self.parts(sections).map(drop)
    }

    /// Moves the numbers of all its sections, and says so for each.
    ///
    /// Nothing is moved, and nothing said, where a number or its interval is missing, where a row has no cell in the most
    /// detailed section, and beyond 1,000 cells.
    ///
    /// # Errors
    /// As [`Consistent::check`].
    ///
    /// # Privacy
    /// Free: a function of released numbers.
    pub fn run(&self, sections: &mut Sections, language: Language) -> Result<BTreeMap<String, Label>, StepError> {
        let parts = self.parts(sections)?;
        let Some(moved) = solve(&parts) else { return Ok(BTreeMap::new()) };
        let changes: Vec<(String, usize, Vec<Estimate>)> =
            parts.iter().zip(moved).map(|(part, moved)| (part.id.clone(), part.value, moved)).collect();
        let mut labels = BTreeMap::new();
        for (id, value, moved) in changes {
            let Some(answer) = sections.get_mut(&id) else { continue };
            let before = answer.clone();
            for (row, estimate) in answer.rows.iter_mut().zip(moved) {
                row[value] = Cell::Value(estimate);
            }
            labels.insert(id, Label::consistent(self, &before, answer, language));
        }
        Ok(labels)
    }

    /// The sections, the most detailed one first.
    fn parts<'a>(&self, sections: &'a Sections) -> Result<Vec<Part<'a>>, StepError> {
        let mut parts = Vec::new();
        for id in &self.sections {
            let Some(answer) = sections.get(id) else {
                let nearest = nearest(id, sections.keys().map(String::as_str));
                return Err(StepError::UnknownSection { section: id.clone(), nearest });
            };
            if parts.iter().any(|part: &Part<'_>| part.id == *id) {
                return Err(StepError::Parameter { step: STEP, needed: "different sections" });
            }
            parts.push(Part { id: id.clone(), answer, value: find_single(answer, STEP, &self.column)? });
        }
        // Stable, so that of several the first one has the cells.
        parts.sort_by_key(|part| std::cmp::Reverse(part.keys().len()));
        let [finest, others @ ..] = &parts[..] else {
            return Err(StepError::Parameter { step: STEP, needed: "two sections or more" });
        };
        if others.is_empty() {
            return Err(StepError::Parameter { step: STEP, needed: "two sections or more" });
        }
        let known = finest.keys();
        match others.iter().find(|part| part.keys().iter().any(|key| !known.contains(key))) {
            None => Ok(parts),
            Some(odd) => Err(StepError::NotNested { section: odd.id.clone(), finest: finest.id.clone() }),
        }
    }
}

/// One section.
struct Part<'a> {
    id: String,
    answer: &'a Answer,
    /// The index of the value column.
    value: usize,
}

impl<'a> Part<'a> {
    fn keys(&self) -> Vec<&'a str> {
        self.answer
            .columns
            .iter()
            .filter(|column| column.role == Role::Key)
            .map(|column| column.name.as_str())
            .collect()
    }

    /// The keys of a row, in the order of `names`.
    fn group(&self, row: usize, names: &[&str]) -> Vec<String> {
        let place = |name: &&str| self.answer.columns.iter().position(|column| column.name == **name);
        let cell = |name| place(name).and_then(|place| self.answer.rows[row].get(place));
        names.iter().map(|name| group_name(cell(name))).collect()
    }
}

/// A measured sum of cells.
struct Measurement {
    cells: Vec<usize>,
    released: Estimate,
    variance: f64,
}

/// What each row of each section becomes, if all can be solved for.
fn solve(parts: &[Part<'_>]) -> Option<Vec<Vec<Estimate>>> {
    let (finest, count) = (parts.first()?, parts.first()?.answer.rows.len());
    if count == 0 || count > MAX_CELLS {
        return None;
    }
    let measured: Vec<Vec<Measurement>> = parts.iter().map(|part| measurements(part, finest)).collect::<Option<_>>()?;
    let all = || measured.iter().flatten();
    let mut system = vec![0.0; count * count];
    let mut right = vec![0.0; count];
    for Measurement { cells, released, variance } in all() {
        let (weight, value) = (1.0 / variance, released.value?);
        for &a in cells {
            right[a] += weight * value;
            cells.iter().for_each(|&b| system[a * count + b] += weight);
        }
    }
    let factor = Factor::of(system, count)?;
    let exact = factor.solve(right);
    let whole = all().all(|measurement| is_whole(&measurement.released));
    let shown = match whole {
        true => whole_numbers(&exact, exact.iter().sum::<f64>().round()),
        false => exact.clone(),
    };
    let moved = |Measurement { cells, .. }: &Measurement| {
        let sum = |values: &[f64]| cells.iter().map(|&cell| values[cell]).sum::<f64>();
        let half = factor.variance(cells).sqrt();
        // The interval lies around the exact solution. Of whole numbers it holds the whole numbers inside.
        let (low, high, shown) = (sum(&exact) - half, sum(&exact) + half, sum(&shown));
        let (low, high) = if whole { (low.ceil(), high.floor()) } else { (low, high) };
        Estimate::new(shown, low.min(shown), high.max(shown))
    };
    Some(measured.iter().map(|part| part.iter().map(moved).collect()).collect())
}

/// The rows of a section as sums of cells of the most detailed one.
fn measurements(part: &Part<'_>, finest: &Part<'_>) -> Option<Vec<Measurement>> {
    let names = part.keys();
    let mut cells: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
    for cell in 0..finest.answer.rows.len() {
        cells.entry(finest.group(cell, &names)).or_default().push(cell);
    }
    let measurement = |row: usize| {
        let released = estimate(part.answer, row, part.value)?;
        let variance = variance(released).filter(|&variance| variance > 0.0)?;
        Some(Measurement { cells: cells.get(&part.group(row, &names))?.clone(), released, variance })
    };
    (0..part.answer.rows.len()).map(measurement).collect()
}

/// The Cholesky factor L of a matrix M = LLᵀ, by rows.
struct Factor {
    rows: Vec<f64>,
    count: usize,
}

impl Factor {
    /// `None` for a matrix that is not positive definite as far as floats can tell.
    fn of(mut rows: Vec<f64>, count: usize) -> Option<Self> {
        for i in 0..count {
            for j in 0..=i {
                let (a, b) = (&rows[i * count..i * count + j], &rows[j * count..j * count + j]);
                let dot: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                let rest = rows[i * count + j] - dot;
                rows[i * count + j] = match i == j {
                    true if rest > 0.0 => rest.sqrt(),
                    true => return None,
                    false => rest / rows[j * count + j],
                };
            }
        }
        Some(Self { rows, count })
    }

    /// L⁻¹b.
    fn forward(&self, mut b: Vec<f64>) -> Vec<f64> {
        for i in 0..self.count {
            let row = &self.rows[i * self.count..i * self.count + i];
            let dot: f64 = row.iter().zip(&b).map(|(a, b)| a * b).sum();
            b[i] = (b[i] - dot) / self.rows[i * self.count + i];
        }
        b
    }

    /// M⁻¹b.
    fn solve(&self, b: Vec<f64>) -> Vec<f64> {
        let mut x = self.forward(b);
        for i in (0..self.count).rev() {
            x[i] /= self.rows[i * self.count + i];
            let value = x[i];
            (0..i).for_each(|j| x[j] -= self.rows[i * self.count + j] * value);
        }
        x
    }

    /// aᵀM⁻¹a, where a is one at these places and zero elsewhere.
    fn variance(&self, cells: &[usize]) -> f64 {
        let mut a = vec![0.0; self.count];
        cells.iter().for_each(|&cell| a[cell] = 1.0);
        self.forward(a).iter().map(|z| z * z).sum()
    }
}
