use super::{BATCH_SIZES, Maker, STEP_SECONDS};
use prometheus::Histogram;
use std::time::Duration;

/// What applying committed entries takes. Every replica applies, so sums over nodes count each
/// command once for each replica.
#[derive(Clone)]
pub(crate) struct ApplyMetrics {
    seconds: Histogram,
    commands: Histogram,
    rows: Histogram,
}

impl ApplyMetrics {
    pub(super) fn new(maker: &Maker<'_>) -> prometheus::Result<Self> {
        Ok(Self {
            seconds: maker.histogram(
                "holdfast_apply_seconds",
                "Time to apply what was committed together, until readers see it.",
                &STEP_SECONDS,
            )?,
            commands: maker.histogram(
                "holdfast_apply_batch_commands",
                "Commands applied together.",
                &BATCH_SIZES,
            )?,
            rows: maker.histogram(
                "holdfast_apply_batch_rows",
                "Rows in one atomic write to the state.",
                &BATCH_SIZES,
            )?,
        })
    }

    /// Records that `commands` were applied together.
    pub(crate) fn applied(&self, commands: usize, took: Duration) {
        self.seconds.observe(took.as_secs_f64());
        self.commands.observe(commands as f64);
    }

    /// Records one atomic write.
    pub(crate) fn written(&self, rows: usize) {
        self.rows.observe(rows as f64);
    }
}
