//! What groups ask of the node's log, whatever keeps it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::engine::{LogEngine, LogStats, region};
use super::times::Times;
use super::writer::{Change, Done};
use crate::raft::error::LogError;
use crate::raft::types::{GroupId, NodeId, RaftEntry};

/// The log of all groups of one node. On a machine it is the [`LogEngine`]; the simulation brings
/// one whose disk it can slow down and cut off.
#[tonic::async_trait]
pub(crate) trait LogDevice: Send + Sync + 'static {
    /// The value of one of a group's keys, as it was last written.
    fn get(&self, group: GroupId, key: &[u8]) -> Result<Option<Vec<u8>>, LogError>;

    /// The indices of a group's first and last entry.
    fn span(&self, group: GroupId) -> Result<Option<(u64, u64)>, LogError>;

    /// Queues a change, waiting while the queue is full. `done` is called once, after the sync.
    async fn submit(&self, group: GroupId, change: Change, done: Option<Done>) -> Result<(), LogError>;

    /// Queues a change and waits until it is on disk.
    async fn write(&self, group: GroupId, change: Change) -> Result<(), LogError> {
        let (sender, receiver) = oneshot::channel();
        let done: Done = Box::new(move |result| {
            // A caller that went away does not need the answer.
            let _ = sender.send(result);
        });
        self.submit(group, change, Some(done)).await?;
        receiver.await.map_err(|_dropped| LogError::Closed)?
    }

    /// Reads the entries `start..end`: at least one and then up to `bytes_max`.
    async fn read(
        &self,
        group: GroupId,
        start: u64,
        end: u64,
        bytes_max: usize,
    ) -> Result<Vec<RaftEntry>, LogError>;

    /// The node whose own entries are timed until they are committed; none where nobody looks.
    fn timed_node(&self) -> Option<NodeId> {
        None
    }

    /// Where those times are counted.
    fn commit_times(&self) -> Arc<Times> {
        Arc::default()
    }

    /// Makes its files anew, so that what was purged is gone from the disk. Nothing to do where there are
    /// no files.
    async fn renew_files(&self) -> Result<(), LogError> {
        Ok(())
    }

    /// What it has done since it was opened.
    fn stats(&self) -> LogStats;

    /// Why it takes nothing any more, if so.
    fn failure(&self) -> Option<String> {
        None
    }

    /// The groups whose old entries hold back the removal of log files, since this was last asked.
    fn take_held_back(&self) -> BTreeSet<GroupId>;

    /// Writes what is queued and lets go of the disk.
    async fn close(self: Arc<Self>) -> Result<(), LogError>;
}

#[tonic::async_trait]
impl LogDevice for LogEngine {
    fn failure(&self) -> Option<String> {
        LogEngine::failure(self)
    }

    fn get(&self, group: GroupId, key: &[u8]) -> Result<Option<Vec<u8>>, LogError> {
        Ok(self.raw()?.get(region(group), key))
    }

    fn span(&self, group: GroupId) -> Result<Option<(u64, u64)>, LogError> {
        let raw = self.raw()?;
        Ok(raw.first_index(region(group)).zip(raw.last_index(region(group))))
    }

    async fn submit(&self, group: GroupId, change: Change, done: Option<Done>) -> Result<(), LogError> {
        LogEngine::submit(self, group, change, done).await
    }

    async fn read(
        &self,
        group: GroupId,
        start: u64,
        end: u64,
        bytes_max: usize,
    ) -> Result<Vec<RaftEntry>, LogError> {
        LogEngine::read(self, group, start, end, bytes_max).await
    }

    fn timed_node(&self) -> Option<NodeId> {
        Some(LogEngine::node(self))
    }

    fn commit_times(&self) -> Arc<Times> {
        LogEngine::commit_times(self)
    }

    async fn renew_files(&self) -> Result<(), LogError> {
        LogEngine::renew_files(self).await
    }

    fn stats(&self) -> LogStats {
        LogEngine::stats(self)
    }

    fn take_held_back(&self) -> BTreeSet<GroupId> {
        LogEngine::take_held_back(self)
    }

    async fn close(self: Arc<Self>) -> Result<(), LogError> {
        LogEngine::close(&self).await
    }
}
