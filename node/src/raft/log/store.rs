//! One group's part of the node's log, as openraft's log storage.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::{AtomicBool, Ordering};

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{
    AnyError, EntryPayload as RaftPayload, LogState, OptionalSend, RaftLogReader, StorageIOError,
};
use parking_lot::Mutex;
use protobuf::well_known_types::BytesValue;

use super::device::LogDevice;
use super::engine::key;
use super::tail::{Tail, next_index};
use super::times::CommitTimes;
use super::writer::{Change, Done};
use crate::crash::{Step, crash_point};
use crate::raft::error::LogError;
use crate::raft::record::{self, DecodeError, Record, VoteRecord};
use crate::raft::types::{
    GroupId, LogPosition, RaftEntry, RaftLogId, RaftStorageError, RaftVote, TypeConfig,
};
use crate::snapshot::SnapshotFiles;

/// The most entries that one append message carries.
pub(crate) const APPEND_ENTRIES_MAX: u64 = 64;
/// An append message stops growing once its entries reach this size.
pub(crate) const APPEND_BYTES_MAX: usize = 4 << 20;
/// How often a read starts anew because the log was truncated meanwhile.
const READ_ATTEMPTS_MAX: usize = 8;

/// A handle to one group's log. Clones share it.
#[derive(Clone)]
pub(crate) struct GroupLog(Arc<Inner>);

struct Inner {
    group: GroupId,
    engine: Arc<dyn LogDevice>,
    tail: Mutex<Tail>,
    committed: Mutex<Option<LogPosition>>,
    commit_times: CommitTimes,
    /// What may be purged is what these hold; without them nothing may.
    snapshots: Option<Arc<SnapshotFiles>>,
    #[cfg(test)]
    may_purge_anything: AtomicBool,
}

impl From<DecodeError> for LogError {
    fn from(error: DecodeError) -> Self {
        LogError::Corrupt(error.to_string())
    }
}

impl GroupLog {
    /// Finds the group's log in the engine.
    pub(crate) async fn open(
        engine: Arc<dyn LogDevice>,
        group: GroupId,
        cached_bytes_max: usize,
        snapshots: Option<Arc<SnapshotFiles>>,
    ) -> Result<Self, LogError> {
        let get = |key: &[u8]| engine.get(group, key);
        let purged = get(key::PURGED)?.map(|bytes| decode_position(&bytes)).transpose()?;
        let committed = get(key::COMMITTED)?.map(|bytes| decode_position(&bytes)).transpose()?;
        let first = next_index(purged);
        let span = engine.span(group)?;
        let mut end = span.map_or(first, |(_, last)| last + 1);
        if let Some(marker) = get(key::END)? {
            let marker = <[u8; 8]>::try_from(marker.as_slice())
                .map_err(|_| LogError::Corrupt(format!("group {group}: a truncate marker of wrong size")))?;
            end = end.min(u64::from_be_bytes(marker));
        }
        let found = span.map(|(start, _)| start);
        // What was purged may come back when the files are renewed and the process dies meanwhile: nobody
        // reads it, and the next purge takes it. What is missing is damage.
        if end > first && found.is_none_or(|found| found > first) {
            return Err(LogError::Corrupt(format!(
                "group {group}: the log starts at {found:?}, not {first}"
            )));
        }
        let last = if end > first {
            engine.read(group, end - 1, end, usize::MAX).await?.pop().map(|entry| entry.log_id.into())
        } else {
            None
        };
        let tail = Tail::new(group, purged, last, cached_bytes_max);
        let commit_times = CommitTimes::new(engine.commit_times());
        let inner = Inner {
            group,
            engine,
            commit_times,
            tail: Mutex::new(tail),
            committed: Mutex::new(committed),
            snapshots,
            #[cfg(test)]
            may_purge_anything: AtomicBool::default(),
        };
        Ok(GroupLog(Arc::new(inner)))
    }

    #[cfg(test)]
    pub(crate) fn allow_any_start(&self) {
        self.0.tail.lock().allow_any_start();
    }

    /// For tests of the log alone, which have no states and so no snapshot files.
    #[cfg(test)]
    pub(crate) fn allow_any_purge(&self) {
        self.0.may_purge_anything.store(true, Ordering::Relaxed);
    }

    /// The last purged position.
    pub(crate) fn purged(&self) -> Option<LogPosition> {
        self.0.tail.lock().purged()
    }

    /// Whether this replica has ever voted or heard of a leader: a log that was lost has not.
    pub(crate) fn has_vote(&self) -> Result<bool, LogError> {
        Ok(self.vote()?.is_some())
    }

    /// The term of the last vote that was saved.
    pub(crate) fn voted_term(&self) -> Result<Option<u64>, LogError> {
        Ok(self.vote()?.map(|vote| vote.leader_id.term))
    }

    /// The last guard before entries go for good, whoever asked for it.
    fn check_purge(&self, upto: u64) -> Result<(), LogError> {
        #[cfg(test)]
        if self.0.may_purge_anything.load(Ordering::Relaxed) {
            return Ok(());
        }
        let newest = self.0.snapshots.as_ref().and_then(|files| files.newest_index());
        if newest.is_some_and(|newest| newest >= upto) {
            return Ok(());
        }
        Err(LogError::NoSnapshot { group: self.0.group, upto, newest })
    }

    /// The position of the last entry, else of the last purged one.
    pub(crate) fn last(&self) -> Option<LogPosition> {
        self.0.tail.lock().last()
    }

    /// The last position that this replica knows to be committed.
    pub(crate) fn committed(&self) -> Option<LogPosition> {
        *self.0.committed.lock()
    }

    /// Reads the part of `range` that exists, which must begin with its first entry.
    pub(crate) async fn entries(
        &self,
        range: Range<u64>,
        bytes_max: usize,
    ) -> Result<Vec<RaftEntry>, LogError> {
        let first = range.start;
        let entries = self.read(range, bytes_max).await?;
        match entries.first() {
            Some(entry) if entry.log_id.index != first => {
                Err(LogError::Corrupt(format!("group {}: entry {first} is not in the log", self.0.group)))
            }
            _ => Ok(entries),
        }
    }

    /// Reads the part of `range` that exists: at least one entry, then up to `bytes_max` from disk.
    async fn read(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<RaftEntry>, LogError> {
        for _attempt in 0..READ_ATTEMPTS_MAX {
            let plan = self.0.tail.lock().plan(range.clone());
            if plan.disk.is_empty() {
                return Ok(limited(plan.cached, bytes_max));
            }
            let Range { start, end } = plan.disk;
            let read = self.0.engine.read(self.0.group, start, end, bytes_max).await;
            // A truncation or purge in between may have mixed entries of two leaders: start anew.
            if self.0.tail.lock().epoch() != plan.epoch {
                continue;
            }
            let mut entries = read?;
            if entries.len() as u64 == end - start {
                entries.extend(plan.cached);
            }
            return Ok(limited(entries, bytes_max));
        }
        Err(LogError::Io(format!("group {}: the log kept changing during a read", self.0.group)))
    }

    /// Adds entries to the tail and encodes them for the engine.
    fn stage(&self, entries: Vec<RaftEntry>) -> Result<Option<(u64, Change)>, LogError> {
        let Some(first) = entries.first().map(|entry| entry.log_id.index) else { return Ok(None) };
        let mut records = Vec::with_capacity(entries.len());
        for entry in &entries {
            let mut record = BytesValue::new();
            record.value = record::encode(&Record::from(entry))?;
            records.push(record);
            if let RaftPayload::Normal(proposal) = &entry.payload {
                proposal.submitted.set();
            }
        }
        let end = first + entries.len() as u64;
        if entries.iter().all(|entry| Some(entry.log_id.leader_id.node_id) == self.0.engine.timed_node()) {
            self.0.commit_times.appended(end - 1);
        } else {
            self.0.commit_times.forget();
        }
        self.0.tail.lock().append(entries)?;
        Ok(Some((end, Change::Append { first, records })))
    }

    async fn append_entries(
        &self,
        entries: Vec<RaftEntry>,
        flushed: LogFlushed<TypeConfig>,
    ) -> Result<(), LogError> {
        let Some((end, change)) = self.stage(entries)? else {
            flushed.log_io_completed(Ok(()));
            return Ok(());
        };
        let this = self.clone();
        let done: Done = Box::new(move |result| {
            if result.is_ok() {
                this.0.tail.lock().made_durable(end);
            }
            flushed.log_io_completed(result.map_err(io::Error::other));
        });
        self.0.engine.submit(self.0.group, change, Some(done)).await
    }

    async fn truncate_from(&self, index: u64) -> Result<(), LogError> {
        let (first, end) = {
            let tail = self.0.tail.lock();
            (tail.first(), tail.end())
        };
        if index >= end {
            return Ok(());
        }
        let last = if index > first { self.position_of(index - 1).await? } else { None };
        self.0.tail.lock().truncate(index, last);
        self.0.commit_times.forget();
        self.0.engine.write(self.0.group, Change::Truncate { end: index.max(first) }).await
    }

    async fn position_of(&self, index: u64) -> Result<Option<LogPosition>, LogError> {
        if let Some(position) = self.0.tail.lock().position(index) {
            return Ok(Some(position));
        }
        let entries = self.read(index..index + 1, usize::MAX).await?;
        Ok(entries.first().map(|entry| entry.log_id.into()))
    }

    async fn purge_to(&self, upto: LogPosition) -> Result<(), LogError> {
        let change = {
            let mut tail = self.0.tail.lock();
            if tail.purged().is_some_and(|purged| purged.index >= upto.index) {
                return Ok(());
            }
            self.check_purge(upto.index)?;
            let clear = tail.purge(upto);
            Change::Purge { first: upto.index + 1, clear, purged: encode_position(upto)? }
        };
        self.0.engine.write(self.0.group, change).await?;
        crash_point(Step::Purged);
        Ok(())
    }

    fn vote(&self) -> Result<Option<RaftVote>, LogError> {
        let Some(bytes) = self.0.engine.get(self.0.group, key::VOTE)? else { return Ok(None) };
        Ok(Some(record::decode::<VoteRecord>(&bytes)?.into_vote()?))
    }

    async fn mark_committed(&self, position: Option<LogPosition>) -> Result<(), LogError> {
        let Some(position) = position else { return Ok(()) };
        *self.0.committed.lock() = Some(position);
        self.0.commit_times.committed(position.index);
        // Rides with the next sync: a lost mark only makes the restart apply a little less at once.
        self.0.engine.submit(self.0.group, Change::Committed(encode_position(position)?), None).await
    }
}

/// The longest prefix of `entries` that has at least one entry and stays below `bytes_max`.
fn limited(mut entries: Vec<RaftEntry>, bytes_max: usize) -> Vec<RaftEntry> {
    let mut bytes = 0usize;
    let mut keep = 0;
    for entry in &entries {
        bytes = bytes.saturating_add(Record::approximate_bytes(entry));
        if keep > 0 && bytes > bytes_max {
            break;
        }
        keep += 1;
    }
    entries.truncate(keep);
    entries
}

fn encode_position(position: LogPosition) -> Result<Vec<u8>, LogError> {
    Ok(record::encode(&(record::FORMAT, position))?)
}

fn decode_position(bytes: &[u8]) -> Result<LogPosition, LogError> {
    let (_format, position) = record::decode::<(u8, LogPosition)>(bytes)?;
    Ok(position)
}

fn half_open(range: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => u64::MAX,
    };
    start..end.max(start)
}

fn read_error(error: LogError) -> RaftStorageError {
    StorageIOError::read_logs(AnyError::new(&error)).into()
}

fn write_error(error: LogError) -> RaftStorageError {
    StorageIOError::write_logs(AnyError::new(&error)).into()
}

impl RaftLogReader<TypeConfig> for GroupLog {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<RaftEntry>, RaftStorageError> {
        self.read(half_open(&range), usize::MAX).await.map_err(read_error)
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<RaftEntry>, RaftStorageError> {
        let end = end.min(start.saturating_add(APPEND_ENTRIES_MAX));
        self.read(start..end, APPEND_BYTES_MAX).await.map_err(read_error)
    }
}

impl RaftLogStorage<TypeConfig> for GroupLog {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, RaftStorageError> {
        let tail = self.0.tail.lock();
        Ok(LogState {
            last_purged_log_id: tail.purged().map(Into::into),
            last_log_id: tail.last().map(Into::into),
        })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &RaftVote) -> Result<(), RaftStorageError> {
        let save = async {
            let bytes = record::encode(&VoteRecord::from(vote))?;
            self.0.engine.write(self.0.group, Change::Vote(bytes)).await
        };
        save.await.map_err(|error: LogError| StorageIOError::write_vote(AnyError::new(&error)).into())
    }

    async fn read_vote(&mut self) -> Result<Option<RaftVote>, RaftStorageError> {
        self.vote().map_err(|error| StorageIOError::read_vote(AnyError::new(&error)).into())
    }

    async fn save_committed(&mut self, committed: Option<RaftLogId>) -> Result<(), RaftStorageError> {
        self.mark_committed(committed.map(Into::into)).await.map_err(write_error)
    }

    async fn read_committed(&mut self) -> Result<Option<RaftLogId>, RaftStorageError> {
        Ok(self.committed().map(Into::into))
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<TypeConfig>,
    ) -> Result<(), RaftStorageError>
    where
        I: IntoIterator<Item = RaftEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries.into_iter().collect();
        self.append_entries(entries, callback).await.map_err(write_error)
    }

    async fn truncate(&mut self, log_id: RaftLogId) -> Result<(), RaftStorageError> {
        self.truncate_from(log_id.index).await.map_err(write_error)
    }

    async fn purge(&mut self, log_id: RaftLogId) -> Result<(), RaftStorageError> {
        self.purge_to(log_id.into()).await.map_err(write_error)
    }
}
