//! Jobs of the groups that this node leads: what apply cannot do by itself, since it needs a library or a
//! model. They look at the rows of [`holdfast_core::keys::work`] whose time has come, compute outside
//! of apply, and propose commands that name what they are based on; where that has changed meanwhile,
//! apply drops them. So they may be cut off at any point, and a new leader goes on from the rows.

mod duplicates;
mod failures;
mod memories;
mod proposal;
mod session;

use crate::integrity::Versions;
use crate::metrics::JobMetrics;
use crate::raft::{Clock, GroupId};
use crate::service::Replica;
use failures::Failures;
use holdfast_core::command::MEMORIES_KNOWN_SINCE;
use holdfast_core::keys::work::{self, Work, WorkKind};
use holdfast_core::state::Reader;
use holdfast_models::Embedder;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(500);
/// Pieces of work of one group in one look: this bounds the rate, so that jobs leave room for callers.
const WORK_MAX: usize = 8;
/// Time for the upkeep of spaces in all groups together in one look, in microseconds: a tenth of one core. A step
/// that takes longer borrows from later looks.
const UPKEEP_US: i64 = 50_000;
/// The most that is borrowed: after that it begins anew.
const UPKEEP_BORROWED_US_MAX: i64 = 6_000_000;
/// Rows that one look goes through, those that wait after a failure among them. The next one goes on behind
/// them, so that work that fails never hides what comes after it.
const ROWS_MAX: usize = 512;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Opens the model that makes vectors, once, when a job first needs it.
pub type OpenEmbedder = dyn Fn() -> Option<Arc<dyn Embedder>> + Send + Sync;

/// The model for what jobs write. Without one it is found by its words.
#[derive(Clone, Default)]
pub struct JobEmbedder {
    open: Option<Arc<OpenEmbedder>>,
    opened: Arc<OnceLock<Option<Arc<dyn Embedder>>>>,
}

impl fmt::Debug for JobEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.open.is_some() { "JobEmbedder(given)" } else { "JobEmbedder(none)" })
    }
}

impl JobEmbedder {
    /// A model that is opened when it is first needed.
    pub fn opened_by(open: impl Fn() -> Option<Arc<dyn Embedder>> + Send + Sync + 'static) -> Self {
        Self { open: Some(Arc::new(open)), opened: Arc::default() }
    }

    /// Blocks while the model is read.
    fn get(&self) -> Option<&Arc<dyn Embedder>> {
        self.opened.get_or_init(|| self.open.as_ref().and_then(|open| open())).as_ref()
    }
}

/// What jobs do: by default nothing that is not said here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobSettings {
    /// Whether a memory that says what an older one says, in the same words, is merged into it.
    pub merge: bool,
}

/// What jobs work with.
pub(crate) struct Tools {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) embedder: JobEmbedder,
    pub(crate) settings: JobSettings,
    pub(crate) metrics: JobMetrics,
}

/// How a piece of work ended.
enum Ended {
    /// All of it is done, for now.
    Done,
    /// More is left, or it has changed meanwhile: it is looked at again.
    Again,
}

/// The time that is left for upkeep, in all groups of this node together.
struct Pace {
    left_us: i64,
}

impl Pace {
    /// Another look begins.
    fn refill(&mut self) {
        self.left_us = self.left_us.saturating_add(UPKEEP_US).min(UPKEEP_US);
    }

    fn allows(&self) -> bool {
        self.left_us > 0
    }

    /// A step has ended.
    fn took(&mut self, took: Duration) {
        let us = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        self.left_us = self.left_us.saturating_sub(us).max(-UPKEEP_BORROWED_US_MAX);
    }
}

/// Where the looks at a group stand.
#[derive(Default)]
struct Looked {
    /// The last row of each kind that was looked at; the first one comes next where there is none.
    after: BTreeMap<WorkKind, Vec<u8>>,
    failures: Failures,
}

pub(crate) async fn run(
    replicas: BTreeMap<GroupId, Replica>,
    tools: Tools,
    versions: Versions,
    stop: CancellationToken,
) {
    let mut looked: BTreeMap<GroupId, Looked> = BTreeMap::new();
    let mut began = GroupId::MAX;
    let mut pace = Pace { left_us: 0 };
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        // A replica of an older version would stop at what a job proposes.
        if let Err(why) = versions.none_is_older(MEMORIES_KNOWN_SINCE) {
            tracing::debug!(why, "jobs wait");
            continue;
        }
        pace.refill();
        // Not always the same group first.
        let first = replicas.range((Excluded(began), Unbounded)).chain(replicas.range(..=began));
        began = first.clone().next().map_or(began, |(id, _)| *id);
        for (id, replica) in first {
            if stop.is_cancelled() {
                return;
            }
            if !replica.group.status().is_leader {
                // The leader of now finds out for itself.
                looked.remove(id);
                continue;
            }
            let looked = looked.entry(*id).or_default();
            if let Err(error) = look(replica, &tools, &mut pace, looked).await {
                tools.metrics.failed("look");
                tracing::warn!(group = id, %error, "what waits for jobs cannot be read; it is tried again");
            }
        }
        tools.metrics.parked(|reason| looked.values().map(|looked| looked.failures.parked(reason)).sum());
    }
}

/// Works off what waits in one group, a bounded part of it: sessions first, which are waited for.
async fn look(replica: &Replica, tools: &Tools, pace: &mut Pace, looked: &mut Looked) -> Result<(), Failure> {
    looked.failures.forget_old(Instant::now());
    look_at(WorkKind::Session, replica, tools, pace, looked).await?;
    if tools.settings.merge && pace.allows() {
        look_at(WorkKind::Upkeep, replica, tools, pace, looked).await?;
    }
    Ok(())
}

/// The same for one kind of work. Work that fails waits, and holds up no other.
async fn look_at(
    kind: WorkKind,
    replica: &Replica,
    tools: &Tools,
    pace: &mut Pace,
    looked: &mut Looked,
) -> Result<(), Failure> {
    let now_us = i64::try_from(tools.clock.now_us())?;
    let now = Instant::now();
    let after = looked.after.get(&kind).map(Vec::as_slice);
    let (rows, ended) = waiting(&replica.state.reader(), kind, after, now_us)?;
    let mut worked = 0;
    for (key, work) in rows {
        if worked == WORK_MAX || kind == WorkKind::Upkeep && !pace.allows() {
            return Ok(());
        }
        looked.after.insert(kind, key);
        let Some(work) = work else { continue };
        if looked.failures.holds_back(&work, now) {
            continue;
        }
        worked += 1;
        let ended = match kind {
            WorkKind::Session => session::work(replica, &work, now_us, &tools.embedder, &tools.metrics).await,
            WorkKind::Upkeep => {
                let begin = Instant::now();
                let ended = duplicates::work(replica, &work, now_us, tools).await;
                pace.took(begin.elapsed());
                ended
            }
        };
        match ended {
            Ok(Ended::Done | Ended::Again) => looked.failures.succeeded(&work),
            Err(error) => {
                tools.metrics.failed(match kind {
                    WorkKind::Session => "session",
                    WorkKind::Upkeep => "upkeep",
                });
                looked.failures.failed(work, error.as_ref(), now);
            }
        }
    }
    if ended {
        looked.after.remove(&kind);
    }
    Ok(())
}

/// The work whose time has come, the earliest first, with its keys; and whether nothing comes behind it.
type Rows = (Vec<(Vec<u8>, Option<Work>)>, bool);

fn waiting(reader: &dyn Reader, kind: WorkKind, after: Option<&[u8]>, now_us: i64) -> Result<Rows, Failure> {
    let rows = reader.scan(&work::prefix(kind), after, ROWS_MAX)?;
    let mut ended = rows.len() < ROWS_MAX;
    let mut found = Vec::new();
    for (key, _) in rows {
        let work = Work::parse(&key);
        match &work {
            Some(work) if work.at_us > now_us => {
                ended = true;
                break;
            }
            Some(_) => {}
            // Its space cannot be told; a comparison of the replicas finds out whose fault it is.
            None => tracing::error!(key = %key.escape_ascii(), "a row of work cannot be read"),
        }
        found.push((key, work));
    }
    Ok((found, ended))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use holdfast_core::space::SpaceKey;
    use holdfast_core::state::{BTreeState, State};

    fn work(n: usize) -> Work {
        let (at_us, space) = (i64::try_from(n).unwrap(), SpaceKey::user("acme", "安").unwrap());
        Work { at_us, space, kind: WorkKind::Session, id: format!("s-{n}") }
    }

    #[test]
    fn upkeep_takes_a_tenth_of_the_time() {
        let mut pace = Pace { left_us: 0 };
        assert!(!pace.allows());
        let (mut looks, mut steps) = (0u32, 0u32);
        while looks < 1_000 {
            pace.refill();
            looks += 1;
            while pace.allows() {
                pace.took(Duration::from_millis(7));
                steps += 1;
            }
        }
        let share = f64::from(steps * 7) / f64::from(looks * 500);
        assert!((0.09..=0.101).contains(&share), "{share}");
        // A long step is paid for later, within bounds.
        pace.took(Duration::from_hours(1));
        for _ in 0..UPKEEP_BORROWED_US_MAX / UPKEEP_US {
            assert!(!pace.allows());
            pace.refill();
        }
        pace.refill();
        assert!(pace.allows());
    }

    #[test]
    fn looks_come_round_to_all_that_waits_and_stop_at_what_is_not_due() {
        let (mut state, all) = (BTreeState::new(), 3 * ROWS_MAX + 7);
        for n in 0..all + 20 {
            state.put(work(n).key(), vec![1]).unwrap();
        }
        let damaged = [work::prefix(WorkKind::Session), vec![0]].concat();
        state.put(damaged, vec![1]).unwrap();
        let (mut after, mut found, mut looks) = (None, Vec::new(), 0);
        loop {
            let now_us = i64::try_from(all - 1).unwrap();
            let (rows, ended) = waiting(&state, WorkKind::Session, after.as_deref(), now_us).unwrap();
            assert!(rows.len() <= ROWS_MAX, "a look is bounded");
            after = rows.last().map(|(key, _)| key.clone());
            found.extend(rows.into_iter().filter_map(|(_, work)| work));
            looks += 1;
            if ended {
                break;
            }
        }
        assert_eq!((found.len(), looks), (all, 4));
        assert!(found.iter().enumerate().all(|(n, found)| *found == work(n)), "the earliest first");
    }
}
