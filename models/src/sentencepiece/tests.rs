#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::proto::{NormalizerSpec, Piece, TrainerSpec};
use super::*;

const UNLIMITED: usize = 1 << 20;

fn piece(spelling: &str, score: f32, kind: PieceType) -> Piece {
    Piece { piece: Some(spelling.to_owned()), score: Some(score), kind: Some(kind as i32) }
}

/// A model of a few pieces whose charsmap replaces nothing.
fn small_model() -> ModelProto {
    ModelProto {
        pieces: vec![
            piece("<unk>", 0.0, PieceType::Unknown),
            piece("<s>", 0.0, PieceType::Control),
            piece("</s>", 0.0, PieceType::Control),
            piece("\u{2581}", -2.0, PieceType::Normal),
            piece("a", -3.0, PieceType::Normal),
            piece("b", -3.0, PieceType::Normal),
            piece("ab", -5.0, PieceType::Normal),
            piece("\u{2581}a", -4.0, PieceType::Normal),
            piece("辣", -4.0, PieceType::Normal),
            piece("aba", -8.0, PieceType::Normal),
        ],
        trainer: Some(TrainerSpec::default()),
        normalizer: Some(NormalizerSpec {
            precompiled_charsmap: Some(vec![4, 0, 0, 0, 0, 0, 0, 0, 0]),
            ..NormalizerSpec::default()
        }),
    }
}

fn load(model: &ModelProto) -> Result<SentencePiece, SentencePieceError> {
    SentencePiece::from_bytes(&model.encode_to_vec())
}

fn ids(text: &str) -> Option<Vec<u32>> {
    load(&small_model()).unwrap().encode(text, UNLIMITED, UNLIMITED)
}

#[test]
fn takes_the_likeliest_segmentation() {
    // "▁" "ab" scores -7, "▁a" "b" also -7: the one that started earlier stays.
    assert_eq!(ids("ab").unwrap(), [1, 3, 6, 2]);
    // "▁a" "ba"? No such piece: "▁" "aba" -10 equals "▁a" "b" "a" -10 and "▁" "ab" "a" -10.
    assert_eq!(ids("aba").unwrap(), [1, 3, 9, 2]);
    assert_eq!(ids("a a").unwrap(), [1, 7, 7, 2]);
    assert_eq!(ids("辣").unwrap(), [1, 3, 8, 2]);
}

#[test]
fn unknown_characters_are_one_token_each() {
    assert_eq!(ids("🌶🌶a").unwrap(), [1, 3, 0, 0, 4, 2]);
}

#[test]
fn text_cannot_spell_a_mark() {
    let ids = ids("<s>").unwrap();
    assert_eq!(ids, [1, 3, 0, 0, 0, 2]);
}

#[test]
fn nothing_gives_none() {
    for text in ["", " ", "   \u{20}"] {
        assert_eq!(ids(text), None);
    }
}

#[test]
fn limits_hold() {
    let model = load(&small_model()).unwrap();
    let long = "ab".repeat(10_000);
    assert_eq!(model.encode(&long, UNLIMITED, 5).unwrap().len(), 7);
    assert!(model.encode(&long, 64, UNLIMITED).unwrap().len() <= 66);
}

#[test]
fn refuses_what_it_cannot_read() {
    assert!(matches!(SentencePiece::from_bytes(b"\xff\xff\xff"), Err(SentencePieceError::Decode(_))));
    assert!(SentencePiece::from_bytes(b"").is_err());

    let mut model = small_model();
    model.trainer.as_mut().unwrap().model_type = Some(2);
    assert!(matches!(load(&model), Err(SentencePieceError::Unsupported { .. })));

    let mut model = small_model();
    model.normalizer.as_mut().unwrap().add_dummy_prefix = Some(false);
    assert!(matches!(load(&model), Err(SentencePieceError::Unsupported { .. })));

    for (spelling, score) in [("a", -1.0), ("", -1.0), ("new", f32::NAN)] {
        let mut model = small_model();
        model.pieces.push(piece(spelling, score, PieceType::Normal));
        assert!(matches!(load(&model), Err(SentencePieceError::Damaged { .. })), "{spelling:?} {score}");
    }

    let mut model = small_model();
    model.trainer.as_mut().unwrap().eos_id = Some(1_000);
    assert!(matches!(load(&model), Err(SentencePieceError::Damaged { .. })));
}
