//! The statements of memories: puts them into their groups and takes them out, and lets what follows
//! for the other members of a group follow.
//!
//! Invariants, each held by a test:
//! - what is derived (status, validity, links) follows from the rows of the group as they are now:
//!   adding and deleting in any order ends in the same place;
//! - only members of one group touch each other through their statements;
//! - a memory falls only if its statements are all that its text says, and all of them have fallen.

use super::{ApplyError, Context, Step};
use crate::codec::Stored;
use crate::command::NewMemory;
use crate::event::Event;
use crate::facts::timeline::{self, Place, timeline};
use crate::graph;
use crate::keys;
use crate::limits::FACT_GROUP_MAX;
use crate::memory::{FactRow, IndexRow, MemoryRow, Mode, Statement, Status};
use crate::space::SpaceKey;
use crate::state::State;
use crate::transfer::Standing;
use std::collections::{BTreeMap, BTreeSet};

/// The links that one group gives a memory.
#[derive(Debug, Default, PartialEq, Eq)]
struct Links {
    supersedes: Vec<String>,
    superseded_by: Option<String>,
    overrides: Vec<String>,
    conflicts: Vec<String>,
    /// What the statements' own rows say, so that a change of it is seen.
    standing: Vec<FactRow>,
}

/// Puts the statements of a memory, whose rows are written, into their groups.
pub(super) fn put<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    memory: &MemoryRow,
    event_us: i64,
) -> Step<()> {
    for (ordinal, statement) in numbered(&memory.statements) {
        let now_us = context.now_us;
        let mut row = FactRow {
            id: id.to_owned(),
            seq: memory.seq,
            ordinal,
            value: statement.value.clone(),
            object: graph::object(statement).unwrap_or_default().to_owned(),
            cardinality: statement.cardinality,
            mode: statement.mode.clone(),
            from_us: statement.valid_from_us.unwrap_or(event_us),
            to_us: statement.valid_to_us,
            recorded_us: now_us,
            ..FactRow::default()
        };
        alter(context, space, statement, |rows| {
            if row.mode == Mode::Correct {
                correct(rows, &mut row, statement.valid_from_us.is_some(), now_us);
            }
            rows.push(row);
        })?;
    }
    Ok(())
}

/// Puts the statements of a memory into their groups as they stood elsewhere.
pub(super) fn put_standing<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    memory: &MemoryRow,
    standing: &[Option<Standing>],
) -> Step<()> {
    for ((ordinal, statement), standing) in numbered(&memory.statements).zip(standing) {
        let Some(standing) = standing else { continue };
        let row = FactRow {
            id: id.to_owned(),
            seq: memory.seq,
            ordinal,
            value: statement.value.clone(),
            object: graph::object(statement).unwrap_or_default().to_owned(),
            cardinality: statement.cardinality,
            mode: statement.mode.clone(),
            from_us: standing.from_us,
            to_us: statement.valid_to_us,
            recorded_us: standing.recorded_us,
            retracted_us: standing.retracted_us,
            retracted_by: standing.retracted_by.clone(),
            ..FactRow::default()
        };
        alter(context, space, statement, |rows| rows.push(row))?;
    }
    Ok(())
}

/// The one that was meant otherwise was never right: it is retracted, and the new one holds since
/// its time.
fn correct(rows: &mut [FactRow], row: &mut FactRow, from_given: bool, now_us: i64) {
    let wrong = timeline::corrected(rows, &row.value, row.from_us).map(|wrong| (wrong.seq, wrong.ordinal));
    let Some(wrong) = wrong else { return };
    let Some(wrong) = rows.iter_mut().find(|row| (row.seq, row.ordinal) == wrong) else { return };
    wrong.retracted_us = Some(now_us);
    wrong.retracted_by = Some(row.id.clone());
    if !from_given {
        row.from_us = wrong.from_us;
    }
}

/// Takes the statements of a memory out of their groups. Answers the memories that were in a group
/// with it.
pub(super) fn take_out<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    memory: &MemoryRow,
) -> Step<BTreeSet<String>> {
    let mut members = BTreeSet::new();
    for (ordinal, statement) in numbered(&memory.statements) {
        members.extend(alter(context, space, statement, |rows| {
            rows.retain(|row| (row.seq, row.ordinal) != (memory.seq, ordinal));
        })?);
    }
    Ok(members)
}

/// Takes the name of a memory that goes out of the statements of one that was taken back in its favour.
/// They stay taken back: that was decided.
pub(super) fn forget_winner<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    loser: &MemoryRow,
    winner: &str,
) -> Step<()> {
    for statement in &loser.statements {
        let group = keys::fact::group_prefix(space, statement);
        if load(context, &group)?.iter().any(|row| row.retracted_by.as_deref() == Some(winner)) {
            alter(context, space, statement, |rows| {
                for row in rows.iter_mut().filter(|row| row.retracted_by.as_deref() == Some(winner)) {
                    row.retracted_by = None;
                }
            })?;
        }
    }
    Ok(())
}

/// Retracts a statement, or takes its retraction back where `retracted` is `None`.
pub(super) fn retract<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    memory: &MemoryRow,
    ordinal: u8,
    retracted: Option<(i64, Option<&str>)>,
) -> Step<()> {
    let Some(statement) = memory.statements.get(usize::from(ordinal)) else { return Ok(()) };
    alter(context, space, statement, |rows| {
        let own = rows.iter_mut().find(|row| (row.seq, row.ordinal) == (memory.seq, ordinal));
        let Some(row) = own else { return };
        match retracted {
            None => (row.retracted_us, row.retracted_by) = (None, None),
            Some((at_us, by)) => {
                row.retracted_us = Some(row.retracted_us.unwrap_or(at_us));
                row.retracted_by = by.map(str::to_owned);
            }
        }
    })?;
    Ok(())
}

/// Whether a memory still says what it said, so that the same words once more are counted and not
/// stored: it is current, nothing was said in between, and the new statement is not about an
/// earlier time.
pub(super) fn only_repeats<S: State>(
    context: &Context<'_, S>,
    space: &SpaceKey,
    memory: &MemoryRow,
    row: &IndexRow,
    item: &NewMemory,
) -> Step<bool> {
    let alike = |(old, new): (&Statement, &Statement)| {
        (&old.subject, &old.predicate, &old.about, &old.value, &old.mode)
            == (&new.subject, &new.predicate, &new.about, &new.value, &new.mode)
            && old.valid_to_us == new.valid_to_us
    };
    // One that comes without statements was not searched for any.
    let statements = if item.statements.is_empty() { &memory.statements } else { &item.statements };
    // A merged one says what it said, and another one stands for it.
    if !matches!(row.status, Status::Active | Status::Merged)
        || memory.statements.len() != statements.len()
        || !memory.statements.iter().zip(statements).all(alike)
    {
        return Ok(false);
    }
    let event_us = if item.event_given { item.index.event_us } else { context.now_us };
    for statement in statements {
        let rows = load(context, &keys::fact::group_prefix(space, statement))?;
        let from_us = statement.valid_from_us.unwrap_or(event_us);
        let repeats = timeline::last_word(&rows).is_some_and(|last| {
            last.mode == statement.mode && last.value == statement.value && last.from_us <= from_us
        });
        let ended = rows.iter().any(|row| {
            row.seq == memory.seq && row.until_us.is_some_and(|until_us| until_us <= context.now_us)
        });
        if !repeats || ended {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The memory that states the same as `item` in other words, and nothing else, and is the last word
/// on it.
pub(super) fn same_statement<S: State>(
    context: &Context<'_, S>,
    space: &SpaceKey,
    item: &NewMemory,
) -> Step<Option<(String, MemoryRow)>> {
    let [statement] = item.statements.as_slice() else { return Ok(None) };
    if !item.whole || statement.mode != Mode::State {
        return Ok(None);
    }
    let rows = load(context, &keys::fact::group_prefix(space, statement))?;
    let Some(last) = timeline::last_word(&rows) else { return Ok(None) };
    let Some(memory) = context.rows.memory(space, &last.id)? else { return Ok(None) };
    let row = context.rows.index_row(space, memory.seq)?;
    let same = memory.whole
        && row.speaker == item.index.speaker
        && only_repeats(context, space, &memory, &row, item)?;
    Ok(same.then(|| (last.id.clone(), memory)))
}

/// Changes the rows of the group that a statement belongs to, and what follows from them. Answers
/// the ids of its members, before and after.
fn alter<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    statement: &Statement,
    change: impl FnOnce(&mut Vec<FactRow>),
) -> Step<BTreeSet<String>> {
    let group = keys::fact::group_prefix(space, statement);
    let stored = load(context, &group)?;
    let mut rows = stored.clone();
    change(&mut rows);
    make_room(&mut rows);
    let places = timeline(&rows, context.now_us);
    for (row, place) in rows.iter_mut().zip(&places) {
        row.until_us = place.until_us;
        row.superseded = place.superseded;
    }
    write(context, space, &group, &stored, &rows)?;

    let before = links(&stored, &timeline(&stored, context.now_us));
    let after = links(&rows, &places);
    let members: BTreeSet<String> = before.keys().chain(after.keys()).cloned().collect();
    for (id, links) in &after {
        if before.get(id) != Some(links) {
            relink(context, space, id, &members, links)?;
        }
    }
    Ok(members)
}

fn load<S: State>(context: &Context<'_, S>, group: &[u8]) -> Step<Vec<FactRow>> {
    // One more than a group may have: it is put in before room is made.
    let rows = context.rows.scan(group, None, FACT_GROUP_MAX + 1)?;
    let decoded = rows.iter().map(|(_, value)| FactRow::decode(value).map_err(ApplyError::from));
    Ok(decoded.collect::<Result<_, _>>()?)
}

/// Takes out the oldest that no longer hold, where a group is full; the oldest of all, if all hold.
fn make_room(rows: &mut Vec<FactRow>) {
    while rows.len() > FACT_GROUP_MAX {
        let oldest = rows.iter().enumerate().min_by_key(|(_, row)| (!row.superseded, row.from_us, row.seq));
        let Some((at, _)) = oldest else { return };
        rows.remove(at);
    }
}

/// Writes what has changed of a group. The way back from an object is written and taken out with its
/// fact: nothing else writes one.
fn write<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    group: &[u8],
    stored: &[FactRow],
    rows: &[FactRow],
) -> Step<()> {
    let of = |rows: &[FactRow]| -> BTreeMap<(u64, u8), FactRow> {
        rows.iter().map(|row| ((row.seq, row.ordinal), row.clone())).collect()
    };
    let (old, new) = (of(stored), of(rows));
    for ((seq, ordinal), row) in &new {
        let before = old.get(&(*seq, *ordinal));
        if before == Some(row) {
            continue;
        }
        let key = keys::fact::key(group, *seq, *ordinal);
        if before.map_or("", |before| before.object.as_str()) != row.object {
            context.rows.move_edge(
                space,
                &key,
                before.map(|before| before.object.as_str()),
                Some(&row.object),
            )?;
        }
        context.rows.write(key, row)?;
    }
    for ((seq, ordinal), row) in old.iter().filter(|(key, _)| !new.contains_key(key)) {
        let key = keys::fact::key(group, *seq, *ordinal);
        context.rows.move_edge(space, &key, Some(&row.object), None)?;
        context.rows.delete(&key)?;
    }
    Ok(())
}

/// What a group says of each of its memories. One may have several statements in it.
fn links(rows: &[FactRow], places: &[Place]) -> BTreeMap<String, Links> {
    let mut by_id: BTreeMap<String, Links> = BTreeMap::new();
    for (row, place) in rows.iter().zip(places) {
        let links = by_id.entry(row.id.clone()).or_default();
        join(&mut links.supersedes, &place.supersedes);
        join(&mut links.overrides, &place.overrides);
        join(&mut links.conflicts, &place.conflicts);
        if links.superseded_by.is_none() {
            links.superseded_by.clone_from(&place.superseded_by);
        }
        links.standing.push(row.clone());
    }
    by_id
}

/// Gives a memory the links of one group, and keeps those to memories outside of it.
fn relink<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    members: &BTreeSet<String>,
    links: &Links,
) -> Step<()> {
    let Some(old) = context.rows.memory(space, id)? else {
        let detail = format!("a fact of {space} belongs to {id}, which does not exist");
        return Err(ApplyError::Inconsistent(detail).into());
    };
    let mut memory = old.clone();
    cut(&mut memory, members);
    join(&mut memory.supersedes, &links.supersedes);
    join(&mut memory.overrides, &links.overrides);
    join(&mut memory.possible_conflicts, &links.conflicts);
    if links.superseded_by.is_some() {
        if let Some(before) = memory.superseded_by.take().filter(|before| !members.contains(before)) {
            no_longer_supersedes(context, space, &before, id)?;
        }
        memory.superseded_by.clone_from(&links.superseded_by);
    }
    if memory != old {
        context.rows.write(keys::memory::key(space, id), &memory)?;
    }
    refresh(context, space, &memory)
}

/// Takes a memory out of the list of those whose place another one took.
pub(super) fn no_longer_supersedes<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    winner: &str,
    id: &str,
) -> Step<()> {
    let Some(mut winner_row) = context.rows.memory(space, winner)? else { return Ok(()) };
    winner_row.supersedes.retain(|other| other != id);
    Ok(context.rows.write(keys::memory::key(space, winner), &winner_row)?)
}

/// Takes the links to these memories out.
pub(super) fn cut(memory: &mut MemoryRow, members: &BTreeSet<String>) {
    for links in [&mut memory.supersedes, &mut memory.overrides, &mut memory.possible_conflicts] {
        links.retain(|id| !members.contains(id));
    }
    memory.superseded_by = memory.superseded_by.take().filter(|id| !members.contains(id));
}

/// Sets the columns of a memory that follow from its statements and links.
pub(super) fn refresh<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    memory: &MemoryRow,
) -> Step<()> {
    let old = context.rows.index_row(space, memory.seq)?;
    let mut row = old.clone();
    if memory.whole && !memory.statements.is_empty() {
        let mut facts = Vec::with_capacity(memory.statements.len());
        for (ordinal, statement) in numbered(&memory.statements) {
            let group = keys::fact::group_prefix(space, statement);
            let fact: Option<FactRow> = context.rows.read(&keys::fact::key(&group, memory.seq, ordinal))?;
            facts.extend(fact);
        }
        // One that left its full group stands as it stood then.
        if facts.len() == memory.statements.len() {
            stand(&mut row, &facts);
        }
    }
    row.older = is_older(context, space, memory, &row)?;
    if row != old {
        context.rows.write(keys::index_row::key(space, memory.seq), &row)?;
        context.events.push(Event::Put { space: space.clone(), seq: memory.seq, row: Box::new(row) });
    }
    Ok(())
}

/// Sets the columns anew of those that name a memory as what they may contradict: which of the two is older
/// follows from both. Those that it names, and the members of its groups, which need not be named by it.
pub(super) fn refresh_linked<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    memory: &MemoryRow,
) -> Step<()> {
    let mut linked: BTreeSet<String> = memory.possible_conflicts.iter().cloned().collect();
    for statement in &memory.statements {
        let group = load(context, &keys::fact::group_prefix(space, statement))?;
        linked.extend(group.into_iter().map(|row| row.id));
    }
    for other in linked.iter().filter(|other| *other != id) {
        let Some(other) = context.rows.memory(space, other)? else { continue };
        if other.possible_conflicts.iter().any(|named| named == id) {
            refresh(context, space, &other)?;
        }
    }
    Ok(())
}

/// A memory holds while any of its statements does.
fn stand(row: &mut IndexRow, facts: &[FactRow]) {
    let latest = |of: fn(&FactRow) -> Option<i64>| -> Option<i64> {
        facts.iter().map(of).collect::<Option<Vec<_>>>()?.into_iter().max()
    };
    row.valid_from_us = facts.iter().map(|fact| fact.from_us).min();
    row.valid_to_us = latest(|fact| fact.until_us);
    row.retracted_us = latest(|fact| fact.retracted_us);
    let fallen = facts.iter().all(|fact| fact.superseded);
    row.status = match (fallen, row.status) {
        (_, Status::Archived) => Status::Archived,
        (_, Status::Merged) => Status::Merged,
        (true, _) => Status::Deprecated,
        (false, _) => Status::Active,
    };
}

/// Whether a newer memory may say otherwise. The number of links is bounded. What only happened (a steak that was
/// eaten) is held against a rule and takes no place: who asks is shown both.
fn is_older<S: State>(
    context: &Context<'_, S>,
    space: &SpaceKey,
    memory: &MemoryRow,
    row: &IndexRow,
) -> Step<bool> {
    let said_us = |row: &IndexRow| row.valid_from_us.unwrap_or(row.event_us);
    for id in &memory.possible_conflicts {
        let Some(other) = context.rows.memory(space, id)? else { continue };
        let happened = |statement: &Statement| matches!(statement.mode, Mode::Evidence { .. });
        if other.whole && !other.statements.is_empty() && other.statements.iter().all(happened) {
            continue;
        }
        let other_row = context.rows.index_row(space, other.seq)?;
        if (said_us(&other_row), other.seq) > (said_us(row), memory.seq) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Adds ids that are not there yet.
pub(super) fn join(links: &mut Vec<String>, more: &[String]) {
    for id in more {
        if !links.contains(id) {
            links.push(id.clone());
        }
    }
}

fn numbered(statements: &[Statement]) -> impl Iterator<Item = (u8, &Statement)> {
    (0u8..).zip(statements)
}
