//! Made-up memories, the same in every run.

use holdfast_core::memory::IndexRow;
use holdfast_core::text::{analyze, index_text, is_short_question};
use holdfast_core::vector::Vector;
use holdfast_node::index::Image;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Dimensions of the built-in model.
pub const DIMS: usize = 512;
/// 2026-01-01.
pub const NOW_US: i64 = 1_767_225_600_000_000;
pub const QUESTION: &str = "What did Anna say about the blue bicycle in 杭州?";

const HOUR_US: i64 = 3_600_000_000;
const SPEAKERS: [&str; 4] = ["Anna", "Bao", "陈静", "Diego"];
const WORDS: [&str; 40] = [
    "green",
    "tea",
    "night",
    "train",
    "blue",
    "bicycle",
    "climbing",
    "piano",
    "lesson",
    "tax",
    "form",
    "oat",
    "milk",
    "desk",
    "flight",
    "Lisbon",
    "office",
    "sister",
    "order",
    "garden",
    "doctor",
    "allergy",
    "peanut",
    "meeting",
    "report",
    "deadline",
    "weekend",
    "river",
    "photo",
    "kitchen",
    "龙井茶",
    "羽毛球",
    "高铁票",
    "体检报告",
    "川菜",
    "杭州",
    "成都",
    "图书馆",
    "猫粮",
    "电子书",
];

pub fn random() -> StdRng {
    StdRng::seed_from_u64(7)
}

/// A turn of 5 to 24 words; every sixth is a question.
pub fn text(random: &mut StdRng) -> String {
    let words: Vec<&str> =
        (0..random.random_range(5..25)).filter_map(|_| WORDS.choose(random).copied()).collect();
    let end = if random.random_bool(1.0 / 6.0) { "?" } else { "." };
    words.join(" ") + end
}

pub fn vector(random: &mut StdRng) -> Vec<f32> {
    (0..DIMS).map(|_| random.random_range(-1.0..1.0)).collect()
}

/// The columns of a turn in a session of twenty.
pub fn row(number: usize, text: &str, random: &mut StdRng) -> IndexRow {
    let speaker = SPEAKERS[number % SPEAKERS.len()];
    let event_us = NOW_US - HOUR_US * random.random_range(0..2_000);
    let terms = analyze(&index_text(event_us, Some(speaker), text, None));
    IndexRow {
        id: format!("memory-{number}"),
        importance: 0.5,
        strength_milli: 1_000,
        access_count: random.random_range(0..4),
        count: 1,
        created_us: event_us,
        event_us,
        last_access_us: event_us,
        question: is_short_question(text),
        speaker: Some(speaker.into()),
        session: Some(format!("session-{}", number / 20)),
        terms: terms.terms,
        terms_len: terms.len,
        vector: Some(Vector::quantise(&vector(random)).unwrap()),
        ..IndexRow::default()
    }
}

/// A space in memory, made when it is first asked for: several benchmarks look at the same one.
pub fn image(rows: usize) -> Arc<Image> {
    static IMAGES: Mutex<BTreeMap<usize, Arc<Image>>> = Mutex::new(BTreeMap::new());
    let mut images = IMAGES.lock().unwrap();
    Arc::clone(images.entry(rows).or_insert_with(|| Arc::new(make_image(rows))))
}

fn make_image(rows: usize) -> Image {
    let mut random = random();
    let mut image = Image::new();
    for number in 0..rows {
        let text = text(&mut random);
        image.put(number as u64 + 1, &row(number, &text, &mut random));
    }
    image
}
