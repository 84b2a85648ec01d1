//! Models trained under differential privacy: per-sample clipping, exact noise, one event for a whole run.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod model;
pub mod nn;
