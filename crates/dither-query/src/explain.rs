//! A plan in words and numbers: what each aggregate will cost and how far off it is expected to be.

mod assumes;
mod found;
mod protects;
mod ranks;
mod selected;
mod sizes;
mod target;
mod top;

use datafusion::logical_expr::Expr;
use dither_accounting::{Statement, statement};
use dither_core::{Delta, Epsilon, PrivacyEvent, PrivacyUnit};
use dither_mechanisms::{KeyRule, Noise};
use serde::Serialize;

use crate::error::Refusal;
use crate::ir::{Argument, Domain, GroupKey};
use crate::plan::{Derivation, Measure, QueryPlan, keys_in_words};
use crate::release::{self, CONFIDENCE, half_width};

pub use protects::{Window, windows};
pub use target::{TargetError, solve};

/// The explanation of one aggregate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExplainedOutput {
    /// The column of the answer, or the aggregate where it is part of an expression.
    pub name: String,
    /// What is measured, as in `AVG(time_in_hospital)`.
    pub measures: String,
    /// The noise, `Laplace`, `Gaussian` or `truncated geometric`, or `exponential` for a choice by the exponential mechanism.
    pub mechanism: &'static str,
    /// Why this mechanism, where the reason is not that of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
    /// How far one unit can move the measured numbers together, in the units of the data, in the l1 norm; for a quantile,
    /// how many rows it can move.
    pub l1_sensitivity: f64,
    /// The same in the l2 norm.
    pub l2_sensitivity: f64,
    /// Where the sensitivity comes from.
    pub bounds: String,
    /// The share of ε, of everything that the value follows from. Aggregates that follow from the same measurement name
    /// the same share.
    pub epsilon: f64,
    /// The scale of the noise (Laplace: scale, Gaussian: standard deviation), in the units of the data.
    pub noise_scale: f64,
    /// What that is the noise of, where it is not the value itself.
    pub noise_of: Option<&'static str>,
    /// How far the released value will be from the exact bounded one, 95 times in 100; `None` if that depends on
    /// a size which the policy does not declare.
    pub expected_error: Option<f64>,
    /// The same in percent of the declared magnitude.
    pub expected_error_percent: Option<f64>,
    /// Where intervals for sampling are asked for: the share of ε for how far values spread; a count needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<f64>,
    /// For a quantile: by how many rows its rank will be off at most, 95 times in 100.
    pub rank_error: Option<f64>,
    /// The same in percent of the declared rows of a group that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank_error_percent: Option<f64>,
    /// What the expectation assumes.
    pub assumption: Option<String>,
}

/// What an aggregate is measured with, in its units.
struct Described {
    mechanism: &'static str,
    l1: f64,
    l2: f64,
    nanos: u64,
    scale: f64,
    of: Option<&'static str>,
    why: Option<&'static str>,
}

/// The explanation of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The privacy unit: a column, or `row`.
    pub unit: String,
    /// The neighbour relation.
    pub neighbors: dither_core::Neighbors,
    /// Both in words.
    pub protects: String,
    /// Where units are cut to periods: what the question costs a whole person who is there in several of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// Groups of one unit at most.
    pub max_groups_per_unit: u32,
    /// Rows of one unit in one group at most.
    pub max_rows_per_group: u32,
    /// The aggregates.
    pub outputs: Vec<ExplainedOutput>,
    /// What should be known before it is paid for, from public facts alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Why this noise.
    pub why: String,
    /// How groups get into the answer.
    pub keys: String,
    /// ε that will be charged.
    pub epsilon: f64,
    /// δ that will be charged.
    pub delta: f64,
    /// What the same plan is worth under each accountant.
    pub accountants: Accountants,
}

/// The smallest ε of a plan under each accountant, at one δ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Accountants {
    /// The δ.
    pub delta: f64,
    /// Basic composition, with Gaussian events composed exactly.
    pub basic: Option<f64>,
    /// Zero-concentrated differential privacy.
    pub zcdp: Option<f64>,
    /// Rényi differential privacy.
    pub rdp: Option<f64>,
}

impl Accountants {
    /// States an event at a δ.
    pub fn of(event: &PrivacyEvent, delta: Delta) -> Option<Self> {
        let Statement { basic, zcdp, rdp, .. } = statement(event, delta).ok()?;
        let units = |nanos: Option<u64>| nanos.map(|nanos| nanos as f64 / Epsilon::NANOS as f64);
        Some(Self { delta: delta.as_f64(), basic: units(basic), zcdp: units(zcdp), rdp: units(rdp) })
    }
}

impl QueryPlan {
    /// Explains the plan. The other accountants are asked at the plan's δ, or at `reference` if it uses none.
    ///
    /// # Errors
    /// A [`Refusal`] if the plan has no price.
    pub fn explain(&self, reference: Delta) -> Result<Explanation, Refusal> {
        let cost = self.cost()?;
        let delta = if self.delta.is_zero() { reference } else { self.delta };
        let bounds = self.effective_bounds();
        Ok(Explanation {
            unit: match &self.unit {
                PrivacyUnit::Column(column) => column.clone(),
                PrivacyUnit::Period { column, per } => format!("{column} per {}", per.name()),
                PrivacyUnit::Row => "row".into(),
            },
            neighbors: self.neighbors,
            protects: self.protects(),
            windows: windows(&self.unit, &self.event(), self.delta),
            max_groups_per_unit: bounds.max_groups_per_unit.get(),
            max_rows_per_group: bounds.max_rows_per_group.get(),
            outputs: self.explain_outputs(),
            warnings: self.warnings(),
            why: self.why.clone(),
            keys: self.explain_keys(),
            epsilon: cost.epsilon_nanos as f64 / Epsilon::NANOS as f64,
            delta: cost.delta_attos as f64 / Delta::ATTOS as f64,
            accountants: Accountants::of(&self.event(), delta).unwrap_or(Accountants {
                delta: delta.as_f64(),
                basic: None,
                zcdp: None,
                rdp: None,
            }),
        })
    }

    /// What should be known before the question is paid for. It follows from the question and the policy alone.
    pub fn warnings(&self) -> Vec<String> {
        self.question
            .warnings
            .iter()
            .cloned()
            .chain(self.found_warnings())
            .chain(self.rank_warnings())
            .chain(self.unit_warning())
            .collect()
    }

    /// That groups are of one unit each, so that none has enough units to be shown.
    fn unit_warning(&self) -> Option<String> {
        let PrivacyUnit::Column(unit) = &self.unit else { return None };
        let is_unit = |key: &&GroupKey| {
            key.domain == Domain::Private && matches!(&key.expr, Expr::Column(column) if column.name == *unit)
        };
        let key = self.question.keys.iter().find(is_unit)?;
        Some(format!("a group of `{}` has one unit, and groups of so few are not shown: expect no answer", key.name))
    }

    /// Explains each aggregate.
    pub fn explain_outputs(&self) -> Vec<ExplainedOutput> {
        let names = self.display_names();
        let outputs = self.question.aggregates.iter().zip(&self.derivations).zip(names);
        outputs
            .enumerate()
            .map(|(index, ((aggregate, derivation), name))| {
                let noise = self.described(*derivation);
                let expected = self.expected_error(*derivation);
                let magnitude = self.magnitude(aggregate.kind, aggregate.argument.as_ref().and_then(|a| a.typical));
                ExplainedOutput {
                    name,
                    measures: readable(&aggregate.name),
                    mechanism: noise.mechanism,
                    why: noise.why,
                    l1_sensitivity: noise.l1,
                    l2_sensitivity: noise.l2,
                    bounds: self.bounds_in_words(aggregate.argument.iter().chain(&aggregate.second)),
                    epsilon: noise.nanos as f64 / Epsilon::NANOS as f64,
                    noise_scale: noise.scale,
                    noise_of: noise.of,
                    expected_error: expected,
                    expected_error_percent: magnitude.and_then(|size| Some(100.0 * expected? / size.abs())),
                    sampling: self.sampling_share(index),
                    rank_error: self.rank_error(*derivation),
                    rank_error_percent: self.rank_error_percent(*derivation),
                    assumption: self.assumption(*derivation),
                }
            })
            .collect()
    }

    /// What an aggregate is measured with.
    fn described(&self, derivation: Derivation) -> Described {
        let Some(index) = derivation.block() else {
            return match derivation {
                Derivation::Selected => self.described_selection(),
                Derivation::Place => self.described_place(),
                _ => self.described_choice(derivation),
            };
        };
        let step = self.step(index);
        let sensitivity = self.sensitivity(&self.measures[index]);
        let (scale, of) = self.noise_scale(derivation, index);
        Described {
            mechanism: match &self.mechanism.blocks[index].noise {
                Noise::Laplace(_) => "Laplace",
                Noise::Gaussian(_) => "Gaussian",
            },
            l1: sensitivity.map_or(f64::INFINITY, |(l1, _)| l1.steps() as f64 * step),
            l2: sensitivity.map_or(f64::INFINITY, |(_, l2)| l2.as_f64() * step),
            nanos: derivation.blocks().into_iter().map(|block| self.shares[block].nanos()).sum::<u64>()
                + self.found_for(derivation).map_or(0, |index| self.found_share(index).nanos()),
            scale,
            of: if self.found_for(derivation).is_some() { Some(found::NOISE_OF) } else { of },
            why: None,
        }
    }

    fn described_choice(&self, derivation: Derivation) -> Described {
        let Derivation::Quantile { ranks, fraction } = derivation else {
            let unknown = f64::INFINITY;
            return Described {
                mechanism: "",
                l1: unknown,
                l2: unknown,
                nanos: 0,
                scale: unknown,
                of: None,
                why: None,
            };
        };
        let quantiles = &self.mechanism.quantiles[ranks];
        let groups = f64::from(self.effective_bounds().max_groups_per_unit.get());
        Described {
            mechanism: "exponential",
            l1: quantiles.rows() as f64 * groups,
            l2: quantiles.rows() as f64 * groups.sqrt(),
            nanos: self.shares[self.measures.len() + ranks].nanos(),
            scale: quantiles.rank_scale(fraction),
            of: Some("the rank, in rows"),
            why: Some("a choice on a public grid"),
        }
    }

    /// The share of ε for the squares that the interval of an aggregate for sampling needs.
    fn sampling_share(&self, index: usize) -> Option<f64> {
        let block = self.sampling.as_ref()?.get(index)?;
        Some(block.map_or(0.0, |block| self.shares[block].as_f64()))
    }

    fn bounds_in_words<'a>(&self, arguments: impl Iterator<Item = &'a Argument>) -> String {
        let bounds = self.effective_bounds();
        let contribution = match &self.unit {
            PrivacyUnit::Row => "one row in one group".to_owned(),
            unit => format!(
                "at most {} in {} per {}",
                counted(bounds.max_rows_per_group.get(), "row"),
                counted(bounds.max_groups_per_unit.get(), "group"),
                protects::each(unit)
            ),
        };
        arguments.fold(contribution, |words, argument| format!("{words}; {}", argument.origin))
    }

    fn explain_keys(&self) -> String {
        match (&self.mechanism.keys, self.question.public_groups()) {
            (_, Some(1)) if self.question.keys.is_empty() => "no groups".into(),
            (KeyRule::Public, groups) => {
                format!("all {} public groups are answered, present or not", groups.unwrap_or_default())
            }
            (KeyRule::Top(top), groups) => {
                format!("the best {} of all {} public groups are answered", top.count(), groups.unwrap_or_default())
            }
            (KeyRule::Threshold(rule), _) => keys_in_words(rule, self.key_choice, &self.why_keys),
        }
    }

    fn step(&self, block: usize) -> f64 {
        self.bounds_of(&self.measures[block]).map_or(1.0, |bounds| bounds.lattice().step())
    }

    /// The scale of the noise of a value in its own unit, or that of a sum behind it, and which sum that is.
    /// A weighted sum of two Gaussian numbers is one again; of two Laplace numbers it is not, nor is a ratio.
    fn noise_scale(&self, derivation: Derivation, block: usize) -> (f64, Option<&'static str>) {
        let step = self.step(block);
        let scale = match &self.mechanism.blocks[block].noise {
            Noise::Laplace(laplace) => laplace.scale().as_f64(),
            Noise::Gaussian(gaussian) => gaussian.standard_deviation(),
        };
        let gaussian = matches!(self.mechanism.blocks[block].noise, Noise::Gaussian(_));
        let norm = |weights: Vec<f64>| weights.iter().map(|weight| weight * weight).sum::<f64>().sqrt();
        match (derivation, self.pair_weights(derivation)) {
            (Derivation::Count(_) | Derivation::Sum(_), _) => (scale * step, None),
            (Derivation::PairCount(_) | Derivation::TripleCount(_), Some(weights)) if gaussian => {
                (scale * norm(weights), None)
            }
            (Derivation::PairSum(_), Some(weights)) if gaussian => (scale * norm(weights) * step, None),
            (Derivation::TripleCount(_), _) => (scale * step, Some("each of the three sums that it follows from")),
            (Derivation::Variance { .. } | Derivation::Deviation { .. }, _) => {
                (scale * step, Some("the sum of squares that it follows from"))
            }
            (Derivation::Covariance { .. } | Derivation::Correlation { .. }, _) => {
                (scale * step, Some("the sum of products that it follows from"))
            }
            _ => (scale * step, Some("each of the two sums that it follows from")),
        }
    }

    /// What a count or a sum adds up from the two sums of a pair, in steps.
    fn pair_weights(&self, derivation: Derivation) -> Option<Vec<f64>> {
        let measure = &self.measures[derivation.block()?];
        let bounds = self.bounds_of(measure).filter(|_| matches!(measure, Measure::Pair(_) | Measure::Triple(_)))?;
        let range = bounds.range() as f64;
        match derivation {
            Derivation::PairCount(_) => Some(vec![1.0 / range; 2]),
            Derivation::TripleCount(_) => Some(vec![1.0 / range; 3]),
            Derivation::PairSum(_) => Some(vec![bounds.lower() as f64 / range, bounds.upper() as f64 / range]),
            _ => None,
        }
    }

    /// How far a released value will be from the exact bounded one, 95 times in 100, in the units of the data.
    pub fn expected_error(&self, derivation: Derivation) -> Option<f64> {
        match derivation {
            Derivation::Selected => return self.selection()?.noise().error_quantile(CONFIDENCE),
            Derivation::Place => return self.best_few()?.error_quantile(CONFIDENCE).map(|count| count as f64),
            _ => {}
        }
        let block = derivation.block()?;
        let noise = &self.mechanism.blocks[block].noise;
        let step = self.step(block);
        let pair = || self.bounds_of(&self.measures[block]);
        let counts = matches!(derivation, Derivation::PairCount(_) | Derivation::TripleCount(_));
        if self.found_for(derivation).is_some() && !counts {
            return None;
        }
        Some(match derivation {
            Derivation::Count(_) => half_width(noise, &[1.0], CONFIDENCE),
            Derivation::Sum(_) => half_width(noise, &[1.0], CONFIDENCE) * step,
            Derivation::PairCount(_) | Derivation::TripleCount(_) => {
                half_width(noise, &self.pair_weights(derivation)?, CONFIDENCE)
            }
            Derivation::PairSum(_) => half_width(noise, &self.pair_weights(derivation)?, CONFIDENCE) * step,
            Derivation::PairMean(_) => {
                let bounds = pair()?;
                let share = self.typical_share(block).unwrap_or(1.0);
                let total = self.group_rows()? as f64 * bounds.range() as f64;
                let half = half_width(noise, &[1.0 - share, share], CONFIDENCE) / total;
                (half * bounds.range() as f64 * step).min(bounds.range() as f64 * step)
            }
            Derivation::Variance { pair, .. } | Derivation::Deviation { pair, .. } => {
                release::expected_error(self, derivation, self.group_rows()? as f64, self.typical_share(pair))?
            }
            Derivation::Quantile { .. } | Derivation::Selected | Derivation::Place => return None,
            Derivation::Covariance { .. } | Derivation::Correlation { .. } => {
                release::expected_error(self, derivation, self.group_rows()? as f64, None)?
            }
        })
    }

    /// Where between its bounds a typical value lies, if the policy says so.
    fn typical_share(&self, block: usize) -> Option<f64> {
        let argument = self.first_argument(block)?;
        let bounds = argument.bounds?;
        let steps = argument.typical? / bounds.lattice().step();
        Some(((steps - bounds.lower() as f64) / bounds.range() as f64).clamp(0.0, 1.0))
    }

    /// The name of each aggregate in the answer: its alias, if one output is just that aggregate.
    fn display_names(&self) -> Vec<String> {
        use datafusion::logical_expr::{LogicalPlan, expr::Alias};
        fn outputs(plan: &LogicalPlan) -> &[Expr] {
            match plan {
                LogicalPlan::Projection(projection) => match outputs(&projection.input) {
                    [] => &projection.expr,
                    below => below,
                },
                LogicalPlan::Sort(node) => outputs(&node.input),
                LogicalPlan::Limit(node) => outputs(&node.input),
                LogicalPlan::Filter(node) => outputs(&node.input),
                _ => &[],
            }
        }
        let exprs = outputs(&self.question.outer.plan);
        fn bare(expr: &Expr) -> &Expr {
            match expr {
                Expr::Alias(Alias { expr, .. }) => bare(expr),
                expr => expr,
            }
        }
        let alias = |wanted: &str| {
            exprs.iter().find_map(|expr| match (expr, bare(expr)) {
                (Expr::Alias(alias), Expr::Column(column)) if column.name == wanted => Some(alias.name.clone()),
                _ => None,
            })
        };
        self.question.aggregates.iter().map(|a| alias(&a.name).unwrap_or_else(|| readable(&a.name))).collect()
    }
}

fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The engine's name of an aggregate as people write it: `count(*)` for `count(Int64(1))`.
pub(crate) fn readable(name: &str) -> String {
    let mut text = name.replace("count(Int64(1))", "count(*)");
    for wrapper in ["Int64(", "Float64(", "Utf8("] {
        while let Some(start) = text.find(wrapper) {
            let inner = start + wrapper.len();
            let Some(length) = text[inner..].find(')') else { break };
            text.replace_range(inner + length..=inner + length, "");
            text.replace_range(start..inner, "");
        }
    }
    text
}
