//! Jobs of the groups that this node leads: what apply cannot do by itself, since it needs a library or a
//! model. They look at the rows of [`holdfast_core::keys::work`] whose time has come, compute outside
//! of apply, and propose commands that name what they are based on; where that has changed meanwhile,
//! apply drops them. So they may be cut off at any point, and a new leader goes on from the rows.

mod memories;
mod session;

use crate::integrity::Versions;
use crate::metrics::JobMetrics;
use crate::raft::{Clock, GroupId};
use crate::service::Replica;
use holdfast_core::keys::work::{self, Work, WorkKind};
use holdfast_core::state::Reader;
use holdfast_models::Embedder;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(500);
/// Pieces of work of one group in one look: this bounds the rate, so that jobs leave room for callers.
const WORK_MAX: usize = 8;
/// Rows that one look goes through, those that wait after a failure among them.
const ROWS_MAX: usize = 512;
/// How long work waits that failed, first and at most.
const WAIT_FIRST: Duration = Duration::from_secs(2);
const WAIT_MAX: Duration = Duration::from_secs(300);
/// The first state machine that knows what jobs propose.
const DIGESTS_SINCE: u32 = 4;
/// Most pieces of work whose failure is remembered; others are simply tried again.
const FAILED_MAX: usize = 4_096;

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

/// How a piece of work ended.
enum Ended {
    /// All of it is done, for now.
    Done,
    /// More is left, or it has changed meanwhile: it is looked at again.
    Again,
}

/// Work that failed, and when it is tried again.
struct Waiting {
    failures: u32,
    until: Instant,
}

pub(crate) async fn run(
    replicas: BTreeMap<GroupId, Replica>,
    clock: Arc<dyn Clock>,
    embedder: JobEmbedder,
    metrics: JobMetrics,
    versions: Versions,
    stop: CancellationToken,
) {
    let mut failed: HashMap<Work, Waiting> = HashMap::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        // A replica of an older version would stop at what a job proposes.
        if let Err(why) = versions.none_is_older(DIGESTS_SINCE) {
            tracing::debug!(why, "jobs wait");
            continue;
        }
        failed.retain(|_, waiting| waiting.until + WAIT_MAX > Instant::now());
        for (id, replica) in &replicas {
            if stop.is_cancelled() {
                return;
            }
            if !replica.group.status().is_leader {
                continue;
            }
            if let Err(error) = look(replica, clock.as_ref(), &embedder, &metrics, &mut failed).await {
                metrics.failed("look");
                tracing::warn!(group = id, %error, "what waits for jobs cannot be read; it is tried again");
            }
        }
    }
}

/// Works off what waits in one group, a bounded part of it. Work that fails waits, and holds up no other.
async fn look(
    replica: &Replica,
    clock: &dyn Clock,
    embedder: &JobEmbedder,
    metrics: &JobMetrics,
    failed: &mut HashMap<Work, Waiting>,
) -> Result<(), Failure> {
    let now_us = i64::try_from(clock.now_us())?;
    let mut worked = 0;
    for work in waiting(replica, now_us)? {
        if failed.get(&work).is_some_and(|waiting| waiting.until > Instant::now()) {
            continue;
        }
        if worked == WORK_MAX {
            break;
        }
        worked += 1;
        let ended = match work.kind {
            WorkKind::Session => session::work(replica, &work, now_us, embedder, metrics).await,
        };
        match ended {
            Ok(Ended::Done | Ended::Again) => drop(failed.remove(&work)),
            Err(error) => {
                metrics.failed("session");
                tracing::warn!(space = %work.space, id = work.id, %error, "a job failed; it is tried again later");
                let failures = failed.get(&work).map_or(0, |waiting| waiting.failures) + 1;
                let wait = WAIT_FIRST.saturating_mul(1 << failures.min(16)).min(WAIT_MAX);
                if failed.len() < FAILED_MAX {
                    failed.insert(work, Waiting { failures, until: Instant::now() + wait });
                }
            }
        }
    }
    Ok(())
}

/// The work whose time has come, the earliest first.
fn waiting(replica: &Replica, now_us: i64) -> Result<Vec<Work>, Failure> {
    let rows = replica.state.reader().scan(&work::prefix(), None, ROWS_MAX)?;
    let mut found = Vec::new();
    for (key, _) in rows {
        let work = Work::parse(&key).ok_or("a row of work cannot be read")?;
        if work.at_us > now_us {
            break;
        }
        found.push(work);
    }
    Ok(found)
}
