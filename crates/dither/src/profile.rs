//! A first look at a table: how many rows and different values there are, where the values lie and which are frequent,
//! as one charge.
//!
//! A profile asks nothing that could not be asked one by one. Each column is a question of its own, the parts share one
//! budget, and all are charged together before anything is read. Everything that is made of the answers afterwards, such
//! as a suggested part of the policy, is free.

mod questions;

use dither_accounting::Cost;
use dither_core::{Answer, Budget, Cell, Estimate, Key, Receipt};
use dither_query::plan::{QueryPlan, shape};
use dither_query::policy::{self, ColumnType, day, fragment};
use dither_query::release::answer;
use serde::Serialize;

use crate::error::Error;
use crate::report::{ReportPreview, compose};
use crate::session::{Amounts, Asked, Released, Session, Settled};

use questions::{Asks, Part};

/// What is profiled, and for how much.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileSpec {
    /// The table, by its name in the policy.
    pub table: String,
    /// The columns; all but those that tell whose a row is, if there are none.
    pub columns: Vec<String>,
    /// The budget of all parts together. Frequent values that are not declared need a δ.
    pub budget: Budget,
    /// How many frequent values are shown.
    pub top: usize,
}

/// What is known of a table after a profile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// The table.
    pub table: String,
    /// How many rows count.
    pub rows: Estimate,
    /// How many units there are; `None` where each row is one or belongs to one through a key.
    pub units: Option<Estimate>,
    /// The columns.
    pub columns: Vec<ColumnProfile>,
    /// What a policy might declare, as TOML.
    pub suggestion: String,
    /// What was charged, when it was charged.
    pub charged: Amounts,
    /// What is left.
    pub remaining: Amounts,
    /// The charge in the ledger.
    pub receipt: Receipt,
    /// When the same profile was made first, in seconds since 1970, if it is repeated and free. Information only.
    pub first_answered: Option<i64>,
    /// When it was charged, in seconds since 1970, if that was before, so that nothing was charged now. Information only.
    pub first_charged: Option<i64>,
}

/// What is known of a column after a profile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ColumnProfile {
    /// The column.
    pub name: String,
    /// Its declared type.
    pub r#type: ColumnType,
    /// How many rows have a value.
    pub values: Estimate,
    /// How many different values there are among the rows that count; nothing of numbers with a fraction in a database.
    pub distinct: Estimate,
    /// The least value, the quartiles and the greatest value, of numbers and dates; `None` where they cannot be told, since
    /// ranks are off by more than a quarter of the values.
    pub quantiles: Option<[Key; 5]>,
    /// By how many rows the rank of each may be off, 95 times in 100; `None` where nothing was asked about ranks.
    pub rank_error: Option<f64>,
    /// Where quantiles cannot be told: about the ε of a whole profile with which they could be; `None` if there may be
    /// no values.
    pub needed_epsilon: Option<f64>,
    /// The most frequent values with the number of their rows; `None` where they were not asked for.
    pub top: Option<Vec<(Key, Estimate)>>,
}

/// The plan of a profile.
struct ProfilePlan {
    parts: Vec<Part>,
    plans: Vec<QueryPlan>,
    cost: Cost,
}

impl Session {
    async fn plan_profile(&self, spec: &ProfileSpec) -> Result<ProfilePlan, Error> {
        let parts = questions::parts(self.policy(), spec)?;
        // What a profile asks of columns without bounds, no policy needs to allow: it is charged like anything else.
        let policy = questions::without_bounds(self.policy(), &spec.table);
        let mut shapes = Vec::new();
        for part in &parts {
            let shape = shape(&part.sql, &policy).await.map_err(|refusal| Error::refused(refusal, &part.sql))?;
            shapes.push(shape.0);
        }
        let plans = questions::priced(spec, &parts, shapes)?;
        questions::check_cap(self.policy(), &parts, &plans)?;
        for (part, plan) in parts.iter().zip(&plans) {
            self.rehearse(plan, &part.sql).await?;
        }
        let cost = compose(&plans, spec.budget.delta).map_err(|refusal| Error::refused(refusal, ""))?;
        Ok(ProfilePlan { parts, plans, cost })
    }

    /// Plans a profile: what each part costs and how well it will be answered.
    ///
    /// # Errors
    /// A table or a column that is not declared, a budget that is too small or beyond the cap of a question.
    ///
    /// # Privacy
    /// Charges nothing, reads no row.
    pub async fn preview_profile(&self, spec: &ProfileSpec) -> Result<ReportPreview, Error> {
        let ProfilePlan { parts, plans, cost } = self.plan_profile(spec).await?;
        let explained = parts.iter().zip(&plans).map(|(part, plan)| {
            let explanation = plan.explain(spec.budget.delta).map_err(|refusal| Error::refused(refusal, &part.sql))?;
            Ok((part.title.clone(), explanation))
        });
        let questions = explained.collect::<Result<_, Error>>()?;
        self.previewed(questions, &plans, &cost, spec.budget.delta).await
    }

    /// Charges a profile as one event and answers it. The identical profile again is free.
    ///
    /// # Errors
    /// As [`Session::query`].
    ///
    /// # Privacy
    /// The composition of all its parts, priced together; all parameters are fixed before anything is drawn. The suggestion
    /// follows from released values.
    pub async fn profile(&self, spec: &ProfileSpec) -> Result<Profile, Error> {
        let ProfilePlan { parts, plans, cost } = self.plan_profile(spec).await?;
        let label = format!("profile: {}", spec.table);
        let asked = Asked { plans: &plans, delta: spec.budget.delta, key: None, label };
        let Settled { released, remaining, .. } = self.settle(asked).await?;
        let Released { release, charged: first_charged, answered: first_answered } = released;
        let nothing = Estimate { value: None, low: None, high: None };
        let mut profile = Profile {
            table: spec.table.clone(),
            rows: nothing,
            units: None,
            columns: Vec::new(),
            suggestion: String::new(),
            charged: Amounts::from(&cost),
            remaining,
            receipt: release.receipt().clone(),
            first_answered,
            first_charged,
        };
        let mut ends = Vec::new();
        for ((part, plan), noisy) in parts.iter().zip(&plans).zip(release.value()) {
            let answer = answer(plan, noisy).await.map_err(|refusal| Error::refused(refusal, &part.sql))?;
            let numbers = numbers(&answer);
            let at = |index: usize| numbers.get(index).copied().unwrap_or(nothing);
            let count = |index: usize| not_negative(at(index));
            match &part.asks {
                Asks::Sizes { units } => (profile.rows, profile.units) = (count(0), units.then(|| count(1))),
                Asks::Column { name, r#type } => {
                    ends.push(None);
                    profile.columns.push(ColumnProfile {
                        name: name.clone(),
                        r#type: *r#type,
                        values: count(0),
                        distinct: count(1),
                        quantiles: None,
                        rank_error: None,
                        needed_epsilon: None,
                        top: None,
                    });
                }
                Asks::Ranks { name } => {
                    let values = [0, 1, 2, 3, 4].map(|index| at(index).value.unwrap_or(0.0));
                    let errors = plan.explain_outputs().into_iter().filter_map(|output| output.rank_error);
                    let error = errors.reduce(f64::max);
                    let known = profile.columns.iter_mut().zip(&mut ends);
                    for (column, ends) in known.filter(|(column, _)| column.name == *name) {
                        column.rank_error = error;
                        // Noise on the ranks is in proportion to 1/ε.
                        let off = error.unwrap_or(f64::INFINITY) / (column.values.value.unwrap_or(0.0) / 4.0);
                        let there = column.values.low.is_some_and(|low| low > 0.0);
                        if off <= 1.0 {
                            *ends = Some([values[0], values[4]]);
                            column.quantiles = Some(values.map(|value| shown(value, column.r#type)));
                        } else if there && off.is_finite() {
                            column.needed_epsilon = Some(two_digits_up(off * spec.budget.epsilon.as_f64()));
                        }
                    }
                }
                Asks::Keys { name, .. } => {
                    let top = Some(frequent(&answer, spec.top));
                    profile.columns.iter_mut().filter(|column| column.name == *name).for_each(|column| {
                        column.top.clone_from(&top);
                    });
                }
            }
        }
        profile.suggestion = self.suggestion(&profile, &ends);
        Ok(profile)
    }

    fn suggestion(&self, profile: &Profile, ends: &[Option<[f64; 2]>]) -> String {
        let Some(table) = self.policy().tables.get(&profile.table) else { return String::new() };
        let keys: Vec<Option<Vec<Key>>> = profile
            .columns
            .iter()
            .map(|column| Some(column.top.as_ref()?.iter().map(|(key, _)| key.clone()).collect()))
            .collect();
        let released = profile.columns.iter().zip(ends).zip(&keys).filter_map(|((column, ends), keys)| {
            Some(policy::Released {
                name: &column.name,
                policy: table.columns.get(&column.name)?,
                ends: *ends,
                // What may be a list of a few keys must be one in spite of the noise.
                distinct: column.distinct.high,
                keys: keys.as_deref(),
            })
        });
        fragment(&profile.table, &released.collect::<Vec<_>>())
    }
}

/// The released numbers of the only row.
fn numbers(answer: &Answer) -> Vec<Estimate> {
    let cells = answer.rows.iter().flatten().filter_map(|cell| match cell {
        Cell::Value(estimate) => Some(*estimate),
        Cell::Key(_) => None,
    });
    cells.collect()
}

/// The most frequent keys of an answer, by their noisy counts.
fn frequent(answer: &Answer, top: usize) -> Vec<(Key, Estimate)> {
    let pairs = answer.rows.iter().filter_map(|row| match row.as_slice() {
        [Cell::Key(key), Cell::Value(estimate)] => Some((key.clone(), *estimate)),
        _ => None,
    });
    let mut pairs: Vec<(Key, Estimate)> = pairs.collect();
    let size = |estimate: &Estimate| estimate.value.unwrap_or(f64::NEG_INFINITY);
    pairs.sort_by(|a, b| size(&b.1).total_cmp(&size(&a.1)));
    pairs.truncate(top);
    pairs.into_iter().map(|(key, estimate)| (key, not_negative(estimate))).collect()
}

/// A count, none of which is below zero. What the noise moved there is zero, give or take as much noise.
fn not_negative(count: Estimate) -> Estimate {
    let (Some(value), Some(low), Some(high)) = (count.value, count.low, count.high) else { return count };
    if value >= 0.0 {
        return Estimate { low: Some(low.max(0.0)), ..count };
    }
    Estimate { value: Some(0.0), low: Some(0.0), high: Some(high - value) }
}

/// Two significant digits, rounded up.
fn two_digits_up(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    // As it is written: a product with a power of ten is only near that.
    format!("{:.1e}", (value / unit).ceil() * unit).parse().unwrap_or(value)
}

/// A quantile as a value of its column.
fn shown(value: f64, r#type: ColumnType) -> Key {
    match r#type {
        ColumnType::Date | ColumnType::Timestamp => day(value).map_or(Key::Null, Key::Text),
        ColumnType::Integer if value.abs() < 9e15 => Key::Integer(value.round() as i64),
        _ => Key::Number(value),
    }
}
