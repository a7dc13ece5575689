//! What a command answers. Stored inside idempotency rows and sent back to writers: enums are
//! append only.

use crate::Error;
use crate::codec::stored;
use serde::{Deserialize, Serialize};

/// What became of one item of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ItemStatus {
    /// A new memory.
    Created,
    /// The same text was stored already; it was counted.
    Merged,
    /// The id and the content were stored already; nothing changed.
    Duplicate,
    /// It was not stored, see the reason.
    Rejected,
    /// It was changed.
    Updated,
    /// It was deleted.
    Deleted,
    /// Feedback was recorded.
    Recorded,
    /// What it stated was taken back.
    Retracted,
    /// A session was ended.
    Ended,
    /// It is gone for every reader, and what is left of it is being deleted.
    Deleting,
}

impl ItemStatus {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Merged => "merged",
            Self::Duplicate => "duplicate",
            Self::Rejected => "rejected",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Recorded => "recorded",
            Self::Retracted => "retracted",
            Self::Ended => "ended",
            Self::Deleting => "deleting",
        }
    }
}

/// The answer for one item of a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemOutcome {
    /// The id of the memory; empty if it was rejected without one.
    pub id: String,
    /// The version after the write.
    pub version: u64,
    /// What became of it.
    pub status: ItemStatus,
    /// Why it was rejected.
    pub reason: Option<Error>,
    /// Ids of the memories whose place it took.
    pub supersedes: Vec<String>,
    /// Ids of the memories that it overrides for a while.
    pub overrides: Vec<String>,
    /// Ids of the memories that may contradict it.
    pub possible_conflicts: Vec<String>,
    /// What the agent should know about how it goes.
    pub heartbeat: Vec<Heartbeat>,
}

/// What an agent should know about how it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Heartbeat {
    /// It has called tools three times or more without a word to the user.
    SilentSteps3,
}

impl Heartbeat {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SilentSteps3 => "silent_steps_3",
        }
    }
}

impl ItemOutcome {
    /// An answer about nothing yet.
    pub fn new(id: String) -> Self {
        Self {
            id,
            version: 0,
            status: ItemStatus::Rejected,
            reason: None,
            supersedes: Vec::new(),
            overrides: Vec::new(),
            possible_conflicts: Vec::new(),
            heartbeat: Vec::new(),
        }
    }
}

/// The answer of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// One answer for each item, in the order of the request.
    Items {
        /// The answers.
        items: Vec<ItemOutcome>,
        /// The log index at which the write took effect.
        log_index: u64,
        /// Whether the write had been done before and was only answered again.
        replayed: bool,
    },
    /// A command without items was done.
    Done,
    /// How many rows a sweep removed, and whether more is due.
    Swept {
        /// Rows of `due` that were worked off.
        done: u32,
        /// Whether the limit was reached.
        more: bool,
    },
    /// Nothing was changed.
    Failed(Error),
}

stored!(Outcome);
