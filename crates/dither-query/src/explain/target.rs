//! The smallest ε that reaches an error.

use dither_core::{Delta, Epsilon};

use super::ExplainedOutput;
use crate::error::{Code, Refusal};
use crate::plan::{Derivation, MechanismChoice, QueryPlan, Shape, price};

/// The error that is aimed at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TargetError {
    /// In the units of the data.
    Absolute(f64),
    /// In percent of the declared magnitude.
    Percent(f64),
}

impl std::str::FromStr for TargetError {
    type Err = Refusal;

    /// Reads `0.3` or `2%`.
    fn from_str(text: &str) -> Result<Self, Refusal> {
        let refused =
            || Refusal::new(Code::TargetError, format!("`{text}` is not an error to aim at")).hint("write 0.3 or 2%");
        let (number, percent) = match text.strip_suffix('%') {
            Some(number) => (number, true),
            None => (text, false),
        };
        let value: f64 = number.trim().parse().map_err(|_| refused())?;
        if !(value.is_finite() && value > 0.0) {
            return Err(refused());
        }
        Ok(if percent { Self::Percent(value) } else { Self::Absolute(value) })
    }
}

impl TargetError {
    fn pick(self, output: &ExplainedOutput) -> Option<f64> {
        match self {
            Self::Absolute(_) => output.expected_error,
            Self::Percent(_) => output.expected_error_percent,
        }
    }

    fn value(self) -> f64 {
        match self {
            Self::Absolute(value) | Self::Percent(value) => value,
        }
    }
}

/// The plan with the smallest ε whose expected errors all reach the target.
///
/// # Errors
/// A [`Refusal`] if the error cannot be predicted, or no ε up to `cap` reaches the target.
pub fn solve(
    shape: &Shape,
    target: TargetError,
    delta: Delta,
    choice: MechanismChoice,
    cap: Epsilon,
) -> Result<QueryPlan, Refusal> {
    let at = |nanos: u64| {
        let epsilon = Epsilon::from_nanos(nanos).map_err(|error| Refusal::new(Code::Range, error.to_string()))?;
        price(shape.clone(), epsilon, delta, choice)
    };
    let reaches = |plan: &QueryPlan| plan.worst(target).map(|error| error <= target.value());
    let best = at(cap.nanos())?;
    match reaches(&best) {
        None => return Err(best.unpredicted(target)),
        Some(false) => {
            let reached = best.worst(target).unwrap_or(f64::INFINITY);
            let message = format!("epsilon {cap} leaves an expected error of {reached:.3}, above the target");
            return Err(Refusal::new(Code::TargetError, message)
                .hint("aim at a larger error, narrow the bounds, or ask about larger groups"));
        }
        Some(true) => {}
    }
    // ε is found to a thousandth, on the side that reaches the target.
    let (mut below, mut above) = (0, cap.nanos());
    let mut found = best;
    while above - below > (above / 1000).max(1) {
        let middle = below + (above - below) / 2;
        match at(middle).ok().filter(|plan| reaches(plan) == Some(true)) {
            Some(plan) => (above, found) = (middle, plan),
            None => below = middle,
        }
    }
    Ok(found)
}

impl QueryPlan {
    /// Why no ε can be found for a target error, by the first value whose error is unknown.
    fn unpredicted(&self, target: TargetError) -> Refusal {
        let outputs = self.explain_outputs();
        let unknown = outputs.iter().zip(&self.derivations).find(|(output, _)| target.pick(output).is_none());
        let Some((output, derivation)) = unknown else {
            return Refusal::new(Code::TargetError, "the error of this question cannot be predicted");
        };
        let message = format!("the error of `{}` cannot be predicted", output.measures);
        let (why, hint) = match (derivation, output.expected_error) {
            (Derivation::Quantile { .. }, _) => (
                ": how far a quantile is off depends on the values around it",
                "state --epsilon instead; `dither plan` shows by how many rows the rank may be off",
            ),
            (Derivation::Correlation { .. }, _) => {
                (": it depends on how far the values spread", "state --epsilon instead")
            }
            (_, Some(_)) => {
                (" in percent", "aim at an error in the unit of the value, or declare `typical` in the policy")
            }
            _ if self.found_for(*derivation).is_some() => {
                (" before its bounds are found", "declare `bounds` of the column, or state --epsilon instead")
            }
            _ if self.has_private_keys() => (
                ": nobody says how large a group is",
                "declare `public.rows_per_group` in the policy, or state --epsilon instead",
            ),
            _ => ("", "declare `public.rows`, and `typical` for errors in percent, in the policy"),
        };
        Refusal::new(Code::TargetError, message + why).hint(hint)
    }

    /// The largest expected error, absolute or in percent; `None` where one is unknown.
    fn worst(&self, target: TargetError) -> Option<f64> {
        let outputs = self.explain_outputs();
        outputs.iter().map(|output| target.pick(output)).try_fold(0.0_f64, |worst, error| Some(worst.max(error?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::shape;
    use crate::testing::policy;

    /// Rows whose number is known.
    const TABLE: &str = "privacy_unit = \"row\"\npublic = { rows = 10000 }";
    const COLUMNS: &str = r#"
        x = { type = "integer", bounds = [0, 100] }
        y = { type = "integer", bounds = [0, 8] }
        wide = { type = "number", approx_bounds = true }
        city = { type = "text" }
        "#;

    async fn solved(sql: &str, target: &str) -> Result<QueryPlan, Refusal> {
        let policy = policy(TABLE, COLUMNS);
        let (shape, _) = shape(sql, &policy).await.unwrap();
        let (delta, cap) = ("1e-6".parse().unwrap(), "1".parse().unwrap());
        solve(&shape, target.parse().unwrap(), delta, MechanismChoice::Auto, cap)
    }

    #[tokio::test]
    async fn an_error_that_cannot_be_aimed_at_says_what_to_state_instead() {
        for (sql, target, why, hint) in [
            ("SELECT COUNT(*), MEDIAN(x) FROM t", "3", "the values around it", "how many rows the rank may be off"),
            ("SELECT CORR(x, y) FROM t", "0.1", "how far the values spread", "--epsilon"),
            ("SELECT STDDEV(x) FROM t", "2%", "in percent", "in the unit of the value"),
            ("SELECT AVG(wide) FROM t", "3", "before its bounds are found", "declare `bounds`"),
            ("SELECT city, AVG(x) FROM t GROUP BY city", "3", "how large a group is", "public.rows_per_group"),
        ] {
            let refusal = solved(sql, target).await.unwrap_err();
            assert_eq!(refusal.code, Code::TargetError);
            assert!(refusal.message.contains(why), "{sql}: {}", refusal.message);
            assert!(refusal.hint.as_deref().unwrap_or_default().contains(hint), "{sql}: {:?}", refusal.hint);
        }
        assert!(solved("SELECT STDDEV(x) FROM t", "10").await.is_ok());
    }

    /// What a plan says before it is paid for: an error, with what it assumes, or why there is none.
    #[tokio::test]
    async fn every_moment_has_an_error_with_its_assumption() {
        let policy = policy(TABLE, COLUMNS);
        for (sql, known, said) in [
            (
                "SELECT STDDEV(x) FROM t",
                true,
                "10000 rows; for values whose deviation is 10 % of their range or more, ± ",
            ),
            ("SELECT VAR_POP(x) FROM t", true, "10000 rows"),
            ("SELECT COVAR_POP(x, y) FROM t", true, "10000 rows"),
            ("SELECT CORR(x, y) FROM t", false, "at most for values whose deviation is a quarter of their range"),
            ("SELECT STDDEV(wide) FROM t", false, "where it is 10 % of that or more"),
            ("SELECT VAR_SAMP(wide) FROM t", false, "% of the squared range between them at most"),
            ("SELECT city, STDDEV(x) FROM t GROUP BY city", false, "declare `public.rows_per_group`"),
        ] {
            let (shape, _) = shape(sql, &policy).await.unwrap();
            let plan = price(shape, "1".parse().unwrap(), "1e-6".parse().unwrap(), MechanismChoice::Auto).unwrap();
            let output = &plan.explain_outputs()[0];
            let assumption = output.assumption.as_deref().unwrap_or_default();
            assert!(output.expected_error.is_some() == known && assumption.contains(said), "{sql}: {output:?}");
        }
    }
}
