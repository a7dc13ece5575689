//! `[embedder]`: the model that turns text into vectors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The model that turns text into vectors. Routers load it at their start, nodes when a job first needs
/// it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EmbedderSection {
    /// Folder of the model's files. Empty: `HOLDFAST_MODEL_DIR`, else `holdfast/models` in the user's
    /// cache.
    #[schemars(with = "String")]
    pub(crate) model_dir: PathBuf,
    /// Whether to refuse to start without the model. `false`: without it, start and recall by
    /// keywords alone.
    pub(crate) required: bool,
}

impl Default for EmbedderSection {
    fn default() -> Self {
        Self { model_dir: PathBuf::new(), required: true }
    }
}

impl EmbedderSection {
    /// The configured folder, or nothing where the default one is meant.
    pub(crate) fn model_dir(&self) -> Option<&Path> {
        (!self.model_dir.as_os_str().is_empty()).then_some(self.model_dir.as_path())
    }
}
