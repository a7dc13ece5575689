//! Words: text to terms, and BM25 over a space in memory.

use crate::{data, sizes};
use criterion::{BenchmarkId, Criterion, Throughput};
use holdfast_core::text::{analyze, analyze_query};
use holdfast_node::index::{Query, RelevanceMode};
use std::hint::black_box;

pub fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("analyze");
    let text = data::text(&mut data::random());
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("turn", |bencher| bencher.iter(|| black_box(analyze(black_box(&text)))));
    let long = [text.as_str(); 100].join(" ");
    group.throughput(Throughput::Bytes(long.len() as u64));
    group.bench_function("page", |bencher| bencher.iter(|| black_box(analyze(black_box(&long)))));
    group.finish();

    let mut group = criterion.benchmark_group("bm25");
    let terms = analyze_query(data::QUESTION).terms;
    for &size in sizes() {
        let query = Query {
            text: data::QUESTION,
            terms: &terms,
            relevance: RelevanceMode::Keyword,
            now_us: data::NOW_US,
            log_now_us: data::NOW_US,
            ..Query::default()
        };
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(BenchmarkId::new("keyword", size), |bencher| {
            let image = data::image(size);
            assert_eq!(image.search(&query).unwrap().hits.len(), 10, "there is something to find");
            bencher.iter(|| black_box(image.search(&query).unwrap()));
        });
    }
    group.finish();
}
