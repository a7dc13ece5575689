//! `[embedder]`: the model that turns text into vectors.

use super::checks::Checks;
use anyhow::{Context, Result};
use holdfast_models::RemoteSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The model that turns text into vectors: the built-in one, which routers load at their start and nodes when
/// a job first needs it, or a service that speaks the API of OpenAI (`POST {url}/embeddings`). All routers
/// and nodes of a cluster must have the same: a space holds vectors of one model, and where texts are
/// embedded by another one they are found by their words alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EmbedderSection {
    /// Folder of the built-in model's files. Empty: `HOLDFAST_MODEL_DIR`, else `holdfast/models` in the
    /// user's cache.
    #[schemars(with = "String")]
    pub(crate) model_dir: PathBuf,
    /// Whether to refuse to start without the built-in model. `false`: without it, start and recall by
    /// keywords alone.
    pub(crate) required: bool,
    /// Where the API of an embedding service begins, such as `https://api.openai.com/v1` or
    /// `http://localhost:11434/v1`. Empty: the built-in model.
    pub(crate) url: String,
    /// The name of the model at the service. It names the vectors, too: when it changes, so do they.
    #[schemars(extend("x-range" = "needed with `embedder.url`"))]
    pub(crate) model: String,
    /// Dimensions of the service's vectors.
    #[schemars(range(min = 0, max = 4_096), extend("x-range" = "1 to 4096; needed with `embedder.url`"))]
    pub(crate) dims: usize,
    /// Whether to ask the service for this number of dimensions, which not every model can change.
    pub(crate) send_dims: bool,
    /// File with the key of the service, read at the start. Nobody else should be able to read it. Empty:
    /// the environment variable `HOLDFAST_EMBEDDER_KEY`, or no key if that is not set either.
    #[schemars(with = "String")]
    pub(crate) key_file: PathBuf,
    /// File in PEM with the certificates of who may have signed that of the service. Empty: those that
    /// browsers trust.
    #[schemars(with = "String")]
    pub(crate) ca_file: PathBuf,
    /// Most texts in one request to the service.
    #[schemars(range(min = 1, max = 2_048))]
    pub(crate) batch: usize,
    /// Longest time for one call of the service, further attempts included.
    #[schemars(range(min = 100, max = 300_000))]
    pub(crate) timeout_ms: u64,
    /// How often a request that failed is sent again: after 429, 5xx or a broken connection, with
    /// growing pauses, or those that the service asks for (`Retry-After`).
    #[schemars(range(min = 0, max = 10))]
    pub(crate) retries: u32,
}

/// The environment variable of the key, where there is no file.
const KEY_VARIABLE: &str = "HOLDFAST_EMBEDDER_KEY";

impl Default for EmbedderSection {
    fn default() -> Self {
        let RemoteSettings { batch, timeout, retries, .. } = RemoteSettings::new("", "", 0);
        Self {
            model_dir: PathBuf::new(),
            required: true,
            url: String::new(),
            model: String::new(),
            dims: 0,
            send_dims: false,
            key_file: PathBuf::new(),
            ca_file: PathBuf::new(),
            batch,
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            retries,
        }
    }
}

impl EmbedderSection {
    /// The configured folder, or nothing where the default one is meant.
    pub(crate) fn model_dir(&self) -> Option<&Path> {
        (!self.model_dir.as_os_str().is_empty()).then_some(self.model_dir.as_path())
    }

    pub(super) fn check(&self, checks: &mut Checks<'_>) {
        if self.url.is_empty() {
            if !self.model.is_empty() {
                let what =
                    "is the model's name at a service, and embedder.url is not set: set both or neither";
                checks.fail(&["embedder.model"], what);
            }
            return;
        }
        if self.model.is_empty() {
            checks
                .fail(&["embedder.model"], "must be set with embedder.url: the model's name at the service");
        }
        if self.dims == 0 {
            checks.fail(&["embedder.dims"], "must be set with embedder.url: the dimensions of its vectors");
        }
        if !(self.url.starts_with("http://") || self.url.starts_with("https://")) {
            checks.fail(&["embedder.url"], "must begin with http:// or https://");
        } else if !holdfast_models::names_a_host(&self.url) {
            checks.fail(&["embedder.url"], "names no host; give one, such as http://localhost:11434/v1");
        }
    }

    /// How the service is reached, if one is configured. Reads the key and the certificates.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn remote(&self) -> Result<Option<RemoteSettings>> {
        self.remote_with(std::env::var(KEY_VARIABLE).ok())
    }

    fn remote_with(&self, key_of_environment: Option<String>) -> Result<Option<RemoteSettings>> {
        if self.url.is_empty() {
            return Ok(None);
        }
        let read = |path: &Path, setting: &str| {
            std::fs::read(path).with_context(|| format!("cannot read {} ({setting})", path.display()))
        };
        let key = if self.key_file.as_os_str().is_empty() {
            key_of_environment
        } else {
            let bytes = read(&self.key_file, "embedder.key_file")?;
            let text = String::from_utf8(bytes)
                .with_context(|| format!("{} (embedder.key_file) is no text", self.key_file.display()))?;
            Some(text)
        };
        let ca = (!self.ca_file.as_os_str().is_empty()).then(|| read(&self.ca_file, "embedder.ca_file"));
        Ok(Some(RemoteSettings {
            // Files end with a line end.
            key: key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()),
            ca: ca.transpose()?,
            send_dims: self.send_dims,
            batch: self.batch,
            timeout: Duration::from_millis(self.timeout_ms),
            retries: self.retries,
            ..RemoteSettings::new(&self.url, &self.model, self.dims)
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_key_comes_from_its_file_or_else_from_the_environment() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "from-file\n").unwrap();
        let section = EmbedderSection {
            url: "http://localhost:1/v1".into(),
            model: "m".into(),
            dims: 3,
            ..EmbedderSection::default()
        };
        let key = |section: &EmbedderSection| {
            section.remote_with(Some("from-environment".into())).unwrap().unwrap().key
        };
        assert_eq!(key(&section).as_deref(), Some("from-environment"));
        assert_eq!(key(&EmbedderSection { key_file: file, ..section.clone() }).as_deref(), Some("from-file"));
        assert_eq!(section.remote_with(Some(" \n".into())).unwrap().unwrap().key, None);
        assert!(EmbedderSection::default().remote_with(None).unwrap().is_none());
        let gone = EmbedderSection { key_file: folder.path().join("gone"), ..section };
        let error = format!("{:#}", gone.remote_with(None).unwrap_err());
        assert!(error.contains("embedder.key_file") && error.contains("gone"), "{error}");
    }
}
