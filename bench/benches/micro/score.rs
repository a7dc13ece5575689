//! The composite score of all rows, relevance being known.

use crate::{data, sizes};
use criterion::{BenchmarkId, Criterion, Throughput};
use holdfast_core::score::{Profile, Scorer, Statics};
use rand::Rng;
use std::hint::black_box;

pub fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("score");
    let mut random = data::random();
    for &size in sizes() {
        let rows: Vec<(f64, Statics)> = (0..size)
            .map(|_| {
                let statics = Statics {
                    last_access_micros: data::NOW_US - random.random_range(0..7_200_000_000_000),
                    adopted: random.random_range(0..10),
                    importance: random.random_range(0.0..1.0),
                    strength: random.random_range(0.1..5.0),
                };
                (random.random_range(0.0..1.0), statics)
            })
            .collect();
        group.throughput(Throughput::Elements(size as u64));
        for profile in [Profile::default(), Profile::Spaced] {
            let scorer = Scorer::new(profile, data::NOW_US);
            group.bench_with_input(BenchmarkId::new(profile.name(), size), &rows, |bencher, rows| {
                bencher.iter(|| {
                    let scores = rows.iter().map(|(relevance, row)| scorer.score_row(*relevance, row));
                    black_box(scores.fold(f64::MIN, f64::max))
                });
            });
        }
    }
    group.finish();
}
