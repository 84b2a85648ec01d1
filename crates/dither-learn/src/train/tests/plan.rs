//! Plans: what is refused, what is charged, how much noise there is.

use dither_core::{Explain, PrivacyEvent};

use super::*;
use crate::train::job::Job;
use crate::train::plan::Warning;

fn request() -> PlanRequest {
    Setup::new(Path::new("."), 100).request
}

/// Makes a request odd.
type Change = &'static dyn Fn(&mut PlanRequest);

fn refused(change: impl FnOnce(&mut PlanRequest)) -> (String, String) {
    let mut request = request();
    change(&mut request);
    let error = DpPlan::new(&request, 10).unwrap_err();
    (error.to_string(), error.hint().unwrap_or_default())
}

#[test]
fn odd_numbers_are_refused_with_what_to_write_instead() {
    let fields: [(&str, Change); 14] = [
        ("sample.rate", &|r| r.sample = SampleGoal::Rate(0.0)),
        ("sample.rate", &|r| r.sample = SampleGoal::Rate(1.0001)),
        ("sample.rate", &|r| r.sample = SampleGoal::Rate(f64::NAN)),
        ("sample.units", &|r| r.sample = SampleGoal::Units(201.0)),
        ("sample.units", &|r| (r.units, r.sample) = (None, SampleGoal::Units(20.0))),
        ("sample.divisor", &|r| r.units = None),
        ("sample.divisor", &|r| r.divisor = Some(f64::INFINITY)),
        ("privacy.delta", &|r| r.delta = "0.005".parse().unwrap()),
        ("privacy.delta", &|r| r.delta = dither_core::Delta::ZERO),
        ("privacy.noise_multiplier", &|r| r.noise = NoiseGoal::Multiplier(0.0)),
        ("privacy.noise_multiplier", &|r| r.noise = NoiseGoal::Multiplier(f64::NAN)),
        ("clipping.bound", &|r| r.clipping = Clipping::Flat { bound: f64::INFINITY }),
        ("clipping.bound", &|r| r.clipping = Clipping::PerLayer { bounds: vec![] }),
        ("steps", &|r| r.steps = 0),
    ];
    for (field, change) in fields {
        let (message, hint) = refused(change);
        assert!(message.starts_with(field), "{field}: {message}");
        assert!(!hint.is_empty(), "{message}");
    }
    // Where the number of units is not public, δ is compared with what rate and divisor imply: 50/0.25 = 200.
    let (message, _) = refused(|r| (r.units, r.divisor, r.delta) = (None, Some(50.0), "0.005".parse().unwrap()));
    assert!(message.contains("not below one in 200 units"), "{message}");
    assert!(DpPlan::new(&request(), 0).is_err());
}

#[test]
fn calibrated_noise_is_that_of_others_and_within_its_goal() {
    // jax_privacy and dp_accounting 0.6.0, PLD: σ for (8, 1e-5) at q .04 and 2250 steps; (1, 1e-5) at 256/60000, 3515.
    for (epsilon, units, sample, steps, sigma) in
        [("8", 25_000, 1000.0, 2250, 1.34591), ("1", 60_000, 256.0, 3515, 1.18503)]
    {
        let mut request = request();
        request.units = Some(units);
        request.sample = SampleGoal::Units(sample);
        (request.steps, request.delta) = (steps, "1e-5".parse().unwrap());
        request.noise = NoiseGoal::Epsilon(epsilon.parse().unwrap());
        let plan = DpPlan::new(&request, 7850).unwrap();
        assert!((plan.noise_multiplier() / sigma - 1.0).abs() < 2e-4, "{}", plan.noise_multiplier());
        let goal = epsilon.parse::<dither_core::Epsilon>().unwrap().nanos();
        let price = plan.price().unwrap();
        assert!(price.best <= goal && price.best > goal - goal / 100_000, "{price:?}");
        assert!(price.rdp.unwrap() > price.best);
        assert!(plan.price_of(steps / 2).unwrap().best < price.best);
    }
}

#[test]
fn event_noise_and_sampler_come_from_one_plan() {
    for neighbors in [Neighbors::AddOrRemoveUnit, Neighbors::ReplaceUnit] {
        let mut request = request();
        request.neighbors = neighbors;
        request.noise = NoiseGoal::Multiplier(1.5);
        let plan = DpPlan::new(&request, 1000).unwrap();
        let PrivacyEvent::SampledGaussian { rate, sensitivity, variance, coordinates, steps, neighbors: named } =
            plan.event()
        else {
            panic!("{:?}", plan.event());
        };
        assert_eq!((*rate, *coordinates, *steps, *named), (plan.rate(), 1000, 100, neighbors));
        // σ is 1.5 times the sensitivity, and never less.
        let multiplier = (variance.as_f64() / sensitivity.squared() as f64).sqrt();
        assert!((1.5..1.5000001).contains(&multiplier), "{multiplier}");
        assert_eq!(plan.divisor(), 50.0);
        assert_eq!(plan.hash(), DpPlan::new(&request, 1000).unwrap().hash());
        request.divisor = Some(51.0);
        assert_ne!(plan.hash(), DpPlan::new(&request, 1000).unwrap().hash());
    }
}

#[test]
fn the_sampled_rate_is_never_above_the_charged_one() {
    for rate in [1e-9, 0.1, 1.0 / 3.0, 0.999_999_999, 1.0] {
        let mut request = request();
        (request.sample, request.divisor) = (SampleGoal::Rate(rate), Some(50.0));
        request.units = None;
        request.delta = "1e-12".parse().unwrap();
        let plan = DpPlan::new(&request, 10).unwrap();
        assert!(plan.rate().as_f64() >= rate && plan.rate().as_f64() <= rate * (1.0 + 1e-9) + 1e-18);
    }
}

#[test]
fn warnings_are_data() {
    let mut request = request();
    request.noise = NoiseGoal::Multiplier(0.3);
    let warnings = DpPlan::new(&request, 10_000_000).unwrap().warnings();
    assert!(
        matches!(
            warnings[..],
            [Warning::FewUnits { units: 200 }, Warning::MostlyNoise { .. }, Warning::LargeEpsilon { .. }]
        ),
        "{warnings:?}"
    );
    request.units = None;
    request.divisor = Some(50.0);
    assert!(DpPlan::new(&request, 10).unwrap().warnings().contains(&Warning::UnitsNotPublic));
    assert!(warnings.iter().all(|warning| !warning.to_string().is_empty()));
}

#[test]
fn jobs_with_unknown_or_contradicting_fields_are_refused() {
    let job = r#"
        [ledger]
        file = "l.db"
        scope = "d"
        epsilon = 1
        delta = 1e-5
        [data]
        kind = "images"
        images = "i.gz"
        labels = "l.gz"
        classes = 10
        pixels = 784
        [unit]
        count = 10000
        [model]
        kind = "linear"
        [privacy]
        epsilon = 1
        delta = 1e-6
        [sample]
        units = 256
        [training]
        steps = 10
        [clipping]
        kind = "flat"
        bound = 1
        [optimizer]
        kind = "sgd"
        learning_rate = 0.5
        [output]
        folder = "out"
    "#;
    let parsed = Job::parse(job).unwrap();
    assert_eq!(parsed.shape(std::path::Path::new("")).unwrap(), (784, 10));
    assert_eq!(parsed.plan_request().unwrap().sample, SampleGoal::Units(256.0));
    assert_eq!(parsed.name(), Job::parse(job).unwrap().name());
    assert_ne!(parsed.name(), Job::parse(&job.replace("0.5", "0.6")).unwrap().name());
    for (old, new, said) in [
        ("count = 10000", "count = 10000\nsize = 3", "size"),
        ("kind = \"linear\"", "kind = \"linear\"\ndropout = 0.1", "dropout"),
        ("kind = \"linear\"", "kind = \"batch-norm\"", "batch-norm"),
        ("kind = \"sgd\"", "kind = \"sgd\"\nnesterov = true", "nesterov"),
        ("delta = 1e-6", "seed = 7\ndelta = 1e-6", "seed"),
    ] {
        let error = Job::parse(&job.replace(old, new)).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
    }
    for (old, new) in [
        ("steps = 10", "steps = 10\nepochs = 2"),
        ("units = 256", ""),
        ("epsilon = 1\n        delta = 1e-6", "delta = 1e-6"),
    ] {
        let error = Job::parse(&job.replace(old, new)).unwrap().plan_request().unwrap_err();
        assert_eq!(error.hint().as_deref(), Some("write one of the two"), "{error}");
    }
}
