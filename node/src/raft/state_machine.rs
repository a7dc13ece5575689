//! An [`Applier`] as openraft's state machine.
//!
//! openraft is only told of snapshot files that are on this disk already: its own builds are fatal for
//! the group when they fail. The one exception is the start of a replica whose log is purged and whose
//! file is gone although its state is sound.

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
    RaftStorageError, RaftStoredMembership, SnapshotData, TypeConfig,
};
use crate::snapshot::SnapshotFile;

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
        let pause = self.applier.pause();
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
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

pub(crate) fn committed_entry(entry: RaftEntry) -> Result<CommittedEntry, ApplierError> {
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

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotBuilder = NewestFile;

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
        NewestFile { group: self.group, applier: self.applier.clone() }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<SnapshotData>, RaftStorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        _meta: &SnapshotMeta<NodeId, ()>,
        snapshot: Box<SnapshotData>,
    ) -> Result<(), RaftStorageError> {
        let applier = self.applier.clone();
        let install = off_runtime(move || match snapshot.0 {
            Some(file) => applier.install_snapshot(&file),
            None => Err(ApplierError("a snapshot without a file".into())),
        });
        install.await.map_err(|error| {
            tracing::error!(group = self.group, %error, "the group stops: a snapshot could not be installed");
            StorageIOError::write_state_machine(AnyError::new(&error)).into()
        })
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<TypeConfig>>, RaftStorageError> {
        let newest = self.applier.snapshot_files().and_then(|files| files.newest());
        newest.map(snapshot_of).transpose().map_err(|error| snapshot_error(&error))
    }
}

/// A file as openraft knows it.
pub(crate) fn snapshot_of(file: Arc<SnapshotFile>) -> Result<Snapshot<TypeConfig>, ApplierError> {
    let header = file.header();
    let meta = SnapshotMeta {
        last_log_id: Some(header.position.into()),
        last_membership: record::decode_membership(&header.membership).map_err(ApplierError::new)?,
        snapshot_id: file.id().to_string(),
    };
    Ok(Snapshot { meta, snapshot: Box::new(SnapshotData(Some(file))) })
}

fn snapshot_error(error: &ApplierError) -> RaftStorageError {
    StorageIOError::read_snapshot(None, AnyError::new(error)).into()
}

/// Runs a call that may take long where it is in nobody's way.
async fn off_runtime<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, ApplierError> + Send + 'static,
) -> Result<T, ApplierError> {
    let joined = tokio::task::spawn_blocking(call).await;
    joined.unwrap_or_else(|error| Err(ApplierError(format!("the state panicked: {error}"))))
}

/// "Builds" the newest file that is there.
pub(crate) struct NewestFile {
    group: GroupId,
    applier: Arc<dyn Applier>,
}

impl RaftSnapshotBuilder<TypeConfig> for NewestFile {
    async fn build_snapshot(&mut self) -> Result<Snapshot<TypeConfig>, RaftStorageError> {
        let newest = self.applier.snapshot_files().and_then(|files| files.newest());
        let file = match newest {
            Some(file) => Ok(file),
            None => {
                tracing::warn!(
                    group = self.group,
                    "the log is purged and its snapshot file is gone: building it"
                );
                let applier = self.applier.clone();
                off_runtime(move || applier.build_snapshot()).await
            }
        };
        file.and_then(snapshot_of).map_err(|error| snapshot_error(&error))
    }
}
