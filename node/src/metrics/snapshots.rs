use super::Maker;
use crate::shard::BuildError;
use prometheus::{Histogram, IntCounter, IntCounterVec};
use std::time::Duration;

/// Upper bounds for the time of one build, in seconds.
const BUILD_SECONDS: [f64; 10] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 600.0];

/// The snapshot files that a node writes.
#[derive(Clone)]
pub(crate) struct SnapshotMetrics {
    builds: IntCounterVec,
    seconds: Histogram,
    bytes: IntCounter,
}

impl SnapshotMetrics {
    pub(super) fn new(maker: &Maker<'_>) -> prometheus::Result<Self> {
        let builds = maker.counters(
            "holdfast_snapshot_builds_total",
            "Snapshot files begun, by what became of them.",
            &["result"],
        )?;
        for result in ["written", "given_up", "failed"] {
            builds.with_label_values(&[result]);
        }
        Ok(Self {
            builds,
            seconds: maker.histogram(
                "holdfast_snapshot_build_seconds",
                "Time to write, verify and name one snapshot file.",
                &BUILD_SECONDS,
            )?,
            bytes: maker.counter(
                "holdfast_snapshot_written_bytes_total",
                "Bytes of the snapshot files that were written.",
            )?,
        })
    }

    pub(crate) fn built(&self, took: Duration, bytes: u64) {
        self.builds.with_label_values(&["written"]).inc();
        self.seconds.observe(took.as_secs_f64());
        self.bytes.inc_by(bytes);
    }

    pub(crate) fn failed(&self, error: &BuildError) {
        let result = match error {
            BuildError::GivenUp(_) | BuildError::NotNow(_) => "given_up",
            BuildError::File(_) | BuildError::State(_) => "failed",
        };
        self.builds.with_label_values(&[result]).inc();
    }
}
