//! Deletes a memory with its history and all that was made from it, and leaves tombstones.

use super::{Answers, Context, Step, add, chunks, facts, links, update};
use crate::erasure::Erased;
use crate::event::Event;
use crate::keys;
use crate::keys::due::{Due, DueKind};
use crate::limits::{CASCADE_MAX, HISTORY_VERSIONS_MAX, TOMBSTONE_KEEP_US};
use crate::memory::{IdempotencyId, MemoryRow, TombstoneRow};
use crate::outcome::ItemStatus;
use crate::sabotage::{Fault, is};
use crate::space::SpaceKey;
use crate::state::State;

pub(super) fn apply<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    if_version: Option<u64>,
) -> Step<Answers> {
    let memory = update::current(context, space, id, if_version)?;
    chunks::refuse(&memory)?;
    remove(context, space, id, &memory)?;
    Ok(vec![add::answer(id, memory.version, ItemStatus::Deleted, IdempotencyId::Requested)])
}

/// Takes every row of a memory out, and of those that were made from it, whoever asked for it.
pub(super) fn remove<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    memory: &MemoryRow,
) -> Step<Erased> {
    let mut erased = take(context, space, id, memory)?;
    erased.add(cascade(context, space, id)?);
    Ok(erased)
}

/// Takes out what was made from a memory that is gone, and what was made from that. Where that is more
/// than one command may take, the rest is due at once.
pub(super) fn cascade<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, id: &str) -> Step<Erased> {
    let (mut erased, mut sources) = (Erased::default(), vec![id.to_owned()]);
    while let Some(source) = sources.pop() {
        let prefix = keys::derived::prefix(space, &source);
        for (key, _) in context.rows.scan(&prefix, None, CASCADE_MAX + 1)? {
            if erased.memories >= CASCADE_MAX as u64 {
                context.rows.put_due(&derived_due(space, &source, context.now_us))?;
                break;
            }
            context.rows.delete(&key)?;
            let Some(derived) = keys::derived::derived(&prefix, &key) else { continue };
            let Some(memory) = context.rows.memory(space, derived)? else { continue };
            let mut taken = take(context, space, derived, &memory)?;
            taken.derived = taken.memories;
            erased.add(taken);
            sources.push(derived.to_owned());
        }
    }
    Ok(erased)
}

/// Takes the rows of one memory out.
fn take<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    memory: &MemoryRow,
) -> Step<Erased> {
    let mut erased = chunks::remove(context, space, memory)?;
    let members = facts::take_out(context, space, memory)?;
    links::forget(context, space, id, memory, &members)?;
    let row = context.rows.index_row(space, memory.seq)?;
    context.rows.delete(&keys::memory::key(space, id))?;
    context.rows.delete(&keys::index_row::key(space, memory.seq))?;
    context.rows.release_text(space, memory.text_hash, id)?;
    for source in &memory.derived_from {
        context.rows.delete(&keys::derived::key(space, source, id))?;
    }
    if let Some(at_us) = row.expires_us {
        context.rows.delete_due(&add::expiry(space, id, at_us))?;
    }
    // One that lost a link while it was recorded still waits for a second look.
    context.rows.delete_due(&links::recheck(space, id, row.created_us))?;
    let versions = remove_history(context, space, id)?;

    let source_ids = memory.source.iter().flat_map(|source| source.uri.iter().chain(&source.message_ids));
    let tombstone = TombstoneRow {
        seq: memory.seq,
        version: memory.version,
        log_index: context.log_index,
        deleted_us: context.now_us,
        sources: source_ids.map(|source| keys::tombstone::source_hash(space, source)).collect(),
    };
    let grave = keys::tombstone::key(space, id);
    let is_new = context.rows.read::<TombstoneRow>(&grave)?.is_none();
    if !is(Fault::NoTombstone) {
        context.rows.write(grave, &tombstone)?;
    }

    let mut counters = context.rows.counters(space)?;
    counters.memories = counters.memories.saturating_sub(1);
    counters.bytes = counters.bytes.saturating_sub(add::stored_bytes(&memory.content, &row.metadata));
    counters.tombstones += u64::from(is_new);
    if counters.tombstone_due_us.is_none() {
        let at_us = context.now_us.saturating_add(TOMBSTONE_KEEP_US);
        counters.tombstone_due_us = Some(at_us);
        context.rows.put_due(&tombstones_due(space, at_us))?;
    }
    context.rows.write_counters(space, &counters)?;
    context.events.push(Event::Remove { space: space.clone(), seq: memory.seq });
    let facts = memory.statements.len() as u64;
    erased.add(Erased { memories: 1, versions, facts, ..Erased::default() });
    Ok(erased)
}

pub(super) fn tombstones_due(space: &SpaceKey, at_us: i64) -> Due {
    Due { at_us, space: space.clone(), kind: DueKind::Tombstone, id: String::new() }
}

fn derived_due(space: &SpaceKey, source: &str, at_us: i64) -> Due {
    Due { at_us, space: space.clone(), kind: DueKind::Derived, id: source.to_owned() }
}

/// Their number is bounded by [`HISTORY_VERSIONS_MAX`].
fn remove_history<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, id: &str) -> Step<u64> {
    let prefix = keys::history::prefix(space, id);
    let most = usize::try_from(HISTORY_VERSIONS_MAX).unwrap_or(usize::MAX).saturating_add(1);
    let rows = context.rows.scan(&prefix, None, most)?;
    for (key, _) in &rows {
        context.rows.delete(key)?;
    }
    Ok(rows.len() as u64)
}
