//! What a question costs and how well it will be answered, from the question and the policy alone.
//!
//! A [`QueryPlan`] fixes the noise of every measured number before anything is charged. All aggregates of a question
//! share one ε: it is split over the *blocks* that are measured, and over the selection of keys where keys come from the
//! data, evenly as long as no typical value is public (`shares`). A mean is one block of two sums, Σ(upper − x) and
//! Σ(x − lower): one row moves the pair by exactly upper − lower in the l1 norm, so that the whole share of ε serves
//! both, and the sum and the count of the same column follow from them for free. The count of all rows beside it follows
//! from a third sum, of one range for each row without a value. A variance needs one block more,
//! Σ(x − middle)²: with the pair beside it, the square moves by at most a quarter of the squared range, and not by the
//! square of the larger bound.

mod blocks;
mod fingerprint;
mod found;
mod keys;
mod measure;
mod noise;
mod sampling;
mod shares;
mod top;

use std::num::NonZeroU32;

use dither_accounting::Cost;
use dither_core::{
    ContributionBounds, Delta, Epsilon, L1Sensitivity, L2Sensitivity, Mechanism, Neighbors, PrivacyEvent, PrivacyUnit,
};
use dither_mechanisms::{FoundBounds, FoundSum, Quantiles, TableMechanism};

use datafusion::arrow::datatypes::DataType;

use crate::bound::{Histogram, Summand};
use crate::error::{Code, Refusal};
use crate::ir::{Domain, Question};
use crate::policy::{Policy, PublicFacts, Root, TablePolicy, UnitPolicy};
use crate::relation::UnitKey;
use crate::source::arrow_type;
use crate::sql::{self, SqlOptions};

use blocks::{Blocks, CountedBy};
pub(crate) use found::Beyond;
pub use keys::KeyChoice;
pub(crate) use keys::words as keys_in_words;
pub use measure::{Derivation, Found, Measure, Ranks, Values};
pub use noise::price;

/// What is asked, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The question.
    pub sql: String,
    /// ε of the whole question, split inside.
    pub epsilon: Option<Epsilon>,
    /// δ of the whole question; the policy's by default.
    pub delta: Option<Delta>,
    /// Which noise.
    pub mechanism: MechanismChoice,
    /// Whether intervals for sampling are asked for, and paid for.
    pub sampling: bool,
}

impl Request {
    /// A question with an ε and nothing else.
    pub fn new(sql: impl Into<String>, epsilon: Epsilon) -> Self {
        let mechanism = MechanismChoice::Auto;
        Self { sql: sql.into(), epsilon: Some(epsilon), delta: None, mechanism, sampling: false }
    }
}

/// Which noise a question gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MechanismChoice {
    /// The one with the smaller expected error.
    #[default]
    Auto,
    /// Laplace noise.
    Laplace,
    /// Gaussian noise; needs δ > 0.
    Gaussian,
}

/// A question without its noise: everything that does not depend on ε.
#[derive(Debug, Clone)]
pub struct Shape {
    /// The question.
    pub question: Question,
    /// Who is protected.
    pub unit: PrivacyUnit,
    /// The type of the unit column; irrelevant where a row is a unit.
    pub unit_kind: DataType,
    /// From whom.
    pub neighbors: Neighbors,
    /// How much one unit may contribute.
    pub bounds: ContributionBounds,
    /// What is computed first, for summands that need it several times.
    pub values: Vec<Summand>,
    /// What is summed.
    pub summands: Vec<Summand>,
    /// What is counted by value.
    pub histograms: Vec<Histogram>,
    /// What each block measures.
    pub measures: Vec<Measure>,
    /// Which quantiles are chosen, from which histogram.
    pub ranks: Vec<Ranks>,
    /// The columns whose bounds are found from the data.
    pub found: Vec<Found>,
    /// How each aggregate follows.
    pub derivations: Vec<Derivation>,
    /// Public magnitudes.
    pub public: PublicFacts,
    /// How keys from the data are selected.
    pub key_choice: KeyChoice,
    /// Where intervals for sampling are asked for: for each aggregate the block of the squares that its interval needs.
    pub sampling: Option<Vec<Option<usize>>>,
}

/// A priced question: nothing charged, nothing looked at.
#[derive(Debug, Clone)]
pub struct QueryPlan {
    /// What is asked of whom.
    pub shape: Shape,
    /// What will be applied to the exact integers.
    pub mechanism: TableMechanism,
    /// Why this noise.
    pub why: String,
    /// Why this rule for keys from the data.
    pub why_keys: String,
    /// ε of each block, of each [`Ranks`], of each [`Found`], then of the key selection if there is one.
    pub shares: Vec<Epsilon>,
    /// δ that the question may use.
    pub delta: Delta,
}

impl std::ops::Deref for QueryPlan {
    type Target = Shape;
    fn deref(&self) -> &Shape {
        &self.shape
    }
}

impl QueryPlan {
    /// What answering does to the data.
    pub fn event(&self) -> PrivacyEvent {
        self.mechanism.event()
    }

    /// The price.
    ///
    /// # Errors
    /// A [`Refusal`] if the accountant has none.
    pub fn cost(&self) -> Result<Cost, Refusal> {
        Cost::of(&self.event(), self.delta).map_err(|error| range(&error))
    }
}

fn too_wide() -> Refusal {
    Refusal::new(Code::Range, "the bounds are too wide for exact arithmetic").hint("declare narrower bounds")
}

fn range(error: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(Code::Range, error.to_string()).hint("use a larger epsilon, narrower bounds or a coarser `step`")
}

/// Reads a question against a policy.
///
/// # Errors
/// A [`Refusal`] for whatever is not analysed.
pub async fn shape(sql: &str, policy: &Policy) -> Result<(Shape, SqlOptions), Refusal> {
    let (question, options) = sql::parse(sql, policy).await?;
    let table = &policy.tables[&question.table];
    let root = policy.root(&question.table).ok_or_else(|| {
        Refusal::new(Code::Unsupported, format!("nobody owns the rows of `{}`", question.table))
            .hint("check the policy: a chain of keys must end at a unit column")
    })?;
    let asked = options.privacy_unit_column.as_ref();
    if root.period().is_some() || !asked.is_some_and(|asked| policy.is_unit(&question.table, asked)) {
        check_unit(&options, &root)?;
    }
    let unit_kind = root.kind.map_or(DataType::Null, |kind| UnitKey::kind(arrow_type(kind), root.period()));
    let bounds = contribution_bounds(&options, table, question.relation.rows_per_unit())?;
    keys::check(&question, table, &options)?;
    let key_choice = KeyChoice::of(&question, table, &options)?;
    let private = question.keys.iter().any(|key| key.domain == Domain::Private);
    let one_row = bounds.max_rows_per_group == NonZeroU32::MIN;
    let blocks = Blocks::of(&question.aggregates, CountedBy { one_row, private, sampling: false })?;
    let shape = Shape {
        public: question.relation.public_facts(policy),
        question,
        unit: root.unit,
        unit_kind,
        neighbors: root.neighbors,
        bounds,
        values: blocks.values,
        summands: blocks.summands,
        histograms: blocks.histograms,
        measures: blocks.measures,
        ranks: blocks.ranks,
        found: blocks.found,
        derivations: blocks.derivations,
        key_choice,
        sampling: None,
    };
    let shape = if options.sampling { shape.with_sampling()? } else { shape };
    Ok((shape, options))
}

/// Reads and prices a question.
///
/// # Errors
/// A [`Refusal`] for whatever is not analysed, and for amounts that the policy does not allow.
///
/// # Privacy
/// Depends on the request and the policy alone.
pub async fn plan(request: &Request, policy: &Policy) -> Result<QueryPlan, Refusal> {
    let (shape, options) = shape(&request.sql, policy).await?;
    let shape = if request.sampling { shape.with_sampling()? } else { shape };
    let epsilon = options
        .epsilon
        .or(request.epsilon)
        .ok_or_else(|| Refusal::new(Code::MissingEpsilon, "the question has no epsilon").hint("add --epsilon 0.5"))?;
    stated_once("epsilon", options.epsilon, request.epsilon)?;
    stated_once("delta", options.delta, request.delta)?;
    if let Some(cap) = policy.budget.max_epsilon_per_query.filter(|cap| epsilon > *cap) {
        let message = format!("epsilon {epsilon} is more than one question may use, {cap}");
        return Err(Refusal::new(Code::EpsilonOverCap, message).hint(format!("--epsilon {cap}")));
    }
    let delta = options.delta.or(request.delta).or(policy.budget.delta_per_query).unwrap_or(Delta::ZERO);
    let plan = price(shape, epsilon, delta, request.mechanism)?;
    plan.check_found()?;
    Ok(plan)
}

/// Refuses two different amounts, one in the text and one outside.
fn stated_once<T: PartialEq + std::fmt::Display>(
    what: &str,
    inside: Option<T>,
    outside: Option<T>,
) -> Result<(), Refusal> {
    match (inside, outside) {
        (Some(inside), Some(outside)) if inside != outside => {
            Err(Refusal::new(Code::Option, format!("{what} is {inside} in the text and {outside} outside"))
                .hint("state it once"))
        }
        _ => Ok(()),
    }
}

fn check_unit(options: &SqlOptions, root: &Root) -> Result<(), Refusal> {
    let Some(asked) = &options.privacy_unit_column else { return Ok(()) };
    match &root.unit {
        PrivacyUnit::Column(declared) if declared == asked => Ok(()),
        PrivacyUnit::Column(declared) => {
            Err(Refusal::new(Code::Option, format!("`{asked}` is not the privacy unit of the policy"))
                .hint(format!("privacy_unit_column = {declared}")))
        }
        PrivacyUnit::Period { column, per } => {
            let message = format!("the policy protects what one `{column}` has within a {}, not all rows", per.name());
            Err(Refusal::new(Code::Option, message).hint("leave privacy_unit_column out"))
        }
        PrivacyUnit::Row => Err(Refusal::new(Code::Option, "in this policy every row is a unit of its own")
            .hint("leave privacy_unit_column out")),
    }
}

/// The bounds of the question or the table. A relation that has few rows for each unit needs no wider ones.
fn contribution_bounds(
    options: &SqlOptions,
    table: &TablePolicy,
    rows_per_unit: Option<u32>,
) -> Result<ContributionBounds, Refusal> {
    if table.privacy_unit == UnitPolicy::ROW {
        return Ok(ContributionBounds::ONE);
    }
    let most = rows_per_unit.and_then(NonZeroU32::new);
    let bound = |what: &str, stated: Option<NonZeroU32>| {
        let bound = stated.map(|stated| most.map_or(stated, |most| most.min(stated)));
        bound.or(most).ok_or_else(|| {
            Refusal::new(Code::MissingContributionBounds, format!("the policy does not say `{what}`"))
                .hint(format!("add `{what} = 1`, or more, to the table"))
        })
    };
    Ok(ContributionBounds {
        max_groups_per_unit: bound("max_groups_per_unit", options.max_groups_per_unit.or(table.max_groups_per_unit))?,
        max_rows_per_group: bound("max_rows_per_group", options.max_rows_per_group.or(table.max_rows_per_group))?,
    })
}

/// What is summed, what each block measures, and how each aggregate follows.
impl Shape {
    /// Whether rows are counted or summed, and not units or values alone.
    pub fn needs_rows(&self) -> bool {
        let by_value = |measure: &Measure| match measure {
            Measure::Units | Measure::Distinct(_) | Measure::Pair(Values::Found(_)) | Measure::Squares(_) => true,
            Measure::Rows | Measure::Sum(_) | Measure::Pair(_) | Measure::Triple(_) | Measure::UnitSquares(_) => false,
        };
        !self.measures.iter().all(by_value)
    }

    /// The most rows of one unit that count, in all groups together.
    pub fn most_rows_of_unit(&self) -> u64 {
        let bounds = self.effective_bounds();
        u64::from(bounds.max_groups_per_unit.get()) * u64::from(bounds.max_rows_per_group.get())
    }

    /// Whether the same rows count as in another question, up to the groups that they are in.
    pub fn counts_rows_of(&self, other: &Self) -> bool {
        self.question.relation == other.question.relation && self.question.filters == other.question.filters
    }

    /// Whether keys come from the data.
    pub fn has_private_keys(&self) -> bool {
        self.question.keys.iter().any(|key| key.domain == Domain::Private)
    }

    /// Whether the noisy number of units that selects a key is an answer as well.
    pub fn counts_by_selection(&self) -> bool {
        self.derivations.contains(&Derivation::Selected)
    }

    /// The contribution bounds that hold for this question: without groups a unit is in one group.
    pub fn effective_bounds(&self) -> ContributionBounds {
        let groups = self.question.public_groups().and_then(|count| NonZeroU32::new(u32::try_from(count).ok()?));
        let declared = self.bounds.max_groups_per_unit;
        ContributionBounds {
            max_groups_per_unit: groups.map_or(declared, |groups| groups.min(declared)),
            ..self.bounds
        }
    }

    /// How far one unit can move a block.
    pub fn sensitivity(&self, measure: &Measure) -> Option<(L1Sensitivity, L2Sensitivity)> {
        let bounds = self.effective_bounds();
        let (bounds, per_row) = match measure {
            Measure::Units => (ContributionBounds { max_rows_per_group: NonZeroU32::MIN, ..bounds }, 1),
            Measure::Distinct(index) if self.histograms[*index].of_unit => {
                (ContributionBounds { max_rows_per_group: NonZeroU32::MIN, ..bounds }, 1)
            }
            // A row brings one value at most.
            Measure::Rows | Measure::Distinct(_) => (bounds, 1),
            Measure::Sum(_) | Measure::Squares(_) => (bounds, self.bounds_of(measure)?.magnitude()),
            Measure::Pair(_) | Measure::Triple(_) => (bounds, self.bounds_of(measure)?.range()),
            Measure::UnitSquares(index) => {
                let most =
                    u64::from(bounds.max_rows_per_group.get()).checked_mul(self.summands[*index].bounds.range())?;
                (ContributionBounds { max_rows_per_group: NonZeroU32::MIN, ..bounds }, most.checked_mul(most)?)
            }
        };
        Some((bounds.l1(per_row, self.neighbors)?, bounds.l2(per_row, self.neighbors)?))
    }

    /// The quantiles of each [`Ranks`] at its share of ε.
    fn quantiles(&self, shares: &[Epsilon]) -> Result<Vec<Quantiles>, Refusal> {
        let bounds = self.effective_bounds();
        let rows = u64::from(bounds.max_rows_per_group.get()) * u64::from(self.neighbors.distance());
        let one = |(ranks, share): (&Ranks, &Epsilon)| {
            let points = u32::try_from(ranks.points()).ok().and_then(NonZeroU32::new).ok_or_else(too_wide)?;
            Quantiles::for_epsilon(&ranks.fractions, points, rows, bounds.max_groups_per_unit, *share)
                .map_err(|error| range(&error))
        };
        self.ranks.iter().zip(shares).map(one).collect()
    }

    /// The choice of each bound that is found, at its share of ε.
    fn found_bounds(&self, shares: &[Epsilon]) -> Result<Vec<FoundBounds>, Refusal> {
        let bounds = self.effective_bounds();
        let unit = u64::from(bounds.max_rows_per_group.get()).saturating_mul(bounds.max_groups_per_unit.get().into());
        let rows = unit.saturating_mul(self.neighbors.distance().into());
        let mut columns = vec![Vec::new(); self.found.len()];
        let mut place = 0;
        for measure in &self.measures {
            if let Some(index) = measure.found() {
                columns[index].push(match measure {
                    Measure::Squares(_) => FoundSum::Squares(place),
                    _ => FoundSum::Pair(place),
                });
            }
            place += measure.width();
        }
        let each = self.found.iter().zip(columns).zip(shares);
        each.map(|((found, columns), share)| FoundBounds::for_epsilon(rows, found.whole, columns, *share))
            .collect::<Result<_, _>>()
            .map_err(|error| range(&error))
    }

    /// How many integers of a block one unit can move.
    fn coordinates(&self, measure: &Measure) -> u64 {
        let groups = u64::from(self.effective_bounds().max_groups_per_unit.get());
        groups * measure.width() as u64 * u64::from(self.neighbors.distance())
    }
}
