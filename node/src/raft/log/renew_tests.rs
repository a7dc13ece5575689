//! Log files made anew: what was purged is gone from the disk, and nothing else.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;

use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::{EntryPayload as RaftPayload, RaftLogReader};
use tempfile::TempDir;

use super::engine::{LogEngine, LogFiles, LogOptions};
use super::store::GroupLog;
use crate::raft::types::{GroupId, LogPosition, Proposal, RaftEntry};

fn open(dir: &Path) -> Arc<LogEngine> {
    let files = LogFiles { file_bytes: 64 << 10, ..LogFiles::default() };
    LogEngine::open(&LogOptions { dir: dir.to_owned(), node: 1, cluster: "c".into(), files }).unwrap()
}

async fn group(engine: &Arc<LogEngine>, id: GroupId) -> GroupLog {
    let log = GroupLog::open(engine.clone(), id, 300, None).await.unwrap();
    log.allow_any_purge();
    log
}

fn position(index: u64) -> LogPosition {
    LogPosition { term: 1, node: 1, index }
}

fn text(group: GroupId, index: u64) -> String {
    format!("⟦{group}:{index}⟧ 记忆")
}

fn entries(group: GroupId, range: std::ops::Range<u64>) -> Vec<RaftEntry> {
    let entry = |index| {
        let mut proposal = Proposal::default();
        proposal.payload.commands = vec![text(group, index).into()];
        RaftEntry { log_id: position(index).into(), payload: RaftPayload::Normal(proposal) }
    };
    range.map(entry).collect()
}

async fn held(log: &mut GroupLog) -> Vec<u64> {
    let entries = log.try_get_log_entries(..).await.unwrap();
    entries.iter().map(|entry| entry.log_id.index).collect()
}

fn on_disk(dir: &Path, text: &str) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

#[tokio::test]
async fn what_was_purged_is_gone_from_the_disk_and_nothing_else() {
    let dir = TempDir::new().unwrap();
    let engine = open(dir.path());
    let (mut one, mut two) = (group(&engine, 1).await, group(&engine, 2).await);
    one.blocking_append(entries(1, 0..20)).await.unwrap();
    two.blocking_append(entries(2, 0..20)).await.unwrap();
    one.purge(position(9).into()).await.unwrap();
    assert!(on_disk(dir.path(), &text(1, 3)), "the log alone does not remove it");
    engine.renew_files().await.unwrap();
    for index in 0..=9 {
        assert!(!on_disk(dir.path(), &text(1, index)), "{index}");
    }
    assert!(on_disk(dir.path(), &text(1, 10)) && on_disk(dir.path(), &text(2, 0)));
    // What was copied once goes as well once it is dead.
    one.purge(position(14).into()).await.unwrap();
    two.blocking_append(entries(2, 20..25)).await.unwrap();
    engine.renew_files().await.unwrap();
    assert!(!on_disk(dir.path(), &text(1, 12)) && on_disk(dir.path(), &text(1, 15)));
    assert_eq!(held(&mut one).await, (15..20).collect::<Vec<_>>());
    engine.close().await.unwrap();
    assert!(engine.renew_files().await.is_err(), "a closed log says so");

    let engine = open(dir.path());
    let (mut one, mut two) = (group(&engine, 1).await, group(&engine, 2).await);
    assert_eq!(held(&mut one).await, (15..20).collect::<Vec<_>>());
    assert_eq!(held(&mut two).await, (0..25).collect::<Vec<_>>());
    assert!(!on_disk(dir.path(), &text(1, 12)));
    one.blocking_append(entries(1, 20..22)).await.unwrap();
    assert_eq!(held(&mut one).await.last(), Some(&21));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_go_on_while_files_are_made_anew() {
    const ENTRIES: u64 = 600;
    let dir = TempDir::new().unwrap();
    let engine = open(dir.path());
    let writers = (1..=4).map(|id| {
        let engine = engine.clone();
        tokio::spawn(async move {
            let mut log = group(&engine, id).await;
            for index in 0..ENTRIES {
                log.blocking_append(entries(id, index..index + 1)).await.unwrap();
                if index % 50 == 49 {
                    log.purge(position(index - 10).into()).await.unwrap();
                }
            }
        })
    });
    let writers = futures::future::join_all(writers.collect::<Vec<_>>());
    tokio::pin!(writers);
    let mut renewed = 0;
    loop {
        tokio::select! {
            done = &mut writers => {
                done.into_iter().for_each(|done| done.unwrap());
                break;
            }
            done = engine.renew_files() => {
                done.unwrap();
                renewed += 1;
            }
        }
    }
    assert!(renewed > 3, "{renewed}");
    engine.renew_files().await.unwrap();
    engine.close().await.unwrap();
    let engine = open(dir.path());
    for id in 1..=4 {
        let mut log = group(&engine, id).await;
        let first = ENTRIES - 10;
        assert_eq!(held(&mut log).await, (first..ENTRIES).collect::<Vec<_>>(), "group {id}");
        assert!(!on_disk(dir.path(), &text(id, first - 1)));
    }
}
