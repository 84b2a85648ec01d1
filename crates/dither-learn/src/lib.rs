//! Models trained under differential privacy: per-sample clipping, exact noise, one event for a whole run.
//!
//! # Why it exists
//! A trained model tells about the rows it was trained on. Here it is trained on noisy sums of clipped gradients, and the
//! run is charged as one event before the first row is read.
//!
//! # What this crate does not do
//! It prices nothing (`dither-accounting` does), keeps no budget (`dither-ledger` does) and adds no noise itself
//! (`dither-mechanisms` does, behind the gate of `dither-core`). It assumes of a [`model::Model`] that the clipped gradient
//! of a unit is as short as it says, and depends on that unit alone.
//!
//! # Where to start
//! [`nn::Network`] for models, [`train::plan::DpPlan`] for the numbers that the guarantee depends on,
//! [`train::trainer::Run`] for the run, [`train::session::TrainingSession`] for all of it from a file.

pub mod model;
pub mod nn;
pub mod train;
