//! Private answers about people, under one budget that cannot be overspent.
//!
//! ```no_run
//! # async fn example() -> Result<(), dither::Error> {
//! use dither::{Request, Session};
//!
//! let session = Session::open("policy.toml")?;
//! let request = Request::new("SELECT AVG(time_in_hospital) AS days FROM stays", "0.5".parse().unwrap());
//! let preview = session.plan(&request, None).await?; // nothing is charged, no row is read
//! let answer = session.query(&request).await?; // charged, then answered; asked again, answered for free
//! println!("{}", dither::table(&answer.answer));
//! # Ok(())
//! # }
//! ```
//!
//! This crate is the API boundary: a [`Session`] ties the policy, the planner, the ledger and the engine together
//! in the one order that is private (see `dither_core::gate`). It holds no privacy logic of its own.
//!
//! # Where to start
//! [`Session`].

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod error;
mod profile;
mod questions;
mod report;
mod session;

pub use dither_core::{Answer, Between, Budget, Cell, Delta, Epsilon, Estimate, Explain, Key, RankError, Receipt};
pub use dither_ledger::{Ledger, LedgerError, ScopePath};
pub use dither_query::explain::{Accountants, Explanation, TargetError, Window};
pub use dither_query::plan::MechanismChoice;
pub use dither_query::policy::Policy;
pub use dither_query::source::Progress;
pub use dither_query::{Refusal, Request};
pub use dither_report::csv::write as write_csv;
pub use dither_report::json::rows_json;
pub use dither_report::table::render as table;
pub use error::Error;
pub use profile::{ColumnProfile, Profile, ProfileSpec};
pub use questions::{Defaults, FilePreview, FileQuestion, PlannedQuestion, read_questions};
pub use report::{PricedReport, Published, Question, ReportPreview, ReportSpec};
pub use session::{Amounts, Answered, Preview, Priced, Session};

/// What computed an answer, for the certificate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
