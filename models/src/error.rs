//! Why a model cannot be had.

use std::path::{Path, PathBuf};

use crate::sentencepiece::SentencePieceError;

/// What went wrong while a model was converted, found or loaded.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The operating system refused a file operation.
    #[error("{path}: cannot {action}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, such as "open".
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file does not start as a model file does.
    #[error("{path}: this is not a Holdfast model file; delete it and convert the wheel again", path = path.display())]
    NotAModel {
        /// The file.
        path: PathBuf,
    },
    /// The file is of a format that this program does not know.
    #[error("{path}: the model file has format {found}, this program reads format {supported}; delete it and convert the wheel again", path = path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Format of the file.
        found: u32,
        /// The one format that can be read.
        supported: u32,
    },
    /// The file holds another model than the one asked for.
    #[error("{path}: the file holds the model {found:?}, not {expected:?}", path = path.display())]
    WrongModel {
        /// The file.
        path: PathBuf,
        /// Model in the file.
        found: String,
        /// Model asked for.
        expected: &'static str,
    },
    /// The file is cut short, altered or contradicts itself.
    #[error("{path}: the model file is damaged ({what}); delete it and convert the wheel again", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The wheel is not the one release that is known to hold the model.
    #[error("{path}: the wheel's SHA-256 is {found}, expected {expected}; fetch it again", path = path.display())]
    WheelHash {
        /// The wheel.
        path: PathBuf,
        /// SHA-256 of the file, hexadecimal.
        found: String,
        /// SHA-256 of the known release.
        expected: &'static str,
    },
    /// Another process holds the lock of the conversion and does not finish.
    #[error("{path}: another process has been converting the model for {waited_s} s; if it hangs, stop it", path = path.display())]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// How long this one waited, in seconds.
        waited_s: u64,
    },
    /// The wheel has the right hash and yet cannot be read.
    #[error("{path}: cannot read the model in the wheel: {what}", path = path.display())]
    Wheel {
        /// The wheel.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The text model inside the file cannot be used.
    #[error("{path}: {source}", path = path.display())]
    SentencePiece {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: SentencePieceError,
    },
    /// Neither the override nor the home folder tells where models are kept.
    #[error("no folder for models: set HOLDFAST_MODEL_DIR, XDG_CACHE_HOME or HOME")]
    NoFolder,
}

impl ModelError {
    /// For `map_err` after an operation on `path`.
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path, action, source }
    }

    /// Whether a new conversion of the wheel can mend it.
    pub(crate) fn is_bad_file(&self) -> bool {
        matches!(
            self,
            Self::NotAModel { .. }
                | Self::Version { .. }
                | Self::WrongModel { .. }
                | Self::Damaged { .. }
                | Self::SentencePiece { .. }
        )
    }
}
