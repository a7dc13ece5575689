//! Links between memories that no group of facts gives: possible conflicts that were found before
//! the proposal, and decisions by a caller.

use super::{Answers, Context, Step, add, facts, merged, update};
use crate::command::Hint;
use crate::keys;
use crate::keys::due::{Due, DueKind};
use crate::limits::{CONFLICTS_MAX, FACT_GROUP_MAX};
use crate::memory::{IdempotencyId, MemoryRow, Status};
use crate::outcome::ItemStatus;
use crate::space::SpaceKey;
use crate::state::State;
use crate::transfer::Links;
use crate::{Error, ErrorCode};
use std::collections::BTreeSet;

/// Most possible conflicts that one memory names in all.
const LINKS_MAX: usize = 4 * CONFLICTS_MAX;
/// Most memories whose place one memory takes by decisions that an import brings: as many as a group has.
const SUPERSEDED_MAX: usize = FACT_GROUP_MAX;

/// Links a new memory to those that it may contradict, and back. A hint whose memory has fallen is
/// dropped; so is one whose memory has changed since it was looked at, and then the leader looks
/// again.
pub(super) fn conflicts<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    hints: &[Hint],
) -> Step<()> {
    let mut stale = false;
    let mut hints: Vec<Hint> = hints.iter().filter(|hint| hint.id != id).cloned().collect();
    // What says the same as one of them may be contradicted as well, and stands by itself from then on.
    for at in 0..hints.len() {
        if let Some(memory) = context.rows.memory(space, &hints[at].id)? {
            merged::stand_alone(context, space, &hints[at].id, &memory)?;
        }
        for merged in merged::release(context, space, &hints[at].id)? {
            if let Some(memory) = context.rows.memory(space, &merged)? {
                hints.push(Hint { id: merged, version: memory.version });
            }
        }
    }
    for hint in &hints {
        let Some(mut other) = context.rows.memory(space, &hint.id)? else { continue };
        let active = context.rows.index_row(space, other.seq)?.status == Status::Active;
        let Some(mut own) = context.rows.memory(space, id)? else { continue };
        let full = own.possible_conflicts.len().max(other.possible_conflicts.len()) >= LINKS_MAX;
        stale |= other.version != hint.version && active && !full;
        if other.version != hint.version || !active || full {
            continue;
        }
        facts::join(&mut own.possible_conflicts, std::slice::from_ref(&hint.id));
        facts::join(&mut other.possible_conflicts, &[id.to_owned()]);
        context.rows.write(keys::memory::key(space, id), &own)?;
        context.rows.write(keys::memory::key(space, &hint.id), &other)?;
        facts::refresh(context, space, &other)?;
        facts::refresh(context, space, &own)?;
    }
    if stale {
        context.rows.put_due(&recheck(space, id, context.now_us))?;
    }
    Ok(())
}

/// What a leader found when it looked again.
pub(super) fn relink<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    due_us: i64,
    hints: &[Hint],
) -> Step<Answers> {
    context.rows.delete_due(&recheck(space, id, due_us))?;
    let Some(memory) = context.rows.memory(space, id)? else { return Ok(Vec::new()) };
    conflicts(context, space, id, hints)?;
    Ok(vec![add::answer(id, memory.version, ItemStatus::Updated, IdempotencyId::Requested)])
}

pub(super) fn recheck(space: &SpaceKey, id: &str, at_us: i64) -> Due {
    Due { at_us, space: space.clone(), kind: DueKind::Recheck, id: id.to_owned() }
}

/// Takes every link to a memory that goes out of the memories it names, and of those that were in a group
/// with it: links are not always mutual there.
pub(super) fn forget<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    memory: &MemoryRow,
    members: &BTreeSet<String>,
) -> Step<()> {
    let named = memory.supersedes.iter().chain(&memory.possible_conflicts).chain(&memory.superseded_by);
    for other_id in named.chain(members).filter(|other| *other != id).collect::<BTreeSet<_>>() {
        unlink(context, space, other_id, id)?;
    }
    Ok(())
}

/// Takes the links to a memory out of those that were in a group with it: what it says now may belong to
/// another one.
pub(super) fn unlink_all<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    members: &BTreeSet<String>,
    id: &str,
) -> Step<()> {
    members.iter().filter(|other| *other != id).try_for_each(|other| unlink(context, space, other, id))
}

/// Takes the links to `gone` out of a memory, if it is there.
fn unlink<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, id: &str, gone: &str) -> Step<()> {
    let Some(other) = context.rows.memory(space, id)? else { return Ok(()) };
    facts::forget_winner(context, space, &other, gone)?;
    let Some(mut other) = context.rows.memory(space, id)? else { return Ok(()) };
    let before = other.clone();
    facts::cut(&mut other, &BTreeSet::from([gone.to_owned()]));
    if other != before {
        context.rows.write(keys::memory::key(space, id), &other)?;
        facts::refresh(context, space, &other)?;
    }
    Ok(())
}

/// Links a memory as it was linked where it comes from, as far as the others are here and there is room: it is
/// linked to no more than rules and callers link it to. Answers whether that changed anything.
pub(super) fn restore<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, links: &Links) -> Step<bool> {
    let old = update::current(context, space, &links.id, None)?;
    merged::unmerge(context, space, &links.id, &old)?;
    let mut memory = old.clone();
    for id in &links.supersedes {
        if memory.supersedes.len() >= SUPERSEDED_MAX {
            break;
        }
        if context.rows.memory(space, id)?.is_some() {
            facts::join(&mut memory.supersedes, std::slice::from_ref(id));
        }
    }
    let mut conflicts = Vec::new();
    for id in &links.possible_conflicts {
        if memory.possible_conflicts.len() >= LINKS_MAX {
            break;
        }
        if let Some(other) = context.rows.memory(space, id)? {
            facts::join(&mut memory.possible_conflicts, std::slice::from_ref(id));
            conflicts.push(other);
        }
    }
    if let (None, Some(id)) = (&memory.superseded_by, &links.superseded_by)
        && context.rows.memory(space, id)?.is_some()
    {
        memory.superseded_by = Some(id.clone());
    }
    if memory == old {
        return Ok(false);
    }
    context.rows.write(keys::memory::key(space, &links.id), &memory)?;
    for other in &conflicts {
        facts::refresh(context, space, other)?;
    }
    facts::refresh(context, space, &memory)?;
    Ok(true)
}

/// Takes one statement back.
pub(super) fn retract<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    ordinal: u8,
) -> Step<Answers> {
    let memory = update::current(context, space, id, None)?;
    if usize::from(ordinal) >= memory.statements.len() {
        return Err(Error::new(ErrorCode::NotFound, "there is no fact with this id in this space")
            .at("id")
            .into());
    }
    facts::retract(context, space, &memory, ordinal, Some((context.now_us, None)))?;
    Ok(vec![add::answer(id, memory.version, ItemStatus::Retracted, IdempotencyId::Requested)])
}

/// Decides between memories: one stands, the others are taken back in its favour.
pub(super) fn resolve<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    keep: &str,
    retire: &[String],
) -> Step<Answers> {
    let kept = update::current(context, space, keep, None).map_err(|stop| naming("keep", stop))?;
    merged::unmerge(context, space, keep, &kept)?;
    let mut answers = vec![add::answer(keep, kept.version, ItemStatus::Updated, IdempotencyId::Requested)];
    for id in retire {
        let memory = update::current(context, space, id, None).map_err(|stop| naming("retire", stop))?;
        merged::unmerge(context, space, id, &memory)?;
        let retracted = Some((context.now_us, Some(keep)));
        for ordinal in ordinals(&memory) {
            facts::retract(context, space, &memory, ordinal, retracted)?;
        }
        give_way(context, space, keep, id)?;
        answers.push(add::answer(id, memory.version, ItemStatus::Retracted, IdempotencyId::Requested));
    }
    for ordinal in ordinals(&kept) {
        facts::retract(context, space, &kept, ordinal, None)?;
    }
    Ok(answers)
}

fn naming(field: &str, stop: super::Stop) -> super::Stop {
    match stop {
        super::Stop::Refused(error) => super::Stop::Refused(error.at(field)),
        fault @ super::Stop::Fault(_) => fault,
    }
}

fn ordinals(memory: &MemoryRow) -> impl Iterator<Item = u8> + use<> {
    (0u8..).take(memory.statements.len())
}

/// Links two memories as a caller decided, whatever their statements are; one whose statements do
/// not carry it falls as a whole.
fn give_way<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, keep: &str, id: &str) -> Step<()> {
    let mut loser = update::current(context, space, id, None)?;
    if let Some(before) = loser.superseded_by.take().filter(|before| before != keep) {
        // One memory took its place; the one before it has no part in it any more.
        facts::no_longer_supersedes(context, space, &before, id)?;
        loser = MemoryRow { superseded_by: None, ..update::current(context, space, id, None)? };
    }
    let mut winner = update::current(context, space, keep, None)?;
    facts::join(&mut winner.supersedes, &[id.to_owned()]);
    winner.possible_conflicts.retain(|other| other != id);
    loser.possible_conflicts.retain(|other| other != keep);
    loser.superseded_by = Some(keep.to_owned());
    context.rows.write(keys::memory::key(space, keep), &winner)?;
    context.rows.write(keys::memory::key(space, id), &loser)?;
    let mut row = context.rows.index_row(space, loser.seq)?;
    if row.status == Status::Active {
        row.status = Status::Deprecated;
        row.retracted_us = Some(context.now_us);
        context.rows.write(keys::index_row::key(space, loser.seq), &row)?;
        context.events.push(crate::event::Event::Put {
            space: space.clone(),
            seq: loser.seq,
            row: Box::new(row),
        });
    }
    facts::refresh(context, space, &loser)?;
    facts::refresh(context, space, &winner)
}
