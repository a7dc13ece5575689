//! A search that passes over blocks of rows answers what one does that looks at every row: one that explains does.

use super::graphs::{placed, vector};
use super::*;
use holdfast_core::filter::Filter;
use holdfast_core::memory::Status;
use holdfast_core::score::Profile;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

const ROWS: u64 = 2_500;

/// Rows of which some went, some are of no use to most queries, and some changed.
fn image(seed: u64) -> Image {
    let mut random = StdRng::seed_from_u64(seed);
    let mut image = Image::new();
    let row = |seq: u64, random: &mut StdRng| {
        let base = placed(seq);
        let us = |random: &mut StdRng| HOUR_US * random.random_range(-500..500);
        let rare = |random: &mut StdRng| random.random_bool(0.01);
        IndexRow {
            // Whole blocks without what is special, and others.
            older: (seq / 200).is_multiple_of(2) && base.older,
            expires_us: rare(random).then(|| us(random)),
            valid_to_us: rare(random).then(|| us(random)),
            valid_from_us: rare(random).then(|| us(random)),
            status: if rare(random) { Status::Deprecated } else { Status::Active },
            vector: base.vector.filter(|_| seq / 300 != 3 && !rare(random)),
            importance: [0.1, 0.5, 0.9, 1.0, f32::NAN]
                [random.random_range(0..5usize).min(if rare(random) { 4 } else { 2 })],
            role: rare(random).then(|| "user".to_owned()),
            ..base
        }
    };
    for seq in 1..=ROWS {
        image.put(seq, &row(seq, &mut random));
    }
    for _ in 0..300 {
        let seq = random.random_range(1..=ROWS);
        match random.random_range(0..3) {
            0 => image.remove(seq),
            1 => image
                .put(seq, &IndexRow { last_access_us: HOUR_US, access_count: 9, ..row(seq, &mut random) }),
            _ => image.put(seq, &row(seq, &mut random)),
        }
    }
    assert_eq!(image.columns.broken_blocks().count(), 0);
    image
}

fn hits(hits: &[Hit]) -> Vec<(u64, u64)> {
    hits.iter().map(|hit| (hit.seq, hit.score.to_bits())).collect()
}

#[test]
fn what_is_passed_over_would_not_have_been_answered() {
    let filters = [json!({"metadata.n": {"$lt": 30}}), json!({"metadata.n": 7}), json!({"session": "s9"})];
    let filters = filters.map(|filter| Filter::parse(&filter).unwrap());
    let texts = ["red bicycle", "I lost my bicycle", "nothing of that", ""];
    for seed in 0..3 {
        let image = image(seed);
        for number in 0..120u64 {
            let vector = vector(20_000 + number);
            let text = texts[number as usize % texts.len()];
            let terms = holdfast_core::text::analyze_query(text).terms;
            let query = Query {
                text,
                terms: &terms,
                vector: (number % 9 != 0).then_some(&vector),
                relevance: [RelevanceMode::Fused, RelevanceMode::Vector, RelevanceMode::Keyword]
                    [number as usize % 3],
                profile: Profile::ALL[number as usize % Profile::ALL.len()],
                filter: filters.get(number as usize % 7),
                include_deprecated: number % 8 == 0,
                conflicts: [Conflicts::Latest, Conflicts::Mark, Conflicts::All][number as usize / 5 % 3],
                min_score: (number % 10 == 0).then_some(0.6),
                top_k: [1, 10, 40][number as usize / 3 % 3],
                intent: (number % 13 == 0).then_some(Preference {
                    intent: holdfast_core::intent::Intent::Experiential,
                    guessed: true,
                }),
                beside: Beside {
                    constraints: [0, 5][number as usize / 2 % 2],
                    stating: [0, 4][number as usize / 4 % 2],
                },
                ..Query::default()
            };
            let passing_over = image.search(&query).unwrap();
            let whole = image.search(&Query { explain: true, ..query }).unwrap();
            assert_eq!(hits(&passing_over.hits), hits(&whole.hits), "{seed} {number}");
            assert_eq!(hits(&passing_over.constraints), hits(&whole.constraints), "{seed} {number}");
            assert_eq!(hits(&passing_over.stating), hits(&whole.stating), "{seed} {number}");
            assert_eq!(passing_over.constraints_total, whole.constraints_total);
            assert_eq!((passing_over.scored, passing_over.exact), (whole.scored, true));
        }
    }
}
