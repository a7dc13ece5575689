//! The checks of one node's replicas: what is due, what somebody waits for, what came of the last.

use super::settings::IntegritySettings;
use crate::raft::GroupId;
use crate::shard::{Progress, ShardState};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The pause before a check that failed is tried again; it doubles.
const RETRY_MIN: Duration = Duration::from_secs(10);
const RETRY_MAX: Duration = Duration::from_mins(30);
/// Differences of an index that an answer names.
pub(super) const NAMED_MAX: usize = 8;

/// How a check ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Equal,
    /// What differs.
    Differs(String),
    /// Why it could not be done.
    Failed(String),
}

/// How far a check has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    Waiting,
    Running { done: u64, total: u64 },
    Ended { outcome: Outcome, index: u64, done: u64 },
}

/// Which images of a shard's spaces are compared with the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extent {
    /// Those that are in memory.
    Live,
    /// All of them, one after the other; those that are not in memory are loaded for it.
    All,
}

/// What a thread of the node has to do next.
pub(super) enum Job {
    Rows(GroupId, Arc<ShardState>, Arc<Progress>),
    Index(GroupId, Arc<ShardState>, Arc<Progress>, Extent),
}

/// A check that has ended.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    /// The log index to which it applies, and what was read: rows or spaces.
    pub(super) index: u64,
    pub(super) done: u64,
    /// Bytes of rows.
    pub(super) bytes: u64,
}

#[derive(Default)]
struct Check {
    /// Somebody waits for a result at this log index or later.
    wanted: Option<u64>,
    running: Option<Arc<Progress>>,
    last: Option<(Ended, Instant)>,
    /// The state that the last one, or the one under way, is about.
    replacements: u64,
    failures: u32,
    not_before: Option<Instant>,
}

struct Group {
    state: Arc<ShardState>,
    rows: Check,
    index: BTreeMap<Extent, Check>,
}

/// The book of checks, shared by those who ask, the threads that check, and the guard.
pub(crate) struct Checks {
    groups: Mutex<BTreeMap<GroupId, Group>>,
    changed: Condvar,
    started: Instant,
    stopped: AtomicBool,
}

impl Check {
    fn standing(&mut self, from: u64, total: u64) -> Standing {
        if let Some((ended, _)) = &self.last
            && ended.index >= from
        {
            let Ended { outcome, index, done, .. } = ended.clone();
            return Standing::Ended { outcome, index, done };
        }
        self.wanted = Some(self.wanted.unwrap_or(0).max(from));
        match &self.running {
            Some(progress) => Standing::Running { done: progress.rows.load(Ordering::Relaxed), total },
            None => Standing::Waiting,
        }
    }

    fn begin(&mut self, state: &ShardState) -> Arc<Progress> {
        self.replacements = state.replacements();
        state.clear_doubt();
        Arc::clone(self.running.insert(Arc::default()))
    }

    fn end(&mut self, ended: Ended, now: Instant) {
        self.running = None;
        match &ended.outcome {
            Outcome::Failed(_) => {
                let pause = RETRY_MIN.saturating_mul(1 << self.failures.min(16)).min(RETRY_MAX);
                self.not_before = Some(now + pause);
                self.failures += 1;
                // Whoever waits is told; what was known before is kept for the others.
                if self.wanted.is_some_and(|wanted| ended.index >= wanted) || self.last.is_none() {
                    self.last = Some((ended, now));
                }
            }
            Outcome::Equal | Outcome::Differs(_) => {
                self.failures = 0;
                self.not_before = None;
                self.last = Some((ended, now));
            }
        }
        if let (Some(wanted), Some((ended, _))) = (self.wanted, &self.last)
            && ended.index >= wanted
        {
            self.wanted = None;
        }
    }
}

impl Checks {
    pub(crate) fn new(states: BTreeMap<GroupId, Arc<ShardState>>) -> Self {
        let group = |(id, state)| (id, Group { state, rows: Check::default(), index: BTreeMap::new() });
        Self {
            groups: Mutex::new(states.into_iter().map(group).collect()),
            changed: Condvar::new(),
            started: Instant::now(),
            stopped: AtomicBool::new(false),
        }
    }

    /// How far the comparison of a group's rows with their hash is, of a state at `from` or later. It
    /// is begun if it was not.
    pub(crate) fn rows(&self, group: GroupId, from: u64) -> Option<Standing> {
        let mut groups = self.groups.lock();
        let group = groups.get_mut(&group)?;
        let standing = group.rows.standing(from, group.state.rows());
        self.changed.notify_all();
        Some(standing)
    }

    /// As [`Checks::rows`], for the images of its spaces.
    pub(crate) fn index(&self, group: GroupId, from: u64, extent: Extent) -> Option<Standing> {
        let mut groups = self.groups.lock();
        let group = groups.get_mut(&group)?;
        let standing = group.index.entry(extent).or_default().standing(from, 0);
        self.changed.notify_all();
        Some(standing)
    }

    /// Whether somebody waits for a check: whatever runs then hurries.
    pub(super) fn is_awaited(&self) -> bool {
        let groups = self.groups.lock();
        groups.values().any(|group| {
            group.rows.wanted.is_some() || group.index.values().any(|check| check.wanted.is_some())
        })
    }

    /// Ends every check, and the threads.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        let groups = self.groups.lock();
        for group in groups.values() {
            for check in std::iter::once(&group.rows).chain(group.index.values()) {
                if let Some(progress) = &check.running {
                    progress.stop.store(true, Ordering::Relaxed);
                }
            }
        }
        self.changed.notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Waits for the next comparison of rows: what somebody waits for, else a state that is new since
    /// the last one, else the one that was not read for the longest time, once it is due.
    pub(super) fn next_rows(&self, settings: &IntegritySettings) -> Option<Job> {
        self.wait(|groups| {
            let now = Instant::now();
            // Half of the time, so that all of them are read within the whole of it.
            let due = settings.scrub_every / 2;
            let rank = |group: &Group| {
                let check = &group.rows;
                let is_new = check.last.is_none()
                    || check.replacements != group.state.replacements()
                    || group.state.is_doubted();
                let age = check.last.as_ref().map_or(Duration::MAX, |(_, at)| now.duration_since(*at));
                let may = check.not_before.is_none_or(|at| at <= now) && group.state.visible().is_some();
                match (check.wanted.is_some(), is_new) {
                    (true, _) => Some((3, age)),
                    (false, true) if may => Some((2, age)),
                    (false, false) if may && age >= due => Some((1, age)),
                    _ => None,
                }
            };
            let ranked = groups.iter().filter_map(|(id, group)| Some((rank(group)?, *id)));
            let (_, id) = ranked.max()?;
            let group = groups.get_mut(&id)?;
            let progress = group.rows.begin(&group.state);
            Some(Job::Rows(id, Arc::clone(&group.state), progress))
        })
    }

    /// Waits for the next comparison of images that somebody waits for; `None` at once if nobody does.
    pub(super) fn next_index(&self) -> Option<Job> {
        let mut groups = self.groups.lock();
        for (id, group) in groups.iter_mut() {
            for (extent, check) in &mut group.index {
                if check.wanted.is_some() {
                    let progress = check.begin(&group.state);
                    return Some(Job::Index(*id, Arc::clone(&group.state), progress, *extent));
                }
            }
        }
        None
    }

    /// Sleeps for `pause`, less if something changes.
    pub(super) fn rest(&self, pause: Duration) {
        let mut groups = self.groups.lock();
        if !self.is_stopped() {
            self.changed.wait_for(&mut groups, pause);
        }
    }

    pub(super) fn rows_ended(&self, group: GroupId, ended: Ended) {
        if let Some(group) = self.groups.lock().get_mut(&group) {
            group.rows.end(ended, Instant::now());
        }
    }

    pub(super) fn index_ended(&self, group: GroupId, extent: Extent, ended: Ended) {
        if let Some(group) = self.groups.lock().get_mut(&group) {
            group.index.entry(extent).or_default().end(ended, Instant::now());
        }
    }

    /// The time since the rows of a replica were last compared, of the one where it is longest.
    pub(super) fn oldest(&self) -> Duration {
        let groups = self.groups.lock();
        let age = |group: &Group| group.rows.last.as_ref().map_or(self.started, |(_, at)| *at).elapsed();
        groups.values().filter(|group| group.state.visible().is_some()).map(age).max().unwrap_or_default()
    }

    /// Bytes of all states on disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        let groups = self.groups.lock();
        groups.values().map(|group| group.state.disk_bytes().unwrap_or(0)).sum()
    }

    /// All states, by group.
    pub(super) fn states(&self) -> Vec<(GroupId, Arc<ShardState>)> {
        self.groups.lock().iter().map(|(id, group)| (*id, Arc::clone(&group.state))).collect()
    }

    fn wait(&self, mut next: impl FnMut(&mut BTreeMap<GroupId, Group>) -> Option<Job>) -> Option<Job> {
        /// States become due by time alone.
        const LOOK_EVERY: Duration = Duration::from_secs(1);
        let mut groups = self.groups.lock();
        loop {
            if self.is_stopped() {
                return None;
            }
            if let Some(job) = next(&mut groups) {
                return Some(job);
            }
            self.changed.wait_for(&mut groups, LOOK_EVERY);
        }
    }
}
