//! The API's JSON shapes, as far as the clients use them.
//!
//! Requests refuse unknown fields (an import line with a typing error must not lose data
//! silently); answers ignore them, so that an older client works with a newer server.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A memory to store: the body of `POST /v1/users/{user}/memories`, and one line of an import file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewMemory {
    /// Client-chosen id, 1..256 bytes. Storing the same id and content again changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What was said or done, at most 64 KiB.
    pub content: String,
    /// `semantic`, `episodic` or `procedural`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Who spoke, as a role: `user`, `assistant`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Who spoke, by name; the server takes the role where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    /// 0..1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub importance: Option<f64>,
    /// The client's own vector: numbers, or base64 of little-endian f32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<Value>,
    /// The model that made `embedding`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_model: Option<String>,
    /// When it happened, RFC 3339 with zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_time: Option<String>,
    /// The conversation session it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The agent that heard it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Free fields; `caption` (of an image) is indexed with the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The fact that it states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fact: Option<Fact>,
    /// Names that it mentions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entities: Option<Vec<String>>,
    /// Mood of the statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentiment: Option<Value>,
    /// When it ends to exist, RFC 3339 with zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Never forgotten by a background job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
    /// Where it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Whether content that is nothing but JSON is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_json: Option<bool>,
}

/// A subject-predicate-object statement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// What the fact is about.
    pub subject: String,
    /// The relation.
    pub predicate: String,
    /// Its value.
    pub object: Value,
    /// Conditions under which it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qualifiers: Option<Value>,
    /// 0..1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Start of validity, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_from: Option<String>,
    /// End of validity, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_to: Option<String>,
    /// `single`, `many` or `unknown`: how many objects hold at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cardinality: Option<String>,
    /// `state`, `override`, `correct` or `end`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Why an override holds for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Where a memory came from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// A document's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Messages that it was taken from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_ids: Option<Vec<String>>,
}

/// `POST /v1/users/{user}/memories`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AddRequest {
    /// What to store, in order.
    pub memories: Vec<NewMemory>,
    /// Whether the outcome is per memory instead of all or nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// `rules`, `model` or `none`; the server's default where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infer: Option<String>,
}

/// The answer to [`AddRequest`].
#[derive(Debug, Clone, Deserialize)]
pub struct AddAnswer {
    /// One outcome per memory, in the order of the request.
    pub results: Vec<AddResult>,
    /// Carry it in a recall to see at least this write.
    #[serde(default)]
    pub token: Option<String>,
}

/// What became of one memory.
#[derive(Debug, Clone, Deserialize)]
pub struct AddResult {
    /// Id under which the content is found: another memory's, where `status` is merged.
    #[serde(default)]
    pub id: Option<String>,
    /// The outcome.
    pub status: AddStatus,
    /// Why it was rejected.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Outcome of storing one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddStatus {
    /// It is new.
    Created,
    /// The same text is there already; its count went up.
    Merged,
    /// The same id with the same content is there already; nothing changed.
    Duplicate,
    /// Not stored; the result says why.
    Rejected,
}

/// `POST /v1/users/{user}/recall`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RecallRequest {
    /// The question; left out where it is empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub query: String,
    /// The client's own vector of the question: numbers, or base64 of little-endian f32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<Value>,
    /// The model that made `embedding`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_model: Option<String>,
    /// How many memories to answer, 1..1,000.
    pub top_k: u32,
    /// `fused`, `vector` or `keyword`; the server's default where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relevance: Option<String>,
    /// `latest`, `mark` or `all`; the server's default where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<String>,
    /// Name of the scoring profile; the tenant's default where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Weights of the parts of the score, as the API defines them; the profile's where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<Value>,
    /// No memory that scores less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_score: Option<f64>,
    /// Restriction on fields, as the API defines it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Value>,
    /// Where and when the question is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub situation: Option<Situation>,
    /// See at least the write that gave this token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Circumstances of a recall.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Situation {
    /// The time that recency is measured from, RFC 3339; the server's clock where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
}

/// The answer to [`RecallRequest`].
#[derive(Debug, Clone, Deserialize)]
pub struct RecallAnswer {
    /// Best first.
    pub results: Vec<RecallHit>,
    /// Whether the top-k is exact.
    #[serde(default)]
    pub exact: Option<bool>,
    /// Whether no memory that was not scored could be among them.
    #[serde(default)]
    pub bound_met: Option<bool>,
    /// The index that answered.
    #[serde(default)]
    pub index: Option<String>,
    /// How many memories were scored.
    #[serde(default)]
    pub scored: Option<u64>,
    /// Whether a shard did not answer.
    #[serde(default)]
    pub partial: bool,
    /// The shards that did not answer.
    #[serde(default)]
    pub missing: Vec<Value>,
    /// Where the time went.
    #[serde(default)]
    pub took_us: TookUs,
}

/// One recalled memory.
#[derive(Debug, Clone, Deserialize)]
pub struct RecallHit {
    /// The memory itself.
    pub memory: FoundMemory,
    /// The memory that this one is a piece of.
    #[serde(default)]
    pub chunk_of: Option<String>,
    /// The weighted sum of the parts.
    pub score: f64,
    /// What the score is made of.
    #[serde(default)]
    pub parts: ScoreParts,
}

/// The fields of a stored memory that the clients show.
#[derive(Debug, Clone, Deserialize)]
pub struct FoundMemory {
    /// Its id.
    pub id: String,
    /// The text, unchanged.
    pub content: String,
    /// Who spoke, by name.
    #[serde(default)]
    pub speaker: Option<String>,
    /// Who spoke, as a role.
    #[serde(default)]
    pub role: Option<String>,
    /// When it happened.
    #[serde(default)]
    pub event_time: Option<String>,
    /// When it was stored.
    #[serde(default)]
    pub created_at: Option<String>,
}

/// Parts of a score; one that the server did not send stays absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub struct ScoreParts {
    /// Relevance S, 0..1.
    pub relevance: Option<f64>,
    /// Cosine of the embeddings.
    pub cosine: Option<f64>,
    /// Keyword score.
    pub keyword: Option<f64>,
    /// Recency R, 0..1.
    pub recency: Option<f64>,
    /// Importance I, 0..1.
    pub importance: Option<f64>,
    /// Frequency F, 0..1.
    pub frequency: Option<f64>,
    /// Sum of the boosts, -0.2..0.2.
    pub boost: Option<f64>,
}

/// Where the time of a recall went, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct TookUs {
    /// Embedding the question.
    pub embed: Option<u64>,
    /// Searching the shards.
    pub search: Option<u64>,
    /// Merging their answers.
    pub merge: Option<u64>,
    /// The whole, as the router saw it.
    pub total: Option<u64>,
}

/// `POST /v1/users/{user}/context`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ContextRequest {
    /// What the context is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Most tokens, 1..1,000,000.
    pub budget_tokens: usize,
    /// Name of the encoding; the server's default where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// Which sections; all where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sections: Option<Vec<String>>,
    /// `text`, `messages` or `sections`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The conversation that is going on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The task that the agent is busy with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Name of the scoring profile; the tenant's default where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Restriction on fields, as the API defines it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Value>,
    /// How much likeness to what is there already counts against a memory, 0..1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diversity: Option<f64>,
    /// Where and when the question is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub situation: Option<Situation>,
    /// See at least the write that gave this token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// The answer to [`ContextRequest`].
#[derive(Debug, Clone, Deserialize)]
pub struct ContextAnswer {
    /// The prompt, in the format `text`.
    #[serde(default)]
    pub text: Option<String>,
    /// The prompt, in the format `messages`.
    #[serde(default)]
    pub messages: Option<Vec<Value>>,
    /// What is in it.
    pub sections: Vec<ContextSection>,
    /// Its tokens.
    pub tokens: usize,
    /// The budget.
    pub budget_tokens: usize,
    /// What is not in it, and why.
    pub left_out: Vec<LeftOut>,
    /// How many more are not in it than are named.
    #[serde(default)]
    pub left_out_more: u64,
    /// Whether a shard did not answer.
    #[serde(default)]
    pub partial: bool,
    /// Where the time went.
    #[serde(default)]
    pub took_us: ContextTookUs,
}

/// One section of a context.
#[derive(Debug, Clone, Deserialize)]
pub struct ContextSection {
    /// Its name.
    pub name: String,
    /// Its tokens.
    pub tokens: usize,
    /// Its text, in the format `sections`.
    #[serde(default)]
    pub text: Option<String>,
    /// What is in it, in the order of the text.
    pub items: Vec<ContextItem>,
}

/// One item of a section.
#[derive(Debug, Clone, Deserialize)]
pub struct ContextItem {
    /// A memory's id, or a fact's.
    pub id: String,
    /// As of a recall.
    pub score: f64,
    /// Where it comes from.
    pub source: ContextSource,
}

/// Where an item comes from.
#[derive(Debug, Clone, Deserialize)]
pub struct ContextSource {
    /// The memory that says it; none of what is kept beside memories.
    #[serde(default)]
    pub memory: Option<String>,
}

/// Something that is not in a context.
#[derive(Debug, Clone, Deserialize)]
pub struct LeftOut {
    /// A memory's id, or a fact's.
    pub id: String,
    /// Why.
    pub reason: String,
}

/// Where the time of a context went, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct ContextTookUs {
    /// Embedding the question.
    pub embed: Option<u64>,
    /// Searching the shards.
    pub search: Option<u64>,
    /// Choosing, counting and packing.
    pub assemble: Option<u64>,
    /// The whole, as the router saw it.
    pub total: Option<u64>,
}

/// What became of the lines of an export.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ImportAnswer {
    /// Of memories.
    pub memories: ImportCounts,
    /// Of earlier versions.
    pub versions: ImportCounts,
    /// Of links.
    pub links: ImportCounts,
    /// Of what stands beside memories, by the kind of line.
    #[serde(default)]
    pub beside: BTreeMap<String, ImportCounts>,
    /// Lines that are nothing of an export.
    pub unreadable: u64,
    /// The lines that were rejected, or the first of them.
    pub rejected: Vec<serde_json::Value>,
}

/// What an export comes to.
#[derive(Debug, Clone, Default)]
pub struct Exported {
    /// How much is in it.
    pub counts: ExportCounts,
    /// What a space may hold beside, and the export leaves out.
    pub left_out: Vec<String>,
}

/// What the last line of an export says of those before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ExportCounts {
    /// Memories.
    pub memories: u64,
    /// Earlier versions of them.
    pub versions: u64,
    /// Lines of links.
    pub links: u64,
    /// What stands beside memories, by the kind of line.
    #[serde(default)]
    pub beside: BTreeMap<String, u64>,
}

/// The last line of an export.
#[derive(Debug, Clone, Deserialize)]
pub struct EndLine {
    /// What came before it.
    pub end: ExportCounts,
}

/// The first line, as much of it as is looked at.
#[derive(Debug, Deserialize)]
pub(super) struct HeadLine {
    pub(super) export: Head,
}

#[derive(Debug, Deserialize)]
pub(super) struct Head {
    #[serde(default)]
    pub(super) left_out: Vec<String>,
}

/// How many of one kind.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct ImportCounts {
    /// Stored.
    pub created: u64,
    /// There already.
    pub duplicate: u64,
    /// Not stored.
    pub rejected: u64,
}

impl ImportCounts {
    /// Adds the counts of another part.
    pub fn absorb(&mut self, other: Self) {
        self.created += other.created;
        self.duplicate += other.duplicate;
        self.rejected += other.rejected;
    }
}
