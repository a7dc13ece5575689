use holdfast_core::codec::CodecError;
use holdfast_core::state::StateError;
use holdfast_core::{Error, ErrorCode};

/// Why a space has no image. The space is not empty for that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The store cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// A row cannot be decoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// A key of the index rows does not end in a seq.
    #[error("an index row has a damaged key")]
    Key,
    /// The deadline passed first.
    #[error("the space was not loaded before the deadline")]
    Deadline,
    /// Somebody reads vectors of the space from the disk, and it has changed since.
    #[error("the space is being read from the disk and has changed meanwhile; retry")]
    Held,
    /// The images would exceed their budget, with no other left to evict.
    #[error("the image of the space needs {needed} bytes, of {budget} for all images")]
    Memory {
        /// Bytes of the image so far.
        needed: usize,
        /// Bytes that all images may have.
        budget: usize,
    },
    /// More was written to the space during the load than a load may buffer.
    #[error("the space changed too much while it was loaded")]
    Overrun,
    /// The space left the node, or its replica was replaced.
    #[error("the space left this replica while it was loaded")]
    Cancelled,
    /// The files of the space's index are damaged and cannot be removed.
    #[error("the files of the space's index are damaged and cannot be removed: {0}")]
    Damaged(String),
    /// The loading thread ended without a result: a defect.
    #[error("the load of the space was given up")]
    Abandoned,
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        let code = match &error {
            LoadError::State(_) | LoadError::Codec(_) | LoadError::Key | LoadError::Damaged(_) => {
                ErrorCode::Corrupted
            }
            LoadError::Deadline => ErrorCode::DeadlineExceeded,
            LoadError::Memory { .. } | LoadError::Overrun => ErrorCode::Overloaded,
            LoadError::Cancelled | LoadError::Held => ErrorCode::Unavailable,
            LoadError::Abandoned => ErrorCode::Internal,
        };
        Self::new(code, error.to_string())
    }
}
