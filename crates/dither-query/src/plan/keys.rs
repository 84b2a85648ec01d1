//! Which keys a question may have, and which rule selects those that come from the data.

use std::num::NonZeroU32;

use dither_accounting::calibrate::gaussian_variance;
use dither_accounting::statement;
use dither_core::{Delta, Epsilon, L2Sensitivity, Neighbors};
use dither_mechanisms::{Gaussian, KeyNoise, KeyRule, Threshold};

use crate::error::{Code, Refusal};
use crate::ir::{Domain, Question};
use crate::policy::TablePolicy;
use crate::policy::keys::grouped;
use crate::sql::{SqlOptions, key_literal};

use super::{Shape, range, too_wide};

/// The most groups of one answer.
const MAX_GROUPS: u64 = 1_000_000;

/// What the policy and the question say about keys that come from the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyChoice {
    /// Laplace noise, as asked; otherwise the rule that shows most.
    pub laplace: bool,
    /// How many units a group needs at least in order to be shown.
    pub min_units: Option<NonZeroU32>,
}

impl KeyChoice {
    /// The stricter of what the policy and the question ask for.
    pub(super) fn of(question: &Question, table: &TablePolicy, options: &SqlOptions) -> Result<Self, Refusal> {
        if options.min_units.is_some() && question.keys.iter().all(|key| key.domain != Domain::Private) {
            let message = "`min_units` is for groups that come from the data, and here are none";
            return Err(Refusal::new(Code::Option, message).hint("leave min_units out: all public groups are answered"));
        }
        Ok(Self { laplace: options.laplace_threshold, min_units: options.min_units.max(table.min_units) })
    }
}

/// Refuses keys that are of another type than what is grouped by, none at all, or too many together.
pub(super) fn check(question: &Question, table: &TablePolicy, options: &SqlOptions) -> Result<(), Refusal> {
    let mut groups = 1_u64;
    let mut factors = Vec::new();
    for key in &question.keys {
        match &key.domain {
            Domain::Public(keys) => {
                if let Some(odd) = keys.iter().find(|value| key_literal(value, &key.kind).is_none()) {
                    let message = format!("the key `{odd}` of `{}` is not of type {}", key.name, key.kind);
                    return Err(Refusal::new(Code::Type, message).hint("correct `keys` in the policy"));
                }
                if keys.is_empty() {
                    return Err(Refusal::new(Code::Keys, format!("`{}` has no public keys", key.name))
                        .hint("correct `keys` in the policy"));
                }
                groups = groups.saturating_mul(keys.len() as u64);
                factors.push(format!("{} of `{}`", grouped(keys.len() as i128), key.name));
            }
            Domain::Private if table.neighbors == Neighbors::ReplaceUnit || options.public_groups => {
                return Err(Refusal::new(
                    Code::PrivateKeys,
                    format!("the keys of `{}` would come from the data", key.name),
                )
                .hint("declare `keys` of the column in the policy"));
            }
            Domain::Private => {}
        }
    }
    if groups > MAX_GROUPS {
        let [groups, most] = [groups, MAX_GROUPS].map(|count| grouped(count.into()));
        let message = format!("the keys make {groups} groups, more than {most}: {}", factors.join(" times "));
        return Err(Refusal::new(Code::TooManyKeys, message).hint("group by fewer columns, or by coarser ones"));
    }
    Ok(())
}

/// The rule for the keys, and why it is this one: that which lets a key through at the smallest number of units with a
/// probability of one half, which is the threshold. Where the noisy number is an answer as well, the product of threshold and
/// deviation decides: half as much of either is worth as much. Of equal ones the first is taken.
pub(super) fn rule(shape: &Shape, share: Option<Epsilon>, delta: Delta) -> Result<(KeyRule, String), Refusal> {
    if !shape.has_private_keys() {
        return Ok((KeyRule::Public, String::new()));
    }
    let share = share.ok_or_else(too_wide)?;
    let (groups, neighbors) = (shape.effective_bounds().max_groups_per_unit, shape.neighbors);
    let least = shape.key_choice.min_units;
    // The least number of units is part of each rule, so that they are compared as they would be used.
    let raised = |rule: Threshold| least.map_or(Ok(rule), |least| rule.with_min_units(least));
    let laplace =
        Threshold::for_epsilon(groups, neighbors, share, delta).and_then(raised).map_err(|error| range(&error))?;
    let (rule, why) = match shape.key_choice.laplace {
        true => (laplace, "as asked".to_owned()),
        false => {
            let optimal = Threshold::truncated_geometric(groups, neighbors, share, delta).and_then(raised).ok();
            let gaussian = gaussian(shape, groups, share, delta).and_then(|rule| raised(rule).ok());
            let rules: Vec<Threshold> = optimal.into_iter().chain([laplace]).chain(gaussian).collect();
            best(&rules, shape.counts_by_selection()).unwrap_or((laplace, String::new()))
        }
    };
    Ok((KeyRule::Threshold(if shape.counts_by_selection() { rule.releasing_counts() } else { rule }), why))
}

/// The best of several rules, and what the others would be.
fn best(rules: &[Threshold], counted: bool) -> Option<(Threshold, String)> {
    let deviation = |rule: &Threshold| rule.noise().standard_deviation();
    let cost = |rule: &Threshold| rule.threshold() as f64 * if counted { deviation(rule) } else { 1.0 };
    let best = rules.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    let other = |rule: &Threshold| match counted {
        true => format!("{} would need {}, at a deviation of {:.3}", name(rule), rule.threshold(), deviation(rule)),
        false => format!("{} would need {}", name(rule), rule.threshold()),
    };
    let others: Vec<String> = rules.iter().filter(|rule| rule.noise() != best.noise()).map(other).collect();
    Some((*best, others.join(", ")))
}

/// The threshold with Gaussian noise, half of δ for the noise; `None` where there is none within these amounts.
fn gaussian(shape: &Shape, groups: NonZeroU32, share: Epsilon, delta: Delta) -> Option<Threshold> {
    let threshold = Delta::from_attos(delta.attos() / 2).ok()?;
    let noise = Delta::from_attos(delta.attos() - threshold.attos()).ok()?;
    let count = u64::from(groups.get());
    let sensitivity = L2Sensitivity::from_squared(count.into());
    let variance = gaussian_variance(sensitivity, count, share, noise).ok()?;
    // Beside Laplace noise losses are added up, with what Gaussian noise costs by itself.
    let event = Gaussian::new(sensitivity, variance, count).ok()?.event();
    let alone = statement(&event, noise).ok()?.basic?;
    let rule = Threshold::gaussian(groups, shape.neighbors, variance, threshold).ok()?;
    (alone <= share.nanos()).then_some(rule)
}

/// A rule and why it is this one, in words.
pub(crate) fn words(rule: &Threshold, choice: KeyChoice, why: &str) -> String {
    let width = match rule.noise() {
        KeyNoise::Laplace(noise) => format!("of scale {:.3}", noise.scale().as_f64()),
        KeyNoise::TruncatedGeometric(noise) => {
            format!("of scale {:.3}, at most {} either way", noise.scale().as_f64(), noise.bound())
        }
        KeyNoise::Gaussian(noise) => format!("of deviation {:.3}", noise.standard_deviation()),
    };
    let rarely = match rule.noise() {
        KeyNoise::TruncatedGeometric(_) => "never".to_owned(),
        _ => format!("with probability {} at most", rule.delta()),
    };
    let least = choice.min_units.map_or(String::new(), |least| format!("; one of fewer than {least} units {rarely}"));
    format!(
        "groups come from the data; one is shown if its noisy number of units reaches {}{least} ({} {width}; {why})",
        rule.threshold(),
        name(rule)
    )
}

/// The noise of a rule in words.
pub(crate) fn name(rule: &Threshold) -> &'static str {
    match rule.noise() {
        KeyNoise::Laplace(_) => "Laplace noise",
        KeyNoise::TruncatedGeometric(_) => "truncated geometric noise",
        KeyNoise::Gaussian(_) => "Gaussian noise",
    }
}

#[cfg(test)]
mod tests {
    use dither_core::PrivacyEvent;

    use super::*;
    use crate::plan::{MechanismChoice, QueryPlan, Request, plan};
    use crate::policy::Policy;

    fn policy(groups: u32, more: &str) -> Policy {
        let text = format!(
            r#"dataset = "clinic"
               [budget]
               epsilon = 100
               delta = 1e-2
               [tables.visits]
               source = "visits.csv"
               privacy_unit = {{ column = "patient" }}
               max_groups_per_unit = {groups}
               max_rows_per_group = 2
               {more}
               [tables.visits.columns]
               patient = {{ type = "integer" }}
               city = {{ type = "text" }}
               ward = {{ type = "text", keys = ["A", "B"] }}"#
        );
        Policy::from_toml(&text, ".").unwrap()
    }

    async fn ask(policy: &Policy, options: &str, mechanism: MechanismChoice) -> Result<QueryPlan, Refusal> {
        let sql = format!(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 2, delta = 1e-6{options}) city, COUNT(*) FROM visits GROUP BY city"
        );
        plan(&Request { sql, epsilon: None, delta: None, mechanism, sampling: false }, policy).await
    }

    fn rule(plan: &QueryPlan) -> Threshold {
        match plan.mechanism.keys {
            KeyRule::Threshold(rule) => rule,
            other => panic!("{other:?}: the keys are not public"),
        }
    }

    /// What the other rules would need.
    fn needed(why: &str) -> Vec<i128> {
        let numbers = why.split("would need ").skip(1).map(|rest| rest.split([',', ' ']).next().unwrap());
        numbers.map(|number| number.parse().unwrap()).collect()
    }

    #[tokio::test]
    async fn the_rule_with_the_smallest_threshold_is_taken_and_says_why() {
        for (groups, noise) in
            [(1, "truncated geometric noise"), (2, "truncated geometric noise"), (100, "Gaussian noise")]
        {
            let plan = ask(&policy(groups, ""), "", MechanismChoice::Auto).await.unwrap();
            assert_eq!(name(&rule(&plan)), noise, "{groups}");
            let keys = plan.explain(Delta::ZERO).unwrap().keys;
            assert!(keys.contains(&format!("reaches {}", rule(&plan).threshold())) && keys.contains(noise), "{keys}");
            assert!(keys.contains("Laplace noise would need"), "{keys}");
        }
        let strategy = ", group_selection_strategy = LAPLACE_THRESHOLD";
        let asked = ask(&policy(100, ""), strategy, MechanismChoice::Auto).await.unwrap();
        assert_eq!((name(&rule(&asked)), asked.why_keys.as_str()), ("Laplace noise", "as asked"));
    }

    #[tokio::test]
    async fn no_rule_costs_more_than_the_question_may() {
        for groups in [1, 2, 7, 30, 100, 1_000] {
            for mechanism in [MechanismChoice::Auto, MechanismChoice::Laplace, MechanismChoice::Gaussian] {
                let plan = ask(&policy(groups, ""), "", mechanism).await.unwrap();
                let cost = plan.cost().unwrap();
                assert!(cost.epsilon_nanos <= 2_000_000_000, "{groups} {mechanism:?}: {}", cost.epsilon_nanos);
                assert!(cost.epsilon_nanos > 1_000_000_000 && cost.delta_attos <= 1_000_000_000_000, "{groups}");
            }
        }
    }

    #[tokio::test]
    async fn a_least_number_of_units_raises_the_threshold_and_costs_nothing() {
        let (free, strict) = (policy(2, ""), policy(2, "min_units = 5"));
        let plain = ask(&free, "", MechanismChoice::Laplace).await.unwrap();
        let event: PrivacyEvent = plain.event();
        for (policy, options, least) in [
            (&free, ", min_units = 20", 20),
            (&strict, "", 5),
            (&strict, ", min_units = 20", 20),
            // A question cannot ask for less than the policy does.
            (&strict, ", min_units = 2", 5),
        ] {
            let plan = ask(policy, options, MechanismChoice::Laplace).await.unwrap();
            assert_eq!(rule(&plan).threshold(), rule(&plain).threshold() + least - 1, "{options}");
            assert_eq!(plan.event(), event);
            assert_ne!(plan.fingerprint(policy), plain.fingerprint(&free), "another question, not the stored answer");
            let keys = plan.explain(Delta::ZERO).unwrap().keys;
            assert!(keys.contains(&format!("fewer than {least} units never")), "{keys}");
            // The other rules are raised as well, so that none seems to need less than the one that is taken.
            let others = needed(&plan.why_keys);
            assert!(!others.is_empty() && others.iter().all(|other| *other >= rule(&plan).threshold()), "{keys}");
            let raised: Vec<i128> = needed(&plain.why_keys).into_iter().map(|other| other + least - 1).collect();
            assert_eq!(others, raised, "{keys}");
        }
        let again = ask(&free, ", min_units = 20", MechanismChoice::Laplace).await.unwrap();
        let other = ask(&free, ", min_units = 21", MechanismChoice::Laplace).await.unwrap();
        assert_ne!(again.fingerprint(&free), other.fingerprint(&free));
    }

    #[tokio::test]
    async fn public_groups_have_no_least_number_of_units() {
        let strict = policy(3, "min_units = 5");
        for (sql, refused) in [
            (
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, min_units = 9) ward, COUNT(*) FROM visits GROUP BY ward",
                true,
            ),
            ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, min_units = 9) COUNT(*) FROM visits", true),
            ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) ward, COUNT(*) FROM visits GROUP BY ward", false),
        ] {
            let request = Request { epsilon: None, ..Request::new(sql, "1".parse().unwrap()) };
            match plan(&request, &strict).await {
                Err(refusal) => assert!(refused && refusal.code == Code::Option, "{refusal:?}"),
                Ok(plan) => assert!(!refused && plan.mechanism.keys == KeyRule::Public),
            }
        }
    }
}
