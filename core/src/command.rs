//! What may be proposed to a Raft group. An entry of the log carries many commands.
//!
//! Everything that depends on a library, a model, a clock, a random number or a floating-point sum
//! is computed before the proposal and travels in the command: ids, normalised text and its hash,
//! terms, quantised vectors, token counts. Apply compares bytes and integers and follows keys.
//!
//! Stored in the log: enums are append only, structs change only under a new format byte, and a
//! new variant is proposed only when every replica knows it.

mod claims;
mod sessions;
mod upkeep;

use crate::access::{ApiKeyRow, Rights, TenantRow};
use crate::codec::stored;
use crate::collection::{CollectionChange, CollectionRow};
use crate::erasure::EraseStep;
use crate::facts::own::FactRulesRow;
use crate::limits;
use crate::memory::{IndexRow, Mode, ModelTag, Source, Statement, Status};
use crate::score::own::ScoringRow;
use crate::space::SpaceKey;
use crate::tenant::TenantStep;
use crate::tiers::block::{BlockChange, BlockWrite};
use crate::tiers::procedure::{ProcedureChange, ProcedureWrite};
use crate::tiers::task::{TaskChange, TaskWrite};
use crate::transfer;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

pub use claims::Claim;
pub use sessions::{AppendTurns, ChangeDialogue, Digest, DigestResult, NewTurn};
pub use upkeep::{Merge, Upkeep};

/// One change of the state of a shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// A write to one partition of a space.
    Space(Box<SpaceCommand>),
    /// Work off what is due, at most `limit` rows. Proposed by the leader's clock.
    Sweep {
        /// Most rows of `due` to work off, 1 to [`SWEEP_ROWS_MAX`].
        limit: u16,
    },
    /// A change of the cluster's own data, for the meta group alone.
    Meta(Box<MetaCommand>),
    /// A point of the log at which every replica keeps the hash over its rows, so that they can be
    /// compared. Changes no row, not even the clock. Since 2026-12; proposed only once every replica
    /// of the group has shown that it knows it.
    HashPoint,
    /// A step of the erasure of a tenant, in any group. Only a leader itself proposes it. Since state version 7.
    Tenant(Box<TenantStep>),
}

/// The first version of the state machine that takes memories in and out as this one does ([`Command::known_since`]).
pub const MEMORIES_KNOWN_SINCE: u32 = 8;

/// The first version of the state machine that erases tenants.
pub const TENANTS_KNOWN_SINCE: u32 = 7;

/// The first version of the state machine in which partitions of a collection agree on ids and keys.
pub const CLAIMS_KNOWN_SINCE: u32 = 8;

/// Most rows of `due` that one sweep works off: with [`limits::EXPIRE_ROWS_MAX`] and
/// [`limits::HISTORY_VERSIONS_MAX`] it bounds the batch that a sweep makes.
pub const SWEEP_ROWS_MAX: u16 = 16;

/// A write to one partition of a space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpaceCommand {
    /// Where.
    pub space: SpaceKey,
    /// By which a repetition is recognised.
    pub idempotency: Option<Idempotency>,
    /// What.
    pub write: Write,
}

/// The identity of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    /// xxh3-128 of the caller's key.
    pub key_hash: u128,
    /// xxh3-64 of the request; the same key with another request is a conflict.
    pub request_hash: u64,
}

/// The writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Write {
    /// New memories: all of them or none, unless `partial`.
    Add(Add),
    /// A new version of a memory, by compare-and-set.
    Update(Box<Update>),
    /// Deletes a memory and leaves a tombstone.
    Delete {
        /// Which.
        id: String,
        /// Only if this is its version.
        if_version: Option<u64>,
    },
    /// What came of recalled memories.
    Feedback {
        /// One for each memory.
        items: Vec<FeedbackItem>,
    },
    /// Takes a statement back: from now on it is not believed ever to have held.
    Retract {
        /// The memory that states it.
        id: String,
        /// Which of its statements.
        ordinal: u8,
    },
    /// Decides between memories that contradict each other.
    Resolve {
        /// The one that stands.
        keep: String,
        /// Those that are taken back, at most [`limits::RESOLVE_ITEMS_MAX`].
        retire: Vec<String>,
    },
    /// Changes a core block.
    Block(Box<BlockWrite>),
    /// Changes or ends a task.
    Task(Box<TaskWrite>),
    /// Changes a procedure.
    Procedure(Box<ProcedureWrite>),
    /// Makes names other names of one entity. All names are in normal form.
    MergeEntities {
        /// The entity.
        into: String,
        /// At most [`limits::GRAPH_NAMES_MAX`].
        names: Vec<String>,
    },
    /// Makes other names of an entity entities of their own again.
    SplitEntities {
        /// The entity.
        from: String,
        /// At most [`limits::GRAPH_NAMES_MAX`].
        names: Vec<String>,
    },
    /// What a leader found when it looked again for what a memory may contradict.
    Relink {
        /// The memory.
        id: String,
        /// Time of the `due` row that asked for it.
        due_us: i64,
        /// At most [`limits::CONFLICTS_MAX`].
        conflicts: Vec<Hint>,
    },
    /// New turns of a session.
    Turns(AppendTurns),
    /// Where a dialogue stands.
    Dialogue(Box<ChangeDialogue>),
    /// Ends a session: it takes no more turns.
    EndSession {
        /// Which.
        session: String,
        /// Only if this is its version.
        if_version: Option<u64>,
    },
    /// Deletes a session: its turns, and what jobs made of them. Bounded: where more is left, the
    /// answer says so, and the deletion goes on by itself or with a repetition.
    DeleteSession {
        /// Which.
        session: String,
        /// Only if this is its version.
        if_version: Option<u64>,
    },
    /// What a job made of the turns of a session. Only a leader itself proposes it.
    Digest(Box<Digest>),
    /// A step of an erasure. Since state version 4.
    Erase(EraseStep),
    /// What an export held, at most [`limits::IMPORT_ITEMS_MAX`] items, each stored or rejected by itself.
    /// Since state version 4.
    Import(Vec<transfer::Item>),
    /// What a job found in a space as a whole. Only a leader itself proposes it. Since state version 7.
    Upkeep(Box<Upkeep>),
    /// Where in a collection new memories of some ids go: at most [`limits::CLAIMS_MAX`], all of which hash to this
    /// partition. Answers for each in which partition it belongs. Since state version 8.
    Claim(Vec<Claim>),
    /// Keeps numbers under the key of a request that concerns several partitions; its repetition is answered with those
    /// of the first time. At most [`limits::KEPT_NUMBERS_MAX`]. Since state version 8.
    Keep {
        /// What the request was found to concern.
        numbers: Vec<u64>,
    },
}

/// New memories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Add {
    /// Who brings them.
    pub origin: Origin,
    /// The model of the vectors in `items`, if any has one.
    pub model: Option<ModelTag>,
    /// Whether the caller brought the vectors itself. Then another model is an error; a vector that
    /// the router made is dropped instead where the space has another model.
    pub vectors_given: bool,
    /// Whether an item may be rejected while others are stored.
    pub partial: bool,
    /// The memories.
    pub items: Vec<NewMemory>,
}

/// Who brings a memory, which decides what a tombstone means for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// A statement by a caller: a tombstone never blocks it.
    Caller,
    /// An import or a restore: ids with a tombstone stay deleted.
    Import,
    /// A job that worked on an earlier state: dropped where a source was deleted since.
    Job,
}

/// One new memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NewMemory {
    /// Whether the caller chose the id. Such a memory is never merged into another id.
    pub id_chosen: bool,
    /// The text as it was given.
    pub content: String,
    /// Tokens of `content` in the default tokenizer; 0 where it was not counted.
    pub tokens: u32,
    /// See [`crate::keys::text_hash::hash`].
    pub text_hash: u128,
    /// 0..1.
    pub confidence: f32,
    /// What it states, in structured form: at most [`limits::STATEMENTS_MAX`].
    pub statements: Vec<Statement>,
    /// Whether the statements are all that the text says.
    pub whole: bool,
    /// Memories that it may contradict, as the proposer saw them.
    pub conflicts: Vec<Hint>,
    /// Where it came from.
    pub source: Option<Source>,
    /// Ids of the memories it was made from.
    pub derived_from: Vec<String>,
    /// The parts of a long content, which are searched in its place: at most
    /// [`limits::CHUNKS_MAX`], and without chunks of their own.
    pub chunks: Vec<NewMemory>,
    /// The columns, id included. Apply sets `created_us`, `count`, `chunked`, `access_count`,
    /// `strength_milli`, `unsure`, what follows from the statements (`valid_from_us`, `valid_to_us`, `retracted_us`,
    /// `older`, `topics`)
    /// and the vector's model, and `event_us` and `last_access_us` where `event_given` is false.
    pub index: IndexRow,
    /// Whether `index.event_us` was given by the caller.
    pub event_given: bool,
}

/// A memory that was found outside of apply. It counts only as long as the memory is what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hint {
    /// Which memory.
    pub id: String,
    /// The version that was looked at.
    pub version: u64,
}

/// A new version of a memory. The caller read version `if_version`, made the whole new row from it,
/// and lost the race if the memory has another version by now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// The version that the new row was made from.
    pub if_version: u64,
    /// The model of the vector, if there is one.
    pub model: Option<ModelTag>,
    /// As [`Add::vectors_given`].
    pub vectors_given: bool,
    /// Whether the memory states what it stated before; then `memory.statements` are not looked at.
    pub keep_statements: bool,
    /// The new row; what use and time have made of the old one (strength, counts, last access,
    /// creation) stays.
    pub memory: NewMemory,
}

/// What came of one recalled memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedbackItem {
    /// Which memory.
    pub id: String,
    /// What came of it.
    pub verdict: Verdict,
}

/// What came of a recalled memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It was used: strengthened, and last access is now.
    Adopted,
    /// It did not help: weakened.
    Useless,
    /// It misled: weakened.
    Harmful,
}

impl Verdict {
    /// Finds a verdict by its wire name.
    pub fn from_wire(name: &str) -> Option<Self> {
        match name {
            "adopted" => Some(Self::Adopted),
            "useless" => Some(Self::Useless),
            "harmful" => Some(Self::Harmful),
            _ => None,
        }
    }
}

/// A change of the cluster's own data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetaCommand {
    /// Names the cluster, once; a second time is an error.
    InitCluster {
        /// Chosen at random.
        cluster_id: u128,
        /// Number of shards, 1 to 256.
        shards: u16,
        /// The first tenant.
        tenant: TenantRow,
        /// Its first key.
        key: ApiKeyRow,
    },
    /// A new tenant; its id must be free.
    CreateTenant(TenantRow),
    /// A new key of a tenant that exists; its id must be free.
    CreateKey(ApiKeyRow),
    /// Ends a key for good.
    RevokeKey {
        /// The public id of the key.
        id: String,
        /// Only if the key belongs to this tenant; any, if `None`.
        tenant: Option<String>,
        /// What the caller may do itself: nobody revokes a key that can do more.
        by: Rights,
    },
    /// The rules of a tenant from now on, in place of those before.
    SetFactRules {
        /// The rules; apply sets their version and time.
        rules: FactRulesRow,
        /// Only if this is the version of those before; 0 if there are none.
        if_version: Option<u64>,
    },
    /// A shared collection of a tenant that exists. One that exists stays as it is; with other partitions
    /// or another model it is a conflict. Apply sets its times. Since state version 5, as now since 6.
    PutCollection(CollectionRow),
    /// Ends a shared collection: its name names nothing any more. What it held is erased by other
    /// commands. Since state version 5.
    DeleteCollection {
        /// Whose it is.
        tenant: String,
        /// Which.
        name: String,
        /// Which of those that had the name.
        incarnation: u64,
        /// xxh3-128 of the key of the request.
        key_hash: u128,
    },
    /// Begins the erasure of a tenant: its keys open nothing any more, and all that it has goes. One that has begun
    /// stays as it is. Since state version 7.
    EraseTenant {
        /// Which.
        tenant: String,
        /// The id of the erasure, if this begins it.
        id: String,
    },
    /// What of a shared collection may change, from now on. Since state version 8.
    SetCollection(CollectionChange),
    /// How the memories of a tenant are scored from now on, in place of what was set before. Since state version 8.
    SetScoring {
        /// The settings; apply sets their version and time.
        scoring: ScoringRow,
        /// Only if this is the version of those before; 0 if there are none.
        if_version: Option<u64>,
    },
}

stored!(Command);

impl Command {
    /// The first version of the state machine ([`crate::apply::STATE_VERSION`]) that knows this
    /// command: it is not proposed where a replica is known to run an older one.
    pub fn known_since(&self) -> u32 {
        match self {
            Self::Space(command) => command.write.known_since(),
            Self::Meta(command) if matches!(**command, MetaCommand::SetFactRules { .. }) => 3,
            Self::Meta(command)
                if matches!(
                    **command,
                    MetaCommand::PutCollection(_) | MetaCommand::DeleteCollection { .. }
                ) =>
            {
                6
            }
            Self::Meta(command)
                if matches!(**command, MetaCommand::SetCollection(_) | MetaCommand::SetScoring { .. }) =>
            {
                CLAIMS_KNOWN_SINCE
            }
            Self::Meta(command) if matches!(**command, MetaCommand::EraseTenant { .. }) => {
                TENANTS_KNOWN_SINCE
            }
            Self::Tenant(_) => TENANTS_KNOWN_SINCE,
            Self::HashPoint => 1,
            Self::Sweep { .. } => MEMORIES_KNOWN_SINCE,
            Self::Meta(_) => 0,
        }
    }

    /// Checks a command that came over the wire before it is proposed: what is in the log can be
    /// applied without looking for such faults again.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] or [`crate::ErrorCode::TooLarge`], naming the field.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Space(command) => command.check(),
            Self::Sweep { limit } if (1..=SWEEP_ROWS_MAX).contains(limit) => Ok(()),
            Self::Sweep { .. } => Err(Error::invalid("limit", format!("1 to {SWEEP_ROWS_MAX} rows"))),
            Self::Meta(command) => match command.as_ref() {
                // Patterns that cannot be read must not lie in wait for the routers.
                MetaCommand::SetFactRules { rules, .. } => rules.compile().map(drop),
                MetaCommand::PutCollection(row) => row.check(),
                MetaCommand::SetCollection(settings) => settings.check(),
                MetaCommand::SetScoring { scoring, .. } => scoring.check(),
                MetaCommand::DeleteCollection { tenant, name, .. } => {
                    limits::check_id("tenant", tenant)?;
                    limits::check_id("collection", name)
                }
                MetaCommand::EraseTenant { tenant, id } => {
                    limits::check_id("tenant", tenant)?;
                    limits::check_id("id", id)
                }
                _ => Ok(()),
            },
            Self::Tenant(step) => step.check(),
            Self::HashPoint => Ok(()),
        }
    }
}

impl Write {
    /// See [`Command::known_since`].
    fn known_since(&self) -> u32 {
        match self {
            Self::Feedback { .. } => 0,
            Self::Block(write) if write.change != BlockChange::Delete => 2,
            Self::Task(write) if !matches!(write.change, TaskChange::End { .. }) => 2,
            Self::Procedure(write) if write.change != ProcedureChange::Delete => 2,
            Self::MergeEntities { .. } | Self::SplitEntities { .. } => 3,
            Self::Turns(_) | Self::Dialogue(_) | Self::EndSession { .. } => 4,
            Self::Claim(_) | Self::Keep { .. } => CLAIMS_KNOWN_SINCE,
            // What stores memories, says which of them hold, or takes them out; and what leaves tombstones of that
            // which stands beside them, or heeds these.
            Self::Add(_)
            | Self::Update(_)
            | Self::Delete { .. }
            | Self::Retract { .. }
            | Self::Resolve { .. }
            | Self::Relink { .. }
            | Self::Digest(_)
            | Self::Block(_)
            | Self::Task(_)
            | Self::Procedure(_)
            | Self::DeleteSession { .. }
            | Self::Erase(_)
            | Self::Import(_)
            | Self::Upkeep(_) => MEMORIES_KNOWN_SINCE,
        }
    }
}

impl SpaceCommand {
    /// Whether the command says that its caller has the right `admin`, which the node that takes it
    /// checks.
    pub fn claims_admin(&self) -> bool {
        matches!(&self.write, Write::Block(write) if write.by_admin)
    }

    fn check(&self) -> Result<()> {
        self.space.check()?;
        match &self.write {
            Write::Add(add) => add.check(limits::ATOMIC_ITEMS_MAX),
            Write::Turns(append) => append.check(),
            Write::Dialogue(change) => change.check(),
            Write::EndSession { session, .. } | Write::DeleteSession { session, .. } => {
                limits::check_id("session", session)
            }
            Write::Digest(digest) => digest.check(),
            Write::Claim(claims) => claims::check(claims, self.space.collection().is_some()),
            Write::Keep { numbers } => claims::check_kept(numbers, self.idempotency.is_some()),
            Write::Upkeep(upkeep) => upkeep.check(),
            Write::Update(update) => update.memory.check(update.model.as_ref()),
            Write::Delete { id, .. } | Write::Retract { id, .. } | Write::Relink { id, .. } => {
                limits::check_id("id", id)
            }
            Write::Resolve { keep, retire } => {
                limits::check_id("keep", keep)?;
                if retire.is_empty() || retire.len() > limits::RESOLVE_ITEMS_MAX || retire.contains(keep) {
                    let max = limits::RESOLVE_ITEMS_MAX;
                    let detail = format!("retire names 1 to {max} memories, and not the one that is kept");
                    return Err(Error::invalid("retire", detail));
                }
                retire.iter().try_for_each(|id| limits::check_id("retire", id))
            }
            Write::MergeEntities { into: name, names } | Write::SplitEntities { from: name, names } => {
                check_entities(name, names)
            }
            Write::Erase(step) => step.check(),
            Write::Import(items) if items.is_empty() || items.len() > limits::IMPORT_ITEMS_MAX => {
                let detail = format!("1 to {} items in one step of an import", limits::IMPORT_ITEMS_MAX);
                Err(Error::too_large("items", detail))
            }
            Write::Import(items) => items.iter().try_for_each(transfer::Item::check),
            Write::Feedback { items } if items.is_empty() || items.len() > limits::FEEDBACK_ITEMS_MAX => {
                let detail = format!("1 to {} items in one feedback call", limits::FEEDBACK_ITEMS_MAX);
                Err(Error::too_large("items", detail))
            }
            Write::Feedback { items } => {
                items.iter().try_for_each(|item| limits::check_id("items.id", &item.id))
            }
            Write::Block(write) => write.check(),
            Write::Task(write) => {
                write.check()?;
                match &write.change {
                    TaskChange::End { episode: Some(add) } => add.check(limits::ATOMIC_ITEMS_MAX),
                    _ => Ok(()),
                }
            }
            Write::Procedure(write) => write.check(),
        }
    }
}

impl Add {
    fn check(&self, items_max: usize) -> Result<()> {
        if self.items.is_empty() || self.items.len() > items_max {
            let detail = format!("1 to {items_max} memories in one write");
            return Err(Error::too_large("memories", detail));
        }
        for (at, item) in self.items.iter().enumerate() {
            item.check(self.model.as_ref()).map_err(|error| within(error, at))?;
        }
        Ok(())
    }
}

/// Names the item of a batch that an error is about.
fn within(error: Error, at: usize) -> Error {
    let field = match &error.field {
        Some(field) => format!("memories[{at}].{field}"),
        None => format!("memories[{at}]"),
    };
    error.at(field)
}

fn check_entities(name: &str, names: &[String]) -> Result<()> {
    let max = limits::GRAPH_NAMES_MAX;
    if names.is_empty() || names.len() > max {
        return Err(Error::invalid("names", format!("names has {} names; give 1 to {max}", names.len())));
    }
    let max = limits::FACT_NAME_BYTES_MAX;
    for name in names.iter().map(String::as_str).chain([name]) {
        if name.is_empty() || name.len() > max || name.contains('\0') {
            return Err(Error::invalid(
                "names",
                format!("the normal form of a name must have 1 to {max} bytes"),
            ));
        }
    }
    Ok(())
}

pub(crate) fn check_statement(statement: &Statement) -> Result<()> {
    let name = |field: &str, value: &str| {
        let max = limits::FACT_NAME_BYTES_MAX;
        if value.is_empty() || value.len() > max || value.contains('\0') {
            return Err(Error::invalid(
                field,
                format!("the normal form of {field} must have 1 to {max} bytes"),
            ));
        }
        Ok(())
    };
    name("fact.subject", &statement.subject)?;
    name("fact.predicate", &statement.predicate)?;
    let against = match &statement.mode {
        Mode::Evidence { against } => against.iter().map(String::len).sum(),
        _ => 0,
    };
    let longest = [statement.about.len(), statement.value.len(), against].into_iter().max().unwrap_or(0);
    if longest > limits::FACT_VALUE_BYTES_MAX {
        let max = limits::FACT_VALUE_BYTES_MAX;
        return Err(Error::too_large("fact.object", format!("the limit of its normal form is {max} bytes")));
    }
    Ok(())
}

impl NewMemory {
    pub(crate) fn check(&self, model: Option<&ModelTag>) -> Result<()> {
        limits::check_id("id", &self.index.id)?;
        if self.content.trim().is_empty() {
            return Err(Error::invalid("content", "content is empty; give the text to remember"));
        }
        if self.content.len() > limits::CONTENT_BYTES_MAX {
            let (n, max) = (self.content.len(), limits::CONTENT_BYTES_MAX);
            return Err(Error::too_large(
                "content",
                format!("content has {n} bytes; the limit is {max}; split it"),
            ));
        }
        if self.index.metadata.len() > limits::METADATA_BYTES_MAX {
            let (n, max) = (self.index.metadata.len(), limits::METADATA_BYTES_MAX);
            return Err(Error::too_large("metadata", format!("metadata has {n} bytes; the limit is {max}")));
        }
        if self.index.status == Status::Merged {
            return Err(Error::invalid("status", "only a job merges memories, in a step of its own"));
        }
        if self.index.entities.len() > limits::ENTITIES_MAX {
            return Err(Error::too_large("entities", format!("at most {} entities", limits::ENTITIES_MAX)));
        }
        if self.statements.len() > limits::STATEMENTS_MAX || self.conflicts.len() > limits::CONFLICTS_MAX {
            let detail = format!(
                "at most {} statements and {} possible conflicts",
                limits::STATEMENTS_MAX,
                limits::CONFLICTS_MAX
            );
            return Err(Error::too_large("statements", detail));
        }
        if self.derived_from.len() > limits::DERIVED_FROM_MAX {
            let detail = format!("a memory is made from at most {} others", limits::DERIVED_FROM_MAX);
            return Err(Error::too_large("derived_from", detail));
        }
        self.derived_from.iter().try_for_each(|id| limits::check_reference("derived_from", id))?;
        self.statements.iter().try_for_each(check_statement)?;
        if self.chunks.len() > limits::CHUNKS_MAX || self.chunks.iter().any(|chunk| !chunk.chunks.is_empty())
        {
            let detail = format!("at most {} chunks, each without chunks of its own", limits::CHUNKS_MAX);
            return Err(Error::too_large("chunks", detail));
        }
        for (at, chunk) in self.chunks.iter().enumerate() {
            chunk.check(model).map_err(|error| {
                let field = format!("chunks[{at}].{}", error.field.as_deref().unwrap_or_default());
                error.at(field)
            })?;
        }
        for (field, value) in [("importance", self.index.importance), ("confidence", self.confidence)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(Error::invalid(field, format!("{field} must be a number from 0 to 1")));
            }
        }
        match (&self.index.vector, model) {
            (None, _) => Ok(()),
            (Some(vector), Some(model)) if vector.dims() == usize::from(model.dims) => vector.check(),
            (Some(_), _) => {
                Err(Error::invalid("embedding", "the vector does not have the model's dimensions"))
            }
        }
    }
}
