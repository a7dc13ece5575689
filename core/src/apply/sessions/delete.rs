//! Deletion of a session, by a caller or by age, step by step: from the first step on it is not there
//! for any reader, and each step is bounded.

use super::{current, one, retention, sources, work};
use crate::apply::delete::{Rest, Tier, bury};
use crate::apply::{Answers, Context, Step};
use crate::erasure::Erased;
use crate::keys;
use crate::keys::due::Due;
use crate::limits::{DELETE_MEMORIES_MAX, DELETE_TURNS_MAX, SESSION_KEEP_US};
use crate::outcome::ItemStatus;
use crate::session::SessionRow;
use crate::session::rows::{Ending, is_turn_of};
use crate::space::SpaceKey;
use crate::state::State;

pub(in super::super) fn apply<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    if_version: Option<u64>,
) -> Step<Answers> {
    let row: Option<SessionRow> = context.rows.read(&keys::session::key(space, session))?;
    let row = match row {
        // Goes on with what was begun; that of an old session now takes its memories too.
        Some(row) if !row.is_there() => SessionRow { deleting: Some(Ending::All), ..row },
        _ => SessionRow { deleting: Some(Ending::All), ..current(context, space, session, if_version)? },
    };
    let version = row.version;
    let more = step(context, space, session, row, Rest::Due, &mut Erased::default())?;
    Ok(one(session, version, if more { ItemStatus::Deleting } else { ItemStatus::Deleted }))
}

/// What is due of a session: the next step of its deletion, or its end by age.
pub(in super::super) fn due<S: State>(context: &mut Context<'_, S>, due: &Due) -> Step<()> {
    let (space, session) = (&due.space, due.id.as_str());
    let Some(mut row) = context.rows.read::<SessionRow>(&keys::session::key(space, session))? else {
        return Ok(());
    };
    let until_us = row.updated_us.saturating_add(SESSION_KEEP_US);
    if row.is_there() && until_us > context.now_us {
        // It has been used since.
        return Ok(context.rows.put_due(&retention(space, session, until_us))?);
    }
    row.deleting = Some(row.deleting.unwrap_or(Ending::Turns));
    step(context, space, session, row, Rest::Due, &mut Erased::default())?;
    Ok(())
}

/// Takes out as much as one command may. Whether more is left.
pub(super) fn step<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    mut row: SessionRow,
    rest: Rest<'_>,
    erased: &mut Erased,
) -> Step<bool> {
    if let Some(at_us) = row.work_us.take() {
        context.rows.delete(&work(space, session, at_us).key())?;
    }
    context.rows.delete(&keys::summary::key(space, session))?;
    let turns = context.rows.scan(&keys::turn::prefix(space, session), None, DELETE_TURNS_MAX)?;
    for (key, _) in &turns {
        context.rows.delete(key)?;
    }
    let more_memories = memories(context, space, session, row.deleting, rest, erased)?;
    if turns.len() == DELETE_TURNS_MAX || more_memories {
        context.rows.write(keys::session::key(space, session), &row)?;
        // An erasure goes on by itself: it counts what it takes, which a sweep would not.
        if matches!(rest, Rest::Due) {
            // Under a time of its own, so that the row by age is found and dropped when it comes.
            context.rows.put_due(&retention(space, session, context.now_us))?;
        }
        return Ok(true);
    }
    context.rows.delete(&keys::session::key(space, session))?;
    if row.deleting == Some(Ending::All) {
        bury(context, space, Tier::Session, session, row.version)?;
    }
    Ok(false)
}

/// Takes out memories that were made of the session, or only the rows that name them.
fn memories<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    ending: Option<Ending>,
    rest: Rest<'_>,
    erased: &mut Erased,
) -> Step<bool> {
    let prefix = keys::session_memory::prefix(space, session);
    let rows = context.rows.scan(&prefix, None, DELETE_MEMORIES_MAX)?;
    for (key, _) in &rows {
        if context.rows.are_full() {
            return Ok(true);
        }
        let id = key.strip_prefix(prefix.as_slice()).map(|id| String::from_utf8_lossy(id).into_owned());
        if ending == Some(Ending::All)
            && let Some(id) = id
            && let Some(memory) = context.rows.memory(space, &id)?
            // Another one may have taken the id since.
            && memory.derived_from.iter().any(|source| is_turn_of(source, session))
        {
            erased.add(sources::let_go(context, space, session, (&id, &memory), None, rest)?);
        }
        context.rows.delete(key)?;
    }
    Ok(rows.len() == DELETE_MEMORIES_MAX)
}
