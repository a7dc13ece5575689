//! Micro-benchmarks of the parts that a recall and a write are made of:
//! `cargo bench -p holdfast-bench`, with `-- scan` for some of them alone.
//!
//! `cargo test --bench micro` runs each of them once, on small spaces: that they work is tested,
//! what they measure is not.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod apply;
mod data;
mod embed;
mod log;
mod scan;
mod score;
mod words;

use criterion::{Criterion, criterion_group, criterion_main};
use std::time::Duration;

/// Rows of the spaces that are searched: of all sizes where something is measured, the smallest where
/// it is only tried (`cargo bench` passes `--bench`, `cargo test` does not).
fn sizes() -> &'static [usize] {
    const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
    let is_measured = std::env::args().any(|argument| argument == "--bench");
    if is_measured { &SIZES } else { &SIZES[..1] }
}

fn criterion() -> Criterion {
    Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3))
}

criterion_group! {
    name = micro;
    config = criterion();
    targets = score::benches, scan::benches, words::benches, embed::benches, apply::benches, log::benches
}
criterion_main!(micro);
