//! When the log says "done", and what happens when it cannot.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use protobuf::well_known_types::BytesValue;
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::device::LogDevice;
use super::engine::{LogEngine, LogFiles, LogOptions, key};
use super::writer::{Change, Done};
use crate::raft::error::LogError;
use crate::raft::record::{self, Record};
use crate::raft::types::{LogPosition, RaftEntry};

fn options(dir: &Path) -> LogOptions {
    LogOptions { dir: dir.to_owned(), node: 3, cluster: "c".into(), files: LogFiles::default() }
}

fn append(range: std::ops::Range<u64>) -> Change {
    let first = range.start;
    let encode = |index| {
        let position = LogPosition { term: 1, node: 3, index };
        let entry = RaftEntry { log_id: position.into(), payload: openraft::EntryPayload::Blank };
        let mut value = BytesValue::new();
        value.value = record::encode(&Record::from(&entry)).unwrap();
        value
    };
    Change::Append { first, records: range.map(encode).collect() }
}

/// Submits a change and returns what its callback saw: the result, and the syncs done by then.
async fn submit(engine: &Arc<LogEngine>, group: u32, change: Change) -> (Result<(), LogError>, u64) {
    let (sender, receiver) = oneshot::channel();
    let probe = engine.probe().clone();
    let done: Done = Box::new(move |result| sender.send((result, probe.syncs())).unwrap());
    engine.submit(group, change, Some(done)).await.unwrap();
    receiver.await.unwrap()
}

#[tokio::test]
async fn the_callback_comes_after_the_sync() {
    let dir = TempDir::new().unwrap();
    let engine = LogEngine::open(&options(dir.path())).unwrap();
    for index in 0..20 {
        let before = engine.probe().syncs();
        let (result, at_callback) = submit(&engine, 1, append(index..index + 1)).await;
        result.unwrap();
        assert!(at_callback > before, "called back before the sync of entry {index}");
    }
    let delay = Duration::from_millis(120);
    engine.probe().delay(delay);
    for change in [append(20..21), Change::Vote(vec![1]), Change::Truncate { end: 5 }] {
        let start = Instant::now();
        submit(&engine, 1, change).await.0.unwrap();
        assert!(start.elapsed() >= delay, "a slow sync was not waited for");
    }
}

#[tokio::test]
async fn a_commit_mark_alone_needs_no_sync() {
    let dir = TempDir::new().unwrap();
    let engine = LogEngine::open(&options(dir.path())).unwrap();
    let before = engine.probe().syncs();
    let (result, at_callback) = submit(&engine, 1, Change::Committed(vec![1, 2, 3])).await;
    result.unwrap();
    assert_eq!(at_callback, before);
}

#[tokio::test]
async fn a_commit_mark_that_nobody_waits_for_rides_with_the_next_batch() {
    let dir = TempDir::new().unwrap();
    let engine = LogEngine::open(&options(dir.path())).unwrap();
    let mark = |engine: &LogEngine| engine.raw().unwrap().get(1, key::COMMITTED);
    for number in 0..3 {
        engine.submit(1, Change::Committed(vec![number]), None).await.unwrap();
    }
    let batches = engine.stats().batches;
    assert_eq!((batches, mark(&engine)), (0, None), "not even a write");
    submit(&engine, 2, append(0..1)).await.0.unwrap();
    assert_eq!(mark(&engine), Some(vec![2]), "the newest, with the batch of another group");
    engine.submit(1, Change::Committed(vec![7]), None).await.unwrap();
    engine.close().await.unwrap();
    let engine = LogEngine::open(&options(dir.path())).unwrap();
    assert_eq!(mark(&engine), Some(vec![7]), "an orderly end writes what is left");
}

#[tokio::test]
async fn a_failed_sync_poisons_the_log() {
    let dir = TempDir::new().unwrap();
    let engine = LogEngine::open(&options(dir.path())).unwrap();
    submit(&engine, 1, append(0..5)).await.0.unwrap();
    engine.probe().fail();
    let failed = submit(&engine, 1, append(5..6)).await.0;
    assert!(matches!(failed, Err(LogError::Poisoned(_))), "{failed:?}");
    for group in [1, 2] {
        let later = engine.write(group, append(0..1)).await;
        assert!(matches!(later, Err(LogError::Poisoned(_))), "{later:?}");
    }
    engine.close().await.unwrap();
    let engine = LogEngine::open(&options(dir.path())).unwrap();
    assert!(engine.raw().unwrap().last_index(1) >= Some(4), "what was acknowledged is there");
    assert_eq!(engine.read(1, 0, 5, usize::MAX).await.unwrap().len(), 5);
}

#[tokio::test]
async fn what_a_killed_process_left_is_synced_before_it_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LogEngine::open(&options(dir.path())).unwrap();
    submit(&engine, 1, append(0..5)).await.0.unwrap();
    let unsynced = submit(&engine, 1, Change::Committed(vec![7])).await;
    assert!(unsynced.0.is_ok());
    engine.close().await.unwrap();
    let engine = LogEngine::open(&options(dir.path())).unwrap();
    assert!(engine.probe().syncs() >= 1, "nothing was written yet, and what was found is on disk");
    assert_eq!(engine.read(1, 0, 5, usize::MAX).await.unwrap().len(), 5);
}

#[tokio::test]
async fn a_hole_never_reaches_the_engine() {
    let dir = TempDir::new().unwrap();
    let engine = LogEngine::open(&options(dir.path())).unwrap();
    submit(&engine, 1, append(0..3)).await.0.unwrap();
    let refused = submit(&engine, 1, append(5..6)).await.0;
    assert_eq!(refused, Err(LogError::Hole { group: 1, expected: 3, got: 5 }));
    submit(&engine, 1, append(3..4)).await.0.unwrap();
    engine.close().await.unwrap();
    let engine = LogEngine::open(&options(dir.path())).unwrap();
    assert_eq!(engine.raw().unwrap().last_index(1), Some(3));
}

#[tokio::test]
async fn another_nodes_directory_is_refused() {
    let dir = TempDir::new().unwrap();
    LogEngine::open(&options(dir.path())).unwrap().close().await.unwrap();
    let other = LogOptions { node: 4, ..options(dir.path()) };
    assert!(matches!(LogEngine::open(&other), Err(LogError::WrongOwner { .. })));
    let other = LogOptions { cluster: "别的".into(), ..options(dir.path()) };
    assert!(matches!(LogEngine::open(&other), Err(LogError::WrongOwner { .. })));
    LogEngine::open(&options(dir.path())).unwrap();
}

#[tokio::test]
async fn a_damaged_log_is_an_error_not_an_empty_log() {
    let dir = TempDir::new().unwrap();
    let engine = LogEngine::open(&options(dir.path())).unwrap();
    submit(&engine, 1, append(0..50)).await.0.unwrap();
    engine.close().await.unwrap();
    let log = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "raftlog"))
        .unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[..64].fill(0xFF);
    std::fs::write(&log, bytes).unwrap();
    let opened = LogEngine::open(&options(dir.path())).map(|_| ());
    assert!(matches!(opened, Err(LogError::Corrupt(_))), "{opened:?}");
}
