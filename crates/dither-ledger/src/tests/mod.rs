//! Tests by the number of the attack they stage. Races, crashes, faults and forgeries each have a control: a
//! deliberately broken variant in which the same test must find the defect.

mod budget;
mod child;
mod crash;
mod fault;
mod model;
mod race;
mod tamper;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dither_accounting::Composition;
use dither_core::{
    Budget, Charge, Delta, GateError, L1Sensitivity, Measurement, Mechanism, OpenGate, PrivacyEvent, Ratio, RequestId,
    Sealed, Sensitive,
};

use crate::store::Store;
use crate::{ChargeRequest, Ledger, LedgerError, Outcome, ScopeLimit};

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("dither-ledger-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn ledger(&self) -> PathBuf {
        self.0.join("ledger.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn limit(path: &str, epsilon: &str, delta: &str) -> ScopeLimit {
    let budget = Budget { epsilon: epsilon.parse().unwrap(), delta: delta.parse().unwrap() };
    ScopeLimit { path: path.parse().unwrap(), budget, composition: Composition::Basic, protects: Default::default() }
}

/// A Laplace event that costs exactly so many nano-units.
fn laplace(nanos: u128) -> PrivacyEvent {
    PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(1), scale: Ratio::new(1_000_000_000, nanos).unwrap() }
}

fn request(name: &str, scope: &str, nanos: u128) -> ChargeRequest {
    ChargeRequest {
        request: RequestId::digest([scope.as_bytes(), name.as_bytes()]),
        key: None,
        scope: scope.parse().unwrap(),
        event: laplace(nanos),
        delta: Delta::ZERO,
        label: format!("SELECT '{name}'"),
    }
}

fn charged(outcome: Outcome) -> Charge {
    match outcome {
        Outcome::Charged(charge) => charge,
        Outcome::Answered(_) => panic!("it was answered before"),
    }
}

/// A mechanism whose noise is what the test says.
struct Scripted(PrivacyEvent);

impl Mechanism for Scripted {
    type Exact = ();
    type Noise = f64;
    type Output = f64;

    fn event(&self) -> PrivacyEvent {
        self.0.clone()
    }

    fn apply(&self, _: Sensitive<()>, noise: &mut f64, _: OpenGate) -> Result<f64, GateError> {
        Ok(*noise)
    }
}

/// What the rest of the system does between a charge and its answer.
fn seal(request: &ChargeRequest, charge: Charge, mut answer: f64) -> Sealed<f64> {
    let measurement = Measurement::new(Scripted(request.event.clone()), request.request);
    measurement.authorize(charge).unwrap().release(Sensitive::new(()), &mut answer).unwrap()
}

/// Charges a request and answers it.
async fn ask(ledger: &Ledger, request: &ChargeRequest, answer: f64) -> Result<f64, LedgerError> {
    match ledger.charge(request).await? {
        Outcome::Charged(charge) => {
            let sealed = seal(request, charge, answer);
            Ok(*ledger.publish(request.request, sealed).await?.value())
        }
        Outcome::Answered(stored) => Ok(*stored.decode::<f64>()?.value()),
    }
}

/// A ledger whose scope `d` has so many nano-units.
async fn with_budget(path: &Path, epsilon: &str) -> Ledger {
    let ledger = Ledger::open(path).await.unwrap();
    ledger.declare(&[limit("d", epsilon, "1e-6")]).await.unwrap();
    ledger
}

async fn left(ledger: &Ledger, scope: &str) -> u64 {
    ledger.remaining(&scope.parse().unwrap()).await.unwrap().epsilon_nanos
}

/// A handle with another clock.
async fn with_clock(path: &Path, clock: fn() -> i64) -> Ledger {
    let mut store = Store::open(path, true).await.unwrap();
    store.clock = clock;
    Ledger { store: Arc::new(store) }
}

/// The size of a test: `short` by default, `long` if `DITHER_LONG` is set, and a tenth of that if it is set to 10.
fn size(short: usize, long: usize) -> usize {
    match std::env::var("DITHER_LONG") {
        Ok(part) => long / part.parse::<usize>().unwrap_or(1).max(1),
        Err(_) => short,
    }
}
