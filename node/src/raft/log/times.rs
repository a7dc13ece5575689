//! How long things of the log take: syncs, and commits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Upper bounds of [`TimeCounts::counts`], in microseconds.
pub const TIME_BOUNDS_US: [u64; 13] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000];

/// Appends of one group that may wait for their commit; of more the latest are not timed.
const WAITING_MAX: usize = 1_024;

/// How often something was done, by the time that it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeCounts {
    /// One count for each of [`TIME_BOUNDS_US`], and the slower ones.
    pub counts: [u64; TIME_BOUNDS_US.len() + 1],
    /// The time of all together.
    pub total: Duration,
}

/// [`TimeCounts`] that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct Times {
    counts: [AtomicU64; TIME_BOUNDS_US.len() + 1],
    total_us: AtomicU64,
}

impl Times {
    pub(crate) fn add(&self, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = TIME_BOUNDS_US.partition_point(|bound_us| *bound_us < took_us);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.total_us.fetch_add(took_us, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> TimeCounts {
        TimeCounts {
            counts: std::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed)),
            total: Duration::from_micros(self.total_us.load(Ordering::Relaxed)),
        }
    }
}

/// Times the commits of what this node appends as leader of one group.
pub(crate) struct CommitTimes {
    times: Arc<Times>,
    /// Last index and time of each append whose commit is not known, oldest first.
    waiting: Mutex<VecDeque<(u64, Instant)>>,
}

impl CommitTimes {
    pub(crate) fn new(times: Arc<Times>) -> Self {
        Self { times, waiting: Mutex::default() }
    }

    /// This node appends entries of its own up to `last`.
    pub(crate) fn appended(&self, last: u64) {
        let mut waiting = self.waiting.lock();
        if waiting.len() < WAITING_MAX {
            waiting.push_back((last, Instant::now()));
        }
    }

    /// Entries of another leader come, or what was appended goes: its time would tell nothing.
    pub(crate) fn forget(&self) {
        self.waiting.lock().clear();
    }

    /// A majority has the entries up to `index` on disk.
    pub(crate) fn committed(&self, index: u64) {
        let mut waiting = self.waiting.lock();
        while let Some((_, since)) = waiting.pop_front_if(|(last, _)| *last <= index) {
            self.times.add(since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(times: &Times) -> u64 {
        times.read().counts.iter().sum()
    }

    #[test]
    fn each_append_is_timed_once_when_its_last_entry_is_committed() {
        let times = Arc::new(Times::default());
        let commits = CommitTimes::new(Arc::clone(&times));
        commits.appended(3);
        commits.appended(5);
        commits.committed(2);
        assert_eq!(timed(&times), 0);
        commits.committed(4);
        commits.committed(4);
        assert_eq!(timed(&times), 1);
        commits.committed(9);
        assert_eq!(timed(&times), 2);
        commits.appended(12);
        commits.forget();
        commits.committed(20);
        assert_eq!(timed(&times), 2);
    }

    #[test]
    fn what_waits_is_bounded() {
        let commits = CommitTimes::new(Arc::default());
        (0..5_000).for_each(|index| commits.appended(index));
        assert_eq!(commits.waiting.lock().len(), WAITING_MAX);
    }
}
