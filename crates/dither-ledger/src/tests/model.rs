//! Random histories against a model that fits on a page.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const SCOPES: [&str; 4] = ["d", "d/a", "d/b", "d/a/x"];

#[derive(Debug, Clone)]
enum Step {
    Ask { name: u8, scope: usize, nanos: u128 },
    Limit { scope: usize, nanos: u64, stewards: bool },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..30u8, 0..4usize, 1..40u128).prop_map(|(name, scope, nanos)| Step::Ask { name, scope, nanos }),
        2 => (0..4usize, 1..120u64, any::<bool>())
            .prop_map(|(scope, nanos, stewards)| Step::Limit { scope, nanos, stewards }),
        1 => Just(Step::Reopen),
    ]
}

#[derive(Default)]
struct Model {
    cap: BTreeMap<&'static str, u64>,
    spent: BTreeMap<&'static str, u64>,
    answers: BTreeMap<RequestId, f64>,
    charges: BTreeSet<RequestId>,
}

impl Model {
    fn lineage(scope: &str) -> impl Iterator<Item = &'static str> {
        SCOPES.into_iter().filter(move |above| scope == *above || scope.starts_with(&format!("{above}/")))
    }

    fn room(&self, scope: &str) -> u64 {
        Self::lineage(scope).map(|s| self.cap[s].saturating_sub(self.spent[s])).min().unwrap()
    }
}

fn nano_limit(scope: &str, nanos: u64) -> ScopeLimit {
    let mut limit = limit(scope, "1", "0");
    limit.budget.epsilon = dither_core::Epsilon::from_nanos(nanos).unwrap();
    limit
}

async fn play(steps: Vec<Step>) {
    let folder = Folder::new();
    let mut ledger = Ledger::open(folder.ledger()).await.unwrap();
    let mut model = Model::default();
    for scope in SCOPES {
        ledger.declare(&[nano_limit(scope, 100)]).await.unwrap();
        model.cap.insert(scope, 100);
        model.spent.insert(scope, 0);
    }
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Ask { name, scope, nanos } => {
                let scope = SCOPES[scope];
                let request = request(&format!("{name} {nanos}"), scope, nanos);
                let room = model.room(scope);
                let result = ask(&ledger, &request, number as f64).await;
                if let Some(first) = model.answers.get(&request.request) {
                    assert_eq!(result.unwrap(), *first);
                } else if nanos <= u128::from(room) {
                    assert_eq!(result.unwrap(), number as f64);
                    model.answers.insert(request.request, number as f64);
                    model.charges.insert(request.request);
                    Model::lineage(scope).for_each(|s| *model.spent.get_mut(s).unwrap() += nanos as u64);
                } else {
                    assert!(matches!(result, Err(LedgerError::Refused { .. })));
                }
            }
            Step::Limit { scope, nanos, stewards } => {
                let (scope, limit) = (SCOPES[scope], nano_limit(SCOPES[scope], nanos));
                let result = match stewards {
                    true => ledger.amend(&limit, &["ann".into(), "bo".into()]).await,
                    false => ledger.declare(&[limit]).await,
                };
                assert_eq!(result.is_ok(), stewards || nanos <= model.cap[scope]);
                if result.is_ok() {
                    model.cap.insert(scope, nanos);
                }
            }
            Step::Reopen => ledger = Ledger::open_existing(folder.ledger()).await.unwrap(),
        }
    }
    for scope in SCOPES {
        assert_eq!(left(&ledger, scope).await, model.room(scope));
    }
    let verified = ledger.verify(None).await.unwrap();
    assert_eq!(verified.charges, model.charges.len() as u64);
    assert_eq!(verified.answers, model.answers.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: size(16, 1000) as u32, ..ProptestConfig::default() })]

    #[test]
    fn every_history_follows_the_model(steps in prop::collection::vec(step(), 1..60)) {
        tokio::runtime::Runtime::new().unwrap().block_on(play(steps));
    }
}
