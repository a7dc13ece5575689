//! A reader of SentencePiece unigram models: text to token ids.
//!
//! Kudo, *Subword Regularization* (ACL 2018), gives the unigram model; Kudo and Richardson,
//! *SentencePiece* (EMNLP 2018), the file and its normalisation. Inference takes the best
//! segmentation by the Viterbi algorithm.

mod normalizer;
mod proto;
mod trie;

use normalizer::{Normalizer, char_length};
use prost::Message;
use proto::{MODEL_TYPE_UNIGRAM, ModelProto, PieceType};
use trie::PieceTrie;

/// How much less likely than the rarest piece an unknown character is, in natural logarithms.
const UNKNOWN_PENALTY: f64 = 10.0;

/// Why a SentencePiece model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SentencePieceError {
    /// The bytes are not a `ModelProto`.
    #[error("not a SentencePiece model: {0}")]
    Decode(#[from] prost::DecodeError),
    /// A part contradicts another.
    #[error("the SentencePiece model is damaged: {what}")]
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
    /// A well-formed model that needs what this reader does not do.
    #[error("the SentencePiece model uses a feature that is not supported: {what}")]
    Unsupported {
        /// Which feature.
        what: &'static str,
    },
}

/// A loaded model.
#[derive(Debug)]
pub(crate) struct SentencePiece {
    normalizer: Normalizer,
    trie: PieceTrie,
    /// Log-probability of each piece by id.
    scores: Vec<f32>,
    unknown_score: f64,
    unknown: u32,
    start: u32,
    end: u32,
}

/// The best way to reach one byte position.
#[derive(Clone, Copy)]
struct Step {
    score: f64,
    from: u32,
    piece: u32,
}

impl SentencePiece {
    /// Reads the bytes of a `.model` file.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, SentencePieceError> {
        let damaged = |what| SentencePieceError::Damaged { what };
        let model = ModelProto::decode(bytes)?;
        let trainer = model.trainer.clone().unwrap_or_default();
        let normalizer = model.normalizer.clone().unwrap_or_default();
        refuse_unsupported(&trainer, &normalizer)?;

        let mut entries = Vec::with_capacity(model.pieces.len());
        let mut scores = Vec::with_capacity(model.pieces.len());
        for (piece, id) in model.pieces.iter().zip(0u32..) {
            if !piece.score().is_finite() {
                return Err(damaged("a piece's score is not a number"));
            }
            scores.push(piece.score());
            match piece.kind() {
                PieceType::Normal | PieceType::UserDefined => {
                    entries.push((piece.piece().as_bytes(), id));
                }
                // Marks are put around a text by the caller; text that spells one is text.
                PieceType::Unknown | PieceType::Control | PieceType::Unused => {}
                PieceType::Byte => {
                    return Err(SentencePieceError::Unsupported { what: "byte pieces" });
                }
            }
        }
        let rarest = scores.iter().copied().fold(f32::INFINITY, f32::min);
        let id = |id: i32| {
            u32::try_from(id)
                .ok()
                .filter(|id| (*id as usize) < scores.len())
                .ok_or(damaged("a mark's id is outside the vocabulary"))
        };
        Ok(Self {
            normalizer: Normalizer::from_charsmap(normalizer.precompiled_charsmap())?,
            trie: PieceTrie::new(entries).map_err(|_| damaged("a piece is empty or occurs twice"))?,
            unknown_score: f64::from(rarest) - UNKNOWN_PENALTY,
            unknown: id(trainer.unk_id())?,
            start: id(trainer.bos_id())?,
            end: id(trainer.eos_id())?,
            scores,
        })
    }

    /// Number of pieces; every id is below it.
    pub(crate) fn vocabulary(&self) -> usize {
        self.scores.len()
    }

    /// Cuts `text` into at most `pieces_max` pieces between the marks of start and end, so that
    /// the result has at most `pieces_max + 2` ids. Pieces beyond are dropped, as is all after
    /// `bytes_max` bytes of normalised text.
    ///
    /// `None` if normalisation leaves nothing.
    pub(crate) fn encode(&self, text: &str, bytes_max: usize, pieces_max: usize) -> Option<Vec<u32>> {
        let normalized = self.normalizer.normalize(text, bytes_max);
        if normalized.is_empty() {
            return None;
        }
        let mut pieces = self.best_segmentation(&normalized);
        pieces.truncate(pieces_max);
        let mut ids = Vec::with_capacity(pieces.len() + 2);
        ids.push(self.start);
        ids.append(&mut pieces);
        ids.push(self.end);
        Some(ids)
    }

    /// The segmentation of highest probability; of equals, the one whose last piece is longest.
    ///
    /// `text` is valid UTF-8. Scores are summed in f64, as the package that the weights come
    /// from does.
    fn best_segmentation(&self, text: &[u8]) -> Vec<u32> {
        let unreached = Step { score: f64::NEG_INFINITY, from: 0, piece: self.unknown };
        let mut best = vec![unreached; text.len() + 1];
        best[0].score = 0.0;
        let mut at = 0;
        while at < text.len() {
            let base = best[at].score;
            let next_char = char_length(text[at]).min(text.len() - at);
            let mut offer = |length: usize, piece: u32, score: f64| {
                let step = &mut best[at + length];
                if base + score > step.score {
                    *step = Step { score: base + score, from: at as u32, piece };
                }
            };
            let mut spells_char = false;
            self.trie.prefixes(&text[at..], |length, piece| {
                spells_char |= length == next_char;
                offer(length, piece, f64::from(self.scores[piece as usize]));
            });
            if !spells_char {
                offer(next_char, self.unknown, self.unknown_score);
            }
            at += next_char;
        }
        let mut pieces = Vec::with_capacity(text.len() / 3);
        let mut at = text.len();
        while at > 0 {
            pieces.push(best[at].piece);
            at = best[at].from as usize;
        }
        pieces.reverse();
        pieces
    }
}

/// Refuses models whose text would be cut otherwise than this reader does.
fn refuse_unsupported(
    trainer: &proto::TrainerSpec,
    normalizer: &proto::NormalizerSpec,
) -> Result<(), SentencePieceError> {
    let unsupported = |what| Err(SentencePieceError::Unsupported { what });
    if trainer.model_type() != MODEL_TYPE_UNIGRAM {
        return unsupported("a model type other than unigram");
    }
    if trainer.byte_fallback() {
        return unsupported("byte fallback");
    }
    if !(normalizer.add_dummy_prefix()
        && normalizer.remove_extra_whitespaces()
        && normalizer.escape_whitespaces())
    {
        return unsupported("white space that is kept as it is");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
