//! What a plan may warn of.

use serde::Serialize;

/// What somebody should look at before a run is charged. All of it follows from the plan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Warning {
    /// With so few units noise hides what is to be learned.
    FewUnits {
        /// How many there are.
        units: u64,
    },
    /// A sample is smaller than the rule of thumb, the root of the number of units.
    SmallSample {
        /// Its expected size.
        expected: f64,
        /// The rule of thumb.
        rule: f64,
    },
    /// The noise of a step is many times as long as the longest sum.
    MostlyNoise {
        /// How many times.
        ratio: f64,
    },
    /// δ is not far below one over the number of units.
    LargeDelta {
        /// How many there are.
        units: u64,
    },
    /// ε is above 10.
    LargeEpsilon {
        /// ε.
        epsilon: f64,
    },
    /// The number of units is not public, so δ is compared with what rate and divisor imply.
    UnitsNotPublic,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::FewUnits { units } => write!(f, "there are {units} units only: expect little from the model"),
            Self::SmallSample { expected, rule } => {
                write!(f, "a sample has {expected:.0} units on average; from {rule:.0} on noise averages out better")
            }
            Self::MostlyNoise { ratio } => {
                write!(f, "the noise of a step is {ratio:.0} times as long as the longest sum: use larger samples")
            }
            Self::LargeDelta { units } => write!(f, "delta is above a tenth of one in {units} units: make it smaller"),
            Self::LargeEpsilon { epsilon } => write!(f, "epsilon is {epsilon:.1}: above 10 little is promised"),
            Self::UnitsNotPublic => {
                f.write_str("the number of units is not public: delta was compared with sample.divisor over the rate")
            }
        }
    }
}
