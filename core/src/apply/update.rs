//! A new version of a memory, by compare-and-set.

use super::{Answers, Context, Step, add, chunks, delete, facts, links, merged};
use crate::command::Update;
use crate::event::Event;
use crate::keys;
use crate::limits::HISTORY_VERSIONS_MAX;
use crate::memory::{HistoryRow, IdempotencyId, IndexRow, MemoryRow, Status, Topic};
use crate::outcome::ItemStatus;
use crate::space::SpaceKey;
use crate::state::State;
use crate::text::TermList;
use crate::{Error, ErrorCode};

pub(super) fn apply<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    update: &Update,
) -> Step<Answers> {
    let item = &update.memory;
    let id = &item.index.id;
    let old = current(context, space, id, Some(update.if_version))?;
    chunks::refuse(&old)?;
    merged::unmerge(context, space, id, &old)?;
    let old_row = context.rows.index_row(space, old.seq)?;
    let model = update.model.as_ref().filter(|_| add::has_vector(item));
    let model = add::choose_model(context, space, model, update.vectors_given)?;

    keep_version(context, space, id, &old, &old_row)?;
    chunks::remove(context, space, &old, delete::Rest::Due)?;

    let version = old.version.saturating_add(1);
    let mut memory = add::memory_row(item, old.seq, version, context.now_us);
    keep_links(&mut memory, &old);
    // What it was made from stays known: its earlier versions go with that, too.
    facts::join(&mut memory.derived_from, &old.derived_from);
    if update.keep_statements {
        memory.statements.clone_from(&old.statements);
        memory.whole = old.whole;
    } else {
        let members = facts::take_out(context, space, &old)?;
        facts::cut(&mut memory, &members);
        links::unlink_all(context, space, &members, id)?;
    }
    context.rows.write(keys::memory::key(space, id), &memory)?;
    context.rows.put_derived(space, id, &memory.derived_from)?;
    if old.text_hash != item.text_hash {
        context.rows.release_text(space, old.text_hash, id)?;
        context.rows.claim_text(space, item.text_hash, id)?;
    }

    let mut row = columns(update, &memory, (&old, &old_row));
    add::place_vector(&mut row, model);
    if row.vector.is_none() && old.text_hash == item.text_hash {
        // The embedded text is as it was, so its vector still tells the truth.
        row.vector = old_row.vector;
    }
    move_expiry(context, space, id, old_row.expires_us, row.expires_us)?;
    context.rows.write(keys::index_row::key(space, old.seq), &row)?;

    let before = add::stored_bytes(&old.content, &old_row.metadata);
    recount(context, space, before, add::stored_bytes(&item.content, &row.metadata))?;
    let event_us = row.event_us;
    context.events.push(Event::Put { space: space.clone(), seq: old.seq, row: Box::new(row) });
    if !update.keep_statements {
        facts::put(context, space, id, &memory, event_us)?;
    }
    let memory = current(context, space, id, None)?;
    facts::refresh(context, space, &memory)?;
    facts::refresh_linked(context, space, id, &memory)?;
    chunks::put(context, space, item, model)?;
    let (outcome, kept) = add::answer(id, version, ItemStatus::Updated, IdempotencyId::Requested);
    Ok(vec![(add::with_links(context, space, outcome)?, kept)])
}

/// The columns of the new version: what use and time have made of the old one stays.
fn columns(update: &Update, memory: &MemoryRow, (old, old_row): (&MemoryRow, &IndexRow)) -> IndexRow {
    let item = &update.memory;
    let mut row = IndexRow {
        strength_milli: old_row.strength_milli,
        access_count: old_row.access_count,
        count: old_row.count,
        created_us: old_row.created_us,
        last_access_us: old_row.last_access_us,
        older: old_row.older,
        topics: Topic::of(&memory.statements),
        event_us: if item.event_given { item.index.event_us } else { old_row.event_us },
        ..add::columns(item)
    };
    let states_as_before =
        update.keep_statements || memory.statements.is_empty() && old.statements.is_empty();
    row.status = match old_row.status {
        Status::Deprecated if !states_as_before => Status::Active,
        status => status,
    };
    if states_as_before {
        (row.valid_from_us, row.valid_to_us) = (old_row.valid_from_us, old_row.valid_to_us);
        row.retracted_us = old_row.retracted_us;
    }
    row
}

/// Counts the bytes of a memory anew.
fn recount<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, before: u64, after: u64) -> Step<()> {
    let mut counters = context.rows.counters(space)?;
    counters.bytes = counters.bytes.saturating_sub(before) + after;
    Ok(context.rows.write_counters(space, &counters)?)
}

/// The memory with this id, if it has the version that the caller expects.
pub(super) fn current<S: State>(
    context: &Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    if_version: Option<u64>,
) -> Step<MemoryRow> {
    let Some(memory) = context.rows.memory(space, id)? else {
        return Err(Error::new(ErrorCode::NotFound, "there is no memory with this id in this space")
            .at("id")
            .into());
    };
    match if_version {
        Some(expected) if expected != memory.version => {
            let detail = format!(
                "the memory has version {}, not {expected}; read it again and repeat the change",
                memory.version
            );
            Err(Error::new(ErrorCode::Conflict, detail).at("version").into())
        }
        _ => Ok(memory),
    }
}

/// Puts the old version into the history and takes out the one that is too old by now, so that
/// deleting a memory is bounded however often it was changed.
fn keep_version<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    old: &MemoryRow,
    old_row: &IndexRow,
) -> Step<()> {
    let index = IndexRow { terms: TermList::default(), vector: None, ..old_row.clone() };
    // Links are those of the memory as it is: an old version must not go on naming what was deleted.
    let memory = MemoryRow {
        supersedes: Vec::new(),
        superseded_by: None,
        overrides: Vec::new(),
        possible_conflicts: Vec::new(),
        ..old.clone()
    };
    let history = HistoryRow { memory, index, replaced_us: context.now_us };
    context.rows.write(keys::history::key(space, id, old.version), &history)?;
    if let Some(too_old) = old.version.checked_sub(HISTORY_VERSIONS_MAX) {
        context.rows.delete(&keys::history::key(space, id, too_old))?;
    }
    Ok(())
}

/// Links are made by rules and jobs; a caller's change of the text does not cut them.
fn keep_links(memory: &mut MemoryRow, old: &MemoryRow) {
    memory.supersedes = old.supersedes.clone();
    memory.superseded_by = old.superseded_by.clone();
    memory.overrides = old.overrides.clone();
    memory.possible_conflicts = old.possible_conflicts.clone();
}

/// Moves the due row of a memory whose expiry changes.
pub(super) fn move_expiry<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    from_us: Option<i64>,
    to_us: Option<i64>,
) -> Step<()> {
    if from_us == to_us {
        return Ok(());
    }
    if let Some(at_us) = from_us {
        context.rows.delete_due(&add::expiry(space, id, at_us))?;
    }
    if let Some(at_us) = to_us {
        context.rows.put_due(&add::expiry(space, id, at_us))?;
    }
    Ok(())
}
