//! New turns.

use super::{answer, keep, write};
use crate::apply::{Answers, Context, Step, add};
use crate::command::AppendTurns;
use crate::keys;
use crate::limits::{SESSION_PINNED_MAX, SESSION_TURNS_MAX};
use crate::outcome::ItemStatus;
use crate::session::{SessionRow, Summary, TurnRow, window};
use crate::space::SpaceKey;
use crate::state::State;
use crate::{Error, ErrorCode};

pub(in super::super) fn apply<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    append: &AppendTurns,
) -> Step<Answers> {
    let session = &append.session;
    let mut row = match context.rows.read::<SessionRow>(&keys::session::key(space, session))? {
        Some(row) => open(row)?,
        None => begin(context, space, session)?,
    };
    catch_up(context, space, session, &mut row)?;
    let mut answers = Vec::with_capacity(append.turns.len());
    for (at, turn) in append.turns.iter().enumerate() {
        take(&mut row, at, &turn.row)?;
        let stored = TurnRow {
            event_us: if turn.event_given { turn.row.event_us } else { context.now_us },
            recorded_us: context.now_us,
            ..turn.row.clone()
        };
        context.rows.write(keys::turn::key(space, session, row.turns), &stored)?;
        answers.push(answer(session, row.turns, ItemStatus::Recorded));
    }
    row.updated_us = context.now_us;
    row.version += 1;
    write(context, space, session, row)?;
    Ok(answers)
}

/// A session that takes turns.
fn open(row: SessionRow) -> Step<SessionRow> {
    if !row.is_there() {
        let detail = "the session of this id is being deleted; repeat this in a moment, or choose another id";
        return Err(Error::new(ErrorCode::Conflict, detail).at("session").into());
    }
    if row.ended_us.is_some() {
        let detail = "the session has ended and takes no more turns; choose another id";
        return Err(Error::new(ErrorCode::Conflict, detail).at("session").into());
    }
    Ok(row)
}

/// Of a session of which an import brought a part, jobs may have done more than there are turns: what is said from now
/// on is new to them.
fn catch_up<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    row: &mut SessionRow,
) -> Step<()> {
    row.promoted = row.promoted.min(row.turns);
    row.condensed = row.condensed.min(row.turns);
    if row.summarised > row.turns {
        row.summarised = row.turns;
        let key = keys::summary::key(space, session);
        let mut summary: Summary = context.rows.read(&key)?.unwrap_or_default();
        summary.lines.retain(|line| line.turn <= row.turns);
        summary.through = row.turns;
        context.rows.write(key, &summary)?;
    }
    Ok(())
}

fn begin<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, session: &str) -> Step<SessionRow> {
    // The settings of the space begin with its first row, whatever that is.
    add::choose_model(context, space, None, false)?;
    keep(context, space, session, context.now_us)?;
    Ok(SessionRow { created_us: context.now_us, ..SessionRow::default() })
}

/// Counts a turn, the one at this place of the request.
pub(in super::super) fn take(row: &mut SessionRow, at: usize, turn: &TurnRow) -> Step<()> {
    if row.turns >= SESSION_TURNS_MAX {
        let detail = format!("the session has {} turns, the most it may have; begin another", row.turns);
        return Err(Error::too_large("turns", detail).into());
    }
    row.turns += 1;
    if turn.pinned {
        if row.pinned.len() >= SESSION_PINNED_MAX {
            let detail = format!("a session has at most {SESSION_PINNED_MAX} pinned turns");
            return Err(Error::too_large(format!("turns[{at}].pinned"), detail).into());
        }
        row.pinned.push(row.turns);
    }
    row.tokens += u64::from(turn.tokens);
    if row.recent.len() == window::TURNS_MAX {
        row.recent.remove(0);
    }
    row.recent.push(turn.tokens);
    if turn.promote {
        row.important = row.turns;
    }
    let dialogue = &mut row.dialogue;
    dialogue.phase = dialogue.phase.after_turn(&turn.role, turn.asks);
    match turn.role.as_str() {
        "user" => {
            dialogue.user_act.clone_from(&turn.act);
            dialogue.intent = turn.act.clone().or(dialogue.intent.take());
        }
        "assistant" => dialogue.system_act.clone_from(&turn.act),
        _ => {}
    }
    Ok(())
}
