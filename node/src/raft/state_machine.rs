//! An [`Applier`] as openraft's state machine. Snapshots are not built here yet: the log is never
//! purged, so every state can be rebuilt from it.

use std::io::Cursor;
use std::sync::Arc;

use openraft::storage::RaftStateMachine;
use openraft::{
    AnyError, EntryPayload as RaftPayload, OptionalSend, RaftSnapshotBuilder, Snapshot, SnapshotMeta,
    StorageIOError,
};
use tokio::sync::oneshot;

use super::apply_pool::ApplyPool;
use super::error::ApplierError;
use super::record;
use super::types::{
    Applier, CommittedBody, CommittedEntry, GroupId, NodeId, Outcomes, RaftEntry, RaftLogId,
    RaftStorageError, RaftStoredMembership, TypeConfig,
};

/// One group's state, as openraft sees it.
pub(crate) struct StateMachine {
    group: GroupId,
    applier: Arc<dyn Applier>,
    pool: ApplyPool,
    /// Dropped with the rest, which tells [`Idle`].
    _in_use: oneshot::Sender<()>,
}

/// Resolves (to an error) once openraft will not touch the state any more. Its own `shutdown` does not
/// wait for the task that applies entries.
pub(crate) type Idle = oneshot::Receiver<()>;

impl StateMachine {
    pub(crate) fn new(group: GroupId, applier: Arc<dyn Applier>, pool: ApplyPool) -> (Self, Idle) {
        let (in_use, idle) = oneshot::channel();
        (StateMachine { group, applier, pool, _in_use: in_use }, idle)
    }

    async fn apply_entries(&self, entries: Vec<RaftEntry>) -> Result<Vec<Outcomes>, ApplierError> {
        let mut expected = Vec::with_capacity(entries.len());
        let mut committed = Vec::with_capacity(entries.len());
        for entry in entries {
            let entry = committed_entry(entry)?;
            expected.push(match &entry.body {
                CommittedBody::Normal(payload) => payload.commands.len(),
                CommittedBody::Blank | CommittedBody::Membership(_) => 0,
            });
            committed.push(entry);
        }
        let applier = self.applier.clone();
        let outcomes = self.pool.run(move || applier.apply(committed)).await?;
        // A wrong count would hand one writer's outcome to another.
        if !outcomes.iter().map(Vec::len).eq(expected.iter().copied()) {
            return Err(ApplierError("the state answered with a wrong number of outcomes".into()));
        }
        Ok(outcomes)
    }
}

fn committed_entry(entry: RaftEntry) -> Result<CommittedEntry, ApplierError> {
    let body = match entry.payload {
        RaftPayload::Blank => CommittedBody::Blank,
        RaftPayload::Normal(proposal) => CommittedBody::Normal(proposal.payload),
        RaftPayload::Membership(membership) => {
            let stored = RaftStoredMembership::new(Some(entry.log_id), membership);
            let bytes = record::encode_membership(&stored).map_err(ApplierError::new)?;
            CommittedBody::Membership(bytes)
        }
    };
    Ok(CommittedEntry { position: entry.log_id.into(), body })
}

fn no_snapshots() -> RaftStorageError {
    let error = AnyError::error("snapshots are not supported: the log is never purged");
    StorageIOError::read_snapshot(None, error).into()
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotBuilder = NoSnapshots;

    async fn applied_state(&mut self) -> Result<(Option<RaftLogId>, RaftStoredMembership), RaftStorageError> {
        let read = async {
            let applier = self.applier.clone();
            let state = self.pool.run(move || applier.applied()).await?;
            let membership = record::decode_membership(&state.membership).map_err(ApplierError::new)?;
            Ok((state.last.map(Into::into), membership))
        };
        read.await.map_err(|error: ApplierError| {
            tracing::error!(group = self.group, %error, "the state's position could not be read");
            StorageIOError::read_state_machine(AnyError::new(&error)).into()
        })
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Outcomes>, RaftStorageError>
    where
        I: IntoIterator<Item = RaftEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<RaftEntry> = entries.into_iter().collect();
        self.apply_entries(entries).await.map_err(|error| {
            tracing::error!(group = self.group, %error, "the group stops: its state failed");
            StorageIOError::write_state_machine(AnyError::new(&error)).into()
        })
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        NoSnapshots
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, RaftStorageError> {
        Err(no_snapshots())
    }

    async fn install_snapshot(
        &mut self,
        _meta: &SnapshotMeta<NodeId, ()>,
        _snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), RaftStorageError> {
        Err(no_snapshots())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<TypeConfig>>, RaftStorageError> {
        Ok(None)
    }
}

/// Refuses to build snapshots.
pub(crate) struct NoSnapshots;

impl RaftSnapshotBuilder<TypeConfig> for NoSnapshots {
    async fn build_snapshot(&mut self) -> Result<Snapshot<TypeConfig>, RaftStorageError> {
        Err(no_snapshots())
    }
}
