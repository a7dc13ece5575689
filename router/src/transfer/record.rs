//! A memory, or an earlier version of one, as a line of an export: the memory object of the API with what
//! it does not show (all statements and how they stand, the embedding, exact counts).

use super::statement::{StatementLine, fields};
use crate::http::time::Time;
use crate::memories::derive::hash_of;
use crate::memories::draft::{canonical, caption_of};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_core::command::NewMemory;
use holdfast_core::limits::{DERIVED_FROM_MAX, SOURCE_MESSAGES_MAX, SOURCE_URI_BYTES_MAX, check_id};
use holdfast_core::memory::{
    HistoryRow, IndexRow, Kind, MemoryRow, ModelTag, STRENGTH_MAX, STRENGTH_MIN, Source, Status,
};
use holdfast_core::text::{self, ANALYZER_VERSION};
use holdfast_core::transfer::{Memory, Standing, Version};
use holdfast_core::vector::Vector;
use holdfast_core::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What memories and their earlier versions have in common.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    id: String,
    content: String,
    kind: String,
    status: String,
    importance: f32,
    strength: f64,
    confidence: f32,
    access_count: u32,
    count: u32,
    created_at: Time,
    updated_at: Time,
    event_time: Time,
    last_accessed_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    valid_from: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    valid_to: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retracted_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
    #[serde(default)]
    pinned: bool,
    version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    speaker: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sentiment: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    entities: Vec<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<SourceLine>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    derived_from: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    statements: Vec<StatementLine>,
    /// Whether the statements are all that the text says.
    #[serde(default)]
    whole: bool,
    /// Tokens of the text; 0 where they were not counted.
    #[serde(default)]
    tokens: u32,
}

/// A memory.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryLine {
    memory: Record,
    /// Whether a repetition of its text is counted on it.
    holds_text: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    embedding: Option<EmbeddingLine>,
    /// Its parts, where it is too long to be searched whole. Their columns are those of the memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    chunks: Vec<ChunkLine>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChunkLine {
    id: String,
    content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    embedding: Option<EmbeddingLine>,
}

/// An earlier version.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionLine {
    memory: Record,
    replaced_at: Time,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmbeddingLine {
    model: String,
    /// As it is stored: numbers of 16 bits (IEEE 754 binary16), little-endian, in base64.
    f16: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    message_ids: Vec<String>,
}

impl MemoryLine {
    pub(super) fn id(&self) -> &str {
        &self.memory.id
    }

    pub(super) fn of(memory: Memory) -> Result<Self> {
        let Memory { memory: new, model, version, updated_us, holds_text, standing } = memory;
        let embedded = |vector: Option<&Vector>| {
            let (vector, model) = vector.zip(model.as_ref())?;
            Some(EmbeddingLine { model: model.id.clone(), f16: STANDARD.encode(&vector.halves) })
        };
        let embedding = embedded(new.index.vector.as_ref());
        let chunk = |chunk: NewMemory| ChunkLine {
            embedding: embedded(chunk.index.vector.as_ref()),
            id: chunk.index.id,
            content: chunk.content,
        };
        let chunks = new.chunks.into_iter().map(chunk).collect();
        let row = MemoryRow {
            seq: 0,
            version,
            content: new.content,
            tokens: new.tokens,
            text_hash: new.text_hash,
            updated_us,
            confidence: new.confidence,
            statements: new.statements,
            whole: new.whole,
            source: new.source,
            derived_from: new.derived_from,
            chunks: Vec::new(),
            chunk: None,
            supersedes: Vec::new(),
            superseded_by: None,
            overrides: Vec::new(),
            possible_conflicts: Vec::new(),
        };
        Ok(Self { memory: Record::of(row, new.index, standing)?, holds_text, embedding, chunks })
    }

    pub(super) fn into_memory(self) -> Result<Memory> {
        let (row, mut index, standing) = self.memory.into_rows()?;
        let (vector, mut model) = self.embedding.map(EmbeddingLine::into_vector).transpose()?.unzip();
        index.vector = vector;
        index.chunked = !self.chunks.is_empty();
        let mut chunks = Vec::with_capacity(self.chunks.len());
        for line in self.chunks {
            let (chunk, of) = line.into_chunk(&row, &index)?;
            chunks.push(chunk);
            model = model.or(of);
        }
        let caption = caption_of(serde_json::from_str(&index.metadata).ok().as_ref());
        let indexed =
            text::index_text(index.event_us, index.speaker.as_deref(), &row.content, caption.as_deref());
        let terms = text::analyze(&indexed);
        (index.terms, index.terms_len, index.analyzer) = (terms.terms, terms.len, ANALYZER_VERSION);
        Ok(Memory {
            model,
            version: row.version,
            updated_us: row.updated_us,
            holds_text: self.holds_text,
            standing,
            memory: NewMemory {
                id_chosen: true,
                content: row.content,
                tokens: row.tokens,
                text_hash: row.text_hash,
                confidence: row.confidence,
                statements: row.statements,
                whole: row.whole,
                conflicts: Vec::new(),
                source: row.source,
                derived_from: row.derived_from,
                chunks,
                index,
                event_given: true,
            },
        })
    }
}

impl EmbeddingLine {
    fn into_vector(self) -> Result<(Vector, ModelTag)> {
        let not_base64 = |_| Error::invalid("embedding.f16", "embedding.f16 is not base64");
        let bytes = STANDARD.decode(&self.f16).map_err(not_base64)?;
        let vector = Vector::from_halves(&bytes)?;
        check_id("embedding.model", &self.model)?;
        let dims = u16::try_from(vector.dims()).unwrap_or(u16::MAX);
        Ok((vector, ModelTag { id: self.model, dims }))
    }
}

impl ChunkLine {
    /// A part of a memory with these rows.
    fn into_chunk(self, whole: &MemoryRow, columns: &IndexRow) -> Result<(NewMemory, Option<ModelTag>)> {
        check_id("chunks.id", &self.id)?;
        let (vector, model) = self.embedding.map(EmbeddingLine::into_vector).transpose()?.unzip();
        let speaker = columns.speaker.as_deref();
        let terms = text::analyze(&text::index_text(columns.event_us, speaker, &self.content, None));
        let index = IndexRow {
            id: self.id,
            vector,
            chunked: false,
            question: text::is_short_question(&self.content),
            terms: terms.terms,
            terms_len: terms.len,
            analyzer: ANALYZER_VERSION,
            ..columns.clone()
        };
        let chunk = NewMemory {
            id_chosen: true,
            // Found by its id alone: the text of a part is no statement of its own.
            text_hash: hash_of(&self.content, Some(&columns.id)),
            content: self.content,
            tokens: 0,
            confidence: whole.confidence,
            statements: Vec::new(),
            whole: false,
            conflicts: Vec::new(),
            source: whole.source.clone(),
            derived_from: vec![columns.id.clone()],
            chunks: Vec::new(),
            index,
            event_given: true,
        };
        Ok((chunk, model))
    }
}

impl VersionLine {
    pub(super) fn id(&self) -> &str {
        &self.memory.id
    }

    pub(super) fn of(version: Version) -> Result<Self> {
        let HistoryRow { memory, index, replaced_us } = version.row;
        Ok(Self { memory: Record::of(memory, index, Vec::new())?, replaced_at: Time(replaced_us) })
    }

    pub(super) fn into_version(self) -> Result<Version> {
        let (memory, index, _) = self.memory.into_rows()?;
        let index = IndexRow { analyzer: 0, ..index };
        let row = HistoryRow { memory, index, replaced_us: self.replaced_at.0 };
        Ok(Version { id: row.index.id.clone(), row })
    }
}

impl Record {
    fn of(row: MemoryRow, index: IndexRow, standing: Vec<Option<Standing>>) -> Result<Self> {
        let mut standing = standing.into_iter();
        let statements = row
            .statements
            .into_iter()
            .map(|statement| StatementLine::of(statement, standing.next().flatten()));
        Ok(Self {
            id: index.id,
            content: row.content,
            kind: index.kind.as_str().to_owned(),
            status: index.status.as_str().to_owned(),
            importance: index.importance,
            strength: f64::from(index.strength_milli) / 1000.0,
            confidence: row.confidence,
            access_count: index.access_count,
            count: index.count,
            created_at: Time(index.created_us),
            updated_at: Time(row.updated_us),
            event_time: Time(index.event_us),
            last_accessed_at: Time(index.last_access_us),
            valid_from: index.valid_from_us.map(Time),
            valid_to: index.valid_to_us.map(Time),
            retracted_at: index.retracted_us.map(Time),
            expires_at: index.expires_us.map(Time),
            pinned: index.pinned,
            version: row.version,
            session: index.session,
            agent: index.agent,
            role: index.role,
            speaker: index.speaker,
            sentiment: index.sentiment,
            entities: index.entities,
            metadata: fields("metadata", &index.metadata)?,
            source: row.source.map(|source| SourceLine { uri: source.uri, message_ids: source.message_ids }),
            derived_from: row.derived_from,
            statements: statements.collect::<Result<_>>()?,
            whole: row.whole,
            tokens: row.tokens,
        })
    }

    fn check(&self) -> Result<()> {
        let named = [
            ("id", Some(&self.id)),
            ("session", self.session.as_ref()),
            ("agent", self.agent.as_ref()),
            ("role", self.role.as_ref()),
            ("speaker", self.speaker.as_ref()),
            ("sentiment", self.sentiment.as_ref()),
        ];
        for (field, value) in named {
            value.map_or(Ok(()), |value| check_id(field, value))?;
        }
        self.entities.iter().try_for_each(|entity| check_id("entities", entity))?;
        if self.derived_from.len() > DERIVED_FROM_MAX {
            let detail = format!("a memory is made from at most {DERIVED_FROM_MAX} others");
            return Err(Error::too_large("derived_from", detail));
        }
        if let Some(source) = &self.source {
            let long = source.uri.as_ref().is_some_and(|uri| uri.len() > SOURCE_URI_BYTES_MAX);
            if long || source.message_ids.len() > SOURCE_MESSAGES_MAX {
                return Err(Error::too_large(
                    "source",
                    "the address is too long, or there are too many messages",
                ));
            }
            source.message_ids.iter().try_for_each(|id| check_id("source.message_ids", id))?;
        }
        self.statements.iter().try_for_each(StatementLine::check)
    }

    fn into_rows(self) -> Result<(MemoryRow, IndexRow, Vec<Option<Standing>>)> {
        self.check()?;
        let strength = (self.strength * 1000.0).round();
        if !(f64::from(STRENGTH_MIN)..=f64::from(STRENGTH_MAX)).contains(&strength) {
            return Err(Error::invalid("strength", "strength is a number from 0.1 to 5"));
        }
        let wrong = |field: &str| {
            Error::invalid(field, format!("{field} has a value that this version does not know"))
        };
        let kind = Kind::from_wire(&self.kind).ok_or_else(|| wrong("kind"))?;
        let status = Status::from_wire(&self.status).ok_or_else(|| wrong("status"))?;
        let mut standing = Vec::with_capacity(self.statements.len());
        let mut statements = Vec::with_capacity(self.statements.len());
        for line in self.statements {
            let (statement, stands) = line.into_statement()?;
            statements.push(statement);
            standing.push(stands);
        }
        let metadata =
            if self.metadata.is_empty() { String::new() } else { canonical("metadata", self.metadata)? };
        let us = |time: Option<Time>| time.map(|time| time.0);
        let index = IndexRow {
            id: self.id,
            kind,
            status,
            importance: self.importance,
            // Within the range that was just checked.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            strength_milli: strength as u16,
            access_count: self.access_count,
            count: self.count,
            created_us: self.created_at.0,
            event_us: self.event_time.0,
            last_access_us: self.last_accessed_at.0,
            expires_us: us(self.expires_at),
            valid_from_us: us(self.valid_from),
            valid_to_us: us(self.valid_to),
            retracted_us: us(self.retracted_at),
            pinned: self.pinned,
            question: text::is_short_question(&self.content),
            role: self.role,
            speaker: self.speaker,
            session: self.session,
            agent: self.agent,
            sentiment: self.sentiment,
            entities: self.entities,
            metadata,
            ..IndexRow::default()
        };
        let row = MemoryRow {
            seq: 0,
            version: self.version,
            text_hash: hash_of(&self.content, index.speaker.as_deref()),
            content: self.content,
            tokens: self.tokens,
            updated_us: self.updated_at.0,
            confidence: self.confidence,
            statements,
            whole: self.whole,
            source: self.source.map(|source| Source { uri: source.uri, message_ids: source.message_ids }),
            derived_from: self.derived_from,
            chunks: Vec::new(),
            chunk: None,
            supersedes: Vec::new(),
            superseded_by: None,
            overrides: Vec::new(),
            possible_conflicts: Vec::new(),
        };
        Ok((row, index, standing))
    }
}
