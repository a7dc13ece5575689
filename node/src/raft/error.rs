//! What can go wrong in a Raft group, in words that say whether a retry is safe.

use super::reversion::Reverted;
use super::types::{GroupId, LogPosition, NodeId};

/// Why a group's state could not apply or be read. Fatal for the group on this node.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the state of the group failed: {0}")]
pub struct ApplierError(pub String);

impl ApplierError {
    /// Wraps any error by its text.
    pub fn new(cause: impl std::fmt::Display) -> Self {
        ApplierError(cause.to_string())
    }
}

/// Why a proposal was not answered with an outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// This replica does not lead the group. The command had no effect: send it to `leader`.
    #[error("this node does not lead the group (leader: {leader:?})")]
    NotLeader {
        /// The leader that this replica knows of.
        leader: Option<NodeId>,
    },
    /// Too many commands wait already. The command had no effect: retry later.
    #[error("too many writes are waiting for this group")]
    Overloaded,
    /// The command is larger than an entry may be. It had no effect and never will.
    #[error("a command of {bytes} bytes is larger than {bytes_max}")]
    TooLarge {
        /// The command's size.
        bytes: usize,
        /// The largest that is accepted.
        bytes_max: usize,
    },
    /// The group cannot take writes (no majority in reach, or stopping). The command had no effect.
    #[error("the group cannot take writes now: {0}")]
    Unavailable(String),
    /// The deadline passed before the command was proposed. It had no effect.
    #[error("the deadline passed before the write was proposed")]
    DeadlineExceeded,
    /// The command was proposed and may or may not take effect: retry only with its idempotency key.
    #[error("the write was proposed, but its outcome is not known")]
    UnknownOutcome,
    /// The group has failed on this node and must be rebuilt. The command may or may not take effect.
    #[error("the group has failed on this node: {0}")]
    Fatal(String),
}

/// Why a linearizable read could not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// This replica does not lead the group: ask `leader`.
    #[error("this node does not lead the group (leader: {leader:?})")]
    NotLeader {
        /// The leader that this replica knows of.
        leader: Option<NodeId>,
    },
    /// Too many reads wait already: retry later.
    #[error("too many reads are waiting for this group")]
    Overloaded,
    /// No majority confirmed the leadership, or the group is stopping.
    #[error("the group cannot confirm its leadership: {0}")]
    Unavailable(String),
    /// The deadline passed first.
    #[error("the deadline passed before the leadership was confirmed")]
    DeadlineExceeded,
}

/// Why a leader may not answer a session read from its visible state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadRefused {
    /// This replica does not lead the group.
    #[error("this node does not lead the group (leader: {leader:?})")]
    NotLeader {
        /// The leader that this replica knows of.
        leader: Option<NodeId>,
    },
    /// The leader is new and has not applied an entry of its own term yet: what earlier leaders
    /// committed may not be visible here.
    #[error("the leader has not applied an entry of its own term yet")]
    NotCaughtUp,
    /// No majority has confirmed the leadership recently: another leader may exist.
    #[error("no majority has confirmed the leadership for {age_ms:?} ms")]
    StaleLeadership {
        /// How long ago the last confirmation was sent; `None` if there was none in this term.
        age_ms: Option<u64>,
    },
}

/// Why a write to, or a read from, the node's log failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The entries do not follow the log's last one. Nothing was written.
    #[error("group {group}: entries from {got} would leave a hole, the log continues at {expected}")]
    Hole {
        /// The group.
        group: GroupId,
        /// The index that the next entry must have.
        expected: u64,
        /// The index of the first entry given.
        got: u64,
    },
    /// Entries were to be removed that no verified snapshot file on this disk holds. Nothing was.
    #[error(
        "group {group}: the log cannot be purged up to {upto}: the newest snapshot file ends at {newest:?}"
    )]
    NoSnapshot {
        /// The group.
        group: GroupId,
        /// The last index that was to go.
        upto: u64,
        /// The index of the newest snapshot file.
        newest: Option<u64>,
    },
    /// An earlier write failed, so what is on disk is unknown: the log refuses everything until
    /// the node restarts.
    #[error("the log failed and accepts nothing until the node restarts: {0}")]
    Poisoned(String),
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
    /// What was read is not what was written.
    #[error("the log is damaged: {0}")]
    Corrupt(String),
    /// The log directory belongs to another node or cluster.
    #[error("the log directory belongs to {found}, not to {wanted}")]
    WrongOwner {
        /// Node and cluster found in the directory.
        found: String,
        /// Node and cluster of this process.
        wanted: String,
    },
    /// The operating system refused.
    #[error("the log could not be read or written: {0}")]
    Io(String),
}

/// Why a node's Raft groups could not be started.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings contradict each other.
    #[error("bad Raft configuration: {0}")]
    Config(String),
    /// The log could not be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A group's state could not be read.
    #[error("group {group}: {source}")]
    Applier {
        /// The group.
        group: GroupId,
        /// Its error.
        source: ApplierError,
    },
    /// The state holds entries that the log does not have: the log directory was lost or replaced.
    #[error("group {group}: the state has applied {applied}, but the log ends at {log_end:?}")]
    LogBehindState {
        /// The group.
        group: GroupId,
        /// The last applied position.
        applied: LogPosition,
        /// The last position in the log.
        log_end: Option<LogPosition>,
    },
    /// The state lacks entries that the log has purged, there is no snapshot file to bring them, and
    /// no other replica gave one. With this state the group must not start: nobody would notice.
    #[error(
        "group {group}: the log begins behind {purged}, but the state ends at {applied:?}, and there is no \
         usable snapshot file here; no other replica gave one ({cause}); start the other nodes first, then \
         this one again"
    )]
    StateBehindLog {
        /// The group.
        group: GroupId,
        /// The last purged position.
        purged: LogPosition,
        /// The last applied position.
        applied: Option<LogPosition>,
        /// What the other replicas said.
        cause: String,
    },
    /// The log lost entries that it knows were committed.
    #[error("group {group}: the log knows that {committed} was committed, but ends at {log_end:?}")]
    LostCommitted {
        /// The group.
        group: GroupId,
        /// The last position known to be committed.
        committed: LogPosition,
        /// The last position in the log.
        log_end: Option<LogPosition>,
    },
    /// An earlier run found that this disk went back.
    #[error("{0}")]
    Reverted(Box<Reverted>),
    /// openraft refused to start.
    #[error("group {group} did not start: {cause}")]
    Start {
        /// The group.
        group: GroupId,
        /// Why.
        cause: String,
    },
}

/// Why a group could not be initialised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InitializeError {
    /// This node has no such group.
    #[error("this node has no group {0}")]
    UnknownGroup(GroupId),
    /// The members do not include this node, or are empty.
    #[error("the members {members:?} do not include this node {node}")]
    NotMember {
        /// The node asked.
        node: NodeId,
        /// The members given.
        members: Vec<NodeId>,
    },
    /// The group has failed or is stopping.
    #[error("the group is not running: {0}")]
    NotRunning(String),
}
