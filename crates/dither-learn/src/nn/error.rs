//! What can be wrong with a network, its weights or a batch.

/// Why a network is not built, or a batch not taken.
///
/// None of these depends on a row: numbers, tokens and classes that make no sense give a gradient that is not finite,
/// which counts nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// A description that cannot be built.
    #[error("{0}")]
    Description(String),
    /// A batch of the wrong form.
    #[error("the batch does not fit the model: {0}")]
    Batch(&'static str),
    /// Bounds that make no sense.
    #[error("clipping: {0}")]
    Clipping(String),
    /// Weights that do not fit, or a file that cannot be read.
    #[error("weights: {0}")]
    Weights(String),
}
