//! What tests of plans and releases share: the policy of a table `t`, and noise on exact integers.

use dither_core::PrivacyEvent;
use dither_mechanisms::Noise;
use dither_noise::{NoiseSource, discrete_gaussian, discrete_laplace};

use crate::plan::QueryPlan;
use crate::policy::Policy;

/// Each row is a unit.
pub(crate) const ROWS: &str = r#"privacy_unit = "row""#;

/// The policy of a table `t` with these settings and columns.
pub(crate) fn policy(settings: &str, columns: &str) -> Policy {
    let text = format!(
        r#"
        dataset = "test"
        [budget]
        epsilon = 1000
        delta = 1e-3
        [tables.t]
        source = "t.csv"
        {settings}
        [tables.t.columns]
        {columns}
        "#
    );
    Policy::from_toml(&text, ".").unwrap_or_else(|error| panic!("{error}"))
}

/// The exact integers with the noise of their blocks.
pub(crate) fn noisy(plan: &QueryPlan, exact: &[i128], source: &mut NoiseSource) -> Vec<i128> {
    let noises = plan.mechanism.blocks.iter().flat_map(|block| std::iter::repeat_n(block.noise, block.width));
    let add = |(value, noise): (&i128, Noise)| match noise.event() {
        PrivacyEvent::Laplace { scale, .. } => value + discrete_laplace(source, scale).unwrap(),
        PrivacyEvent::Gaussian { variance, .. } => {
            (value << noise.refinement()) + discrete_gaussian(source, variance).unwrap()
        }
        other => panic!("{other:?}"),
    };
    exact.iter().zip(noises).map(add).collect()
}
