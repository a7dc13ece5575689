//! The words of this module that the rest of the node may use, and openraft's view of them.
//!
//! Nothing outside `raft/` sees an openraft type.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::error::ApplierError;
use super::report::ReplicaReport;
use crate::snapshot::{SnapshotFile, SnapshotFiles};

/// A node of the cluster: assigned once, never reused.
pub type NodeId = u64;

/// A Raft group: 0 is the meta group, shards are 1..n.
pub type GroupId = u32;

/// Format of [`EntryPayload`] that this version writes.
pub const ENTRY_PAYLOAD_FORMAT: u8 = 1;

/// The place of an entry in a group's log. Two entries at one position are the same entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogPosition {
    /// The term in which a leader wrote the entry.
    pub term: u64,
    /// That leader.
    pub node: NodeId,
    /// The entry's index; the first entry of a log has index 0.
    pub index: u64,
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}-N{}-{}", self.term, self.node, self.index)
    }
}

/// What one log entry proposes: the commands that were waiting together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryPayload {
    /// [`ENTRY_PAYLOAD_FORMAT`] of the version that proposed it.
    pub format: u8,
    /// The leader's wall clock when it proposed the entry, microseconds since the Unix epoch.
    pub stamp_us: u64,
    /// Encoded commands, in the order in which they apply.
    pub commands: Vec<Bytes>,
}

impl EntryPayload {
    /// The bytes of all commands together.
    pub fn command_bytes(&self) -> usize {
        self.commands.iter().map(Bytes::len).sum()
    }
}

/// One encoded outcome for each command of an entry; empty for entries without commands.
pub type Outcomes = Vec<Bytes>;

/// An entry that a majority has on disk, on its way to the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedEntry {
    /// Where the entry stands; to be stored with what it changed.
    pub position: LogPosition,
    /// What it holds.
    pub body: CommittedBody,
}

impl CommittedEntry {
    /// What the entry takes in the log, roughly: the same on every replica.
    pub fn log_bytes(&self) -> u64 {
        let commands = match &self.body {
            CommittedBody::Normal(payload) => payload.command_bytes() + payload.commands.len() * 8,
            CommittedBody::Blank | CommittedBody::Membership(_) => 0,
        };
        commands as u64 + 64
    }
}

/// What a committed entry holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommittedBody {
    /// Commands.
    Normal(EntryPayload),
    /// Nothing: a new leader's first entry.
    Blank,
    /// A membership: opaque bytes to be stored as [`AppliedState::membership`].
    Membership(Vec<u8>),
}

/// How far a group's state has applied its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppliedState {
    /// The last applied entry; `None` for an empty state.
    pub last: Option<LogPosition>,
    /// The bytes of the last [`CommittedBody::Membership`] applied; empty if there was none.
    pub membership: Vec<u8>,
}

/// The replicated state of one group.
///
/// Called on the apply threads, never on a tokio worker; calls for one group never overlap. An
/// error is fatal for the group on this node: it stops, and is never retried silently.
pub trait Applier: Send + Sync + 'static {
    /// The last applied position and membership, as they were stored with the state.
    ///
    /// # Errors
    /// When the state cannot be read.
    fn applied(&self) -> Result<AppliedState, ApplierError>;

    /// Applies committed entries in order and stores each position with its effect.
    ///
    /// Returns the outcomes of each entry, and only when readers can see the rows.
    ///
    /// # Errors
    /// When the state cannot be written; nothing is then known about how much was applied.
    fn apply(&self, entries: Vec<CommittedEntry>) -> Result<Vec<Outcomes>, ApplierError>;

    /// How long to wait before the next call of [`Applier::apply`], off the apply threads.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }

    /// What this replica tells the others about itself; `None` where it cannot be compared.
    fn report(&self) -> Option<ReplicaReport> {
        None
    }

    /// Whether other replicas may take their state from this one: not while it is known to be wrong.
    fn may_be_copied(&self) -> bool {
        true
    }

    /// The state's snapshot files. Without them the group's log is never purged.
    fn snapshot_files(&self) -> Option<Arc<SnapshotFiles>> {
        None
    }

    /// Writes a snapshot file of the present state. May take long; not called on the apply threads.
    ///
    /// # Errors
    /// When the state cannot be read or the file not be written.
    fn build_snapshot(&self) -> Result<Arc<SnapshotFile>, ApplierError> {
        Err(ApplierError("this state has no snapshot files".into()))
    }

    /// Replaces the whole state by a file that is newer than it; one that is not newer changes nothing.
    /// May take long; not called on the apply threads, nor while [`Applier::apply`] runs.
    ///
    /// # Errors
    /// When the file cannot be read or the state not be replaced.
    fn install_snapshot(&self, file: &SnapshotFile) -> Result<(), ApplierError> {
        Err(ApplierError(format!("this state cannot take snapshot file {}", file.id())))
    }
}

/// A snapshot file on its way through openraft. It is on this disk, verified. `None` only where
/// openraft asks for something to receive into, which it never uses here.
#[derive(Clone, Debug, Default)]
pub(crate) struct SnapshotData(pub(crate) Option<Arc<SnapshotFile>>);

openraft::declare_raft_types!(
    /// The types that openraft is built with here.
    pub(crate) TypeConfig:
        D = Proposal,
        R = Outcomes,
        NodeId = NodeId,
        // Addresses come from the address book: a stored address would be wrong after a move.
        Node = (),
        Entry = openraft::Entry<TypeConfig>,
        SnapshotData = SnapshotData,
        Responder = openraft::impls::OneshotResponder<TypeConfig>,
        AsyncRuntime = openraft::TokioRuntime,
);

pub(crate) type RaftEntry = openraft::Entry<TypeConfig>;
pub(crate) type RaftLogId = openraft::LogId<NodeId>;
pub(crate) type RaftVote = openraft::Vote<NodeId>;
pub(crate) type RaftHandle = openraft::Raft<TypeConfig>;
pub(crate) type RaftStorageError = openraft::StorageError<NodeId>;
pub(crate) type RaftMembership = openraft::Membership<NodeId, ()>;
pub(crate) type RaftStoredMembership = openraft::StoredMembership<NodeId, ()>;

impl From<RaftLogId> for LogPosition {
    fn from(id: RaftLogId) -> Self {
        LogPosition { term: id.leader_id.term, node: id.leader_id.node_id, index: id.index }
    }
}

impl From<LogPosition> for RaftLogId {
    fn from(position: LogPosition) -> Self {
        RaftLogId::new(openraft::CommittedLeaderId::new(position.term, position.node), position.index)
    }
}

/// A payload on its way through openraft, with the proof of whether the log has seen it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Proposal {
    pub(crate) payload: EntryPayload,
    #[serde(skip)]
    pub(crate) submitted: Submitted,
}

/// Set once the proposing node's log was asked to append the entry.
///
/// openraft answers `ForwardToLeader` both to a proposal that it refused and to one that it had
/// appended and that a later leader overwrote here. The first certainly had no effect; the second
/// may live on in another replica's log. This flag tells them apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Submitted(Arc<AtomicBool>);

impl Submitted {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
