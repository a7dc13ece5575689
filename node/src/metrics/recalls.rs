use super::{CALL_SECONDS, Maker, STEP_SECONDS};
use prometheus::{Histogram, HistogramVec, IntCounter};
use std::time::Instant;

/// The parts of a recall, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Until the replica may answer and a thread is free.
    Wait,
    /// Getting the image of the space, which a first recall builds from its rows.
    Load,
    /// Scoring.
    Scan,
    /// Reading the texts of the answers.
    Show,
}

/// What recalls take.
#[derive(Clone)]
pub(crate) struct RecallMetrics {
    /// By [`Step`].
    steps: [Histogram; 4],
    seconds: HistogramVec,
    rows: IntCounter,
}

impl RecallMetrics {
    pub(super) fn new(maker: &Maker<'_>) -> prometheus::Result<Self> {
        let steps = maker.histograms(
            "holdfast_recall_step_seconds",
            "Time of the steps of a recall: `wait` for the replica and a thread, `load` the space, `scan` it, `show` the answers.",
            &STEP_SECONDS,
            "step",
        )?;
        Ok(Self {
            steps: ["wait", "load", "scan", "show"].map(|step| steps.with_label_values(&[step])),
            seconds: maker.histograms(
                "holdfast_recall_seconds",
                "Time of a whole recall on this node, by the index that answered.",
                &CALL_SECONDS,
                "index",
            )?,
            rows: maker.counter("holdfast_recall_scored_rows_total", "Rows that recalls scored.")?,
        })
    }

    /// Records a step that began at `since`.
    pub(crate) fn step(&self, step: Step, since: Instant) {
        self.steps[step as usize].observe(since.elapsed().as_secs_f64());
    }

    /// Records a recall that began at `since` and scored `rows`.
    pub(crate) fn answered(&self, index: &'static str, rows: u64, since: Instant) {
        self.seconds.with_label_values(&[index]).observe(since.elapsed().as_secs_f64());
        self.rows.inc_by(rows);
    }
}
