//! Latencies and errors of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::{Machine, Plan};

/// Largest latency told apart, in microseconds (ten minutes); longer ones count as this.
const LATENCY_US_MAX: u64 = 600_000_000;

/// Distinct error codes kept; further ones count as `other`.
const CODES_MAX: usize = 64;

/// What one client saw of one kind of operation.
#[derive(Debug, Clone)]
struct Recorded {
    latency_us: Histogram<u64>,
    errors: BTreeMap<String, u64>,
}

/// What one client saw; merged at the end, so that clients share nothing while they measure.
#[derive(Debug, Clone, Default)]
pub(super) struct Recorder {
    kinds: BTreeMap<&'static str, Recorded>,
    /// When the last counted operation ended, from the start of the run.
    pub(super) last_end: Duration,
}

impl Recorder {
    /// Counts one operation of the measurement.
    pub(super) fn record(
        &mut self,
        kind: &'static str,
        latency: Duration,
        result: Result<(), String>,
    ) -> Result<()> {
        let recorded = self.kind(kind)?;
        match result {
            Ok(()) => {
                let us = u64::try_from(latency.as_micros()).unwrap_or(LATENCY_US_MAX);
                recorded.latency_us.saturating_record(us.max(1));
            }
            Err(code) => count_error(&mut recorded.errors, code, 1),
        }
        Ok(())
    }

    fn kind(&mut self, kind: &'static str) -> Result<&mut Recorded> {
        if !self.kinds.contains_key(kind) {
            let recorded = Recorded {
                latency_us: Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)?,
                errors: BTreeMap::new(),
            };
            self.kinds.insert(kind, recorded);
        }
        self.kinds.get_mut(kind).ok_or_else(|| anyhow::anyhow!("{kind} was just inserted"))
    }

    pub(super) fn merge(&mut self, other: Self) -> Result<()> {
        self.last_end = self.last_end.max(other.last_end);
        for (kind, theirs) in other.kinds {
            let ours = self.kind(kind)?;
            ours.latency_us.add(&theirs.latency_us)?;
            for (code, count) in theirs.errors {
                count_error(&mut ours.errors, code, count);
            }
        }
        Ok(())
    }

    /// The figures of every kind; `window` is the time in which they were completed.
    pub(super) fn results(&self, window: Duration) -> BTreeMap<String, OperationResult> {
        let result = |recorded: &Recorded| {
            let latency = &recorded.latency_us;
            OperationResult {
                completed: latency.len(),
                failed: recorded.errors.values().sum(),
                achieved_per_s: latency.len() as f64 / window.as_secs_f64().max(1e-6),
                latency_us: Percentiles {
                    mean: latency.mean(),
                    p50: latency.value_at_quantile(0.5),
                    p90: latency.value_at_quantile(0.9),
                    p99: latency.value_at_quantile(0.99),
                    p999: latency.value_at_quantile(0.999),
                    max: latency.max(),
                },
                errors: recorded.errors.clone(),
            }
        };
        self.kinds.iter().map(|(kind, recorded)| ((*kind).to_owned(), result(recorded))).collect()
    }
}

fn count_error(errors: &mut BTreeMap<String, u64>, code: String, count: u64) {
    let known = errors.contains_key(&code) || errors.len() < CODES_MAX;
    let code = if known { code } else { "other".to_owned() };
    *errors.entry(code).or_insert(0) += count;
}

/// Latencies in microseconds, from the intended start to the whole answer; answered ones only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90%.
    pub p90: u64,
    /// 99%.
    pub p99: u64,
    /// 99.9%.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

/// The figures of one kind of operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OperationResult {
    /// Operations answered well.
    pub completed: u64,
    /// Operations that failed, by any error.
    pub failed: u64,
    /// Completed operations per second.
    pub achieved_per_s: f64,
    /// Latencies of the completed ones.
    pub latency_us: Percentiles,
    /// Failed operations by error code.
    pub errors: BTreeMap<String, u64>,
}

/// The result of a run, as written by `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadResult {
    /// What load was to be applied.
    pub plan: Plan,
    /// Completed operations of all kinds per second.
    pub achieved_per_s: f64,
    /// What the plan asked for; absent in a closed loop.
    pub intended_per_s: Option<f64>,
    /// Operations whose turn never came: the queue was full or the run over. Not zero means
    /// that the server cannot sustain the rate and the latencies are too good.
    pub not_sent: u64,
    /// Sent, but without an answer when the run was broken off.
    pub unfinished: u64,
    /// Figures by kind of operation.
    pub operations: BTreeMap<String, OperationResult>,
    /// Where the runner ran.
    pub machine: Machine,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn percentiles_come_from_all_clients() {
        let mut one = Recorder::default();
        let mut two = Recorder::default();
        for ms in 1..=500 {
            one.record("recall", Duration::from_millis(ms), Ok(())).unwrap();
            two.record("recall", Duration::from_millis(500 + ms), Ok(())).unwrap();
        }
        two.record("write", Duration::from_nanos(1), Ok(())).unwrap();
        two.record("write", Duration::ZERO, Err("overloaded".to_owned())).unwrap();
        one.merge(two).unwrap();
        let results = one.results(Duration::from_secs(10));
        let recall = &results["recall"];
        assert_eq!((recall.completed, recall.failed), (1000, 0));
        assert_eq!(recall.achieved_per_s, 100.0);
        let near = |value: u64, us: u64| value.abs_diff(us) * 1000 <= us * 2;
        assert!(near(recall.latency_us.p50, 500_000), "{:?}", recall.latency_us);
        assert!(near(recall.latency_us.p99, 990_000), "{:?}", recall.latency_us);
        assert!(near(recall.latency_us.max, 1_000_000));
        let write = &results["write"];
        assert_eq!((write.completed, write.failed), (1, 1));
        assert_eq!(write.errors["overloaded"], 1);
        assert_eq!(write.latency_us.max, 1);
    }

    #[test]
    fn extreme_latencies_and_many_codes_stay_bounded() {
        let mut recorder = Recorder::default();
        recorder.record("x", Duration::MAX, Ok(())).unwrap();
        for n in 0..1000 {
            recorder.record("x", Duration::ZERO, Err(format!("code {n}"))).unwrap();
        }
        let result = &recorder.results(Duration::ZERO)["x"];
        assert!(result.latency_us.max >= LATENCY_US_MAX);
        assert_eq!(result.errors.len(), CODES_MAX + 1);
        assert_eq!(result.failed, 1000);
        assert!(result.achieved_per_s.is_finite());
    }
}
