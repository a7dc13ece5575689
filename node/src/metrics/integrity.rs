use super::Maker;
use prometheus::{IntCounter, IntCounterVec, IntGauge};

/// What a node finds when it compares its replicas with others, with their hash, and with the index.
#[derive(Clone)]
pub(crate) struct IntegrityMetrics {
    mismatches: IntCounterVec,
    rebuilds: IntCounterVec,
    scrubs: IntCounterVec,
    scrubbed_bytes: IntCounter,
    index_checks: IntCounterVec,
    pub(crate) quarantined: IntGauge,
    /// Age of the oldest scrub.
    pub(crate) scrub_age: IntGauge,
}

/// How a state was found not to be what it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// A replica of this node does not have the rows that it wrote.
    Rows,
    /// A replica of this node differs from the majority.
    Outvoted,
    /// A replica of another node differs from the majority.
    Other,
    /// Replicas differ, and no majority agrees.
    Undecided,
    /// A row cannot be read.
    Unreadable,
}

impl Mismatch {
    const ALL: [Self; 5] = [Self::Rows, Self::Outvoted, Self::Other, Self::Undecided, Self::Unreadable];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Outvoted => "outvoted",
            Self::Other => "other",
            Self::Undecided => "undecided",
            Self::Unreadable => "unreadable",
        }
    }
}

impl IntegrityMetrics {
    pub(super) fn new(maker: &Maker<'_>) -> prometheus::Result<Self> {
        let metrics = Self {
            mismatches: maker.counters(
                "holdfast_state_hash_mismatches_total",
                "States that were found to be wrong, by how: `rows` are not those that were written, \
                 `outvoted` a replica here differs from the majority, `other` one elsewhere does, \
                 `undecided` they differ and no majority agrees, `unreadable` rows cannot be read.",
                &["kind"],
            )?,
            rebuilds: maker.counters(
                "holdfast_replica_rebuilds_total",
                "Attempts to make a wrong replica anew, by how they ended: done, refused or failed.",
                &["result"],
            )?,
            scrubs: maker.counters(
                "holdfast_scrubs_total",
                "Replicas whose rows were read and compared with their hash, by result: equal, differs or failed.",
                &["result"],
            )?,
            scrubbed_bytes: maker.counter("holdfast_scrubbed_bytes_total", "Bytes of rows read for that.")?,
            index_checks: maker.counters(
                "holdfast_index_checks_total",
                "Images of active spaces that were compared with the stored rows, by result: equal, differs or failed.",
                &["result"],
            )?,
            quarantined: maker.gauge(
                "holdfast_quarantined_replicas",
                "Replicas of this node that answer no reads because their rows are not to be believed.",
            )?,
            scrub_age: maker.gauge(
                "holdfast_scrub_age_seconds",
                "Time since the rows of a replica were last compared with their hash, of the one where it is longest; since the start of the node where they never were.",
            )?,
        };
        for kind in Mismatch::ALL {
            metrics.mismatches.with_label_values(&[kind.as_str()]);
        }
        for result in ["equal", "differs", "failed"] {
            metrics.scrubs.with_label_values(&[result]);
            metrics.index_checks.with_label_values(&[result]);
        }
        for result in ["done", "refused", "failed"] {
            metrics.rebuilds.with_label_values(&[result]);
        }
        Ok(metrics)
    }

    pub(crate) fn mismatch(&self, kind: Mismatch) {
        self.mismatches.with_label_values(&[kind.as_str()]).inc();
    }

    pub(crate) fn rebuilt(&self, result: &'static str) {
        self.rebuilds.with_label_values(&[result]).inc();
    }

    pub(crate) fn scrubbed(&self, result: &'static str, bytes: u64) {
        self.scrubs.with_label_values(&[result]).inc();
        self.scrubbed_bytes.inc_by(bytes);
    }

    pub(crate) fn index_checked(&self, result: &'static str) {
        self.index_checks.with_label_values(&[result]).inc();
    }
}
