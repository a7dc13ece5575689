//! The part of SentencePiece's `sentencepiece_model.proto` that inference needs.
//!
//! Fields that are not listed are skipped by the decoder, as protobuf asks.

/// The kind of a piece, `ModelProto.SentencePiece.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum PieceType {
    /// Learned from text.
    Normal = 1,
    /// Stands for what the vocabulary cannot spell.
    Unknown = 2,
    /// A mark such as the start of a sentence; never the result of user text.
    Control = 3,
    /// Added by hand.
    UserDefined = 4,
    /// Switched off.
    Unused = 5,
    /// One byte of an unknown character.
    Byte = 6,
}

/// `TrainerSpec.ModelType`; only unigram models are read here.
pub(crate) const MODEL_TYPE_UNIGRAM: i32 = 1;

/// One entry of the vocabulary; its position is its id.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Piece {
    #[prost(string, optional, tag = "1")]
    pub piece: Option<String>,
    /// Logarithm of the piece's probability.
    #[prost(float, optional, tag = "2")]
    pub score: Option<f32>,
    #[prost(enumeration = "PieceType", optional, tag = "3", default = "Normal")]
    pub kind: Option<i32>,
}

/// How the model was trained, as far as it changes inference.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TrainerSpec {
    #[prost(int32, optional, tag = "3", default = "1")]
    pub model_type: Option<i32>,
    #[prost(bool, optional, tag = "35", default = "false")]
    pub byte_fallback: Option<bool>,
    #[prost(int32, optional, tag = "40", default = "0")]
    pub unk_id: Option<i32>,
    #[prost(int32, optional, tag = "41", default = "1")]
    pub bos_id: Option<i32>,
    #[prost(int32, optional, tag = "42", default = "2")]
    pub eos_id: Option<i32>,
}

/// How text is normalised before it is cut into pieces.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct NormalizerSpec {
    /// Length of the trie, the trie, then the replacements, each ended by a zero byte.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub precompiled_charsmap: Option<Vec<u8>>,
    #[prost(bool, optional, tag = "3", default = "true")]
    pub add_dummy_prefix: Option<bool>,
    #[prost(bool, optional, tag = "4", default = "true")]
    pub remove_extra_whitespaces: Option<bool>,
    #[prost(bool, optional, tag = "5", default = "true")]
    pub escape_whitespaces: Option<bool>,
}

/// The whole file.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ModelProto {
    #[prost(message, repeated, tag = "1")]
    pub pieces: Vec<Piece>,
    #[prost(message, optional, tag = "2")]
    pub trainer: Option<TrainerSpec>,
    #[prost(message, optional, tag = "3")]
    pub normalizer: Option<NormalizerSpec>,
}
