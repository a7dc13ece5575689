//! A whole recall over a space in memory: every row compared, matched, scored and ranked.

use crate::{data, sizes};
use criterion::{BenchmarkId, Criterion, Throughput};
use holdfast_core::text::analyze_query;
use holdfast_node::index::{Query, RelevanceMode};
use std::hint::black_box;

pub fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scan");
    let terms = analyze_query(data::QUESTION).terms;
    let vector = data::vector(&mut data::random());
    for &size in sizes() {
        group.throughput(Throughput::Elements(size as u64));
        for (name, relevance) in [("fused", RelevanceMode::Fused), ("vector", RelevanceMode::Vector)] {
            let query = Query {
                text: data::QUESTION,
                terms: &terms,
                vector: Some(&vector),
                relevance,
                now_us: data::NOW_US,
                log_now_us: data::NOW_US,
                ..Query::default()
            };
            group.bench_function(BenchmarkId::new(name, size), |bencher| {
                let image = data::image(size);
                assert_eq!(image.search(&query).unwrap().hits.len(), 10, "there is something to find");
                bencher.iter(|| black_box(image.search(&query).unwrap()));
            });
        }
    }
    group.finish();
}
