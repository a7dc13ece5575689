//! The built-in embedding model, where its weights are on this machine.

use crate::data;
use criterion::{Criterion, Throughput};
use holdfast_models::{default_model_dir, open_builtin};
use std::hint::black_box;

/// Texts that are embedded together.
const BATCH: usize = 32;

pub fn benches(criterion: &mut Criterion) {
    let folder = default_model_dir().unwrap();
    let Some(model) = open_builtin(&folder).unwrap() else {
        eprintln!("embed: skipped, there is no model in {}; run scripts/fetch-model.sh", folder.display());
        return;
    };
    let mut random = data::random();
    let texts: Vec<String> = (0..BATCH).map(|_| data::text(&mut random)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut group = criterion.benchmark_group("embed");
    group.bench_function("question", |bencher| {
        bencher.iter(|| black_box(model.embed(&[black_box(data::QUESTION)]).unwrap()));
    });
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function("batch", |bencher| bencher.iter(|| black_box(model.embed(&texts).unwrap())));
    group.finish();
}
