//! Erasures: deletions of many memories at once, with a receipt.
//!
//! An erasure begins at an index of the log and takes out what was recorded until then; what comes
//! later stays. It goes in bounded steps, each a command of its own: which memories a filter matches is
//! looked up by the leader, outside of apply, and travels in the step. Then it waits until the replicas
//! hold no copy any more (files that were written before the rows went), and is done.

use crate::codec::stored;
use crate::limits::{self, check_id};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Most memories that one step takes out.
pub const ERASE_STEP_MAX: usize = 16;
/// Most rows that one step takes out of a space that is erased as a whole.
pub const ERASE_ROWS_MAX: u16 = 96;
/// Most receipts of one space, those of erasures under way among them. For an erasure of everything there is
/// room beyond: see [`ERASURES_OF_ALL_MAX`].
pub const ERASURES_MAX: usize = 1_000;
/// Most receipts that a space comes to by erasures of everything. Beyond it the oldest receipt of an erasure
/// that is done makes room.
pub const ERASURES_OF_ALL_MAX: usize = 2 * ERASURES_MAX;
/// Most confirmations that one step brings.
pub const CONFIRMATIONS_MAX: usize = 64;

/// What an erasure takes out. Stored: append only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Selection {
    /// Everything that the space holds.
    All,
    /// The memories of a session.
    Session(String),
    /// The memories of a source: by its address, or by the id of a message.
    Source(String),
    /// The memories that a filter matches, as JSON in the syntax of the public API.
    Filter(String),
    /// These memories.
    Ids(Vec<String>),
}

impl Selection {
    /// The wire name of its kind.
    pub const fn kind(&self) -> SelectionKind {
        match self {
            Self::All => SelectionKind::All,
            Self::Session(_) => SelectionKind::Session,
            Self::Source(_) => SelectionKind::Source,
            Self::Filter(_) => SelectionKind::Filter,
            Self::Ids(_) => SelectionKind::Ids,
        }
    }

    fn check(&self) -> Result<()> {
        match self {
            Self::All => Ok(()),
            Self::Session(session) => check_id("session", session),
            Self::Source(source) if source.is_empty() || source.len() > limits::SOURCE_URI_BYTES_MAX => {
                let max = limits::SOURCE_URI_BYTES_MAX;
                Err(Error::invalid("source", format!("source must have 1 to {max} bytes")))
            }
            Self::Source(_) => Ok(()),
            Self::Filter(filter) if crate::filter::Filter::parse_text(filter)?.is_all() => {
                let detail =
                    "filter names no condition, and so matches everything; erase all, if that is meant";
                Err(Error::invalid("filter", detail))
            }
            Self::Filter(_) => Ok(()),
            Self::Ids(ids) if ids.is_empty() || ids.len() > limits::ERASE_IDS_MAX => {
                let max = limits::ERASE_IDS_MAX;
                Err(Error::invalid("ids", format!("ids names 1 to {max} memories; this names {}", ids.len())))
            }
            Self::Ids(ids) => ids.iter().try_for_each(|id| check_id("ids", id)),
        }
    }
}

/// Which kind of [`Selection`] an erasure had. What it named is forgotten with what it took out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SelectionKind {
    /// [`Selection::All`]
    #[default]
    All,
    /// [`Selection::Session`]
    Session,
    /// [`Selection::Source`]
    Source,
    /// [`Selection::Filter`]
    Filter,
    /// [`Selection::Ids`]
    Ids,
}

impl SelectionKind {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Session => "session",
            Self::Source => "source",
            Self::Filter => "filter",
            Self::Ids => "ids",
        }
    }
}

/// One step of an erasure. All but those that [begin](EraseStep::is_beginning) one are proposed by leaders alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EraseStep {
    /// Begins one: what it matches and was recorded before this is to go.
    Begin {
        /// A new id; one that exists begins nothing.
        id: String,
        /// What.
        selection: Selection,
    },
    /// Takes memories out, those that were recorded before it began.
    Remove {
        /// Which erasure.
        id: String,
        /// Which memories: at most [`ERASE_STEP_MAX`].
        memories: Vec<String>,
        /// Where to go on.
        after: u64,
        /// Whether nothing is left.
        ended: bool,
    },
    /// Takes rows out of a space that is erased as a whole.
    Drop {
        /// Which erasure.
        id: String,
        /// Most rows, 1 to [`ERASE_ROWS_MAX`].
        limit: u16,
    },
    /// What replicas say that they hold no more.
    Confirm {
        /// Which erasure.
        id: String,
        /// What was said since the last time.
        confirmations: Vec<Confirmation>,
        /// Whether nothing is left to be said.
        done: bool,
    },
    /// Begins the erasure of everything, and closes the space: it never takes a write again. For a partition of
    /// a shared collection that is deleted. Since state version 6.
    Close {
        /// As in [`EraseStep::Begin`].
        id: String,
    },
}

impl EraseStep {
    /// Which erasure.
    pub fn id(&self) -> &str {
        match self {
            Self::Begin { id, .. }
            | Self::Remove { id, .. }
            | Self::Drop { id, .. }
            | Self::Confirm { id, .. }
            | Self::Close { id } => id,
        }
    }

    /// Whether the step begins an erasure. All others are proposed by leaders alone.
    pub fn is_beginning(&self) -> bool {
        matches!(self, Self::Begin { .. } | Self::Close { .. })
    }

    /// Checks a step before it is proposed.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`], naming the field.
    pub fn check(&self) -> Result<()> {
        check_id("id", self.id())?;
        match self {
            Self::Begin { selection, .. } => selection.check(),
            Self::Remove { memories, .. } if memories.len() > ERASE_STEP_MAX => {
                Err(Error::invalid("memories", format!("at most {ERASE_STEP_MAX} memories")))
            }
            Self::Remove { memories, .. } => memories.iter().try_for_each(|id| check_id("memories", id)),
            Self::Drop { limit, .. } if !(1..=ERASE_ROWS_MAX).contains(limit) => {
                Err(Error::invalid("limit", format!("1 to {ERASE_ROWS_MAX} rows")))
            }
            Self::Confirm { confirmations, .. } if confirmations.len() > CONFIRMATIONS_MAX => {
                Err(Error::invalid("confirmations", format!("at most {CONFIRMATIONS_MAX}")))
            }
            Self::Drop { .. } | Self::Confirm { .. } | Self::Close { .. } => Ok(()),
        }
    }
}

/// A place in which a replica may keep a copy of what was erased. Stored: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Place {
    /// The images of active spaces, in memory.
    Images,
    /// The log, and the snapshot files that stand for its beginning.
    Log,
    /// The directory of the database.
    Database,
}

impl Place {
    /// All of them, in the order in which they are done.
    pub const ALL: [Self; 3] = [Self::Images, Self::Log, Self::Database];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Images => "images",
            Self::Log => "log",
            Self::Database => "database",
        }
    }
}

/// What one replica said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// The node of the replica.
    pub node: u64,
    /// Where it holds nothing any more.
    pub place: Place,
    /// When it was recorded, in log time; set by apply.
    pub at_us: i64,
}

/// How far an erasure has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Rows are being taken out.
    #[default]
    Removing,
    /// The rows are gone; replicas may keep files that were written before.
    Purging,
    /// No replica keeps a copy.
    Done,
}

impl Phase {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Removing => "removing",
            Self::Purging => "purging",
            Self::Done => "done",
        }
    }
}

/// What was taken out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erased {
    /// Memories, derived ones among them.
    pub memories: u64,
    /// Memories that went because they were made from others that went.
    pub derived: u64,
    /// Earlier versions of memories.
    pub versions: u64,
    /// Statements in the groups of facts.
    pub facts: u64,
    /// Other rows of a space that was erased as a whole.
    pub others: u64,
}

impl Erased {
    /// Adds what another step took out.
    pub fn add(&mut self, more: Self) {
        self.memories += more.memories;
        self.derived += more.derived;
        self.versions += more.versions;
        self.facts += more.facts;
        self.others += more.others;
    }
}

/// An erasure and its receipt. Key: see [`crate::keys::erasure`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureRow {
    /// What it takes out; forgotten once it is out.
    pub selection: Option<Selection>,
    /// Which kind of selection that was.
    pub kind: SelectionKind,
    /// How far it has come.
    pub phase: Phase,
    /// When it began, in log time.
    pub begun_us: i64,
    /// The log index at which it began.
    pub begun_index: u64,
    /// The last memory that was recorded before.
    pub upto_seq: u64,
    /// Where to go on: a `seq`, a place in a list of ids, or a family of rows.
    pub after: u64,
    /// What was taken out so far.
    pub erased: Erased,
    /// When the last row went, in log time.
    pub removed_us: Option<i64>,
    /// The log index at which the last row went.
    pub removed_index: Option<u64>,
    /// What replicas said.
    pub confirmed: Vec<Confirmation>,
    /// When no copy was left.
    pub done_us: Option<i64>,
}

impl ErasureRow {
    /// Whether a replica said this.
    pub fn is_confirmed(&self, node: u64, place: Place) -> bool {
        self.confirmed.iter().any(|said| (said.node, said.place) == (node, place))
    }
}

stored!(ErasureRow);
