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
mod keys;
mod measure;
mod shares;

use std::num::NonZeroU32;

use dither_accounting::Cost;
use dither_accounting::calibrate::gaussian_variance;
use dither_core::{
    ContributionBounds, Delta, Epsilon, L1Sensitivity, L2Sensitivity, Mechanism, Neighbors, PrivacyEvent, PrivacyUnit,
    Ratio,
};
use dither_mechanisms::{Block, Gaussian, KeyRule, Laplace, Noise, Quantiles, TableMechanism};

use datafusion::arrow::datatypes::DataType;

use crate::bound::{Histogram, Summand};
use crate::error::{Code, Refusal};
use crate::ir::{Domain, Question};
use crate::policy::{Policy, PublicFacts, Root, TablePolicy, UnitPolicy};
use crate::source::arrow_type;
use crate::sql::{self, SqlOptions};

use blocks::{Blocks, CountedBy};
pub use keys::KeyChoice;
pub(crate) use keys::words as keys_in_words;
pub use measure::{Derivation, Measure, Ranks};
use shares::{EVEN, lowest_terms, split};

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
}

impl Request {
    /// A question with an ε and nothing else.
    pub fn new(sql: impl Into<String>, epsilon: Epsilon) -> Self {
        Self { sql: sql.into(), epsilon: Some(epsilon), delta: None, mechanism: MechanismChoice::Auto }
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
    /// How each aggregate follows.
    pub derivations: Vec<Derivation>,
    /// Public magnitudes.
    pub public: PublicFacts,
    /// How keys from the data are selected.
    pub key_choice: KeyChoice,
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
    /// ε of each block, of each [`Ranks`], then of the key selection if there is one.
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

fn range(error: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(Code::Range, error.to_string()).hint("use a larger epsilon or smaller bounds")
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
    if !options.privacy_unit_column.as_ref().is_some_and(|asked| policy.is_unit(&question.table, asked)) {
        check_unit(&options, &root)?;
    }
    let unit_kind = root.kind.map_or(DataType::Null, arrow_type);
    let bounds = contribution_bounds(&options, table, question.relation.rows_per_unit())?;
    keys::check(&question, table, &options)?;
    let key_choice = KeyChoice::of(&question, table, &options)?;
    let private = question.keys.iter().any(|key| key.domain == Domain::Private);
    let one_row = bounds.max_rows_per_group == NonZeroU32::MIN;
    let blocks = Blocks::of(&question.aggregates, CountedBy { one_row, private })?;
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
        derivations: blocks.derivations,
        key_choice,
    };
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
    price(shape, epsilon, delta, request.mechanism)
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
        self.measures.iter().any(|measure| !matches!(measure, Measure::Units | Measure::Distinct(_)))
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
            // A row brings one value at most.
            Measure::Rows | Measure::Distinct(_) => (bounds, 1),
            Measure::Sum(index) => (bounds, self.summands[*index].bounds.magnitude()),
            Measure::Pair(index) | Measure::Triple(index) => (bounds, self.summands[*index].bounds.range()),
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

    /// How many integers of a block one unit can move.
    fn coordinates(&self, measure: &Measure) -> u64 {
        let groups = u64::from(self.effective_bounds().max_groups_per_unit.get());
        groups * measure.width() as u64 * u64::from(self.neighbors.distance())
    }
}

/// Fixes the noise of a question for an ε and a δ.
///
/// # Errors
/// A [`Refusal`] where δ is missing or the amounts leave the range of exact arithmetic.
pub fn price(shape: Shape, epsilon: Epsilon, delta: Delta, choice: MechanismChoice) -> Result<QueryPlan, Refusal> {
    if shape.has_private_keys() && delta.is_zero() {
        let names: Vec<_> = shape.question.keys.iter().filter(|key| key.domain == Domain::Private).collect();
        let name = names.first().map_or("", |key| key.name.as_str());
        return Err(Refusal::new(
            Code::MissingDelta,
            format!("the keys of `{name}` come from the data, which needs delta > 0"),
        )
        .hint("add --delta 1e-6, set `delta_per_query`, or declare `keys` of the column in the policy"));
    }
    match choice {
        _ if shape.measures.is_empty() => laplace(shape, epsilon, delta, String::new()),
        MechanismChoice::Laplace => laplace(shape, epsilon, delta, "as asked".into()),
        MechanismChoice::Gaussian if delta.is_zero() => {
            Err(Refusal::new(Code::MissingDelta, "Gaussian noise needs delta > 0")
                .hint("add --delta 1e-6, or set `delta_per_query` in the policy"))
        }
        MechanismChoice::Gaussian => gaussian(shape, epsilon, delta, "as asked".into()),
        MechanismChoice::Auto if delta.is_zero() => laplace(shape, epsilon, delta, "delta is 0".into()),
        MechanismChoice::Auto => {
            let exact = laplace(shape.clone(), epsilon, delta, String::new())?;
            let normal = gaussian(shape, epsilon, delta, String::new())?;
            let (a, b) = (exact.deviation(), normal.deviation());
            let (mut best, other, ratio) = if a <= b { (exact, "Gaussian", b / a) } else { (normal, "Laplace", a / b) };
            best.why = format!("{other} noise would be {ratio:.2} times as wide");
            Ok(best)
        }
    }
}

impl QueryPlan {
    /// The geometric mean of the standard deviations of all blocks, each in its own steps.
    fn deviation(&self) -> f64 {
        let selected = match &self.mechanism.keys {
            KeyRule::Threshold(rule) if rule.releases_counts() => Some(rule.noise().standard_deviation()),
            _ => None,
        };
        let blocks = self.mechanism.blocks.iter().map(|block| block.noise.standard_deviation());
        let logs: Vec<f64> = blocks.chain(selected).map(f64::ln).collect();
        (logs.iter().sum::<f64>() / logs.len() as f64).exp()
    }
}

/// The weights of what is measured, then of quantiles and the selection of keys, which has that of a count as well where
/// it is one.
fn weights(shape: &Shape, power: f64) -> Vec<u64> {
    let selection = shape.has_private_keys().then_some(if shape.counts_by_selection() { 2 * EVEN } else { EVEN });
    let quantiles = std::iter::repeat_n(EVEN, shape.ranks.len());
    shape.weights(power).into_iter().chain(quantiles).chain(selection).collect()
}

fn laplace(shape: Shape, epsilon: Epsilon, delta: Delta, why: String) -> Result<QueryPlan, Refusal> {
    let shares = split(epsilon, &weights(&shape, 1.0 / 2.0))?;
    let quantiles = shape.quantiles(&shares[shape.measures.len()..])?;
    let blocks = shape
        .measures
        .iter()
        .zip(&shares)
        .map(|(measure, share)| {
            let (l1, _) = shape.sensitivity(measure).ok_or_else(too_wide)?;
            let noise = Laplace::for_epsilon(l1, *share).map_err(|error| range(&error))?;
            Ok(Block { width: measure.width(), noise: Noise::Laplace(noise) })
        })
        .collect::<Result<_, Refusal>>()?;
    let (keys, why_keys) = keys::rule(&shape, shares.last().copied(), delta)?;
    // Laplace noise on public keys uses no δ at all.
    let delta = if !shape.has_private_keys() { Delta::ZERO } else { delta };
    Ok(QueryPlan { shape, mechanism: TableMechanism { blocks, quantiles, keys }, why, why_keys, shares, delta })
}

fn too_wide() -> Refusal {
    Refusal::new(Code::Range, "the bounds are too wide for exact arithmetic").hint("declare narrower bounds")
}

fn gaussian(shape: Shape, epsilon: Epsilon, delta: Delta, why: String) -> Result<QueryPlan, Refusal> {
    let selection = usize::from(shape.has_private_keys());
    let mut shares = split(epsilon, &weights(&shape, 2.0 / 3.0))?;
    let chosen = &shares[shape.measures.len()..];
    let quantiles = shape.quantiles(chosen)?;
    // What is left of ε is for the noise.
    let mut nanos = epsilon.nanos() - chosen.iter().map(|share| share.nanos()).sum::<u64>();
    // Half of δ is for the keys where keys are selected, the rest for the noise.
    let for_keys = if selection == 0 { 0 } else { delta.attos() / 2 };
    let for_noise = Delta::from_attos(delta.attos() - for_keys).map_err(|error| range(&error))?;
    let for_keys = Delta::from_attos(for_keys).map_err(|error| range(&error))?;
    let selection_share = if selection == 0 { None } else { shares.last().copied() };
    let (keys, why_keys) = keys::rule(&shape, selection_share, for_keys)?;
    // The blocks are one Gaussian vector: each gets its part of the squared ratio of sensitivity to noise.
    let weights = lowest_terms(shape.weights(2.0 / 3.0));
    let total: u64 = weights.iter().sum();
    let coordinates = shape.measures.iter().map(|measure| shape.coordinates(measure)).sum();
    for _ in 0..8 {
        let together = Epsilon::from_nanos(nanos).map_err(|error| range(&error))?;
        let blocks = shape
            .measures
            .iter()
            .zip(&weights)
            .map(|(measure, weight)| {
                let (_, l2) = shape.sensitivity(measure).ok_or_else(too_wide)?;
                let whole =
                    l2.squared().checked_mul(total.into()).map(L2Sensitivity::from_squared).ok_or_else(too_wide)?;
                let variance = gaussian_variance(whole, coordinates, together, for_noise).map_err(|e| range(&e))?;
                // Variances are in proportion to squared sensitivities; the price of all blocks is computed below.
                let part = variance.numerator().div_ceil(u128::from(*weight));
                let variance = Ratio::new(part, variance.denominator()).ok_or_else(too_wide)?;
                let noise = Gaussian::new(l2, variance, shape.coordinates(measure));
                Ok(Block { width: measure.width(), noise: Noise::Gaussian(noise.map_err(|error| range(&error))?) })
            })
            .collect::<Result<_, Refusal>>()?;
        let mechanism = TableMechanism { blocks, quantiles: quantiles.clone(), keys };
        let cost = Cost::of(&mechanism.event(), delta).map_err(|error| range(&error))?;
        if cost.epsilon_nanos <= epsilon.nanos() {
            shares[..shape.measures.len()].clone_from_slice(&split(together, &weights)?);
            return Ok(QueryPlan { shape, mechanism, why, why_keys, shares, delta });
        }
        // Rounding of the parts can add a nano-unit or two; ask for a little less.
        nanos = nanos.saturating_sub(2 * (cost.epsilon_nanos - epsilon.nanos())).max(1);
    }
    Err(Refusal::new(Code::Range, "no Gaussian noise fits this epsilon and delta").hint("use --mechanism laplace"))
}
