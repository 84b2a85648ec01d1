//! The smallest ε that reaches an error.

use dither_core::{Delta, Epsilon};

use super::ExplainedOutput;
use crate::error::{Code, Refusal};
use crate::plan::{MechanismChoice, QueryPlan, Shape, price};

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
        None => {
            return Err(Refusal::new(Code::TargetError, "the error of this question cannot be predicted")
                .hint("declare `public.rows`, and `typical` for errors in percent, in the policy"));
        }
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
    /// The largest expected error, absolute or in percent; `None` where one is unknown.
    fn worst(&self, target: TargetError) -> Option<f64> {
        let outputs = self.explain_outputs();
        outputs.iter().map(|output| target.pick(output)).try_fold(0.0_f64, |worst, error| Some(worst.max(error?)))
    }
}
