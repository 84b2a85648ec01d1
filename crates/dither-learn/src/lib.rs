//! Models trained under differential privacy: per-sample clipping, exact noise, one event for a whole run.

pub mod model;
