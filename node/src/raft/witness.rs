//! What this node remembers of its peers' replicas: what they showed to be on their disks.
//!
//! A replica whose disk was replaced by an older copy has forgotten entries that it acknowledged or
//! led, and votes that it gave. Only others can know. Each node therefore keeps, for each replica that
//! ever answered it or sent it entries, the highest term and index that this promised. It outlives a
//! restart: what changed is written once a second, so that a crash forgets one second at most.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_proto::v1;
use openraft::raft::AppendEntriesRequest;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::record;
use super::types::{GroupId, NodeId, RaftLogId, TypeConfig};
use crate::crash::{Step, crash_point};
use crate::durable::{Steps, replace_file_in};

/// The file in the log's directory.
const FILE: &str = "witness";
const STEPS: Steps =
    Steps { synced: Step::WitnessSynced, renamed: Step::WitnessRenamed, named: Step::WitnessNamed };
/// How often what changed is written.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Replicas that are remembered at most: 257 groups with 16 peers each.
const MARKS_MAX: usize = 257 * 16;

/// What a replica has told this node that it has on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The highest term in which it led, accepted a leader's entries or gave its vote. Its vote was on
    /// disk before it said so.
    pub term: u64,
    /// Up to which index it had the log of that term's leader. A leader of a later term
    /// may have removed a part of that.
    pub acknowledged: Option<u64>,
    /// Up to which index it had entries that are committed. Nobody removes those.
    pub committed: Option<u64>,
}

/// What a replica has on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The term of its vote.
    pub term: Option<u64>,
    /// The last index of its log, purged entries included.
    pub last: Option<u64>,
}

impl Mark {
    /// What an append shows of its sender, and the answer of its receiver if it took all of it. A leader
    /// sends only what is on its own disk.
    pub(crate) fn of_append(append: &AppendEntriesRequest<TypeConfig>) -> Self {
        let last = append.entries.last().map(|entry| entry.log_id).or(append.prev_log_id);
        Self::up_to(append.vote.leader_id.term, last, append.leader_commit)
    }

    /// A log in `term` that holds `last`, while its leader knows that `commit` is committed.
    pub(crate) fn up_to(term: u64, last: Option<RaftLogId>, commit: Option<RaftLogId>) -> Self {
        let acknowledged = last.map(|last| last.index);
        // `None` is less than any index: what is not there is not counted as committed there.
        Mark { term, acknowledged, committed: acknowledged.min(commit.map(|commit| commit.index)) }
    }

    /// Takes in what the replica said elsewhere or later.
    fn merge(&mut self, other: Mark) {
        if other.term > self.term {
            (self.term, self.acknowledged) = (other.term, other.acknowledged);
        } else if other.term == self.term {
            self.acknowledged = self.acknowledged.max(other.acknowledged);
        }
        self.committed = self.committed.max(other.committed);
    }

    pub(crate) fn to_wire(self, group: GroupId) -> v1::Mark {
        let Mark { term, acknowledged, committed } = self;
        v1::Mark { group, term, acknowledged, committed }
    }

    pub(crate) fn from_wire(mark: &v1::Mark) -> (GroupId, Self) {
        let v1::Mark { group, term, acknowledged, committed } = *mark;
        (group, Mark { term, acknowledged, committed })
    }

    /// Whether a replica that has `kept` this much may have said what is remembered. One that has
    /// not has lost a part of its disk.
    ///
    /// A vote only moves to later terms. While it stays in a term, only that term's leader changes
    /// the log, and never removes what it was told is there. Committed entries are never removed.
    pub fn allows(&self, kept: Kept) -> bool {
        let reaches = |index: Option<u64>| kept.last >= index;
        match kept.term {
            Some(term) if term > self.term => reaches(self.committed),
            Some(term) if term == self.term => reaches(self.committed) && reaches(self.acknowledged),
            Some(_) => false,
            // Nothing was ever promised in term 0.
            None => self.term == 0,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u8,
    marks: Vec<(GroupId, NodeId, Mark)>,
}

/// The memory of one node. Shared by all of its groups.
pub(crate) struct Witness {
    /// `None` where there is no disk.
    path: Option<PathBuf>,
    marks: Mutex<BTreeMap<(GroupId, NodeId), Mark>>,
    changed: AtomicBool,
    /// Held while the file is written.
    writing: Mutex<()>,
    /// Replicas that lost what they had acknowledged and are refused.
    refused: Mutex<BTreeSet<(GroupId, NodeId)>>,
}

impl Witness {
    /// Reads what was remembered in `dir`; where there is no such directory nothing outlives the
    /// process. What cannot be read is set aside and told, and forgotten: the cluster works without,
    /// it only notices less.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let path = Some(dir.join(FILE)).filter(|_| dir.is_dir());
        let Some(path) = path else { return Ok(Self::new(None, BTreeMap::new())) };
        let marks = match std::fs::read(&path) {
            Ok(bytes) => match decode(&bytes) {
                Some(marks) => marks,
                None => {
                    let aside = path.with_extension("damaged");
                    tracing::error!(path = %path.display(), aside = %aside.display(),
                        "what this node remembered of its peers is damaged and set aside: until they have \
                         talked again, a peer that lost a part of its disk is not noticed here");
                    std::fs::rename(&path, aside)?;
                    crash_point(Step::WitnessAside);
                    BTreeMap::new()
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        Ok(Self::new(Some(path), marks))
    }

    fn new(path: Option<PathBuf>, marks: BTreeMap<(GroupId, NodeId), Mark>) -> Self {
        Witness {
            path,
            marks: Mutex::new(marks),
            changed: AtomicBool::new(false),
            writing: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Takes note of what a replica said.
    pub(crate) fn record(&self, group: GroupId, peer: NodeId, said: Mark) {
        let mut marks = self.marks.lock();
        let known = marks.len();
        let mark = match marks.entry((group, peer)) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(_) if known >= MARKS_MAX => {
                tracing::warn!(group, peer, "too many replicas to remember what they said");
                return;
            }
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(Mark::default()),
        };
        let before = *mark;
        mark.merge(said);
        if *mark != before {
            self.changed.store(true, Ordering::Release);
        }
    }

    /// What a replica said.
    pub(crate) fn of(&self, group: GroupId, peer: NodeId) -> Option<Mark> {
        self.marks.lock().get(&(group, peer)).copied()
    }

    /// What all replicas of a node said.
    pub(crate) fn of_node(&self, peer: NodeId) -> Vec<(GroupId, Mark)> {
        let marks = self.marks.lock();
        marks
            .iter()
            .filter(|((_, node), _)| *node == peer)
            .map(|((group, _), mark)| (*group, *mark))
            .collect()
    }

    /// A replica has lost what it had acknowledged. Logged once for each node.
    pub(crate) fn refuse(&self, group: GroupId, peer: NodeId, why: &str) {
        let mut refused = self.refused.lock();
        let is_news = !refused.iter().any(|(_, node)| *node == peer);
        refused.insert((group, peer));
        drop(refused);
        if is_news {
            tracing::error!(
                peer,
                group,
                why,
                "node {peer} has lost log entries or votes that it had promised to keep: its disk was \
                 replaced by an older copy, or broke its word. It is refused, the others go on. Stop it and \
                 bring back its newest disk if there is one; else remove its data, and never start it from \
                 that copy again"
            );
        }
    }

    /// A replica answered as it should.
    pub(crate) fn accept(&self, group: GroupId, peer: NodeId) {
        let mut refused = self.refused.lock();
        if !refused.is_empty() && refused.remove(&(group, peer)) {
            tracing::warn!(peer, group, "a replica that was refused holds again what it had acknowledged");
        }
    }

    /// The nodes that are refused, each with the number of its groups.
    pub(crate) fn refused(&self) -> BTreeMap<NodeId, usize> {
        let mut nodes = BTreeMap::new();
        for (_, node) in self.refused.lock().iter() {
            *nodes.entry(*node).or_insert(0) += 1;
        }
        nodes
    }

    /// Writes what has changed. Blocks.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let _writing = self.writing.lock();
        let Some(path) = self.path.as_ref().filter(|_| self.changed.swap(false, Ordering::AcqRel)) else {
            return Ok(());
        };
        let marks = self.marks.lock().iter().map(|((group, peer), mark)| (*group, *peer, *mark)).collect();
        let written = encode(marks).and_then(|bytes| replace_file_in(STEPS, path, &bytes, 0o644));
        if written.is_err() {
            self.changed.store(true, Ordering::Release);
        }
        written
    }

    /// Writes what changes, until the task is dropped.
    pub(crate) async fn keep(self: Arc<Self>) {
        while self.path.is_some() {
            tokio::time::sleep(FLUSH_EVERY).await;
            let this = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || this.flush()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::error!(%error, path = ?self.path, "what peers acknowledged could not be written down");
                }
                Err(error) => tracing::error!(%error, "writing down what peers acknowledged ended badly"),
            }
        }
    }
}

fn encode(marks: Vec<(GroupId, NodeId, Mark)>) -> io::Result<Vec<u8>> {
    let body = record::encode(&Stored { format: record::FORMAT, marks }).map_err(io::Error::other)?;
    let mut bytes = xxh3_64(&body).to_be_bytes().to_vec();
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

fn decode(bytes: &[u8]) -> Option<BTreeMap<(GroupId, NodeId), Mark>> {
    let (sum, body) = bytes.split_first_chunk::<8>()?;
    if u64::from_be_bytes(*sum) != xxh3_64(body) {
        return None;
    }
    let stored: Stored = record::decode(body).ok()?;
    Some(stored.marks.into_iter().map(|(group, peer, mark)| ((group, peer), mark)).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn mark(term: u64, acknowledged: u64, committed: Option<u64>) -> Mark {
        Mark { term, acknowledged: Some(acknowledged), committed }
    }

    fn kept(term: u64, last: u64) -> Kept {
        Kept { term: Some(term), last: Some(last) }
    }

    #[test]
    fn what_raft_may_do_is_allowed_and_what_a_disk_forgot_is_not() {
        let said = mark(4, 100, Some(90));
        for (kept, allowed) in [
            (kept(4, 100), true),
            (kept(4, 250), true),
            (kept(4, 99), false),
            (kept(5, 90), true), // a later leader removed what was not committed
            (kept(5, 89), false),
            (kept(3, 500), false), // the vote of term 4 is gone
            (Kept { term: Some(4), last: None }, false),
            (Kept::default(), false),
        ] {
            assert_eq!(said.allows(kept), allowed, "{kept:?}");
        }
        let vote_only = Mark { term: 7, acknowledged: None, committed: None };
        assert!(vote_only.allows(Kept { term: Some(7), last: None }) && !vote_only.allows(kept(6, 9)));
        assert!(Mark::default().allows(Kept::default()), "nothing was promised");
    }

    #[test]
    fn later_terms_replace_and_committed_only_rises() {
        let mut known = mark(4, 100, Some(90));
        known.merge(mark(4, 80, Some(70)));
        assert_eq!(known, mark(4, 100, Some(90)));
        known.merge(mark(6, 95, None));
        assert_eq!(known, mark(6, 95, Some(90)));
        known.merge(mark(5, 400, Some(93)));
        assert_eq!(known, mark(6, 95, Some(93)));
    }

    #[test]
    fn it_is_remembered_after_a_restart_and_damage_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let witness = Witness::open(dir.path()).unwrap();
        witness.flush().unwrap();
        assert!(!dir.path().join(FILE).exists(), "nothing is written for nothing");
        witness.record(3, 2, mark(1, 7, Some(5)));
        witness.record(4, 9, mark(2, 8, None));
        witness.flush().unwrap();
        let again = Witness::open(dir.path()).unwrap();
        assert_eq!(again.of(3, 2), Some(mark(1, 7, Some(5))));
        assert_eq!(again.of_node(9), vec![(4, mark(2, 8, None))]);
        let mut bytes = std::fs::read(dir.path().join(FILE)).unwrap();
        bytes[9] ^= 1;
        std::fs::write(dir.path().join(FILE), &bytes).unwrap();
        assert_eq!(Witness::open(dir.path()).unwrap().of(3, 2), None);
        assert!(dir.path().join("witness.damaged").exists() && !dir.path().join(FILE).exists());
    }

    #[test]
    fn a_refusal_ends_when_the_right_disk_is_back() {
        let dir = tempfile::tempdir().unwrap();
        let witness = Witness::open(dir.path()).unwrap();
        for (group, peer) in [(1, 3), (2, 3), (1, 3)] {
            witness.refuse(group, peer, "test");
        }
        assert_eq!(witness.refused(), BTreeMap::from([(3, 2)]));
        witness.accept(1, 3);
        witness.accept(2, 3);
        assert!(witness.refused().is_empty());
    }
}
