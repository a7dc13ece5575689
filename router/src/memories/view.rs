//! A memory as callers see it.

use crate::http::problem::{Answer, Problem};
use crate::http::time::Time;
use holdfast_core::ErrorCode;
use holdfast_core::space::SpaceKey;
use holdfast_proto::v1;
use serde::Serialize;
use serde_json::value::RawValue;

/// The memory object of the API. Every field is always there, `null` where there is nothing.
#[derive(Debug, Serialize)]
pub(crate) struct MemoryView {
    id: String,
    space: String,
    kind: String,
    content: String,
    importance: f32,
    strength: f64,
    confidence: f32,
    access_count: u32,
    count: u32,
    created_at: Time,
    updated_at: Time,
    event_time: Time,
    last_accessed_at: Time,
    valid_from: Option<Time>,
    valid_to: Option<Time>,
    expires_at: Option<Time>,
    pinned: bool,
    status: String,
    pub(crate) version: u64,
    supersedes: Vec<String>,
    superseded_by: Option<String>,
    overrides: Vec<String>,
    possible_conflicts: Vec<String>,
    derived_from: Vec<String>,
    merged: Vec<String>,
    merged_into: Option<String>,
    session: Option<String>,
    agent: Option<String>,
    role: Option<String>,
    speaker: Option<String>,
    sentiment: Option<String>,
    entities: Vec<String>,
    fact: Option<FactView>,
    source: Option<SourceView>,
    metadata: Box<RawValue>,
    embedding_model: Option<String>,
}

#[derive(Debug, Serialize)]
struct FactView {
    subject: String,
    predicate: String,
    object: String,
    qualifiers: Box<RawValue>,
    confidence: Option<f32>,
    valid_from: Option<Time>,
    valid_to: Option<Time>,
}

#[derive(Debug, Serialize)]
struct SourceView {
    uri: Option<String>,
    message_ids: Vec<String>,
}

impl MemoryView {
    pub(crate) fn new(memory: v1::Memory) -> Answer<Self> {
        let (valid_from, valid_to) = (memory.valid_from_us.map(Time), memory.valid_to_us.map(Time));
        let fact = match memory.fact {
            None => None,
            Some(fact) => Some(FactView {
                subject: fact.subject,
                predicate: fact.predicate,
                object: fact.object,
                qualifiers: fields(fact.qualifiers)?,
                confidence: fact.confidence,
                valid_from,
                valid_to,
            }),
        };
        Ok(Self {
            id: memory.id,
            space: memory.space.map_or_else(String::new, |space| SpaceKey::label_of(&space.name).to_owned()),
            kind: memory.kind,
            content: memory.content,
            importance: memory.importance,
            strength: f64::from(memory.strength_milli) / 1000.0,
            confidence: memory.confidence,
            access_count: memory.access_count,
            count: memory.count,
            created_at: Time(memory.created_us),
            updated_at: Time(memory.updated_us),
            event_time: Time(memory.event_us),
            last_accessed_at: Time(memory.last_access_us),
            valid_from,
            valid_to,
            expires_at: memory.expires_us.map(Time),
            pinned: memory.pinned,
            status: memory.status,
            version: memory.version,
            supersedes: memory.supersedes,
            superseded_by: memory.superseded_by,
            overrides: memory.overrides,
            possible_conflicts: memory.possible_conflicts,
            derived_from: memory.derived_from,
            merged: memory.merged,
            merged_into: memory.merged_into,
            session: memory.session,
            agent: memory.agent,
            role: memory.role,
            speaker: memory.speaker,
            sentiment: memory.sentiment,
            entities: memory.entities,
            fact,
            source: memory
                .source
                .map(|source| SourceView { uri: source.uri, message_ids: source.message_ids }),
            metadata: fields(memory.metadata)?,
            embedding_model: memory.embedding_model,
        })
    }
}

/// Stored JSON as it is; no text stands for an object without fields.
pub(crate) fn fields(json: String) -> Answer<Box<RawValue>> {
    let json = if json.is_empty() { "{}".to_owned() } else { json };
    RawValue::from_string(json)
        .map_err(|error| Problem::new(ErrorCode::Corrupted, format!("stored JSON cannot be read: {error}")))
}
