//! What an export held. Each item is stored or rejected by itself: what is there already is there
//! once, and what was deleted stays deleted.

mod beside;

use super::{Answers, Context, Step, Stop, add, chunks, facts, links, sessions, update, upkeep};
use crate::Error;
use crate::event::Event;
use crate::keys;
use crate::limits::HISTORY_VERSIONS_MAX;
use crate::memory::{HistoryRow, IdempotencyId, IndexRow, MemoryRow, TombstoneRow};
use crate::outcome::ItemStatus;
use crate::space::SpaceKey;
use crate::state::State;
use crate::transfer::{Item, Links, Memory, Version};
use crate::{ErrorCode, command::Origin};

pub(super) fn apply<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    items: &[Item],
) -> Step<Answers> {
    let mut answers = Vec::with_capacity(items.len());
    for item in items {
        let answer = match item {
            _ if is_erased(context, space, item)? => add::rejected(item.id(), add::deleted()),
            Item::Memory(memory) => one(context, space, memory)?,
            Item::Version(version) => earlier(context, space, version)?,
            Item::Links(links) => linked(context, space, links)?,
            Item::Beside(item) => beside::apply(context, space, item)?,
        };
        answers.push(answer);
    }
    let is_new = |(item, answer): (&Item, &Answer)| {
        matches!(item, Item::Memory(_)) && answer.0.status == ItemStatus::Created
    };
    if items.iter().zip(&answers).any(is_new) {
        upkeep::wake(context, space)?;
    }
    Ok(answers)
}

/// Whether the whole space was erased after the item was recorded.
fn is_erased<S: State>(context: &Context<'_, S>, space: &SpaceKey, item: &Item) -> Step<bool> {
    let grave: Option<TombstoneRow> = context.rows.read(&keys::tombstone::of_space(space))?;
    Ok(grave.is_some_and(|grave| item.created_us() <= grave.deleted_us))
}

type Answer = (crate::outcome::ItemOutcome, crate::memory::IdempotencyItem);

fn one<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, item: &Memory) -> Step<Answer> {
    let id = &item.memory.index.id;
    if let Some(existing) = context.rows.memory(space, id)? {
        return Ok(add::repeated_id(id, &item.memory, &existing));
    }
    if let Some(reason) = add::buried(context, space, Origin::Import, &item.memory)? {
        return Ok(add::rejected(id, reason));
    }
    for chunk in &item.memory.chunks {
        if context.rows.memory(space, &chunk.index.id)?.is_some() {
            let detail = format!("the id {} of a chunk of it is taken", chunk.index.id);
            return Ok(add::rejected(id, Error::new(ErrorCode::AlreadyExists, detail).at("chunks")));
        }
    }
    let wanted = item.model.as_ref().filter(|_| add::has_vector(&item.memory));
    let model = match add::choose_model(context, space, wanted, true) {
        Ok(model) => model,
        Err(Stop::Refused(error)) => return Ok(add::rejected(id, error)),
        Err(stop) => return Err(stop),
    };
    let mut counters = context.rows.counters(space)?;
    counters.last_seq += 1;
    counters.memories += 1;
    counters.bytes += add::stored_bytes(&item.memory.content, &item.memory.index.metadata);
    context.rows.write_counters(space, &counters)?;
    let seq = counters.last_seq;
    let mut row = IndexRow { older: false, ..add::columns(&item.memory) };
    add::place_vector(&mut row, model);
    let memory = add::memory_row(&item.memory, seq, item.version, context.now_us);
    let memory = MemoryRow { updated_us: item.updated_us, ..memory };
    context.rows.write(keys::memory::key(space, id), &memory)?;
    context.rows.write(keys::index_row::key(space, seq), &row)?;
    context.rows.put_derived(space, id, &memory.derived_from)?;
    sessions::name_all(context, space, id, &memory.derived_from)?;
    if item.holds_text {
        context.rows.seize_text(space, item.memory.text_hash, id)?;
    } else {
        context.rows.claim_text(space, item.memory.text_hash, id)?;
    }
    if let Some(at_us) = row.expires_us {
        context.rows.put_due(&add::expiry(space, id, at_us))?;
    }
    context.events.push(Event::Put { space: space.clone(), seq, row: Box::new(row) });
    facts::put_standing(context, space, id, &memory, &item.standing)?;
    chunks::put(context, space, &item.memory, model)?;
    for chunk in &memory.chunks {
        let seq = update::current(context, space, chunk, None)?.seq;
        let own = context.rows.index_row(space, seq)?;
        let own = IndexRow { created_us: item.memory.index.created_us, ..own };
        context.rows.write(keys::index_row::key(space, seq), &own)?;
        context.events.push(Event::Put { space: space.clone(), seq, row: Box::new(own) });
    }
    Ok(add::answer(id, item.version, ItemStatus::Created, IdempotencyId::Requested))
}

/// The memory that an item is a part of; or why there is none. Of one that was deleted since, nothing comes
/// back, even if its id was given to another one.
fn whole<S: State>(
    context: &Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    created_us: i64,
) -> Step<Result<MemoryRow, Error>> {
    if context.rows.read::<TombstoneRow>(&keys::tombstone::key(space, id))?.is_some() {
        return Ok(Err(add::deleted()));
    }
    let Some(memory) = context.rows.memory(space, id)? else {
        let detail = "there is no memory that this belongs to; the line of the memory must come before";
        return Ok(Err(Error::new(ErrorCode::NotFound, detail).at("id")));
    };
    if context.rows.index_row(space, memory.seq)?.created_us != created_us {
        let detail = "this belongs to another memory that had the same id";
        return Ok(Err(Error::new(ErrorCode::AlreadyExists, detail).at("id")));
    }
    Ok(Ok(memory))
}

fn linked<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, item: &Links) -> Step<Answer> {
    let memory = match whole(context, space, &item.id, item.created_us)? {
        Ok(memory) => memory,
        Err(reason) => return Ok(add::rejected(&item.id, reason)),
    };
    let status = match links::restore(context, space, item)? {
        true => ItemStatus::Created,
        false => ItemStatus::Duplicate,
    };
    Ok(add::answer(&item.id, memory.version, status, IdempotencyId::Requested))
}

/// An earlier version of a memory that is there.
fn earlier<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, version: &Version) -> Step<Answer> {
    let id = &version.id;
    let memory = match whole(context, space, id, version.row.index.created_us)? {
        Ok(memory) => memory,
        Err(reason) => return Ok(add::rejected(id, reason)),
    };
    let number = version.row.memory.version;
    if number >= memory.version || number.saturating_add(HISTORY_VERSIONS_MAX) < memory.version {
        let detail =
            format!("version {number} is not among those that are kept of version {}", memory.version);
        return Ok(add::rejected(id, Error::new(ErrorCode::Conflict, detail).at("version")));
    }
    let key = keys::history::key(space, id, number);
    if context.rows.read::<HistoryRow>(&key)?.is_some() {
        return Ok(add::answer(id, number, ItemStatus::Duplicate, IdempotencyId::Requested));
    }
    let row = HistoryRow {
        memory: MemoryRow { seq: memory.seq, ..version.row.memory.clone() },
        ..version.row.clone()
    };
    context.rows.write(key, &row)?;
    Ok(add::answer(id, number, ItemStatus::Created, IdempotencyId::Requested))
}
