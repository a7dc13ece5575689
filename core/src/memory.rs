//! The rows of a space. What is scored or filtered by is in the [`IndexRow`], which the columnar
//! image is built from; the rest of a memory, above all its text, is in the [`MemoryRow`]. Nothing
//! stands in both.
//!
//! All times are microseconds since 1970-01-01 UTC. Enums are stored by position: append only.

use crate::codec::CodecError;
use crate::codec::stored;
use crate::text::TermList;
use crate::vector::Vector;
use serde::{Deserialize, Serialize};

/// What sort of memory it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// Facts, profile, preferences, constraints.
    #[default]
    Semantic,
    /// Events and turns.
    Episodic,
    /// Skills.
    Procedural,
}

impl Kind {
    /// Every kind, in the order of their stored numbers.
    pub const ALL: [Self; 3] = [Self::Semantic, Self::Episodic, Self::Procedural];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Semantic => "semantic",
            Self::Episodic => "episodic",
            Self::Procedural => "procedural",
        }
    }

    /// Finds a kind by its wire name.
    pub fn from_wire(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Whether a memory is current.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Status {
    /// Believed and searched.
    #[default]
    Active,
    /// Superseded; kept for history, left out of recall unless asked for.
    Deprecated,
    /// Moved to cold storage.
    Archived,
    /// Another memory says the same and stands for it; left out of recall unless asked for. Since state
    /// version 7.
    Merged,
}

impl Status {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Deprecated => "deprecated",
            Self::Archived => "archived",
            Self::Merged => "merged",
        }
    }

    /// Finds a status by its wire name.
    pub fn from_wire(name: &str) -> Option<Self> {
        let all = [Self::Active, Self::Deprecated, Self::Archived, Self::Merged];
        all.into_iter().find(|status| status.as_str() == name)
    }
}

/// A statement in the form subject, predicate, object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// What it is about.
    pub subject: String,
    /// The relation.
    pub predicate: String,
    /// The value.
    pub object: String,
    /// Anything that narrows it, as canonical JSON; empty if there is nothing.
    pub qualifiers: String,
    /// How sure the source was, 0..1.
    pub confidence: Option<f32>,
}

/// What a statement does to the others of its group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Mode {
    /// It holds from its time on, until another takes its place.
    #[default]
    State,
    /// It holds for a while; what held before returns afterwards.
    Override {
        /// Until when, exclusive.
        until_us: i64,
        /// The words that say so, such as `today`.
        reason: String,
    },
    /// It says what was meant all along: the one before it was wrong and is retracted.
    Correct,
    /// What it names as its value holds no longer; an empty value ends whatever holds.
    End,
    /// It is no value of the group, but speaks against some: steak against `vegetarian`.
    Evidence {
        /// The values that it speaks against.
        against: Vec<String>,
    },
}

/// Whether two different values of one group can hold at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Cardinality {
    /// Nobody knows: nothing is retired, the newest is answered first.
    #[default]
    Unknown,
    /// They cannot: the newer takes the place of the older.
    Single,
}

/// A fact in the form that apply compares: byte for byte. Made before the proposal, by rules whose
/// version it names.
///
/// Statements with the same subject, predicate and `about` form a **group**, in which one value
/// holds at a time. Where several objects can hold at once (likes A, likes B), the object is in
/// `about`, so that each has a group of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Statement {
    /// As it is shown.
    pub fact: Fact,
    /// Normal form of the subject, 1 to [`crate::limits::FACT_NAME_BYTES_MAX`] bytes without `\0`.
    pub subject: String,
    /// Normal form of the predicate, bounded as the subject.
    pub predicate: String,
    /// What narrows the group beyond them; empty if nothing does.
    pub about: String,
    /// Normal form of what is said.
    pub value: String,
    /// Whether the values of the group exclude each other.
    pub cardinality: Cardinality,
    /// What it does to the others.
    pub mode: Mode,
    /// From when it holds; the event time of the memory if not given.
    pub valid_from_us: Option<i64>,
    /// Until when, exclusive; open if not given.
    pub valid_to_us: Option<i64>,
    /// Version of the rules that found it in the text; 0 if the caller stated it.
    pub rules: u16,
}

/// One statement in its group. Key: see [`crate::keys::fact`]. All but the last two fields is what
/// was said and done; those follow from all rows of the group ([`crate::facts::timeline`]).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactRow {
    /// The memory that states it.
    pub id: String,
    /// Record order of the memory.
    pub seq: u64,
    /// Its number among the statements of the memory, from 0.
    pub ordinal: u8,
    /// As [`Statement::value`].
    pub value: String,
    /// The entity that the statement relates its subject to ([`crate::graph::object`]); empty if it
    /// relates it to none.
    pub object: String,
    /// As [`Statement::cardinality`].
    pub cardinality: Cardinality,
    /// As [`Statement::mode`].
    pub mode: Mode,
    /// From when it holds.
    pub from_us: i64,
    /// Until when it was said to hold, exclusive.
    pub to_us: Option<i64>,
    /// When it was recorded, in log time.
    pub recorded_us: i64,
    /// When it was retracted, in log time: from then on it is not believed ever to have held.
    pub retracted_us: Option<i64>,
    /// The memory that stands in place of a retracted one.
    pub retracted_by: Option<String>,
    /// Until when it holds by what is known now, exclusive.
    pub until_us: Option<i64>,
    /// Whether another has taken its place.
    pub superseded: bool,
}

/// Where a memory came from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// A document or page.
    pub uri: Option<String>,
    /// Messages of the caller's own system.
    pub message_ids: Vec<String>,
}

/// The text of a memory and where it came from. Key: see [`crate::keys::memory`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryRow {
    /// Record order within the partition, given by apply, never reused; the key of the index row.
    pub seq: u64,
    /// Counts changes of the memory from 1; what compare-and-set compares.
    pub version: u64,
    /// The text as it was given.
    pub content: String,
    /// Number of tokens of `content` in the default tokenizer; 0 where it was not counted.
    pub tokens: u32,
    /// 128-bit hash of the normalised text and its speaker, see [`crate::keys::text_hash`].
    pub text_hash: u128,
    /// When the row was last changed by a caller.
    pub updated_us: i64,
    /// How sure the source was, 0..1.
    pub confidence: f32,
    /// What it states, in structured form.
    pub statements: Vec<Statement>,
    /// Whether the statements are all that the text says: only then does the memory fall with them.
    pub whole: bool,
    /// Where it came from.
    pub source: Option<Source>,
    /// Ids of the memories it was made from.
    pub derived_from: Vec<String>,
    /// Ids of its chunks, in the order of the text, where it was too long to be searched whole.
    pub chunks: Vec<String>,
    /// Its number among the chunks of the memory that it was made from, from 0, if it is one.
    pub chunk: Option<u32>,
    /// Ids of the memories it took the place of.
    pub supersedes: Vec<String>,
    /// Id of the memory that took its place.
    pub superseded_by: Option<String>,
    /// Ids of the memories that it overrides for a while.
    pub overrides: Vec<String>,
    /// Ids of the memories that may contradict it.
    pub possible_conflicts: Vec<String>,
}

impl MemoryRow {
    /// The statement that is shown with the memory: the first.
    pub fn fact(&self) -> Option<&Fact> {
        self.statements.first().map(|statement| &statement.fact)
    }
}

/// The columns of a memory: all that recall scores, filters or searches by.
/// Key: see [`crate::keys::index_row`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IndexRow {
    /// The id, by which answers name it.
    pub id: String,
    /// What sort of memory it is.
    pub kind: Kind,
    /// Whether it is current.
    pub status: Status,
    /// 0..1.
    pub importance: f32,
    /// In thousandths, 100..=5000: integers, so that apply multiplies it alike everywhere.
    pub strength_milli: u16,
    /// Times it was recalled and adopted.
    pub access_count: u32,
    /// Times the same text was stated.
    pub count: u32,
    /// When it was recorded, in log time.
    pub created_us: i64,
    /// When what it tells happened; the time of recording where none was given.
    pub event_us: i64,
    /// When it was last adopted; `event_us` at first.
    pub last_access_us: i64,
    /// When it is to be forgotten.
    pub expires_us: Option<i64>,
    /// From when the statement holds; always, if not given.
    pub valid_from_us: Option<i64>,
    /// Until when it held; still, if not given.
    pub valid_to_us: Option<i64>,
    /// When it was retracted in record time: from then on it is not believed ever to have held.
    pub retracted_us: Option<i64>,
    /// A newer memory may say otherwise ([`MemoryRow::possible_conflicts`]): nothing was retired, but
    /// a recall for the latest leaves it out.
    pub older: bool,
    /// Its chunks are searched in its place.
    pub chunked: bool,
    /// Never forgotten on purpose by a job.
    pub pinned: bool,
    /// Whether it is a short question (see [`crate::text`]).
    pub question: bool,
    /// Author role, such as `user` or `assistant`.
    pub role: Option<String>,
    /// Who said it.
    pub speaker: Option<String>,
    /// The conversation it is a turn of.
    pub session: Option<String>,
    /// The agent that wrote it.
    pub agent: Option<String>,
    /// A label such as `positive`.
    pub sentiment: Option<String>,
    /// Names of the things it mentions.
    pub entities: Vec<String>,
    /// The caller's own fields as canonical JSON; empty if there are none.
    pub metadata: String,
    /// Version of the analyzer that made `terms`.
    pub analyzer: u16,
    /// The terms with their counts, in byte order.
    pub terms: TermList,
    /// Number of term occurrences, the document length of BM25.
    pub terms_len: u32,
    /// The embedding, where there is one.
    pub vector: Option<Vector>,
    /// What its statements are about, each once, in their order: by it questions find facts. Set by
    /// apply.
    pub topics: Vec<Topic>,
    /// Whether its source was not sure of it ([`crate::intent::SURE`]). Set by apply.
    pub unsure: bool,
}

/// What a statement is about, in normal form.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topic {
    /// As [`Statement::subject`].
    pub subject: String,
    /// As [`Statement::predicate`].
    pub predicate: String,
}

impl Topic {
    /// The topics of some statements.
    pub fn of(statements: &[Statement]) -> Vec<Self> {
        let mut topics: Vec<Self> = Vec::new();
        for Statement { subject, predicate, .. } in statements {
            let topic = Self { subject: subject.clone(), predicate: predicate.clone() };
            if !topics.contains(&topic) {
                topics.push(topic);
            }
        }
        topics
    }
}

/// The importance of a hard constraint: what must be respected whatever is asked. It enters every
/// context, and is never forgotten on purpose.
pub const HARD_CONSTRAINT: f32 = 1.0;
/// Lowest strength, in thousandths.
pub const STRENGTH_MIN: u16 = 100;
/// Strength at creation, in thousandths.
pub const STRENGTH_NEW: u16 = 1000;
/// Highest strength, in thousandths.
pub const STRENGTH_MAX: u16 = 5000;

/// The name and length of the vectors of one embedding model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTag {
    /// Such as `use-multilingual-v3`, or `client` for vectors that callers bring.
    pub id: String,
    /// Number of dimensions.
    pub dims: u16,
}

/// The settings of one partition of a space. Key: see [`crate::keys::space_row`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceRow {
    /// Every model that vectors of the space were made with, oldest first; the last one is current.
    pub models: Vec<ModelTag>,
    /// When the first row was written, in log time.
    pub created_us: i64,
}

/// The counters of one partition of a space. Key: see [`crate::keys::counters`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// The last `seq` that was given; 0 before the first.
    pub last_seq: u64,
    /// Memories that exist.
    pub memories: u64,
    /// Bytes of what exists: content and metadata of memories, text and description of core
    /// blocks and procedures, and what is in tasks.
    /// Earlier versions are not counted.
    pub bytes: u64,
    /// Idempotency rows that exist.
    pub idempotency_rows: u32,
    /// Time of the `due` row for the oldest idempotency row.
    pub idempotency_due_us: Option<i64>,
    /// Tombstones that exist.
    pub tombstones: u64,
    /// Time of the `due` row for the oldest tombstone.
    pub tombstone_due_us: Option<i64>,
    /// The erasure that is taking out the whole space: nothing is written meanwhile.
    pub erasing: Option<String>,
}

/// An earlier version of a memory. Key: see [`crate::keys::history`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryRow {
    /// The text and provenance as they were.
    pub memory: MemoryRow,
    /// The columns as they were, without what only an index needs: terms and vector.
    pub index: IndexRow,
    /// When the next version replaced this one, in log time.
    pub replaced_us: i64,
}

/// What remains of a deleted memory: no content. Key: see [`crate::keys::tombstone`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TombstoneRow {
    /// The `seq` that it had.
    pub seq: u64,
    /// The version that it had.
    pub version: u64,
    /// The log index of the deletion.
    pub log_index: u64,
    /// When it was deleted, in log time.
    pub deleted_us: i64,
    /// Salted hashes of the ids of its sources, by which imports recognise it.
    pub sources: Vec<u64>,
}

/// How a write with an idempotency key ended. Key: see [`crate::keys::idempotency`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyRow {
    /// Hash of the request; the same key with another request is a conflict.
    pub request_hash: u64,
    /// The log index of the write.
    pub log_index: u64,
    /// When it was written, in log time.
    pub at_us: i64,
    /// One for each item of the request, in its order.
    pub items: Vec<IdempotencyItem>,
}

/// What happened to one item of an idempotent write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyItem {
    /// What was answered.
    pub status: crate::outcome::ItemStatus,
    /// The version that was answered.
    pub version: u64,
    /// How to find the id that was answered.
    pub id: IdempotencyId,
}

/// The id of an answer, kept short: an id that the request brings again is not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdempotencyId {
    /// The id stands in the request.
    Requested,
    /// An id that the router made: the 16 bytes of a UUID.
    Made([u8; 16]),
    /// The id of the memory with this `seq`, which existed before.
    Existing(u64),
}

impl IndexRow {
    /// The kind in an encoded row, read without the rest of it.
    ///
    /// # Errors
    /// [`CodecError`] as [`crate::codec::Stored::decode`].
    pub fn kind_of(bytes: &[u8]) -> Result<Kind, CodecError> {
        /// The first fields of an [`IndexRow`].
        #[derive(Deserialize)]
        struct Front<'a>(#[serde(borrow)] &'a str, Kind);
        let Front(_id, kind) = crate::codec::decode_front("IndexRow", bytes)?;
        Ok(kind)
    }
}

stored!(FactRow, MemoryRow, IndexRow, SpaceRow, Counters, HistoryRow, TombstoneRow, IdempotencyRow);
