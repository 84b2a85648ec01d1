//! What a progress bar says of a run: how fast it is, and what its steps have cost so far.

use std::time::{Duration, Instant};

use dither_learn::train::plan::DpPlan;

/// A price by numerical composition takes too long for every step.
const PAUSE: Duration = Duration::from_secs(1);

/// How far a run is. Everything follows from the plan, the number of steps and the clock.
pub struct Meter {
    plan: DpPlan,
    /// ε of the whole run, in billionths.
    whole: u64,
    begun: Instant,
    /// Steps that an earlier process executed.
    before: Option<u64>,
    /// When it was last computed what the steps up to then have cost, and that.
    spent: Option<(Instant, u64)>,
}

impl Meter {
    pub fn new(plan: DpPlan) -> Self {
        let whole = plan.price().map_or(0, |price| price.best);
        Self { plan, whole, begun: Instant::now(), before: None, spent: None }
    }

    /// In words, after so many steps. The size of a sample is private, so units are those of samples of average size.
    pub fn words(&mut self, executed: u64) -> String {
        let now = Instant::now();
        let before = *self.before.get_or_insert(executed.saturating_sub(1));
        if self.spent.is_none_or(|(at, _)| now.duration_since(at) > PAUSE)
            && let Ok(price) = self.plan.price_of(executed)
        {
            self.spent = Some((now, price.best));
        }
        let units = (executed - before) as f64 * self.plan.expected_units();
        let spent = self.spent.map_or(self.whole, |(_, spent)| spent);
        told(spent, self.whole, units / now.duration_since(self.begun).as_secs_f64())
    }
}

/// ε in billionths, and units a second.
fn told(spent: u64, whole: u64, speed: f64) -> String {
    let epsilon = |nanos: u64| nanos as f64 / 1e9;
    let to_come = epsilon(whole.saturating_sub(spent));
    format!("ε {:.2} so far, {to_come:.2} to come, {speed:.0} units/s", epsilon(spent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_and_what_is_to_come_add_up() {
        assert_eq!(told(1_500_000_000, 6_000_000_000, 411.6), "ε 1.50 so far, 4.50 to come, 412 units/s");
        assert_eq!(told(6_000_000_000, 6_000_000_000, 0.2), "ε 6.00 so far, 0.00 to come, 0 units/s");
    }
}
