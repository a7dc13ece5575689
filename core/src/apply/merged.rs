//! Memories that say what an older one says. Nothing of them is lost: the older one stands for both and is
//! counted for both; the merged one keeps its id, its text and where it came from, and is found by its id.
//! Whatever a caller does to one of the two parts them first, so that it never concerns the other.
//!
//! Invariants, each held by a test:
//! - a merged memory has the status [`Status::Merged`], a row that leads to it and a row that leads back, or
//!   none of the three;
//! - the count of a memory that stands is its own and those of all that was merged into it;
//! - what stands is not merged itself, and what is merged has nothing merged into it;
//! - a merged one outlives the one that stood for it: then it stands by itself.

use super::{ApplyError, Context, Step, add, facts};
use crate::codec::Stored;
use crate::command::Merge;
use crate::event::Event;
use crate::keys;
use crate::limits::MERGED_MAX;
use crate::memory::{IdempotencyId, IdempotencyItem, IndexRow, MemoryRow, Status};
use crate::outcome::{ItemOutcome, ItemStatus};
use crate::space::SpaceKey;
use crate::state::State;
use crate::upkeep::MergedRow;

/// Merges two memories, if both are still what they were, and nothing but their texts tells them apart.
/// `None` if they are not.
pub(super) fn merge<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    merge: &Merge,
) -> Step<Option<(ItemOutcome, IdempotencyItem)>> {
    let (stands, merged) = (&merge.stands, &merge.merged);
    let (Some(older), Some(newer)) =
        (context.rows.memory(space, &stands.id)?, context.rows.memory(space, &merged.id)?)
    else {
        return Ok(None);
    };
    if (older.version, newer.version) != (stands.version, merged.version) || older.seq >= newer.seq {
        return Ok(None);
    }
    let older_row = context.rows.index_row(space, older.seq)?;
    let newer_row = context.rows.index_row(space, newer.seq)?;
    let is_current = older_row.expires_us.is_none_or(|at_us| at_us > context.now_us);
    let has_room = members(context, space, &stands.id)?.len() < MERGED_MAX;
    let has_some = newer_row.count > 1 && !members(context, space, &merged.id)?.is_empty();
    if !is_current || !has_room || has_some || !may_merge((&older, &older_row), (&newer, &newer_row)) {
        return Ok(None);
    }
    let row =
        MergedRow { merged_us: context.now_us, count: newer_row.count, cosine_milli: merge.cosine_milli };
    context.rows.write(keys::merged::key(space, &stands.id, &merged.id), &row)?;
    context.rows.put(keys::merged::into(space, &merged.id), keys::merged::into_value(&stands.id))?;
    let count = older_row.count.saturating_add(newer_row.count);
    let older_row = IndexRow { count, ..older_row };
    write(context, space, older.seq, older_row)?;
    write(context, space, newer.seq, IndexRow { status: Status::Merged, ..newer_row })?;
    let kept = IdempotencyId::Existing(older.seq);
    Ok(Some(add::answer(&stands.id, older.version, ItemStatus::Merged, kept)))
}

/// Whether nothing that recall filters, bounds or shows by tells two memories apart, and neither has a
/// part in anything else: facts have groups of their own, where the same is counted.
pub fn may_merge(
    (older, older_row): (&MemoryRow, &IndexRow),
    (newer, newer_row): (&MemoryRow, &IndexRow),
) -> bool {
    let is_plain = |memory: &MemoryRow, row: &IndexRow| {
        let links = memory.supersedes.len() + memory.overrides.len() + memory.possible_conflicts.len();
        row.status == Status::Active
            && !row.pinned
            && !row.older
            && memory.statements.is_empty()
            && memory.chunks.is_empty()
            && memory.chunk.is_none()
            && memory.superseded_by.is_none()
            && links == 0
    };
    let told = |row: &IndexRow| {
        (
            row.importance.to_bits(),
            row.kind,
            row.question,
            row.unsure,
            row.expires_us,
            row.valid_from_us,
            row.valid_to_us,
        )
    };
    let named = |row: &IndexRow| {
        [&row.role, &row.speaker, &row.agent, &row.sentiment, &row.session].map(Clone::clone)
    };
    is_plain(older, older_row)
        && is_plain(newer, newer_row)
        && told(older_row) == told(newer_row)
        && named(older_row) == named(newer_row)
        && older_row.metadata == newer_row.metadata
        && older.confidence.to_bits() == newer.confidence.to_bits()
        && newer_row.entities == older_row.entities
        // What is asked as of a time between the two finds the one that was said by then.
        && older_row.event_us <= newer_row.event_us
}

/// The ids of what was merged into a memory, with the rows that say so: at most [`MERGED_MAX`].
pub(super) fn members<S: State>(
    context: &Context<'_, S>,
    space: &SpaceKey,
    stands: &str,
) -> Step<Vec<(String, MergedRow)>> {
    let prefix = keys::merged::prefix(space, stands);
    let mut members = Vec::new();
    for (key, value) in context.rows.scan(&prefix, None, MERGED_MAX)? {
        let id = keys::merged::merged(&prefix, &key).ok_or_else(|| damaged(space))?;
        members.push((id.to_owned(), MergedRow::decode(&value).map_err(ApplyError::from)?));
    }
    Ok(members)
}

/// The memory that stands for a merged one.
fn stands_for<S: State>(context: &Context<'_, S>, space: &SpaceKey, merged: &str) -> Step<String> {
    let value = context.rows.value(&keys::merged::into(space, merged))?;
    let stands = value.as_deref().and_then(keys::merged::stands).ok_or_else(|| damaged(space))?;
    Ok(stands.to_owned())
}

fn damaged(space: &SpaceKey) -> ApplyError {
    ApplyError::Inconsistent(format!("a merged memory of {space} has no way to the one that stands for it"))
}

/// Lets a merged memory stand by itself again, and no longer be counted on the other one.
pub(super) fn stand_alone<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    memory: &MemoryRow,
) -> Step<()> {
    let row = context.rows.index_row(space, memory.seq)?;
    if row.status != Status::Merged {
        return Ok(());
    }
    uncount(context, space, id)?;
    write(context, space, memory.seq, IndexRow { status: Status::Active, ..row })?;
    facts::refresh(context, space, memory)
}

/// Takes a merged memory from the one that stands for it.
fn uncount<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, id: &str) -> Step<()> {
    let stands = stands_for(context, space, id)?;
    let key = keys::merged::key(space, &stands, id);
    let row: MergedRow = context.rows.read(&key)?.ok_or_else(|| damaged(space))?;
    context.rows.delete(&key)?;
    context.rows.delete(&keys::merged::into(space, id))?;
    let Some(memory) = context.rows.memory(space, &stands)? else { return Ok(()) };
    let own = context.rows.index_row(space, memory.seq)?;
    let count = own.count.saturating_sub(row.count).max(1);
    write(context, space, memory.seq, IndexRow { count, ..own })
}

/// Before a memory goes: what it stood for stands by itself, and what stood for it counts it no longer.
pub(super) fn leave<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    row: &IndexRow,
) -> Step<()> {
    if row.status == Status::Merged {
        return uncount(context, space, id);
    }
    // What was stated once stands for nothing else.
    if row.count > 1 {
        release(context, space, id)?;
    }
    Ok(())
}

/// Lets all that was merged into a memory stand by itself again. Answers their ids.
pub(super) fn release<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
) -> Step<Vec<String>> {
    let mut released = Vec::new();
    for (member, _) in members(context, space, id)? {
        let memory = context.rows.memory(space, &member)?.ok_or_else(|| damaged(space))?;
        stand_alone(context, space, &member, &memory)?;
        released.push(member);
    }
    Ok(released)
}

/// Before a caller changes a memory or decides about it: nothing stands for it, and it stands for nothing.
pub(super) fn unmerge<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    memory: &MemoryRow,
) -> Step<()> {
    stand_alone(context, space, id, memory)?;
    let row = context.rows.index_row(space, memory.seq)?;
    leave(context, space, id, &row)
}

/// The same text as that of a merged memory once more: both are counted. One that asks for more than
/// the memory that stands gives does stand by itself from then on.
pub(super) fn repeated<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    memory: &MemoryRow,
    row: &IndexRow,
) -> Step<()> {
    let stands = stands_for(context, space, id)?;
    let Some(other) = context.rows.memory(space, &stands)? else { return Err(damaged(space).into()) };
    let own = context.rows.index_row(space, other.seq)?;
    let has_changed = own.status != Status::Active || own.older || row.expires_us != own.expires_us;
    if has_changed || row.pinned || row.unsure != own.unsure {
        return stand_alone(context, space, id, memory);
    }
    let key = keys::merged::key(space, &stands, id);
    let merged: MergedRow = context.rows.read(&key)?.ok_or_else(|| damaged(space))?;
    context.rows.write(key, &MergedRow { count: merged.count.saturating_add(1), ..merged })?;
    let count = own.count.saturating_add(1);
    let importance = own.importance.max(row.importance);
    write(context, space, other.seq, IndexRow { count, importance, ..own })
}

fn write<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, seq: u64, row: IndexRow) -> Step<()> {
    context.rows.write(keys::index_row::key(space, seq), &row)?;
    context.events.push(Event::Put { space: space.clone(), seq, row: Box::new(row) });
    Ok(())
}
