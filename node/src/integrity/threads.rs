//! The two threads that read: one the rows of states, one the images of spaces. Slowly, unless an
//! operator waits.

use super::checks::{Checks, Ended, Extent, Job, NAMED_MAX, Outcome};
use super::settings::IntegritySettings;
use crate::index::{LoadError, Report};
use crate::metrics::IntegrityMetrics;
use crate::raft::GroupId;
use crate::shard::{BuildError, BuildLimits, Progress, Scrubbed, ShardState};
use holdfast_core::keys;
use holdfast_core::space::SpaceKey;
use holdfast_core::state::StateError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The niceness of the threads: see `snapshot::scheduler`.
const NICENESS: i32 = 10;
/// Memory for values that are changed ahead of the reader.
const KEPT_BYTES: usize = 64 << 20;
/// How long one reading of a state may take.
const SCRUB_TIME: Duration = Duration::from_hours(12);
/// Readings that were outrun by writes are repeated so often, each four times as fast.
const OUTRUN_MAX: u32 = 4;
/// The pause between two images.
const IMAGE_PAUSE: Duration = Duration::from_millis(500);
/// How long the load of a space may take.
const LOAD_TIME: Duration = Duration::from_mins(1);

/// Told of a state whose rows are not those that were written.
pub(super) type OnDamage = Arc<dyn Fn(GroupId, u64, String) + Send + Sync>;

/// What the threads work with.
#[derive(Clone)]
pub(super) struct Worker {
    pub(super) checks: Arc<Checks>,
    pub(super) settings: IntegritySettings,
    pub(super) metrics: IntegrityMetrics,
    pub(super) on_damage: OnDamage,
}

/// Spreads work over time.
struct Pace {
    per_second: u64,
    free_at: Instant,
}

impl Pace {
    fn new(per_second: u64) -> Self {
        Self { per_second: per_second.max(1), free_at: Instant::now() }
    }

    /// How long to wait after so much work.
    fn after(&mut self, amount: usize, now: Instant) -> Duration {
        let takes = Duration::from_secs_f64(amount as f64 / self.per_second as f64);
        self.free_at = self.free_at.max(now) + takes;
        self.free_at.saturating_duration_since(now)
    }
}

impl Worker {
    /// Starts both threads.
    pub(super) fn start(self) -> std::io::Result<Vec<JoinHandle<()>>> {
        let spawn = |name: &str, body: fn(&Self)| {
            let worker = self.clone();
            std::thread::Builder::new().name(name.into()).spawn(move || {
                if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
                    tracing::debug!(%error, "a checking thread keeps its priority");
                }
                body(&worker);
            })
        };
        let rows = spawn("scrub", Self::scrub_states)?;
        match spawn("index-check", Self::check_images) {
            Ok(index) => Ok(vec![rows, index]),
            Err(error) => {
                self.checks.stop();
                Err(error)
            }
        }
    }

    fn scrub_states(&self) {
        while let Some(job) = self.checks.next_rows(&self.settings) {
            let Job::Rows(group, state, progress) = job else { continue };
            let ended = self.scrub(group, &state, &progress);
            let result = match &ended.outcome {
                Outcome::Equal => "equal",
                Outcome::Differs(_) => "differs",
                Outcome::Failed(_) => "failed",
            };
            self.metrics.scrubbed(result, ended.bytes);
            match &ended.outcome {
                Outcome::Equal => {
                    tracing::debug!(group, index = ended.index, "the rows are those that were written")
                }
                Outcome::Differs(detail) => (self.on_damage)(group, ended.index, detail.clone()),
                Outcome::Failed(why) if self.checks.is_stopped() => {
                    tracing::debug!(group, %why, "a scrub ends")
                }
                Outcome::Failed(why) => {
                    tracing::warn!(group, %why, "rows could not be compared with their hash")
                }
            }
            // Released before the result is known: whoever waits may want to close it next.
            drop(state);
            self.checks.rows_ended(group, ended);
        }
    }

    fn scrub(&self, group: GroupId, state: &ShardState, progress: &Progress) -> Ended {
        let failed = |outcome| Ended { outcome, index: state.visible().unwrap_or(0), done: 0, bytes: 0 };
        let mut bytes = 0;
        for attempt in 0..OUTRUN_MAX {
            match self.read(state, progress, attempt) {
                Ok(scrubbed) if scrubbed.is_sound() => {
                    bytes += scrubbed.bytes;
                    let Scrubbed { index, found, .. } = scrubbed;
                    return Ended { outcome: Outcome::Equal, index, done: found.0, bytes };
                }
                Ok(scrubbed) => {
                    // Read once more: a single bit that flipped on its way here is no damaged state.
                    tracing::warn!(group, ?scrubbed, "rows differ from their hash; they are read again");
                    match self.read(state, progress, OUTRUN_MAX) {
                        Ok(again) if again.is_sound() => {
                            let Scrubbed { index, found, .. } = again;
                            let bytes = bytes + scrubbed.bytes + again.bytes;
                            return Ended { outcome: Outcome::Equal, index, done: found.0, bytes };
                        }
                        Ok(again) => {
                            let outcome = Outcome::Differs(describe(&again));
                            return Ended {
                                outcome,
                                index: again.index,
                                done: again.found.0,
                                bytes: bytes + again.bytes,
                            };
                        }
                        Err(error) => return failed(Outcome::Failed(error.to_string())),
                    }
                }
                Err(BuildError::GivenUp(why)) if attempt + 1 < OUTRUN_MAX => {
                    tracing::debug!(group, %why, "a scrub begins anew");
                }
                // Without a disk nothing is known of the rows; the node ends.
                Err(BuildError::State(error)) if state.disk_failure().is_some() => {
                    return failed(Outcome::Failed(error.to_string()));
                }
                // A row that cannot be read is no row that was written.
                Err(BuildError::State(error)) => return failed(Outcome::Differs(error.to_string())),
                Err(error) => return failed(Outcome::Failed(error.to_string())),
            }
        }
        failed(Outcome::Failed("writes were faster than the reading".into()))
    }

    fn read(&self, state: &ShardState, progress: &Progress, attempt: u32) -> Result<Scrubbed, BuildError> {
        let limits = BuildLimits { kept_bytes: KEPT_BYTES, time: SCRUB_TIME };
        // All states together must be read within half of the time that is set.
        let half = (self.settings.scrub_every / 2).as_secs().max(1);
        let slow = self.settings.scrub_bytes_per_second.max(self.checks.disk_bytes() / half);
        let (mut slow, mut fast) = (
            Pace::new(slow.saturating_mul(1 << (2 * attempt))),
            Pace::new(self.settings.verify_bytes_per_second),
        );
        let pace = |bytes| {
            let now = Instant::now();
            let pause = slow.after(bytes, now);
            let pause = if self.checks.is_awaited() { fast.after(bytes, now).min(pause) } else { pause };
            self.sleep(pause, progress);
        };
        // sled panics on some kinds of damage; the thread has to live on, to tell of it.
        let scrubbed = catch_unwind(AssertUnwindSafe(|| state.scrub(&limits, progress, pace)));
        scrubbed.unwrap_or_else(|_panic| {
            Err(BuildError::State(StateError("the store panicked while its rows were read".into())))
        })
    }

    /// Sleeps, in pieces that a stop or somebody who waits cuts short.
    fn sleep(&self, pause: Duration, progress: &Progress) {
        const PIECE: Duration = Duration::from_millis(100);
        let until = Instant::now() + pause;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || progress.stop.load(Ordering::Relaxed) || self.checks.is_stopped() {
                return;
            }
            if left > PIECE && self.checks.is_awaited() {
                return;
            }
            std::thread::sleep(left.min(PIECE));
        }
    }

    /// Goes round the images in memory for ever; what somebody waits for comes first.
    fn check_images(&self) {
        let mut last: Option<SpaceKey> = None;
        while !self.checks.is_stopped() {
            if let Some(Job::Index(group, state, progress, extent)) = self.checks.next_index() {
                let ended = self.check_all(group, &state, &progress, extent);
                drop(state);
                self.checks.index_ended(group, extent, ended);
                continue;
            }
            last = self.check_next(last.as_ref());
            self.checks.rest(IMAGE_PAUSE);
        }
    }

    /// Compares the image behind `last`.
    fn check_next(&self, last: Option<&SpaceKey>) -> Option<SpaceKey> {
        let states = self.checks.states();
        let live = states.first().map(|(_, state)| state.spaces().live()).unwrap_or_default();
        let next = live.iter().find(|space| last.is_none_or(|last| *space > last)).or(live.first())?.clone();
        let (group, state) = states.into_iter().find(|(_, state)| state.holds(&next))?;
        let progress = Progress::default();
        // What it finds is told by `check`.
        let _ = self.check(group, &state, &next, &progress);
        Some(next)
    }

    /// Compares one image. `None` if it left meanwhile.
    fn check(
        &self,
        group: GroupId,
        state: &ShardState,
        space: &SpaceKey,
        progress: &Progress,
    ) -> Result<Option<Report>, LoadError> {
        let mut pace = Pace::new(self.settings.index_rows_per_second);
        let compared = state.check_index(space, |rows| {
            let pause = pace.after(rows, Instant::now());
            self.sleep(pause, progress);
        });
        match &compared {
            Ok(Some(report)) if report.is_clean() => self.metrics.index_checked("equal"),
            Ok(Some(report)) => {
                self.metrics.index_checked("differs");
                tracing::error!(
                    group,
                    differences = report.count,
                    first = ?report.differences.first(),
                    "the image of a space is not what is stored; it is dropped, and loaded anew when it is needed"
                );
                // A cache that is wrong costs one load. Its files may be what is wrong.
                if let Err(error) = state.spaces().erase(space) {
                    tracing::error!(group, %error, "the files of an index that is wrong cannot be removed");
                }
            }
            Ok(None) => {}
            Err(error) => {
                self.metrics.index_checked("failed");
                tracing::warn!(group, %error, "the image of a space could not be compared");
            }
        }
        compared
    }

    /// Compares all images of a shard that `extent` names.
    fn check_all(&self, group: GroupId, state: &ShardState, progress: &Progress, extent: Extent) -> Ended {
        let index = state.visible().unwrap_or(0);
        let mut live = state.live_spaces().into_iter();
        let mut last: Option<SpaceKey> = None;
        let (mut done, mut found) = (0, Vec::new());
        let ended = |outcome, done| Ended { outcome, index, done, bytes: 0 };
        loop {
            if progress.stop.load(Ordering::Relaxed) {
                return ended(Outcome::Failed("the node stops".into()), done);
            }
            let next = match extent {
                Extent::Live => Ok(live.next()),
                Extent::All => keys::next_space(&state.reader(), last.as_ref()),
            };
            let space = match next {
                Ok(Some(space)) => space,
                Ok(None) => break,
                Err(error) => return ended(Outcome::Failed(error.to_string()), done),
            };
            match self.check_loaded(group, state, &space, progress, extent) {
                Ok(Some(report)) if !report.is_clean() && found.len() < NAMED_MAX => {
                    found.push(name(&space, &report))
                }
                Ok(_) => {}
                Err(error) => return ended(Outcome::Failed(format!("{space}: {error}")), done),
            }
            done += 1;
            progress.rows.store(done, Ordering::Relaxed);
            last = Some(space);
        }
        ended(if found.is_empty() { Outcome::Equal } else { Outcome::Differs(found.join("; ")) }, done)
    }

    /// Compares an image, which is loaded for it if it must be, and then dropped.
    fn check_loaded(
        &self,
        group: GroupId,
        state: &ShardState,
        space: &SpaceKey,
        progress: &Progress,
        extent: Extent,
    ) -> Result<Option<Report>, LoadError> {
        let was_live = state.spaces().peek(space).is_some();
        if extent == Extent::All && !was_live {
            state.spaces().get(space, &state.reader(), Instant::now() + LOAD_TIME)?;
        }
        let compared = self.check(group, state, space, progress);
        if extent == Extent::All && !was_live {
            state.spaces().forget(|other| other == space);
        }
        compared
    }
}

fn describe(scrubbed: &Scrubbed) -> String {
    let Scrubbed { index, found, kept, .. } = scrubbed;
    format!(
        "at log index {index}: {} rows with hash {:032x}, where {} rows with hash {:032x} were written",
        found.0, found.1.0, kept.0, kept.1.0
    )
}

fn name(space: &SpaceKey, report: &Report) -> String {
    let listed: Vec<String> = report
        .differences
        .iter()
        .take(NAMED_MAX)
        .map(|difference| format!("memory {} {}", difference.seq, difference.what))
        .collect();
    format!("{space}: {} differences ({})", report.count, listed.join(", "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::super::checks::Standing;
    use super::*;
    use crate::metrics::NodeMetrics;
    use crate::raft::Applier;
    use crate::shard::Damage;
    use crate::shard::tests::{boot, log, open, space};
    use holdfast_core::keys::Family;
    use parking_lot::Mutex;
    use std::collections::BTreeMap;

    #[test]
    fn work_is_spread_over_time() {
        let mut pace = Pace::new(1_000);
        let begin = Instant::now() + Duration::from_secs(1);
        assert_eq!(pace.after(500, begin), Duration::from_millis(500));
        assert_eq!(pace.after(500, begin), Duration::from_secs(1));
        let later = begin + Duration::from_mins(1);
        assert_eq!(pace.after(1_000, later), Duration::from_secs(1), "rest is not saved up");
    }

    type Found = Arc<Mutex<Vec<(GroupId, u64)>>>;

    /// A worker without its threads, over one state.
    fn worker(state: &Arc<ShardState>) -> (Worker, Found) {
        let found = Found::default();
        let damaged = Arc::clone(&found);
        let worker = Worker {
            checks: Arc::new(Checks::new(BTreeMap::from([(1, Arc::clone(state))]))),
            settings: IntegritySettings::default(),
            metrics: NodeMetrics::new(1).unwrap().integrity,
            on_damage: Arc::new(move |group, index, _detail| damaged.lock().push((group, index))),
        };
        (worker, found)
    }

    #[test]
    fn an_image_with_a_row_missing_is_named_to_whoever_asks() {
        let dir = tempfile::tempdir().unwrap();
        let state = Arc::new(open(dir.path(), &boot(1)));
        state.apply(log()).unwrap();
        let (worker, _) = worker(&state);
        let check = |extent| worker.check_all(1, &state, &Progress::default(), extent);
        let nothing = check(Extent::Live);
        assert_eq!((nothing.outcome, nothing.done), (Outcome::Equal, 0), "nothing is in memory");
        let all = check(Extent::All);
        assert_eq!((all.outcome, all.done), (Outcome::Equal, 1));
        assert!(state.live_spaces().is_empty(), "what was loaded for it is dropped");
        let soon = Instant::now() + Duration::from_secs(20);
        let image = state.spaces().get(&space(), &state.reader(), soon).unwrap();
        assert_eq!(check(Extent::Live).outcome, Outcome::Equal);
        let seq = image.read().rows().next().unwrap().0;
        image.write().remove(seq);
        let Outcome::Differs(what) = check(Extent::Live).outcome else { panic!("it is not found") };
        assert!(what.contains(&format!("memory {seq} missing")) && what.contains("acme/user:ann"), "{what}");
        assert!(state.live_spaces().is_empty(), "it is dropped");
        state.spaces().get(&space(), &state.reader(), soon).unwrap();
        assert_eq!(check(Extent::Live).outcome, Outcome::Equal, "and loaded anew as it should be");
    }

    /// Whoever asks is told of a check of the state that they asked about, and of no earlier one.
    #[test]
    fn a_check_answers_those_who_asked_before_it_began() {
        let dir = tempfile::tempdir().unwrap();
        let state = Arc::new(open(dir.path(), &boot(1)));
        state.apply(log()).unwrap();
        let (worker, found) = worker(&state);
        let checks = &worker.checks;
        let next = || match checks.next_rows(&worker.settings) {
            Some(Job::Rows(group, state, progress)) => {
                let ended = worker.scrub(group, &state, &progress);
                checks.rows_ended(group, ended);
            }
            _ => panic!("nothing is due"),
        };
        assert_eq!(checks.rows(1, 6), Some(Standing::Waiting));
        assert!(checks.is_awaited());
        next();
        let rows = state.rows();
        assert_eq!(
            checks.rows(1, 6),
            Some(Standing::Ended { outcome: Outcome::Equal, index: 6, done: rows })
        );
        assert!(!checks.is_awaited());
        assert_eq!(checks.rows(1, 7), Some(Standing::Waiting), "of a later state nothing is known");
        assert_eq!(checks.rows(2, 0), None, "there is no such group");
        state.apply(vec![crate::shard::tests::entry(7, vec![])]).unwrap();
        state.damage(&keys::family_prefix(&space(), Family::Memory), 1, Damage::Row);
        next();
        let standing = checks.rows(1, 7);
        assert!(
            matches!(standing, Some(Standing::Ended { outcome: Outcome::Differs(_), index: 7, .. })),
            "{standing:?}"
        );
        assert!(found.lock().is_empty(), "the thread tells, not the reading");
        checks.stop();
        assert!(checks.next_rows(&worker.settings).is_none());
    }
}
