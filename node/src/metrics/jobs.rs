//! What jobs do in the groups that this node leads.

use super::{CALL_SECONDS, Maker};
use prometheus::{Histogram, IntCounterVec, IntGaugeVec};
use std::time::Duration;

const JOBS: [&str; 4] = ["summarise", "promote", "condense", "merge"];
const RESULTS: [&str; 2] = ["done", "stale"];
/// What may fail as a whole.
const FAILURES: [&str; 3] = ["session", "upkeep", "look"];
/// Why work is parked.
const PARKED: [&str; 3] = ["refused", "unreadable", "failing"];

/// See the module.
#[derive(Clone)]
pub(crate) struct JobMetrics {
    ended: IntCounterVec,
    seconds: Histogram,
    parked: IntGaugeVec,
    terms: IntCounterVec,
    near_duplicates: IntCounterVec,
}

impl JobMetrics {
    pub(super) fn new(maker: &Maker<'_>) -> prometheus::Result<Self> {
        let ended = maker.counters(
            "holdfast_jobs_total",
            "Steps of jobs in the groups that this node leads, by what they do and how they ended.",
            &["kind", "result"],
        )?;
        for (job, result) in JOBS.iter().flat_map(|job| RESULTS.iter().map(move |result| (job, result))) {
            ended.with_label_values(&[job, result]);
        }
        for job in FAILURES {
            ended.with_label_values(&[job, "failed"]);
        }
        let seconds = maker.histogram(
            "holdfast_job_seconds",
            "Time of one step of a job, from reading what it is based on until it is applied.",
            &CALL_SECONDS,
        )?;
        let parked = maker.gauges(
            "holdfast_jobs_parked",
            "Work of jobs in the groups that this node leads that cannot be done for now, by reason.",
            &["reason"],
        )?;
        for reason in PARKED {
            parked.with_label_values(&[reason]);
        }
        let terms = maker.counters(
            "holdfast_condensed_terms_total",
            "Amounts, dates, doses and names in turns that summaries took in, and those that summaries lost.",
            &["event"],
        )?;
        for event in ["entered", "lost"] {
            terms.with_label_values(&[event]);
        }
        let near_duplicates = maker.counters(
            "holdfast_near_duplicates_total",
            "New memories that were compared with older ones, those that were merged into one that says the same, and \
             those that had changed by then.",
            &["event"],
        )?;
        for event in ["compared", "merged", "changed"] {
            near_duplicates.with_label_values(&[event]);
        }
        Ok(Self { ended, seconds, parked, terms, near_duplicates })
    }

    pub(crate) fn done(&self, job: &str, took: Duration) {
        self.ended.with_label_values(&[job, "done"]).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn stale(&self, job: &str) {
        self.ended.with_label_values(&[job, "stale"]).inc();
    }

    pub(crate) fn failed(&self, job: &str) {
        self.ended.with_label_values(&[job, "failed"]).inc();
    }

    /// Counts what a step of a summary took in of protected terms, and what it lost of all.
    pub(crate) fn summarised(&self, entered: usize, lost: usize) {
        self.terms.with_label_values(&["entered"]).inc_by(entered as u64);
        self.terms.with_label_values(&["lost"]).inc_by(lost as u64);
    }

    /// Counts what a step of the search for near-duplicates came to.
    pub(crate) fn near_duplicates(&self, compared: usize, merged: usize, changed: usize) {
        for (event, count) in [("compared", compared), ("merged", merged), ("changed", changed)] {
            self.near_duplicates.with_label_values(&[event]).inc_by(count as u64);
        }
    }

    /// Shows how much work is parked for each reason.
    pub(crate) fn parked(&self, count: impl Fn(&str) -> usize) {
        for reason in PARKED {
            self.parked.with_label_values(&[reason]).set(i64::try_from(count(reason)).unwrap_or(i64::MAX));
        }
    }
}
