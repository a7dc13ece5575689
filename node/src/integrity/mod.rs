//! Whether the replicas of this node hold what they must.
//!
//! Three things are compared, each by one who knows better:
//! - replicas with each other: at points of the log that the leaders propose, every replica keeps its
//!   hash, and every node asks the others for theirs ([`guard`]);
//! - rows with the hash that was kept over them, by reading all of them ([`checks`], [`threads`]);
//! - the images of active spaces with the rows, by the same.
//!
//! Invariants, each held by a test:
//! - a replica that is known to be wrong answers no reads, leads nobody and is copied by nobody;
//! - nothing is made anew unless a majority of the others is sound, agrees, and runs one version; nor
//!   more than twice a day; and the old state is kept;
//! - whatever reads takes little: paced, and with the mutex of applies held for a fraction of a
//!   millisecond;
//! - a group at rest gets no entries for the sake of comparing it.
//!
//! The reasons are in `docs/adr/0011-replicas-are-compared-at-points-of-the-log.md`.

mod checks;
#[cfg(test)]
mod cluster_tests;
mod guard;
mod judge;
mod rebuild;
mod settings;
mod threads;
mod versions;

pub(crate) use checks::{Checks, Extent, Outcome, Standing};
pub(crate) use rebuild::renew;
pub use settings::IntegritySettings;
pub(crate) use versions::Versions;

use crate::metrics::{IntegrityMetrics, Mismatch};
use crate::raft::{Clock, GroupId, RaftNode};
use crate::service::Replica;
use crate::shard::{Reason, Suspicion};
use guard::Guard;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle as Thread;
use threads::Worker;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The watch over the replicas of a node.
pub(crate) struct Integrity {
    checks: Arc<Checks>,
    versions: Versions,
    guard: JoinHandle<()>,
    /// Wakes the guard.
    #[cfg(test)]
    found: Arc<Notify>,
    threads: Vec<Thread<()>>,
}

impl Integrity {
    /// Starts it. Replicas that were in quarantine when the node stopped are at once again.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn start(
        raft: &Arc<RaftNode>,
        replicas: &BTreeMap<GroupId, Replica>,
        settings: IntegritySettings,
        metrics: &IntegrityMetrics,
        clock: &Arc<dyn Clock>,
        stop: CancellationToken,
    ) -> io::Result<Self> {
        let states = replicas.iter().map(|(id, replica)| (*id, Arc::clone(&replica.state))).collect();
        let checks = Arc::new(Checks::new(states));
        let versions = Versions::new(Arc::clone(raft));
        let found = Arc::new(Notify::new());
        let on_damage = {
            let (replicas, metrics) = (replicas.clone(), metrics.clone());
            let (clock, found) = (Arc::clone(clock), Arc::clone(&found));
            move |group: GroupId, index: u64, detail: String| {
                let Some(replica) = replicas.get(&group) else { return };
                metrics.mismatch(Mismatch::Rows);
                let since_us = i64::try_from(clock.now_us()).unwrap_or(i64::MAX);
                let reason = Reason::RowsDiffer;
                guard::quarantine(group, replica, Suspicion { reason, detail, index, since_us });
                found.notify_one();
            }
        };
        let worker = Worker {
            checks: Arc::clone(&checks),
            settings,
            metrics: metrics.clone(),
            on_damage: Arc::new(on_damage),
        };
        let threads = worker.start()?;
        let guard = Guard {
            raft: Arc::clone(raft),
            replicas: replicas.clone(),
            checks: Arc::clone(&checks),
            versions: versions.clone(),
            settings,
            metrics: metrics.clone(),
            clock: Arc::clone(clock),
            found: Arc::clone(&found),
        };
        let guard = tokio::spawn(guard.run(stop));
        Ok(Self {
            checks,
            versions,
            guard,
            #[cfg(test)]
            found,
            threads,
        })
    }

    /// Compares now.
    #[cfg(test)]
    pub(crate) fn look(&self) {
        self.found.notify_one();
    }

    /// The book of checks.
    pub(crate) fn checks(&self) -> &Arc<Checks> {
        &self.checks
    }

    /// What the other nodes know.
    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Waits until nothing of it touches a state any more; its token must be cancelled.
    pub(crate) async fn stop(self) {
        self.checks.stop();
        if let Err(error) = self.guard.await {
            tracing::error!(%error, "the guard of the replicas ended badly");
        }
        let threads = self.threads;
        let joined = tokio::task::spawn_blocking(move || {
            threads.into_iter().map(Thread::join).filter(Result::is_err).count()
        });
        if joined.await.unwrap_or(1) > 0 {
            tracing::error!("a checking thread panicked");
        }
    }
}
