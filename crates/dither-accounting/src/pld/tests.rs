//! The machinery against closed forms, below the level at which Gaussians become one.

use super::*;
use crate::gaussian;

/// Numbers in [0, 1) from a linear congruence: the cases of a test never change.
struct Cases(u64);

impl Cases {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn log(&mut self, low: f64, high: f64) -> f64 {
        low * libm::exp(self.next() * libm::log(high / low))
    }

    fn count() -> usize {
        if std::env::var_os("DITHER_LONG").is_some() { 100_000 } else { 300 }
    }
}

fn composed(pair: Pair, count: u64) -> Pld {
    Pld::compose(Plan { parts: vec![(pair, count)], broken: false })
}

#[test]
fn ac_07_repeated_gaussians_match_the_closed_form() {
    let mut cases = Cases(1);
    for _ in 0..Cases::count() / 2 {
        let count = cases.log(2.0, 20_000.0) as u64;
        let total = cases.log(0.01, 6.0);
        let delta = cases.log(1e-12, 1e-2);
        let mu = total / (count as f64).sqrt();
        let exact = gaussian::epsilon(delta, total).unwrap();
        let bounds = composed(Pair::Gaussian { mu }, count).epsilon(delta);
        let case = format!("{count} of mu {mu}, delta {delta:e}: {bounds:?}, exactly {exact}");
        // An ε far below the spread of the loss is known as well as the spread only.
        let slack = 1e-3 * exact + 1e-4 * total;
        assert!(bounds.upper >= exact * (1.0 - 1e-9) && bounds.upper <= exact + slack, "{case}");
        assert!(bounds.lower <= exact && bounds.lower >= exact - slack, "{case}");
    }
}

/// δ of so many randomised responses, a sum over how often the truth was told.
fn responses(count: u64, loss: f64, epsilon: f64) -> f64 {
    let (truth, lie) = (-libm::log1p(libm::exp(-loss)), -loss - libm::log1p(libm::exp(-loss)));
    let (mut sum, mut choose) = (0.0, 0.0);
    for lies in 0..=count {
        let total = (count - lies) as f64 * loss - lies as f64 * loss;
        if total > epsilon {
            let log = choose + (count - lies) as f64 * truth + lies as f64 * lie;
            sum += libm::exp(log) * -libm::expm1(epsilon - total);
        }
        choose += libm::log((count - lies) as f64 / (lies + 1) as f64);
    }
    sum
}

#[test]
fn ac_07_repeated_responses_match_the_closed_form() {
    let mut cases = Cases(2);
    for _ in 0..Cases::count() / 4 {
        let (count, loss) = (cases.log(2.0, 500.0) as u64, cases.log(0.005, 1.0));
        let epsilon = cases.next() * loss * (count as f64).sqrt().min(count as f64 / 4.0) * 4.0;
        let exact = responses(count, loss, epsilon);
        let bounds = composed(Pair::Response { epsilon: loss, others: 0.0, delta: 0.0 }, count).delta(epsilon);
        let case = format!("{count} of {loss} at {epsilon}: {bounds:?}, exactly {exact:e}");
        assert!(bounds.upper >= exact * (1.0 - 1e-9), "{case}");
        assert!(bounds.lower <= exact * (1.0 + 1e-9), "{case}");
        assert!(bounds.upper <= exact * 1.05 + 1e-9, "{case}");
    }
}

#[test]
fn ac_07_two_laplaces_match_an_integral() {
    let mut cases = Cases(3);
    for _ in 0..30 {
        let loss = cases.log(0.01, 3.0);
        let epsilon = 2.0 * loss * cases.next();
        let pair = Pair::Laplace { epsilon: loss };
        let h = |y: f64| pair.hockey_stick(Way::Remove, y).upper;
        // P has ½ at the largest loss, ½e^−ε at the smallest, and the density e^((l−ε)/2)/4 between.
        let pieces = 20_000;
        let width = 2.0 * loss / f64::from(pieces);
        let between: f64 = (0..pieces)
            .map(|i| {
                let l = -loss + (f64::from(i) + 0.5) * width;
                libm::exp((l - loss) / 2.0) / 4.0 * h(epsilon - l) * width
            })
            .sum();
        let exact = 0.5 * h(epsilon - loss) + 0.5 * libm::exp(-loss) * h(epsilon + loss) + between;
        let bounds = composed(pair.clone(), 2).delta(epsilon);
        assert!(bounds.upper >= exact * (1.0 - 1e-6) - 1e-12, "{loss} {epsilon} {bounds:?} {exact}");
        assert!(bounds.lower <= exact * (1.0 + 1e-6) + 1e-12, "{loss} {epsilon} {bounds:?} {exact}");
        assert!(bounds.upper - bounds.lower <= 1e-2 * exact + 1e-6, "{loss} {epsilon} {bounds:?} {exact}");
    }
}

/// The density of the sum of `count` uniform numbers between 0 and 1.
fn irwin_hall(count: i32, x: f64) -> f64 {
    // The sum alternates: on the left half it cancels least.
    let x = x.min(f64::from(count) - x);
    let (mut sum, mut factor) = (0.0, 1.0);
    for i in 0..count {
        if x <= f64::from(i) {
            break;
        }
        sum += factor * (x - f64::from(i)).powi(count - 1);
        factor *= -f64::from(count - i) / f64::from(i + 1);
    }
    sum / (1..count).map(f64::from).product::<f64>()
}

/// The integral of a smooth function, by ten nodes of Gauss and Legendre on each of four parts.
fn integral(from: f64, to: f64, function: impl Fn(f64) -> f64) -> f64 {
    const NODES: [(f64, f64); 5] = [
        (0.148_874_338_981_631_22, 0.295_524_224_714_752_87),
        (0.433_395_394_129_247_2, 0.269_266_719_309_996_35),
        (0.679_409_568_299_024_4, 0.219_086_362_515_982_04),
        (0.865_063_366_688_984_5, 0.149_451_349_150_580_6),
        (0.973_906_528_517_171_7, 0.066_671_344_308_688_14),
    ];
    let half = (to - from) / 8.0;
    let part = |i: i32| {
        let middle = from + half * f64::from(2 * i + 1);
        let pair = |&(at, weight): &(f64, f64)| weight * (function(middle - half * at) + function(middle + half * at));
        half * NODES.iter().map(pair).sum::<f64>()
    };
    (0..4).map(part).sum()
}

/// δ of so many Laplace events of this loss.
///
/// A loss is `loss` with probability ½, −`loss` with probability ½e^−loss, and in between it has the density
/// ¼e^((l−loss)/2). The sum of c of the latter has e^(s/2) times the density of c uniform numbers, up to a constant.
fn laplaces(count: i32, loss: f64, epsilon: f64) -> f64 {
    let factorial = |n: i32| (1..=n).map(f64::from).product::<f64>();
    let mut sum = 0.0;
    for high in 0..=count {
        for low in 0..=count - high {
            let between = count - high - low;
            let ways = factorial(count) / factorial(high) / factorial(low) / factorial(between);
            let weight = ways * 0.5f64.powi(high) * (0.5 * libm::exp(-loss)).powi(low);
            let fixed = f64::from(high - low) * loss;
            let excess = |total: f64| (-libm::expm1(epsilon - total)).max(0.0);
            if between == 0 {
                sum += weight * excess(fixed);
                continue;
            }
            // s = 2·loss·u − between·loss for a sum u of uniform numbers.
            let scale = (0.25 * libm::exp(-loss / 2.0) * 2.0 * loss).powi(between);
            let shift = f64::from(between) * loss;
            let density = |u: f64| {
                let s = 2.0 * loss * u - shift;
                libm::exp(s / 2.0) * irwin_hall(between, u) * excess(fixed + s)
            };
            let kink = ((epsilon - fixed + shift) / (2.0 * loss)).clamp(0.0, f64::from(between));
            for knot in 0..between {
                let (from, to) = (f64::from(knot).max(kink), f64::from(knot + 1));
                if from < to {
                    sum += weight * scale * integral(from, to, density);
                }
            }
        }
    }
    sum
}

#[test]
fn ac_07_repeated_laplaces_match_the_closed_form() {
    assert!((laplaces(1, 0.7, 0.2) - -libm::expm1(-0.25)).abs() < 1e-12, "one has a closed form of its own");
    let mut cases = Cases(4);
    for _ in 0..Cases::count() / 4 {
        let (count, loss) = (cases.log(2.0, 9.0) as i32, cases.log(0.01, 3.0));
        let epsilon = loss * f64::from(count) * cases.next();
        let exact = laplaces(count, loss, epsilon);
        let bounds = composed(Pair::Laplace { epsilon: loss }, count as u64).delta(epsilon);
        let case = format!("{count} of {loss} at {epsilon}: {bounds:?}, exactly {exact:e}");
        assert!(bounds.upper >= exact * (1.0 - 1e-8) - 1e-14, "{case}");
        assert!(bounds.lower <= exact * (1.0 + 1e-8) + 1e-14, "{case}");
        assert!(bounds.upper - bounds.lower <= 0.02 * exact + 1e-6, "{case}");
    }
}

#[test]
fn hockey_sticks_are_convex_and_the_two_ways_agree() {
    let gaussian = || Box::new(Pair::Gaussian { mu: 0.8 });
    let tails = Arc::new(pair::Tails::new(3.0));
    let pairs = [
        Pair::Gaussian { mu: 0.03 },
        Pair::Gaussian { mu: 2.0 },
        Pair::Laplace { epsilon: 0.7 },
        Pair::DiscreteLaplace { steps: 3.0, scale: 2.0 },
        Pair::DiscreteGaussian { steps: 2.0, sigma: 3.0, tails },
        Pair::Response { epsilon: 0.5, others: 3.0, delta: 1e-3 },
        Pair::Sampled { rate: 0.01, base: gaussian() },
        Pair::Sampled { rate: 0.3, base: Box::new(Pair::Laplace { epsilon: 0.7 }) },
        Pair::Replaced { rate: 0.02, mu: 0.9 },
        Pair::Largest(vec![Pair::Gaussian { mu: 0.4 }, Pair::Laplace { epsilon: 0.2 }]),
    ];
    for pair in pairs {
        for way in [Way::Remove, Way::Add] {
            let u: Vec<f64> = (1..400).map(|i| f64::from(i) / 100.0).collect();
            let h: Vec<Interval> = u.iter().map(|u| pair.hockey_stick(way, libm::log(*u))).collect();
            for i in 1..h.len() - 1 {
                assert!(h[i].lower <= h[i].upper && h[i].upper - h[i].lower < 1e-11, "{pair:?} {way:?} {}", u[i]);
                assert!(2.0 * h[i].lower <= h[i - 1].upper + h[i + 1].upper + 1e-12, "{pair:?} {way:?} {}", u[i]);
                assert!(h[i + 1].lower <= h[i].upper, "{pair:?} {way:?} {}", u[i]);
                // ∫ (q − up)₊ = u ∫ (p/u' − …)₊: the two ways are one curve.
                let other = u[i] * pair.hockey_stick(way.other(), -libm::log(u[i])).upper + 1.0 - u[i];
                assert!((other - h[i].upper).abs() < 1e-11, "{pair:?} {way:?} {} {other} {:?}", u[i], h[i]);
            }
        }
    }
}

#[test]
fn control_a_floor_of_losses_is_noticed() {
    // The seeded bug: every loss is rounded down to the grid, as a careless discretisation does.
    let (mu, count, delta) = (0.05, 400, 1e-6);
    let direction = Direction { way: Way::Remove, windows: Mutex::default() };
    let parts = [(Pair::Gaussian { mu }, count)];
    let planned = [Planned::new(&parts[0].0, direction.way, count)];
    let layout = Layout::new(&planned, &parts, Target::Delta(delta), MAX_LENGTH).unwrap();
    let at = dots(&parts[0].0, direction.way, &planned[0], &layout, 0);
    let mut measure = Measure::new(&parts[0].0, direction.way, layout.mesh, 0.0, at);
    let exact = gaussian::epsilon(delta, 1.0).unwrap();
    let epsilon = |measure: Measure| {
        let window = Window::new(&[(measure, count)], &layout).unwrap();
        window.epsilon(delta, layout.mean).upper
    };
    assert!(epsilon(measure.clone()) >= exact * (1.0 - 1e-11));
    measure.at.iter_mut().for_each(|j| *j -= 1);
    assert!(epsilon(measure) < exact * (1.0 - 1e-5));
}
