//! Where a dialogue stands, and the end of a session.

use super::{current, one, write};
use crate::Error;
use crate::apply::{Answers, Context, Step};
use crate::command::ChangeDialogue;
use crate::limits::SLOTS_MAX;
use crate::outcome::ItemStatus;
use crate::space::SpaceKey;
use crate::state::State;

pub(in super::super) fn dialogue<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    change: &ChangeDialogue,
) -> Step<Answers> {
    let session = &change.session;
    let mut row = current(context, space, session, change.if_version)?;
    let dialogue = &mut row.dialogue;
    if let Some(phase) = change.phase {
        dialogue.phase = dialogue.phase.step(phase)?;
    }
    for (field, value) in [
        (&mut dialogue.intent, &change.intent),
        (&mut dialogue.user_act, &change.user_act),
        (&mut dialogue.system_act, &change.system_act),
    ] {
        if let Some(value) = value {
            field.clone_from(value);
        }
    }
    for (name, value) in &change.slots {
        match value {
            Some(value) => dialogue.slots.insert(name.clone(), value.clone()),
            None => dialogue.slots.remove(name),
        };
    }
    if dialogue.slots.len() > SLOTS_MAX {
        let detail = format!("a dialogue has at most {SLOTS_MAX} slots; set those to null that are done");
        return Err(Error::too_large("slots", detail).into());
    }
    if let Some(confirmed) = &change.confirmed {
        dialogue.confirmed.clone_from(confirmed);
    }
    row.updated_us = context.now_us;
    row.version += 1;
    let version = row.version;
    write(context, space, session, row)?;
    Ok(one(session, version, ItemStatus::Recorded))
}

/// Ends a session; one that has ended stays as it is.
pub(in super::super) fn end<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    if_version: Option<u64>,
) -> Step<Answers> {
    let mut row = current(context, space, session, if_version)?;
    if row.ended_us.is_none() {
        row.ended_us = Some(context.now_us);
        row.updated_us = context.now_us;
        row.version += 1;
        row.dialogue.phase = crate::session::Phase::Idle;
    }
    let version = row.version;
    write(context, space, session, row)?;
    Ok(one(session, version, ItemStatus::Ended))
}
