//! New memories.

use super::{
    Answers, Context, Step, Stop, chunks, claims, delete, facts, links, merged, sessions, update, upkeep,
};
use crate::command::{Add, NewMemory, Origin};
use crate::event::Event;
use crate::intent::is_unsure;
use crate::keys;
use crate::keys::due::{Due, DueKind};
use crate::memory::{
    IdempotencyId, IdempotencyItem, IndexRow, MemoryRow, ModelTag, STRENGTH_NEW, SpaceRow, Status,
    TombstoneRow, Topic,
};
use crate::outcome::{ItemOutcome, ItemStatus};
use crate::space::SpaceKey;
use crate::state::State;
use crate::{Error, ErrorCode};

pub(super) fn apply<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, add: &Add) -> Step<Answers> {
    let has_vectors = add.items.iter().any(has_vector);
    let model = choose_model(context, space, add.model.as_ref().filter(|_| has_vectors), add.vectors_given);
    // In a partial write vectors that do not fit concern the items that bring them, and no other.
    let (model, unfit) = match model {
        Ok(model) => (model, None),
        Err(Stop::Refused(error)) if add.partial => (None, Some(error)),
        Err(stop) => return Err(stop),
    };
    let mut answers = Vec::with_capacity(add.items.len());
    for (at, item) in add.items.iter().enumerate() {
        let answer = match &unfit {
            Some(error) if has_vector(item) => rejected(&item.index.id, error.clone()),
            _ => one(context, space, add.origin, item, model)?,
        };
        if let Some(reason) = &answer.0.reason
            && !add.partial
        {
            let is_claimed = reason.field.as_deref() == Some(claims::CLAIMED_FIELD);
            let reason = reason.clone();
            return Err(if is_claimed { reason } else { reason.at(format!("memories[{at}].id")) }.into());
        }
        answers.push(answer);
    }
    if answers.iter().any(|(outcome, _)| outcome.status == ItemStatus::Created) {
        upkeep::wake(context, space)?;
    }
    Ok(answers)
}

/// Whether a memory, or a chunk of it, has a vector.
pub(super) fn has_vector(item: &NewMemory) -> bool {
    item.index.vector.is_some() || item.chunks.iter().any(|chunk| chunk.index.vector.is_some())
}

/// The number of the model among the space's, or `None` if vectors of it have no place there. The
/// first vector of a space fixes its model.
pub(super) fn choose_model<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    model: Option<&ModelTag>,
    given: bool,
) -> Step<Option<u8>> {
    let row = context.rows.space_row(space)?;
    let is_new = row.is_none();
    let mut row = row.unwrap_or_else(|| SpaceRow { models: Vec::new(), created_us: context.now_us });
    let chosen = match (model, row.models.last()) {
        (None, _) => None,
        (Some(model), None) => {
            row.models.push(model.clone());
            Some(0)
        }
        (Some(model), Some(current)) if model == current => u8::try_from(row.models.len() - 1).ok(),
        (Some(model), Some(current)) if given => {
            let detail = format!(
                "this space holds vectors of {} with {} dimensions; these are of {} with {}; \
                 send matching vectors, or the text alone",
                current.id, current.dims, model.id, model.dims
            );
            return Err(Error::invalid("embedding", detail).into());
        }
        (Some(_), Some(_)) => None,
    };
    if is_new || (chosen == Some(0) && row.models.len() == 1) {
        context.rows.write(keys::space_row::key(space), &row)?;
    }
    Ok(chosen)
}

fn one<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    origin: Origin,
    item: &NewMemory,
    model: Option<u8>,
) -> Step<(ItemOutcome, IdempotencyItem)> {
    let id = &item.index.id;
    if let Some(existing) = context.rows.memory(space, id)? {
        let expires_us = context.rows.index_row(space, existing.seq)?.expires_us;
        let has_expired = expires_us.is_some_and(|at_us| at_us <= context.now_us);
        if !has_expired || existing.chunk.is_some() {
            return Ok(repeated_id(id, item, &existing));
        }
        // It only waits to be swept, and nobody is shown it any more.
        delete::remove(context, space, id, &existing, delete::Rest::Due)?;
    }
    if item.id_chosen
        && let Some(reason) = claims::refuse_elsewhere(context, space, id)?
    {
        return Ok(rejected(id, reason));
    }
    if let Some(reason) = buried(context, space, origin, item)? {
        return Ok(rejected(id, reason));
    }
    if !item.id_chosen
        && let Some(merged) = repeat(context, space, origin, item)?
    {
        return Ok(merged);
    }
    // A new statement under the id of a deleted one goes on counting, so that a version that a
    // client still holds never fits by accident.
    let grave: Option<TombstoneRow> = context.rows.read(&keys::tombstone::key(space, id))?;
    let version = grave.map_or(1, |grave| grave.version.saturating_add(1));
    create(context, space, item, model, version, None)?;
    chunks::put(context, space, item, model)?;
    let made = if item.id_chosen { None } else { made_id(id) };
    let kept = made.map_or(IdempotencyId::Requested, IdempotencyId::Made);
    let (outcome, kept) = answer(id, version, ItemStatus::Created, kept);
    // A plain memory has no links; its row is not read again for them.
    let linked = !item.statements.is_empty() || !item.conflicts.is_empty();
    let outcome = if linked { with_links(context, space, outcome)? } else { outcome };
    Ok((outcome, kept))
}

/// Why a memory that no caller states may not be stored: it was deleted, or what it was made from was.
pub(super) fn buried<S: State>(
    context: &Context<'_, S>,
    space: &SpaceKey,
    origin: Origin,
    item: &NewMemory,
) -> Step<Option<Error>> {
    if origin == Origin::Caller {
        return Ok(None);
    }
    let has_grave = |id: &str| -> Step<bool> {
        Ok(context.rows.read::<TombstoneRow>(&keys::tombstone::key(space, id))?.is_some())
    };
    if has_grave(&item.index.id)? {
        return Ok(Some(deleted()));
    }
    // A source without a tombstone may be something else than a memory, such as a turn of a session.
    for source in &item.derived_from {
        if has_grave(source)? && context.rows.memory(space, source)?.is_none() {
            let detail = "it was made from a memory that was deleted, and stays deleted with it";
            return Ok(Some(Error::new(ErrorCode::Conflict, detail).at("derived_from")));
        }
    }
    Ok(None)
}

pub(super) fn deleted() -> Error {
    Error::new(ErrorCode::Conflict, "this memory was deleted and stays deleted")
}

/// Counts what only repeats a memory: the same text, or the same statement in other words. Words that
/// were true once, and are said again after others, are a new memory, by which the text is found
/// from then on.
fn repeat<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    origin: Origin,
    item: &NewMemory,
) -> Step<Option<(ItemOutcome, IdempotencyItem)>> {
    if let Some(id) = context.rows.id_of_text(space, item.text_hash)? {
        let Some(memory) = context.rows.memory(space, &id)? else {
            let detail = format!("a text of {space} belongs to {id}, which does not exist");
            return Err(super::ApplyError::Inconsistent(detail).into());
        };
        let row = context.rows.index_row(space, memory.seq)?;
        if facts::only_repeats(context, space, &memory, &row, item)? {
            return merge(context, space, &id, &memory, (origin, item));
        }
        context.rows.release_text(space, item.text_hash, &id)?;
    }
    match facts::same_statement(context, space, item)? {
        Some((id, memory)) if !sessions::is_of_others(origin, &memory, item) => {
            merge(context, space, &id, &memory, (origin, item))
        }
        _ => Ok(None),
    }
}

/// Writes the rows of a new memory, which is a chunk of another where it has a number.
pub(super) fn create<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    item: &NewMemory,
    model: Option<u8>,
    version: u64,
    chunk: Option<u32>,
) -> Step<()> {
    let mut counters = context.rows.counters(space)?;
    counters.last_seq += 1;
    counters.memories += 1;
    counters.bytes += stored_bytes(&item.content, &item.index.metadata);
    context.rows.write_counters(space, &counters)?;
    let seq = counters.last_seq;
    let id = &item.index.id;
    let event_us = if item.event_given { item.index.event_us } else { context.now_us };
    let mut row = IndexRow {
        strength_milli: STRENGTH_NEW,
        access_count: 0,
        count: 1,
        created_us: context.now_us,
        event_us,
        last_access_us: event_us,
        topics: Topic::of(&item.statements),
        ..columns(item)
    };
    place_vector(&mut row, model);
    let memory = MemoryRow { chunk, ..memory_row(item, seq, version, context.now_us) };
    context.rows.write(keys::memory::key(space, id), &memory)?;
    context.rows.write(keys::index_row::key(space, seq), &row)?;
    // A chunk repeats nothing, and goes with the memory that names it.
    if chunk.is_none() {
        context.rows.claim_text(space, item.text_hash, id)?;
        context.rows.put_derived(space, id, &item.derived_from)?;
    }
    if let Some(at_us) = row.expires_us {
        context.rows.put_due(&expiry(space, id, at_us))?;
    }
    context.events.push(Event::Put { space: space.clone(), seq, row: Box::new(row) });
    facts::put(context, space, id, &memory, event_us)?;
    links::conflicts(context, space, id, &item.conflicts)
}

/// The columns of a memory with what follows from the rest of it.
pub(super) fn columns(item: &NewMemory) -> IndexRow {
    let (chunked, unsure) = (!item.chunks.is_empty(), is_unsure(item.confidence));
    IndexRow { chunked, unsure, ..item.index.clone() }
}

/// The same text once more: it is counted, and what it asks for beyond the old statement is kept: it
/// lives as long as the longer-lived of the two, as important and as pinned. `None` if the old
/// statement has expired and only waits to be swept: it goes, and the text is new.
fn merge<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    memory: &MemoryRow,
    (origin, item): (Origin, &NewMemory),
) -> Step<Option<(ItemOutcome, IdempotencyItem)>> {
    let mut row = context.rows.index_row(space, memory.seq)?;
    if row.expires_us.is_some_and(|at_us| at_us <= context.now_us) {
        delete::remove(context, space, id, memory, delete::Rest::Due)?;
        return Ok(None);
    }
    let expires_us = row.expires_us.zip(item.index.expires_us).map(|(old, new)| old.max(new));
    update::move_expiry(context, space, id, row.expires_us, expires_us)?;
    row.expires_us = expires_us;
    row.pinned |= item.index.pinned;
    row.importance = row.importance.max(item.index.importance);
    row.count = row.count.saturating_add(1);
    // A surer source may say the same.
    let surer = MemoryRow { confidence: memory.confidence.max(item.confidence), ..memory.clone() };
    if item.confidence > memory.confidence {
        row.unsure = is_unsure(item.confidence);
        context.rows.write(keys::memory::key(space, id), &surer)?;
    }
    sessions::join(context, space, id, &surer, &mut row, (origin, item))?;
    context.rows.write(keys::index_row::key(space, memory.seq), &row)?;
    chunks::follow(context, space, memory, &row)?;
    context.events.push(Event::Put { space: space.clone(), seq: memory.seq, row: Box::new(row.clone()) });
    if row.status == Status::Merged {
        merged::repeated(context, space, id, &surer, &row)?;
    }
    let (outcome, kept) = answer(id, memory.version, ItemStatus::Merged, IdempotencyId::Existing(memory.seq));
    Ok(Some((with_links(context, space, outcome)?, kept)))
}

pub(super) fn repeated_id(
    id: &str,
    item: &NewMemory,
    existing: &MemoryRow,
) -> (ItemOutcome, IdempotencyItem) {
    if existing.content == item.content {
        return answer(id, existing.version, ItemStatus::Duplicate, IdempotencyId::Requested);
    }
    let detail = "a memory with this id and other content exists; PATCH it, or choose another id";
    rejected(id, Error::new(ErrorCode::AlreadyExists, detail))
}

pub(super) fn rejected(id: &str, reason: Error) -> (ItemOutcome, IdempotencyItem) {
    let (mut item, kept) = answer(id, 0, ItemStatus::Rejected, IdempotencyId::Requested);
    item.reason = Some(reason);
    (item, kept)
}

pub(super) fn answer(
    id: &str,
    version: u64,
    status: ItemStatus,
    kept: IdempotencyId,
) -> (ItemOutcome, IdempotencyItem) {
    let outcome = ItemOutcome { version, status, ..ItemOutcome::new(id.to_owned()) };
    (outcome, IdempotencyItem { status, version, id: kept })
}

/// The answer with what the memory is linked to now.
pub(super) fn with_links<S: State>(
    context: &Context<'_, S>,
    space: &SpaceKey,
    outcome: ItemOutcome,
) -> Step<ItemOutcome> {
    if !matches!(outcome.status, ItemStatus::Created | ItemStatus::Merged | ItemStatus::Updated) {
        return Ok(outcome);
    }
    let Some(memory) = context.rows.memory(space, &outcome.id)? else { return Ok(outcome) };
    Ok(ItemOutcome {
        supersedes: memory.supersedes,
        overrides: memory.overrides,
        possible_conflicts: memory.possible_conflicts,
        ..outcome
    })
}

/// The row of a new memory or of a new version of one.
pub(super) fn memory_row(item: &NewMemory, seq: u64, version: u64, now_us: i64) -> MemoryRow {
    MemoryRow {
        seq,
        version,
        content: item.content.clone(),
        tokens: item.tokens,
        text_hash: item.text_hash,
        updated_us: now_us,
        confidence: item.confidence,
        statements: item.statements.clone(),
        whole: item.whole,
        source: item.source.clone(),
        derived_from: item.derived_from.clone(),
        chunks: item.chunks.iter().map(|chunk| chunk.index.id.clone()).collect(),
        chunk: None,
        supersedes: Vec::new(),
        superseded_by: None,
        overrides: Vec::new(),
        possible_conflicts: Vec::new(),
    }
}

/// Names the model of a row's vector, or takes out a vector that has no place in the space.
pub(super) fn place_vector(row: &mut IndexRow, model: Option<u8>) {
    row.vector = match (row.vector.take(), model) {
        (Some(mut vector), Some(model)) => {
            vector.model = model;
            Some(vector)
        }
        _ => None,
    };
}

pub(super) fn expiry(space: &SpaceKey, id: &str, at_us: i64) -> Due {
    Due { at_us, space: space.clone(), kind: DueKind::Expiry, id: id.to_owned() }
}

pub(super) fn stored_bytes(content: &str, metadata: &str) -> u64 {
    (content.len() + metadata.len()) as u64
}

/// The 16 bytes of an id in the hyphenated form of a UUID (RFC 9562, section 4), which is what
/// routers make; `None` for any other id.
fn made_id(id: &str) -> Option<[u8; 16]> {
    let bytes = id.as_bytes();
    if bytes.len() != 36 || [8, 13, 18, 23].iter().any(|at| bytes[*at] != b'-') {
        return None;
    }
    let digits: Vec<u8> = bytes.iter().copied().filter(|b| *b != b'-').collect();
    let mut made = [0u8; 16];
    for (byte, pair) in made.iter_mut().zip(digits.chunks(2)) {
        let digit = |b: u8| match b {
            b'0'..=b'9' => Some(b - b'0'),
            b'a'..=b'f' => Some(b - b'a' + 10),
            _ => None,
        };
        *byte = digit(pair[0])? << 4 | digit(*pair.get(1)?)?;
    }
    (uuid_text(made) == id).then_some(made)
}

/// The hyphenated form of the 16 bytes of a UUID.
pub(super) fn uuid_text(bytes: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.into_iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_routers_pack_into_16_bytes() {
        let id = "0195f2a0-7c3e-7d11-9a4b-00ff10ab23cd";
        assert_eq!(made_id(id).map(uuid_text).as_deref(), Some(id));
        for other in [
            "",
            "conv-26/D1:3",
            "0195F2A0-7c3e-7d11-9a4b-00ff10ab23cd",
            "0195f2a0-7c3e-7d11-9a4b-00ff10ab23c-",
        ] {
            assert_eq!(made_id(other), None, "{other}");
        }
    }
}
