//! Where the rows of a replica that is made anew come from: its own snapshot file and log, if they come
//! to what the others hold, else a file of one of those.

use super::judge::Permit;
use crate::raft::{NodeId, RaftNode};
use crate::service::Replica;
use crate::shard::{RebuildError, Source, point};
use crate::snapshot::{SnapshotError, SnapshotFile};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Log that is read in one step.
const READ_BYTES: usize = 1 << 20;
/// How long the replica may take to apply what a file of another one holds.
const CATCH_UP_TIME: Duration = Duration::from_mins(2);

/// How a rebuild ended: where the old state is kept, or why there is no new one.
pub(super) type Rebuild = Result<PathBuf, String>;

/// Makes a replica anew.
pub(super) async fn rebuild(
    raft: Arc<RaftNode>,
    replica: Replica,
    permit: Permit,
    stop: Arc<AtomicBool>,
) -> Rebuild {
    let own = replica.state.snapshots().newest();
    let has_own = own.is_some() || replica.group.purged().is_none();
    if has_own {
        match from(&replica, own.clone(), permit.point, &stop, true).await {
            Ok(kept) => return Ok(kept),
            Err(error @ RebuildError::WrongSource { .. }) => {
                tracing::error!(group = replica.group.id(), %error, "this replica's own files are wrong as well");
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    let file = fetch(&raft, &replica, own, &permit).await?;
    if !replica.group.wait_applied(file.id().index, Instant::now() + CATCH_UP_TIME).await {
        return Err("the replica did not catch up with the other's file".into());
    }
    // The file comes from one of those that agree, and holds at least what they agreed on.
    let must = permit.point.filter(|(index, _)| *index >= file.id().index);
    from(&replica, Some(file), must, &stop, true).await.map_err(|error| error.to_string())
}

/// Makes a sound replica anew from its newest file and the log behind it: its directory then holds nothing
/// that was erased before that file was written.
pub(crate) async fn renew(replica: &Replica, stop: Arc<AtomicBool>) -> Result<PathBuf, RebuildError> {
    let Some(file) = replica.state.snapshots().newest() else {
        return Err(RebuildError::GivenUp("there is no snapshot file"));
    };
    // It must come to what the replica holds: the running hash at the end of the last entry.
    from(replica, Some(file), None, &stop, false).await
}

/// Makes it from a file and its log.
async fn from(
    replica: &Replica,
    file: Option<Arc<SnapshotFile>>,
    must: Option<(u64, u128)>,
    stop: &Arc<AtomicBool>,
    keep: bool,
) -> Result<PathBuf, RebuildError> {
    let (replica, stop) = (replica.clone(), Arc::clone(stop));
    let runtime = tokio::runtime::Handle::current();
    let work = move || {
        let entries = |first: u64, end: u64| {
            let read = replica.group.applied_entries(first, end, READ_BYTES);
            runtime.block_on(read).map_err(|error| error.to_string())
        };
        let must = must.map(|(index, hash)| point(index, hash));
        let file = file.as_deref();
        replica.state.rebuild(&Source { file, must, entries: &entries, stop: &stop, keep })
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(RebuildError::Log(format!("the rebuild panicked: {error}"))))
}

/// Fetches a file of a replica that agrees with the others, from which this one's log goes on.
async fn fetch(
    raft: &RaftNode,
    replica: &Replica,
    own: Option<Arc<SnapshotFile>>,
    permit: &Permit,
) -> Result<Arc<SnapshotFile>, String> {
    let group = replica.group.id();
    let files = replica.state.snapshots();
    let mut index = permit.point.map_or(0, |(index, _)| index).max(replica.group.purged().unwrap_or(0));
    if let Some(own) = own {
        // The log may be purged up to it; and as long as it is the newest, no other one replaces it.
        index = index.max(own.id().index);
        let cause = SnapshotError::Rows("it does not hold what the other replicas hold".into());
        files.give_up(&own, &cause).map_err(|error| error.to_string())?;
    }
    let mut cause = "no other replica can be believed".to_owned();
    for node in &permit.donors {
        let node: NodeId = *node;
        match raft.fetch_snapshot(group, node, files, index).await {
            Ok(file) if file.id().index >= index => return Ok(file),
            Ok(file) => cause = format!("node {node}: its file ends at {}", file.id().index),
            Err(error) => cause = format!("node {node}: {error}"),
        }
    }
    Err(format!("no snapshot file came: {cause}"))
}
