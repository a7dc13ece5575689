//! The model of a process, by its configuration.

use crate::config::EmbedderSection;
use anyhow::{Context, Result, bail};
use holdfast_models::{Embedder, RemoteEmbedder, default_model_dir, open_builtin};
use std::sync::Arc;

/// Opens the model: a client of the service if one is configured, else the built-in one, if it is there.
/// Blocks while files are read.
///
/// # Errors
/// A model that is there and cannot be used, or settings that cannot.
pub(crate) fn open(section: &EmbedderSection) -> Result<Option<Arc<dyn Embedder>>> {
    if let Some(settings) = section.remote()? {
        let remote =
            RemoteEmbedder::new(settings).context("the embedding service cannot be used (embedder.*)")?;
        tracing::info!(model = remote.model_id(), url = section.url, "texts are embedded by a service");
        return Ok(Some(Arc::new(remote)));
    }
    let folder = match section.model_dir() {
        Some(folder) => folder.to_owned(),
        None => default_model_dir()?,
    };
    open_builtin(&folder)
        .with_context(|| format!("the embedding model in {} cannot be used", folder.display()))
}

/// As [`open`]; an absent model is an error if it is required. Running without meaning must be asked for:
/// it would be a silent loss.
pub(super) fn open_required(section: &EmbedderSection) -> Result<Option<Arc<dyn Embedder>>> {
    let embedder = open(section)?;
    if embedder.is_none() && section.required {
        let folder = section.model_dir().map_or_else(default_model_dir, |folder| Ok(folder.to_owned()))?;
        bail!(
            "no embedding model in {}: fetch it with scripts/fetch-model.sh, set embedder.model_dir or \
             embedder.url, or set embedder.required = false to recall by keywords alone",
            folder.display()
        );
    }
    Ok(embedder)
}
