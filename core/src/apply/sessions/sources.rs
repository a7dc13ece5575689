//! Memories that jobs made of turns, and the turns that say the same: one that is said in several sessions
//! stands for as long as any of them does.

use crate::apply::delete::{self, Rest};
use crate::apply::{Context, Step};
use crate::codec::Format;
use crate::command::{NewMemory, Origin};
use crate::erasure::Erased;
use crate::event::Event;
use crate::keys;
use crate::limits::DERIVED_FROM_MAX;
use crate::memory::{IndexRow, MemoryRow};
use crate::session::rows::{is_turn_of, session_of_turn, turns_of};
use crate::session::{SessionRow, TurnRow};
use crate::space::SpaceKey;
use crate::state::State;

/// Whether all that a memory was made of are turns.
fn is_of_turns(sources: &[String]) -> bool {
    !sources.is_empty() && sources.iter().all(|source| session_of_turn(source).is_some())
}

/// Whether the new memory repeats, in other words, what only turns of other sessions say, or only turns where
/// a caller says it: neither goes when a session is erased that it does not come from.
pub(in super::super) fn is_of_others(origin: Origin, memory: &MemoryRow, item: &NewMemory) -> bool {
    let of_same = |source: &String| {
        let session = session_of_turn(source);
        item.derived_from.iter().any(|new| session_of_turn(new) == session)
    };
    let is_of_same = origin == Origin::Job && memory.derived_from.iter().any(of_same);
    is_of_turns(&memory.derived_from) && !is_of_same
}

/// The same words once more: what a memory stands on grows by the turns that say them. Where a caller says
/// them, the memory stands by itself from then on.
pub(in super::super) fn join<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    memory: &MemoryRow,
    row: &mut IndexRow,
    (origin, item): (Origin, &NewMemory),
) -> Step<()> {
    if !is_of_turns(&memory.derived_from) || memory.text_hash != item.text_hash {
        return Ok(());
    }
    let mut memory = memory.clone();
    if is_of_turns(&item.derived_from) {
        let new = item.derived_from.iter().filter(|source| !memory.derived_from.contains(source));
        let room = DERIVED_FROM_MAX.saturating_sub(memory.derived_from.len());
        let new: Vec<String> = new.take(room).cloned().collect();
        context.rows.put_derived(space, id, &new)?;
        memory.derived_from.extend(new);
    } else if origin == Origin::Caller && item.derived_from.is_empty() {
        for source in memory.derived_from.drain(..) {
            context.rows.delete(&keys::derived::key(space, &source, id))?;
            if let Some(session) = session_of_turn(&source) {
                context.rows.delete(&keys::session_memory::key(space, session, id))?;
            }
        }
        row.session.clone_from(&item.index.session);
    } else {
        return Ok(());
    }
    Ok(context.rows.write(keys::memory::key(space, id), &memory)?)
}

/// Remembers that a memory stands on turns of a session.
pub(super) fn name<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    id: &str,
) -> Step<()> {
    Ok(context.rows.put(keys::session_memory::key(space, session, id), vec![Format::V1 as u8])?)
}

/// As [`name`], for each session whose turns are among the sources of a memory that comes from elsewhere. A session of the
/// same id that is here already is another one: the memories of an export come before its sessions.
pub(in super::super) fn name_all<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    sources: &[String],
) -> Step<()> {
    for session in sources.iter().filter_map(|source| session_of_turn(source)) {
        if context.rows.read::<SessionRow>(&keys::session::key(space, session))?.is_none() {
            name(context, space, session, id)?;
        }
    }
    Ok(())
}

/// The sources of a memory that go with a session: its turns, or those of them that were recorded up to
/// `begun_us`.
fn going<S: State>(
    context: &Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    memory: &MemoryRow,
    begun_us: Option<i64>,
) -> Step<Vec<String>> {
    let mut going = Vec::new();
    for source in &memory.derived_from {
        let Some((_, first)) = turns_of(source).filter(|_| is_turn_of(source, session)) else { continue };
        let turn: Option<TurnRow> = context.rows.read(&keys::turn::key(space, session, first))?;
        if turn.zip(begun_us).is_none_or(|(turn, begun_us)| turn.recorded_us <= begun_us) {
            going.push(source.clone());
        }
    }
    Ok(going)
}

/// Takes a memory out that stands on turns that go: all of a session, or those up to `begun_us`. Where other
/// turns say the same, it stands on those alone.
pub(in super::super) fn let_go<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    (id, memory): (&str, &MemoryRow),
    begun_us: Option<i64>,
    rest: Rest<'_>,
) -> Step<Erased> {
    let going = going(context, space, session, memory, begun_us)?;
    let stay: Vec<String> =
        memory.derived_from.iter().filter(|source| !going.contains(source)).cloned().collect();
    let Some(other) = stay.iter().find_map(|source| session_of_turn(source)).filter(|_| !going.is_empty())
    else {
        context.rows.delete(&keys::session_memory::key(space, session, id))?;
        return delete::remove(context, space, id, memory, rest);
    };
    for source in &going {
        context.rows.delete(&keys::derived::key(space, source, id))?;
    }
    // Earlier versions tell of what goes, too.
    let versions = delete::remove_history(context, space, id)?;
    if !stay.iter().any(|source| is_turn_of(source, session)) {
        context.rows.delete(&keys::session_memory::key(space, session, id))?;
        let mut row = context.rows.index_row(space, memory.seq)?;
        if row.session.as_deref() == Some(session) {
            row.session = Some(other.to_owned());
            context.rows.write(keys::index_row::key(space, memory.seq), &row)?;
            context.events.push(Event::Put { space: space.clone(), seq: memory.seq, row: Box::new(row) });
        }
    }
    let memory = MemoryRow { derived_from: stay, ..memory.clone() };
    context.rows.write(keys::memory::key(space, id), &memory)?;
    Ok(Erased { versions, ..Erased::default() })
}
