//! The log thread: takes what all groups want written, writes it as one batch with one sync, and
//! only then reports each write done.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_core::sabotage::{Fault, is};
use parking_lot::Mutex;
use protobuf::well_known_types::BytesValue;
use raft_engine::{Command, LogBatch, MessageExt};
use tokio::sync::mpsc;

use super::engine::{Poison, RawEngine, key, region};
use crate::crash::{Step, crash_point};
use crate::raft::error::LogError;
use crate::raft::record::Record;
use crate::raft::types::GroupId;

/// The most requests that share one batch.
const BATCH_REQUESTS_MAX: usize = 1_024;
/// A batch is closed once its entries reach this size; one request more may exceed it.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// Called once, after the write is on disk or has failed.
pub(crate) type Done = Box<dyn FnOnce(Result<(), LogError>) + Send>;

/// One change to a group's part of the log.
pub(crate) enum Change {
    /// Encoded records from `first` on, without a hole.
    Append { first: u64, records: Vec<BytesValue> },
    /// Drops the entries from `end` on.
    Truncate { end: u64 },
    /// Drops the entries below `first`, all of them if `clear`; `purged` is the last dropped position.
    Purge { first: u64, clear: bool, purged: Vec<u8> },
    /// Replaces the vote.
    Vote(Vec<u8>),
    /// Replaces the commit mark. Losing the newest is harmless: it needs no sync of its own, and
    /// where nobody waits for it not even a write.
    Committed(Vec<u8>),
}

impl Change {
    fn bytes(&self) -> usize {
        match self {
            Change::Append { records, .. } => records.iter().map(|record| record.value.len()).sum(),
            _ => 64,
        }
    }

    fn entries(&self) -> usize {
        match self {
            Change::Append { records, .. } => records.len(),
            _ => 0,
        }
    }
}

pub(crate) enum Request {
    Write {
        group: GroupId,
        change: Change,
        done: Option<Done>,
    },
    /// Begins a new file, and removes those that hold nothing any more, between two batches.
    ChangeFiles(std::sync::mpsc::Sender<Result<(), LogError>>),
    /// Ends the thread once everything before it is written.
    Stop,
}

/// Tells raft-engine where the index of our records is.
pub(crate) struct Records;

impl MessageExt for Records {
    type Entry = BytesValue;

    fn index(record: &BytesValue) -> u64 {
        // Only called on records that this process has just encoded. 0 would be refused as an
        // overwrite of older entries rather than be taken for another entry.
        Record::index_of(&record.value).unwrap_or(0)
    }
}

/// What the log thread has done so far.
#[derive(Debug, Default)]
pub(crate) struct WriterCounters {
    pub(crate) batches: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) entries: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// The newest commit mark of each group that nobody waits for: it rides with the next batch.
pub(crate) type Marks = Mutex<HashMap<GroupId, Vec<u8>>>;

pub(crate) struct Writer {
    pub(crate) raw: Arc<RawEngine>,
    pub(crate) poison: Arc<Poison>,
    pub(crate) counters: Arc<WriterCounters>,
    pub(crate) marks: Arc<Marks>,
}

impl Writer {
    /// Runs until a `Stop` or until every sender is gone.
    pub(crate) fn run(self, mut requests: mpsc::Receiver<Request>) {
        let mut taken = Vec::new();
        loop {
            match requests.blocking_recv() {
                None | Some(Request::Stop) => break,
                Some(Request::ChangeFiles(done)) => {
                    self.change_files(&done);
                    continue;
                }
                Some(request) => taken.push(request),
            }
            let (mut stopping, mut change) = (false, None);
            let mut bytes = taken.first().map_or(0, request_bytes);
            while taken.len() < BATCH_REQUESTS_MAX && bytes < BATCH_BYTES_MAX {
                match requests.try_recv() {
                    Ok(Request::Stop) => {
                        stopping = true;
                        break;
                    }
                    Ok(Request::ChangeFiles(done)) => {
                        change = Some(done);
                        break;
                    }
                    Ok(request) => {
                        bytes += request_bytes(&request);
                        taken.push(request);
                    }
                    Err(_) => break,
                }
            }
            self.write(taken.drain(..));
            if let Some(done) = change {
                self.change_files(&done);
            }
            if stopping {
                break;
            }
        }
        // The marks that no batch has taken.
        self.write(std::iter::empty());
        requests.close();
        while let Some(request) = requests.blocking_recv() {
            if let Request::Write { done: Some(done), .. } = request {
                done(Err(LogError::Closed));
            }
        }
    }

    fn write(&self, requests: impl Iterator<Item = Request>) {
        let mut waiting: Vec<Done> = Vec::new();
        let mut batch = LogBatch::default();
        let mut spans = Spans { raw: &self.raw, spans: HashMap::new() };
        let mut sync = false;
        for request in requests {
            let Request::Write { group, change, done } = request else { continue };
            if let Err(error) = self.poison.check().and_then(|()| spans.check(group, &change)) {
                if let Some(done) = done {
                    done(Err(error));
                }
                continue;
            }
            self.counters.requests.fetch_add(1, Ordering::Relaxed);
            self.counters.entries.fetch_add(change.entries() as u64, Ordering::Relaxed);
            self.counters.bytes.fetch_add(change.bytes() as u64, Ordering::Relaxed);
            sync |= !matches!(change, Change::Committed(_));
            if let Err(error) = add(&mut batch, &self.raw, group, change) {
                self.poison.set(&format!("a batch could not be built: {error}"));
            }
            waiting.extend(done);
        }
        self.add_marks(&mut batch);
        sync &= !is(Fault::AckBeforeFsync);
        let result = self.poison.check().and_then(|()| self.commit(&mut batch, sync));
        crash_point(Step::LogBatchWritten);
        for done in waiting {
            done(result.clone());
        }
    }

    /// All that was written is in the index: nobody else writes.
    fn change_files(&self, done: &std::sync::mpsc::Sender<Result<(), LogError>>) {
        let result = self.poison.check().and_then(|()| {
            let changed = catch_unwind(AssertUnwindSafe(|| self.raw.purge_manager().must_purge_all_stale()));
            changed.map_err(|panic| {
                let cause = self.raw.describe(panic.as_ref());
                self.poison.set(&cause);
                LogError::Poisoned(cause)
            })
        });
        // Nobody may wait for it any more.
        let _ = done.send(result);
    }

    /// What a mark says was committed is in the log before it: it was appended and synced first.
    fn add_marks(&self, batch: &mut LogBatch) {
        for (group, position) in self.marks.lock().drain() {
            if let Err(error) = add(batch, &self.raw, group, Change::Committed(position)) {
                self.poison.set(&format!("a batch could not be built: {error}"));
            }
        }
    }

    /// Writes the batch; any failure leaves the log's end unknown and so poisons it.
    fn commit(&self, batch: &mut LogBatch, sync: bool) -> Result<(), LogError> {
        if batch.is_empty() {
            return Ok(());
        }
        match self.raw.write_batch(batch, sync) {
            Ok(()) => {
                self.counters.batches.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(failure) => {
                self.poison.set(&failure);
                self.poison.check()
            }
        }
    }
}

fn request_bytes(request: &Request) -> usize {
    match request {
        Request::Write { change, .. } => change.bytes(),
        Request::ChangeFiles(_) | Request::Stop => 0,
    }
}

/// The text that a panic carries.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "panicked without a message".to_owned()
    }
}

/// The truncate marker that hides nothing.
const NO_END: [u8; 8] = u64::MAX.to_be_bytes();

fn add(
    batch: &mut LogBatch,
    raw: &RawEngine,
    group: GroupId,
    change: Change,
) -> Result<(), raft_engine::Error> {
    let region = region(group);
    match change {
        Change::Append { records, .. } => {
            batch.add_entries::<Records>(region, &records)?;
            // The entries that the marker hid are overwritten by these, in the same batch. It is set to
            // what hides nothing: raft-engine forgets deletions when it rewrites files, and an old marker
            // that came back after a crash would hide acknowledged entries.
            batch.put(region, key::END.to_vec(), NO_END.to_vec())?;
        }
        // raft-engine has no truncate: the marker hides the tail until the next append replaces it.
        Change::Truncate { end } => batch.put(region, key::END.to_vec(), end.to_be_bytes().to_vec())?,
        Change::Purge { first, clear, purged } => {
            batch.put(region, key::PURGED.to_vec(), purged)?;
            let mut index = first;
            if clear {
                // Entries hidden by the truncate marker must go as well, before it does.
                index = raw.last_index(region).map_or(first, |last| first.max(last + 1));
                batch.put(region, key::END.to_vec(), NO_END.to_vec())?;
            }
            batch.add_command(region, Command::Compact { index });
        }
        Change::Vote(vote) => batch.put(region, key::VOTE.to_vec(), vote)?,
        Change::Committed(position) => batch.put(region, key::COMMITTED.to_vec(), position)?,
    }
    Ok(())
}

/// The span of each group's entries, as it will be after the batch so far. A second guard behind
/// [`super::tail::Tail`]: raft-engine panics at recovery on a hole, and then no group starts.
struct Spans<'a> {
    raw: &'a RawEngine,
    /// First index and the index after the last; `None` while the group has no entries.
    spans: HashMap<GroupId, Option<(u64, u64)>>,
}

impl Spans<'_> {
    fn check(&mut self, group: GroupId, change: &Change) -> Result<(), LogError> {
        let region = region(group);
        let span = self
            .spans
            .entry(group)
            .or_insert_with(|| Some((self.raw.first_index(region)?, self.raw.last_index(region)? + 1)));
        match change {
            Change::Append { first, records } => {
                let (start, end) = span.unwrap_or((*first, *first));
                if *first < start || *first > end {
                    return Err(LogError::Hole { group, expected: end, got: *first });
                }
                *span = Some((start, first + records.len() as u64));
            }
            Change::Purge { first, clear, .. } => {
                *span = match *span {
                    Some((_, end)) if !clear => Some((*first, end)),
                    _ => None,
                };
            }
            Change::Truncate { .. } | Change::Vote(_) | Change::Committed(_) => {}
        }
        Ok(())
    }
}
