use crate::v1;
use holdfast_core::memory::{IndexRow, MemoryRow, Source, Statement};
use holdfast_core::space::SpaceKey;

/// The two rows of a memory with what is needed to show it.
#[derive(Debug, Clone)]
pub struct View<'a> {
    /// Where it is.
    pub space: &'a SpaceKey,
    /// Its text.
    pub memory: &'a MemoryRow,
    /// Its columns.
    pub index: &'a IndexRow,
    /// The name of the model of its vector, if it has one.
    pub embedding_model: Option<&'a str>,
    /// Ids of what was merged into it.
    pub merged: Vec<String>,
    /// The id of what it was merged into.
    pub merged_into: Option<String>,
}

/// A memory as callers see it.
pub fn memory_from_rows(view: View<'_>) -> v1::Memory {
    let View { space, memory, index, embedding_model, merged, merged_into } = view;
    v1::Memory {
        id: index.id.clone(),
        space: Some(space.into()),
        seq: memory.seq,
        version: memory.version,
        content: memory.content.clone(),
        kind: index.kind.as_str().to_owned(),
        status: index.status.as_str().to_owned(),
        importance: index.importance,
        confidence: memory.confidence,
        strength_milli: u32::from(index.strength_milli),
        access_count: index.access_count,
        count: index.count,
        created_us: index.created_us,
        updated_us: memory.updated_us,
        event_us: index.event_us,
        last_access_us: index.last_access_us,
        expires_us: index.expires_us,
        valid_from_us: index.valid_from_us,
        valid_to_us: index.valid_to_us,
        pinned: index.pinned,
        role: index.role.clone(),
        speaker: index.speaker.clone(),
        session: index.session.clone(),
        agent: index.agent.clone(),
        sentiment: index.sentiment.clone(),
        entities: index.entities.clone(),
        metadata: index.metadata.clone(),
        fact: memory.statements.first().map(fact_of_statement),
        source: memory.source.as_ref().map(source),
        derived_from: memory.derived_from.clone(),
        supersedes: memory.supersedes.clone(),
        superseded_by: memory.superseded_by.clone(),
        overrides: memory.overrides.clone(),
        possible_conflicts: memory.possible_conflicts.clone(),
        embedding_model: embedding_model.filter(|_| index.vector.is_some()).map(Into::into),
        tokens: memory.tokens,
        chunk: memory.chunk,
        merged,
        merged_into,
    }
}

/// A statement as callers see it.
pub fn fact_of_statement(statement: &Statement) -> v1::Fact {
    let fact = &statement.fact;
    v1::Fact {
        subject: fact.subject.clone(),
        predicate: fact.predicate.clone(),
        object: fact.object.clone(),
        qualifiers: fact.qualifiers.clone(),
        confidence: fact.confidence,
        rules: statement.rules.into(),
    }
}

fn source(source: &Source) -> v1::Source {
    v1::Source { uri: source.uri.clone(), message_ids: source.message_ids.clone() }
}
