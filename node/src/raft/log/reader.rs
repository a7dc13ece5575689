//! The thread that reads entries back from disk.
//!
//! Its own thread for two reasons. File reads must not hold a tokio worker. And raft-engine 0.4.2
//! keeps the last block read in a thread-local cache whose key is the file number, offset and length,
//! without the engine: where several engines live in one process, as in `holdfast dev`, a thread that
//! reads from two of them can get one node's entries from another node's log.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use protobuf::well_known_types::BytesValue;
use tokio::sync::{mpsc, oneshot};

use super::engine::{RawEngine, region};
use super::writer::{Records, panic_text};
use crate::raft::error::LogError;
use crate::raft::record::{self, Record};
use crate::raft::types::{GroupId, RaftEntry};

/// Entries to read: at least the first one, then up to `bytes_max`.
pub(crate) struct Read {
    pub(crate) group: GroupId,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) bytes_max: usize,
    pub(crate) answer: oneshot::Sender<Result<Vec<RaftEntry>, LogError>>,
}

/// Runs until every sender is gone or the log closes.
pub(crate) fn run(raw: &Arc<RawEngine>, mut reads: mpsc::Receiver<Option<Read>>) {
    while let Some(Some(read)) = reads.blocking_recv() {
        let result = entries(raw, &read);
        // A reader that went away does not need the answer.
        let _ = read.answer.send(result);
    }
}

fn entries(raw: &RawEngine, read: &Read) -> Result<Vec<RaftEntry>, LogError> {
    let Read { group, start, end, bytes_max, .. } = *read;
    let mut records = Vec::new();
    let fetched = catch_unwind(AssertUnwindSafe(|| {
        raw.fetch_entries_to::<Records>(region(group), start, end, Some(bytes_max), &mut records)
    }));
    match fetched {
        Ok(Ok(_count)) => decode(group, start, &records),
        Ok(Err(error)) => Err(LogError::Corrupt(format!("group {group}: entries {start}..{end}: {error}"))),
        Err(panic) => Err(LogError::Corrupt(panic_text(panic.as_ref()))),
    }
}

/// Decodes consecutive records and checks that they are the ones asked for.
pub(crate) fn decode(group: GroupId, first: u64, records: &[BytesValue]) -> Result<Vec<RaftEntry>, LogError> {
    let mut entries = Vec::with_capacity(records.len());
    for (index, record) in (first..).zip(records) {
        let entry = record::decode::<Record>(&record.value)?.into_entry()?;
        if entry.log_id.index != index {
            let found = entry.log_id.index;
            return Err(LogError::Corrupt(format!("group {group}: entry {index} says that it is {found}")));
        }
        entries.push(entry);
    }
    Ok(entries)
}
