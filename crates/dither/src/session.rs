//! A session: one policy, its ledger, an engine, and the one order in which they are used.

mod ahead;
mod amounts;
mod limits;
mod priced;
mod release;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dither_core::{Answer, Between, RankError, Receipt};
use dither_ledger::{Ledger, LedgerError, ScopePath};
use dither_query::engine::{Engine, LocalEngine};
use dither_query::explain::{Explanation, TargetError};
use dither_query::plan::Request;
use dither_query::policy::Policy;
use dither_query::source::{Progress, files_of, relation_of};
use serde::Serialize;

use crate::error::Error;

pub(crate) use ahead::{Ahead, Known};
pub use amounts::Amounts;
pub use priced::Priced;
pub(crate) use release::{Asked, Released, Settled};

/// A plan before anything is spent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Preview {
    /// The question.
    pub sql: String,
    /// What it costs and how well it will be answered.
    pub plan: Explanation,
    /// What is left now.
    pub remaining: Amounts,
    /// What is left afterwards: the same if it was charged before; `None` if it does not fit.
    pub remaining_after: Option<Amounts>,
    /// Whether the same request was charged before, so that asking again is free. It may have failed then.
    pub charged_before: bool,
    /// Whether it was answered before as well.
    pub answered_before: bool,
}

/// An answer and what it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// The bounds that were found for columns without any; sums and means are of values between them.
    pub bounds: Vec<Between>,
    /// How far the ranks of quantiles may be off, by the name of their column: public numbers.
    pub ranks: Vec<(String, RankError)>,
    /// What the request was charged, when it was charged.
    pub charged: Amounts,
    /// What is left.
    pub remaining: Amounts,
    /// The charge in the ledger.
    pub receipt: Receipt,
    /// Whether this answer was given before, so that nothing was charged now.
    pub repeated: bool,
    /// When it was given first, in seconds since 1970, if it is repeated. Information only.
    pub first_answered: Option<i64>,
    /// When it was charged, in seconds since 1970, if that was before, so that nothing was charged now. Information only.
    pub first_charged: Option<i64>,
}

/// One policy with its ledger.
pub struct Session {
    pub(crate) policy: Policy,
    ledger_path: PathBuf,
    scope: ScopePath,
    engine: Box<dyn Engine>,
    timeout: Option<Duration>,
    progress: Arc<Progress>,
}

impl Session {
    /// Opens a policy. No table is opened, and no ledger is made before something is charged.
    ///
    /// # Errors
    /// A policy that is not one.
    pub fn open(policy: impl AsRef<Path>) -> Result<Self, Error> {
        Self::new(Policy::load(policy)?)
    }

    /// A session on a policy that is already read.
    ///
    /// # Errors
    /// A data set whose name is not that of a scope.
    pub fn new(policy: Policy) -> Result<Self, Error> {
        let ledger_path = policy.base_dir.join(&policy.ledger);
        let scope = policy.dataset.parse()?;
        let (engine, progress) = (Box::new(LocalEngine::default()), Arc::default());
        Ok(Self { policy, ledger_path, scope, engine, timeout: None, progress })
    }

    /// Charges a narrower scope of the policy, and all scopes above it: `research/alice`.
    ///
    /// # Errors
    /// A scope that the policy does not declare.
    pub fn in_scope(mut self, path: &str) -> Result<Self, Error> {
        let scope: ScopePath = format!("{}/{path}", self.policy.dataset).parse()?;
        if !self.policy.scopes.contains_key(path) {
            return Err(LedgerError::UnknownScope { scope }.into());
        }
        self.scope = scope;
        Ok(self)
    }

    /// Runs the portable half somewhere else.
    pub fn with_engine(mut self, engine: Box<dyn Engine>) -> Self {
        self.engine = engine;
        self
    }

    /// Gives up looking at the data after so long. The charge stands, nothing of an answer is shown, and asking again is free.
    ///
    /// # Privacy
    /// That a question takes longer than this depends on the data, as the time of every answer does: whoever sees the
    /// failure learns it. The text is that of every failure after the charge.
    pub fn with_timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The files that the session reads or keeps, and that nothing else may write: the ledger with what lies beside it
    /// while it is open, and the file of each table.
    pub fn files(&self) -> Vec<PathBuf> {
        let beside = |ending: &str| {
            let mut name = self.ledger_path.clone().into_os_string();
            name.push(ending);
            PathBuf::from(name)
        };
        let private = self.policy.tables.values().map(|table| &table.source);
        let sources = private.chain(self.policy.public.values().map(|table| &table.source));
        let files = sources.filter(|source| relation_of(source).is_none());
        let sources = files.flat_map(|source| files_of(&self.policy.base_dir.join(source)));
        ["", "-wal", "-shm", "-journal"].map(beside).into_iter().chain(sources).collect()
    }

    /// How far the reading of a table has come. For the operator only.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// The ledger if there is one already. [`Ledger::close`] it after use, so that everything is in the one file.
    ///
    /// # Errors
    /// A ledger that cannot be read.
    pub async fn existing_ledger(&self) -> Result<Option<Ledger>, Error> {
        if !self.ledger_path.exists() {
            return Ok(None);
        }
        Ok(Some(Ledger::open_existing(&self.ledger_path).await?))
    }

    /// Plans a question. With a target error, the smallest ε that reaches it is found first.
    ///
    /// # Errors
    /// [`Error::Refused`] for a question that is not answered.
    ///
    /// # Privacy
    /// Charges nothing, reads no row.
    pub async fn plan(&self, request: &Request, target: Option<TargetError>) -> Result<Preview, Error> {
        let (plan, cost, explanation) = self.priced(request, target).await?.explained().await?;
        let id = self.request_id(std::slice::from_ref(&plan), plan.delta);
        let Ahead { remaining, remaining_after, known, .. } = self.ahead(&[(id, cost)]).await?;
        let Known { charged: charged_before, answered: answered_before } = known.first().copied().unwrap_or_default();
        let sql = request.sql.clone();
        Ok(Preview { sql, plan: explanation, remaining, remaining_after, charged_before, answered_before })
    }

    /// Charges a question and answers it. The identical request gets the identical answer again, for free.
    ///
    /// # Errors
    /// [`Error::Refused`] and a refusing ledger cost nothing; whatever fails later leaves the charge, and asking
    /// again does not charge again.
    ///
    /// # Privacy
    /// The event of the plan, for the neighbours and the unit of the policy. Fully adaptive: the ledger's filter
    /// holds however questions depend on earlier answers.
    pub async fn query(&self, request: &Request) -> Result<Answered, Error> {
        self.priced(request, None).await?.ask(None).await
    }
}
