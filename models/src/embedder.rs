//! The trait that every embedding model implements.

use crate::profile::ModelProfile;

/// Why texts were not embedded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// A text holds nothing but white space and characters that the model drops. Store it
    /// without a vector: any vector for it would be made up.
    #[error("text {index} holds nothing to embed")]
    EmptyText {
        /// Position in the call.
        index: usize,
    },
    /// The model's result for a text is no unit vector, which only damaged weights explain.
    #[error("the model gave no usable vector for text {index}; its weights may be damaged")]
    NotAVector {
        /// Position in the call.
        index: usize,
    },
    /// A service could not be reached or did not answer in time. The same call may succeed later.
    #[error("{reason}")]
    Unavailable {
        /// What happened, and what to do.
        reason: String,
    },
    /// A service refuses what it was sent: one of the texts may be too long for it, or hold what it does
    /// not take.
    #[error("{reason}")]
    RefusedText {
        /// What the service said, and what to do.
        reason: String,
    },
    /// A service refuses, or answers what is no vector: it will again, until its settings are changed.
    #[error("{reason}")]
    Refused {
        /// What is wrong, and what to do.
        reason: String,
    },
}

impl EmbedError {
    /// Whether the failure has nothing to do with one of the texts, so that it makes no sense to try
    /// each by itself.
    pub fn concerns_all(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Refused { .. })
    }
}

/// A model that turns texts into vectors whose inner product is their similarity.
pub trait Embedder: Send + Sync {
    /// Identifier of the model, such as `use-multilingual-v3`. Vectors of different models are
    /// never compared, so it changes whenever the vectors do.
    fn model_id(&self) -> &str;

    /// Dimensions of every vector.
    fn dims(&self) -> usize;

    /// The constants that scoring uses with this model's cosines.
    fn profile(&self) -> ModelProfile;

    /// Whether a call mostly waits, for another process: it should not take the place of work.
    fn waits(&self) -> bool {
        false
    }

    /// Whether [`Self::embed`] has something to embed in `text`; false where it would answer
    /// [`EmbedError::EmptyText`].
    fn accepts(&self, text: &str) -> bool;

    /// Embeds each text by itself: the vectors come in the texts' order, have length 1, and do
    /// not depend on what else is in the call beyond rounding. A text beyond the model's limit
    /// counts up to the limit.
    ///
    /// Blocks and computes on the calling thread; call it on a thread that may.
    ///
    /// # Errors
    /// No text is embedded if any cannot be; the error names it.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}
