//! Embeddings by a service that speaks the API of OpenAI, `POST {url}/embeddings`, as OpenAI itself,
//! vLLM, Ollama, llama.cpp, LocalAI and Text Embeddings Inference do.
//!
//! A call is bounded in all ways: texts are cut, sent in batches, each answer is read up to a length,
//! a failure is tried again a few times, and all of it together ends after one timeout. What comes
//! back is checked before it is a vector: as many as texts, put in order by their index, of the
//! dimensions that were configured, finite and not zero; scaled to length 1.

mod answer;
mod call;
mod settings;
mod tls;

pub use settings::{RemoteError, RemoteSettings, names_a_host};

use crate::embedder::{EmbedError, Embedder};
use crate::profile::ModelProfile;
use call::Caller;
use std::time::Instant;

/// Longest text, in bytes, that is sent; what is longer counts up to there. Above 2,000 tokens of most
/// tokenizers; memories are searched by chunks of 512.
pub const REMOTE_TEXT_BYTES_MAX: usize = 8 * 1024;

/// An embedding service.
#[derive(Debug)]
pub struct RemoteEmbedder {
    settings: RemoteSettings,
    caller: Caller,
}

impl RemoteEmbedder {
    /// A client of the service; connects to nothing yet.
    ///
    /// # Errors
    /// A setting that cannot be used; the error names it.
    pub fn new(settings: RemoteSettings) -> Result<Self, RemoteError> {
        settings.check()?;
        let caller = Caller::new(&settings)?;
        Ok(Self { settings, caller })
    }
}

impl Embedder for RemoteEmbedder {
    fn model_id(&self) -> &str {
        &self.settings.model
    }

    fn dims(&self) -> usize {
        self.settings.dims
    }

    fn waits(&self) -> bool {
        true
    }

    fn profile(&self) -> ModelProfile {
        // Of the model nothing more is known than of one whose vectors clients bring.
        ModelProfile::CLIENT
    }

    fn accepts(&self, text: &str) -> bool {
        !text.trim().is_empty()
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if let Some(index) = texts.iter().position(|text| !self.accepts(text)) {
            return Err(EmbedError::EmptyText { index });
        }
        let until = Instant::now() + self.settings.timeout;
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(self.settings.batch.max(1)) {
            let cut: Vec<&str> = batch.iter().map(|text| cut(text)).collect();
            vectors.extend(self.caller.embed(&self.settings, &cut, until)?);
        }
        Ok(vectors)
    }
}

/// The beginning of a text, of at most [`REMOTE_TEXT_BYTES_MAX`] bytes and whole characters.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(REMOTE_TEXT_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_characters() {
        let long = "茶".repeat(REMOTE_TEXT_BYTES_MAX);
        assert!(cut(&long).len() <= REMOTE_TEXT_BYTES_MAX && cut(&long).len() > REMOTE_TEXT_BYTES_MAX - 4);
        assert_eq!(cut("茶"), "茶");
        assert_eq!(cut(""), "");
    }
}
