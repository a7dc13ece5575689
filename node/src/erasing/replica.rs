//! What every node does for the erasures of its replicas, whoever leads: it lets go of the copies that were
//! made before the rows went. Images at once; log and snapshot files, and the directory of the database,
//! after a while, so that many erasures share one turn.

use super::EraseSettings;
use super::leader::{open, read};
use crate::integrity;
use crate::raft::{Clock, GroupId, RaftNode};
use crate::service::Replica;
use holdfast_core::erasure::Phase;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Makes the node let go, until `stop`.
pub(crate) async fn run(
    raft: Arc<RaftNode>,
    replicas: BTreeMap<GroupId, Replica>,
    settings: EraseSettings,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) {
    let given_up = Arc::new(AtomicBool::new(false));
    let forgetter = Forgetter { raft, replicas, settings, clock, given_up: Arc::clone(&given_up) };
    // What is under way ends by itself then: nothing may touch a state after the node has stopped.
    let stopping = stop.clone();
    let watch = tokio::spawn(async move {
        stopping.cancelled().await;
        given_up.store(true, Ordering::Relaxed);
    });
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(settings.look_every) => {}
        }
        forgetter.turn().await;
    }
    // It ends when the token is cancelled, which it is.
    let _ = watch.await;
}

struct Forgetter {
    raft: Arc<RaftNode>,
    replicas: BTreeMap<GroupId, Replica>,
    settings: EraseSettings,
    clock: Arc<dyn Clock>,
    given_up: Arc<AtomicBool>,
}

impl Forgetter {
    async fn turn(&self) {
        // The groups whose log has let go of entries that its files may still hold.
        let mut purged = Vec::new();
        for (id, replica) in &self.replicas {
            if self.given_up.load(Ordering::Relaxed) {
                return;
            }
            match self.look_at(replica).await {
                Ok(upto) => purged.extend(upto.map(|upto| (replica, upto))),
                Err(error) => {
                    tracing::warn!(group = id, %error, "a replica still keeps what was erased; it is tried again");
                }
            }
        }
        if purged.is_empty() {
            return;
        }
        match self.raft.renew_log_files().await {
            Ok(()) => purged.iter().for_each(|(replica, upto)| replica.state.forgot_log(*upto)),
            Err(error) => tracing::warn!(%error, "log files keep what was erased; it is tried again"),
        }
    }

    /// Answers up to where the log of a group was purged for the sake of an erasure.
    async fn look_at(&self, replica: &Replica) -> Result<Option<u64>, Failed> {
        let state = &replica.state;
        // What a wrong replica needs to be made anew is its last file and the log behind it.
        if replica.group.status().failure.is_some() || state.quarantine().holds() {
            return Ok(None);
        }
        let now_us = i64::try_from(self.clock.now_us())?;
        let forgotten = state.forgotten();
        let (mut images, mut log, mut database) = (None, None, None);
        for (space, id) in open(replica)? {
            let Some(row) = read(replica, &space, &id)? else { continue };
            let (Phase::Purging, Some(index), Some(removed_us)) =
                (row.phase, row.removed_index, row.removed_us)
            else {
                continue;
            };
            let is_due = |after: Duration| {
                let age = Duration::from_micros(now_us.saturating_sub(removed_us).try_into().unwrap_or(0));
                age >= after
            };
            if forgotten.images < index {
                state.spaces().forget(|live| *live == space);
                images = images.max(Some(index));
            }
            if forgotten.log < index && is_due(self.settings.log_after) {
                log = log.max(Some(index));
            }
            if forgotten.database < index && forgotten.log >= index && is_due(self.settings.database_after) {
                database = database.max(Some(index));
            }
        }
        if let Some(index) = images {
            state.forgot_images(index);
        }
        if let Some(index) = database {
            self.renew_database(replica, index).await?;
        }
        let Some(index) = log else { return Ok(None) };
        state.want_snapshot(index);
        let has_file = state.snapshots().newest_index().is_some_and(|newest| newest >= index);
        let purged = replica.group.purged().filter(|purged| has_file && *purged >= index);
        Ok(purged)
    }

    async fn renew_database(&self, replica: &Replica, index: u64) -> Result<(), Failed> {
        let began = std::time::Instant::now();
        integrity::renew(replica, Arc::clone(&self.given_up)).await?;
        tracing::info!(group = replica.group.id(), index, took = ?began.elapsed(), "database made anew after an erasure");
        Ok(())
    }
}
