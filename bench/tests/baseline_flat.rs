//! The flat arm stays near the published baseline on seeds that its parameters were not fixed on.
//!
//! Needs the embedding model: run `scripts/fetch-model.sh` first. Without it the test says that it
//! was skipped, or fails if `HOLDFAST_REQUIRE_MODEL=1`.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use holdfast_bench::baseline::flat;
use holdfast_bench::baseline::params::Parameters;
use holdfast_bench::baseline::result::Arm;
use holdfast_bench::baseline::texts::Phrasings;
use holdfast_bench::baseline::workload::Workload;
use holdfast_models::{Embedder, default_model_dir, open_builtin};

fn model() -> Option<Arc<dyn Embedder>> {
    let folder = default_model_dir().unwrap();
    let model = open_builtin(&folder).unwrap();
    if model.is_none() {
        let required = std::env::var("HOLDFAST_REQUIRE_MODEL").is_ok_and(|value| value == "1");
        assert!(!required, "no model in {}, but HOLDFAST_REQUIRE_MODEL=1", folder.display());
        eprintln!("SKIPPED: no model in {}; run scripts/fetch-model.sh", folder.display());
    }
    model
}

#[test]
fn flat_is_within_fifteen_percent_of_the_published_baseline() {
    let Some(model) = model() else { return };
    let parameters = Parameters::FIXED;
    for (seed, phrasings) in [(4, Phrasings::Train), (5, Phrasings::HeldOut), (6, Phrasings::All)] {
        let workload = Workload::generate(seed, 10, phrasings, &parameters).unwrap();
        let run = flat::run(&workload, model.as_ref(), parameters.flat_k, &[]).unwrap();
        let arm = Arm::new(&run.tally, run.ingest_s);
        let off = arm.off_the_published();
        assert!(off.is_empty(), "seed {seed}, {} phrasings: {off:?}", phrasings.name());
        assert_eq!(arm.leaks, 0);
        // Both languages and every kind of question take part.
        assert_eq!(arm.groups.len(), 5, "{:?}", arm.groups);
        assert!(arm.groups.values().all(|group| group.questions > 50), "{:?}", arm.groups);
    }
}
