//! The log store against openraft's conformance suite, and what the suite does not ask.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Debug;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::{Arc, Mutex};

use openraft::storage::{LogFlushed, RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::testing::{StoreBuilder, Suite};
use openraft::{
    EntryPayload as RaftPayload, LogState, OptionalSend, RaftLogReader, RaftSnapshotBuilder, Snapshot,
    SnapshotMeta,
};
use tempfile::TempDir;

use super::engine::{LogEngine, LogFiles, LogOptions};
use super::store::GroupLog;
use crate::raft::types::{
    GroupId, LogPosition, NodeId, Outcomes, Proposal, RaftEntry, RaftLogId, RaftStorageError,
    RaftStoredMembership, RaftVote, SnapshotData, TypeConfig,
};

/// A small cache, so that reads come from disk too.
const CACHE_BYTES: usize = 300;

fn open(dir: &Path) -> Arc<LogEngine> {
    let options =
        LogOptions { dir: dir.to_owned(), node: 1, cluster: "测试".into(), files: LogFiles::default() };
    LogEngine::open(&options).unwrap()
}

async fn group(engine: &Arc<LogEngine>, id: GroupId) -> GroupLog {
    let log = GroupLog::open(engine.clone(), id, CACHE_BYTES, None).await.unwrap();
    log.allow_any_purge();
    log
}

fn position(term: u64, index: u64) -> LogPosition {
    LogPosition { term, node: 1, index }
}

/// An entry whose command names its group, term and index.
fn entry(group: GroupId, term: u64, index: u64) -> RaftEntry {
    let command = format!("{group}/{term}/{index} 记忆 🧠");
    let mut proposal = Proposal::default();
    proposal.payload.commands = vec![command.into(), bytes::Bytes::new()];
    RaftEntry { log_id: position(term, index).into(), payload: RaftPayload::Normal(proposal) }
}

fn entries(group: GroupId, term: u64, range: std::ops::Range<u64>) -> Vec<RaftEntry> {
    range.map(|index| entry(group, term, index)).collect()
}

/// What the entries say, as one string each.
async fn contents(log: &mut GroupLog) -> Vec<String> {
    let entries = log.try_get_log_entries(..).await.unwrap();
    let text = |entry: &RaftEntry| match &entry.payload {
        RaftPayload::Normal(proposal) => String::from_utf8(proposal.payload.commands[0].to_vec()).unwrap(),
        other => panic!("unexpected {other:?}"),
    };
    entries.iter().map(text).collect()
}

fn expected(group: GroupId, parts: &[(u64, std::ops::Range<u64>)]) -> Vec<String> {
    let lines = parts
        .iter()
        .flat_map(|(term, range)| range.clone().map(move |index| format!("{group}/{term}/{index} 记忆 🧠")));
    lines.collect()
}

#[tokio::test]
async fn everything_survives_a_reopen() {
    let dir = TempDir::new().unwrap();
    let engine = open(dir.path());
    let mut log = group(&engine, 7).await;
    log.blocking_append(entries(7, 1, 0..50)).await.unwrap();
    let mut vote = RaftVote::new(9, 2);
    log.save_vote(&vote).await.unwrap();
    vote.commit();
    log.save_vote(&vote).await.unwrap();
    log.save_committed(Some(position(1, 41).into())).await.unwrap();
    assert_eq!(contents(&mut log).await, expected(7, &[(1, 0..50)]));
    engine.close().await.unwrap();
    assert!(log.try_get_log_entries(0..1).await.is_err(), "a closed log answers nothing");

    let engine = open(dir.path());
    let mut log = group(&engine, 7).await;
    assert_eq!(contents(&mut log).await, expected(7, &[(1, 0..50)]));
    assert_eq!(log.read_vote().await.unwrap(), Some(vote));
    assert_eq!(log.read_committed().await.unwrap(), Some(position(1, 41).into()));
    assert_eq!(log.last(), Some(position(1, 49)));
    let mut other = group(&engine, 8).await;
    assert_eq!((other.last(), other.read_vote().await.unwrap()), (None, None));
}

#[tokio::test]
async fn a_truncate_survives_a_reopen_and_is_lifted_by_the_next_append() {
    let dir = TempDir::new().unwrap();
    let engine = open(dir.path());
    let mut log = group(&engine, 0).await;
    log.blocking_append(entries(0, 1, 0..10)).await.unwrap();
    log.truncate(position(1, 6).into()).await.unwrap();
    assert_eq!(log.last(), Some(position(1, 5)));
    engine.close().await.unwrap();

    let engine = open(dir.path());
    let mut log = group(&engine, 0).await;
    assert_eq!(contents(&mut log).await, expected(0, &[(1, 0..6)]));
    log.blocking_append(entries(0, 2, 6..8)).await.unwrap();
    assert_eq!(contents(&mut log).await, expected(0, &[(1, 0..6), (2, 6..8)]));
    engine.close().await.unwrap();

    let engine = open(dir.path());
    let mut log = group(&engine, 0).await;
    assert_eq!(contents(&mut log).await, expected(0, &[(1, 0..6), (2, 6..8)]));
    log.truncate(position(1, 0).into()).await.unwrap();
    engine.close().await.unwrap();

    let engine = open(dir.path());
    let mut log = group(&engine, 0).await;
    assert_eq!((contents(&mut log).await.len(), log.last()), (0, None));
    log.blocking_append(entries(0, 3, 0..2)).await.unwrap();
    engine.close().await.unwrap();
    let engine = open(dir.path());
    assert_eq!(contents(&mut group(&engine, 0).await).await, expected(0, &[(3, 0..2)]));
}

#[tokio::test]
async fn a_purge_survives_a_reopen_even_behind_the_end() {
    let dir = TempDir::new().unwrap();
    let engine = open(dir.path());
    let mut log = group(&engine, 3).await;
    log.blocking_append(entries(3, 1, 0..20)).await.unwrap();
    log.purge(position(1, 7).into()).await.unwrap();
    engine.close().await.unwrap();

    let engine = open(dir.path());
    let mut log = group(&engine, 3).await;
    assert_eq!(contents(&mut log).await, expected(3, &[(1, 8..20)]));
    let state = log.get_log_state().await.unwrap();
    assert_eq!(state.last_purged_log_id, Some(position(1, 7).into()));
    // A conflicting tail is hidden, then a purge as after an installed snapshot passes over it.
    log.truncate(position(1, 12).into()).await.unwrap();
    log.purge(position(5, 30).into()).await.unwrap();
    assert_eq!(log.last(), Some(position(5, 30)));
    engine.close().await.unwrap();

    let engine = open(dir.path());
    let mut log = group(&engine, 3).await;
    assert_eq!((contents(&mut log).await.len(), log.last()), (0, Some(position(5, 30))));
    log.blocking_append(entries(3, 6, 31..34)).await.unwrap();
    engine.close().await.unwrap();
    let engine = open(dir.path());
    assert_eq!(contents(&mut group(&engine, 3).await).await, expected(3, &[(6, 31..34)]));
}

#[tokio::test]
async fn a_purge_between_a_hidden_tail_and_the_engine_end_keeps_the_tail_hidden() {
    let dir = TempDir::new().unwrap();
    let engine = open(dir.path());
    let mut log = group(&engine, 3).await;
    log.blocking_append(entries(3, 1, 0..20)).await.unwrap();
    log.truncate(position(1, 6).into()).await.unwrap();
    log.purge(position(2, 10).into()).await.unwrap();
    engine.close().await.unwrap();
    let engine = open(dir.path());
    let mut log = group(&engine, 3).await;
    assert_eq!((contents(&mut log).await.len(), log.last()), (0, Some(position(2, 10))));
    log.blocking_append(entries(3, 2, 11..13)).await.unwrap();
    engine.close().await.unwrap();
    let engine = open(dir.path());
    assert_eq!(contents(&mut group(&engine, 3).await).await, expected(3, &[(2, 11..13)]));
}

#[tokio::test]
async fn a_hole_is_refused_and_the_log_goes_on() {
    let dir = TempDir::new().unwrap();
    let engine = open(dir.path());
    let mut log = group(&engine, 2).await;
    log.blocking_append(entries(2, 1, 0..3)).await.unwrap();
    let refused = log.blocking_append(entries(2, 1, 4..6)).await.unwrap_err();
    assert!(refused.to_string().contains("hole"), "{refused}");
    assert!(log.blocking_append(entries(2, 1, 2..4)).await.is_err());
    log.blocking_append(entries(2, 1, 3..4)).await.unwrap();
    engine.close().await.unwrap();
    let engine = open(dir.path());
    assert_eq!(contents(&mut group(&engine, 2).await).await, expected(2, &[(1, 0..4)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups_interleave_and_share_syncs() {
    let dir = TempDir::new().unwrap();
    let engine = open(dir.path());
    let syncs_before = engine.stats().syncs;
    let writers: Vec<_> = (0..16)
        .map(|id| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let mut log = group(&engine, id).await;
                for index in 0..40 {
                    log.blocking_append(entries(id, 1, index..index + 1)).await.unwrap();
                    if index % 10 == 9 {
                        log.save_vote(&RaftVote::new(index, u64::from(id))).await.unwrap();
                        log.truncate(position(1, index).into()).await.unwrap();
                        log.blocking_append(entries(id, 2, index..index + 1)).await.unwrap();
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let stats = engine.stats();
    assert!(stats.syncs - syncs_before < stats.requests, "{stats:?}");
    engine.close().await.unwrap();
    let engine = open(dir.path());
    for id in 0..16 {
        let mut log = group(&engine, id).await;
        let lines = contents(&mut log).await;
        assert_eq!(lines.len(), 40);
        for (index, line) in (0u64..).zip(&lines) {
            let term = if index % 10 == 9 { 2 } else { 1 };
            assert_eq!(line, &format!("{id}/{term}/{index} 记忆 🧠"));
        }
        assert_eq!(log.read_vote().await.unwrap(), Some(RaftVote::new(39, u64::from(id))));
    }
}

#[tokio::test]
async fn an_append_message_is_bounded_but_never_empty() {
    let dir = TempDir::new().unwrap();
    let engine = open(dir.path());
    let mut log = group(&engine, 0).await;
    let mut big = entries(0, 1, 0..12);
    for entry in &mut big {
        if let RaftPayload::Normal(proposal) = &mut entry.payload {
            proposal.payload.commands.push(vec![7u8; 1 << 20].into());
        }
    }
    log.blocking_append(big).await.unwrap();
    log.blocking_append(entries(0, 1, 12..200)).await.unwrap();
    let some = log.limited_get_log_entries(0, 200).await.unwrap();
    assert_eq!((some.len(), some[0].log_id.index), (3, 0));
    let some = log.limited_get_log_entries(11, 200).await.unwrap();
    assert_eq!((some.len(), some[0].log_id.index), (64, 11));
    assert_eq!(log.limited_get_log_entries(199, 200).await.unwrap().len(), 1);
}

#[tokio::test]
async fn logs_of_one_process_do_not_share_what_they_read() {
    // Same group, same sizes, other contents: blocks of the two logs stand at the same places.
    let dirs = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let mut logs = Vec::new();
    for (term, dir) in (1..).zip(&dirs) {
        let engine = open(dir.path());
        let mut log = group(&engine, 4).await;
        log.blocking_append(entries(4, term, 0..60)).await.unwrap();
        logs.push((term, log));
    }
    for _ in 0..20 {
        for (term, log) in &mut logs {
            assert_eq!(contents(log).await, expected(4, &[(*term, 0..60)]));
        }
    }
}

/// openraft's suite needs a state machine that can build snapshots; ours cannot yet.
#[derive(Clone, Default)]
struct MemoryState(Arc<Mutex<Memory>>);

#[derive(Default)]
struct Memory {
    applied: Option<RaftLogId>,
    membership: RaftStoredMembership,
    snapshot: Option<SnapshotMeta<NodeId, ()>>,
}

impl MemoryState {
    fn current(&self) -> Option<Snapshot<TypeConfig>> {
        let meta = self.0.lock().unwrap().snapshot.clone()?;
        Some(Snapshot { meta, snapshot: Box::default() })
    }
}

impl RaftSnapshotBuilder<TypeConfig> for MemoryState {
    async fn build_snapshot(&mut self) -> Result<Snapshot<TypeConfig>, RaftStorageError> {
        {
            let mut memory = self.0.lock().unwrap();
            memory.snapshot = Some(SnapshotMeta {
                last_log_id: memory.applied,
                last_membership: memory.membership.clone(),
                snapshot_id: "1".into(),
            });
        }
        Ok(self.current().unwrap())
    }
}

impl RaftStateMachine<TypeConfig> for MemoryState {
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> Result<(Option<RaftLogId>, RaftStoredMembership), RaftStorageError> {
        let memory = self.0.lock().unwrap();
        Ok((memory.applied, memory.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Outcomes>, RaftStorageError>
    where
        I: IntoIterator<Item = RaftEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut memory = self.0.lock().unwrap();
        let apply = |entry: RaftEntry| {
            memory.applied = Some(entry.log_id);
            if let RaftPayload::Membership(membership) = entry.payload {
                memory.membership = RaftStoredMembership::new(Some(entry.log_id), membership);
            }
            Outcomes::new()
        };
        Ok(entries.into_iter().map(apply).collect())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<SnapshotData>, RaftStorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<NodeId, ()>,
        _snapshot: Box<SnapshotData>,
    ) -> Result<(), RaftStorageError> {
        let mut memory = self.0.lock().unwrap();
        memory.applied = meta.last_log_id;
        memory.membership = meta.last_membership.clone();
        memory.snapshot = Some(meta.clone());
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<TypeConfig>>, RaftStorageError> {
        Ok(self.current())
    }
}

/// The suite appends over existing and purged entries, which openraft itself never does.
struct SuiteLog(GroupLog);

impl RaftLogReader<TypeConfig> for SuiteLog {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<RaftEntry>, RaftStorageError> {
        self.0.try_get_log_entries(range).await
    }
}

impl RaftLogStorage<TypeConfig> for SuiteLog {
    type LogReader = GroupLog;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, RaftStorageError> {
        self.0.get_log_state().await
    }

    async fn get_log_reader(&mut self) -> GroupLog {
        self.0.get_log_reader().await
    }

    async fn save_vote(&mut self, vote: &RaftVote) -> Result<(), RaftStorageError> {
        self.0.save_vote(vote).await
    }

    async fn read_vote(&mut self) -> Result<Option<RaftVote>, RaftStorageError> {
        self.0.read_vote().await
    }

    async fn save_committed(&mut self, committed: Option<RaftLogId>) -> Result<(), RaftStorageError> {
        self.0.save_committed(committed).await
    }

    async fn read_committed(&mut self) -> Result<Option<RaftLogId>, RaftStorageError> {
        self.0.read_committed().await
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
        let purged = self.0.get_log_state().await?.last_purged_log_id;
        let mut entries: Vec<RaftEntry> = entries.into_iter().collect();
        entries.retain(|entry| Some(entry.log_id.index) > purged.map(|purged| purged.index));
        if let Some(first) = entries.first() {
            self.0.truncate(first.log_id).await?;
        }
        self.0.append(entries, callback).await
    }

    async fn truncate(&mut self, log_id: RaftLogId) -> Result<(), RaftStorageError> {
        self.0.truncate(log_id).await
    }

    async fn purge(&mut self, log_id: RaftLogId) -> Result<(), RaftStorageError> {
        self.0.purge(log_id).await
    }
}

struct Builder;

impl StoreBuilder<TypeConfig, SuiteLog, MemoryState, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, SuiteLog, MemoryState), RaftStorageError> {
        let dir = TempDir::new().unwrap();
        let engine = open(dir.path());
        let log = group(&engine, 5).await;
        log.allow_any_start();
        Ok((dir, SuiteLog(log), MemoryState::default()))
    }
}

#[test]
fn openraft_conformance_suite() {
    Suite::test_all(Builder).unwrap();
}
