//! The turns of a session, for an erasure: those that were recorded when it began. What was said since stays,
//! as a session that begins with it.

use super::delete::step;
use super::{sources, write};
use crate::apply::delete::{Rest, Tier, bury_as_of, bury_unnamed, graves};
use crate::apply::{ApplyError, Context, Step};
use crate::codec::Stored;
use crate::erasure::Erased;
use crate::keys;
use crate::limits::DELETE_TURNS_MAX;
use crate::memory::TombstoneRow;
use crate::session::dialogue::Dialogue;
use crate::session::rows::Ending;
use crate::session::{SessionRow, Summary, TurnRow};
use crate::space::SpaceKey;
use crate::state::State;

/// Takes out as much as one command may, of what was recorded up to `begun_us`, in log time, which no two
/// commands share. Whether more is left.
pub(in super::super) fn erase<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    begun_us: i64,
    rest: Rest<'_>,
    erased: &mut Erased,
) -> Step<bool> {
    let row = context.rows.read::<SessionRow>(&keys::session::key(space, session))?;
    let Some(row) = row.filter(|row| !row.is_there() || row.created_us <= begun_us) else {
        // It is gone, be it by age, or began later, or is what is left.
        keep_buried(context, space, session, begun_us)?;
        return Ok(false);
    };
    if row.is_there() && has_turns_since(context, space, session, &row, begun_us)? {
        return beginning(context, space, session, row, begun_us, rest, erased);
    }
    step(context, space, session, SessionRow { deleting: Some(Ending::All), ..row }, rest, erased)
}

/// Leaves a tombstone where a session that is not there has none of this time or later: an export may hold what has
/// aged out here.
fn keep_buried<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    begun_us: i64,
) -> Step<()> {
    for key in graves(space, Tier::Session, session) {
        let grave: Option<TombstoneRow> = context.rows.read(&key)?;
        if grave.is_some_and(|grave| grave.deleted_us >= begun_us) {
            return Ok(());
        }
    }
    bury_unnamed(context, space, Tier::Session, session, begun_us)
}

fn has_turns_since<S: State>(
    context: &Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    row: &SessionRow,
    begun_us: i64,
) -> Step<bool> {
    let last: Option<TurnRow> = context.rows.read(&keys::turn::key(space, session, row.turns))?;
    Ok(last.is_some_and(|last| last.recorded_us > begun_us))
}

/// Takes the first turns out, with all that follows from them. The numbers of the others stay.
fn beginning<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    mut row: SessionRow,
    begun_us: i64,
    rest: Rest<'_>,
    erased: &mut Erased,
) -> Step<bool> {
    let prefix = keys::turn::prefix(space, session);
    let (mut last, mut next_us) = (0, None);
    for (at, (key, value)) in context.rows.scan(&prefix, None, DELETE_TURNS_MAX + 1)?.into_iter().enumerate()
    {
        let turn = TurnRow::decode(&value).map_err(ApplyError::from)?;
        let Some(number) = keys::turn::number(&key) else {
            return Err(ApplyError::Inconsistent(format!("a turn of {space} has a damaged key")).into());
        };
        // The last one was read to see when it came.
        if turn.recorded_us > begun_us || at == DELETE_TURNS_MAX || last > 0 && context.rows.are_full() {
            next_us = Some(turn.recorded_us);
            last = last.max(number.saturating_sub(1));
            break;
        }
        made_of(context, space, session, (number, begun_us), rest, erased)?;
        context.rows.delete(&key)?;
        row.tokens = row.tokens.saturating_sub(turn.tokens.into());
        last = number;
    }
    let kept = usize::try_from(row.turns.saturating_sub(last)).unwrap_or(usize::MAX);
    row.recent.drain(..row.recent.len().saturating_sub(kept));
    row.pinned.retain(|number| *number > last);
    row.promoted = row.promoted.max(last);
    row.condensed = row.condensed.max(last);
    // These cannot be told apart by when they came; they come again with what is said.
    row.dialogue = Dialogue::default();
    row.summarised = last;
    context.rows.write(keys::summary::key(space, session), &Summary { through: last, lines: Vec::new() })?;
    // It is another session for all that was made of the one before.
    row.created_us = next_us.unwrap_or(row.created_us);
    row.version += 1;
    let more = row.created_us <= begun_us;
    bury_as_of(context, space, Tier::Session, session, row.version, begun_us)?;
    write(context, space, session, row)?;
    Ok(more)
}

/// Takes out what jobs made of turns of which this is the first.
fn made_of<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    (first, begun_us): (u64, i64),
    rest: Rest<'_>,
    erased: &mut Erased,
) -> Step<()> {
    for prefix in keys::derived::of_turns(space, session, first) {
        // A turn becomes one memory, and the first one of a few episodes at most.
        for (key, _) in context.rows.scan(&prefix, None, DELETE_TURNS_MAX)? {
            let Some(id) = keys::derived::any_derived(&key) else { continue };
            if let Some(memory) = context.rows.memory(space, id)? {
                let of = (id, &memory);
                erased.add(sources::let_go(context, space, session, of, Some(begun_us), rest)?);
            }
            context.rows.delete(&key)?;
        }
    }
    Ok(())
}
