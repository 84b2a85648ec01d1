//! Tests of training.
