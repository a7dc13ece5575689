//! New turns.

use super::{answer, retention, write};
use crate::apply::{Answers, Context, Step, add};
use crate::command::{AppendTurns, NewTurn};
use crate::keys;
use crate::limits::{SESSION_KEEP_US, SESSION_PINNED_MAX, SESSION_TURNS_MAX};
use crate::outcome::ItemStatus;
use crate::session::{SessionRow, TurnRow, window};
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
    let mut answers = Vec::with_capacity(append.turns.len());
    for (at, turn) in append.turns.iter().enumerate() {
        take(&mut row, at, turn)?;
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

fn begin<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, session: &str) -> Step<SessionRow> {
    // The settings of the space begin with its first row, whatever that is.
    add::choose_model(context, space, None, false)?;
    let until_us = context.now_us.saturating_add(SESSION_KEEP_US);
    context.rows.put_due(&retention(space, session, until_us))?;
    Ok(SessionRow { created_us: context.now_us, ..SessionRow::default() })
}

/// Counts a turn.
fn take(row: &mut SessionRow, at: usize, turn: &NewTurn) -> Step<()> {
    if row.turns >= SESSION_TURNS_MAX {
        let detail = format!("the session has {} turns, the most it may have; begin another", row.turns);
        return Err(Error::too_large("turns", detail).into());
    }
    row.turns += 1;
    if turn.row.pinned {
        if row.pinned.len() >= SESSION_PINNED_MAX {
            let detail = format!("a session has at most {SESSION_PINNED_MAX} pinned turns");
            return Err(Error::too_large(format!("turns[{at}].pinned"), detail).into());
        }
        row.pinned.push(row.turns);
    }
    row.tokens += u64::from(turn.row.tokens);
    if row.recent.len() == window::TURNS_MAX {
        row.recent.remove(0);
    }
    row.recent.push(turn.row.tokens);
    if turn.row.promote {
        row.important = row.turns;
    }
    let dialogue = &mut row.dialogue;
    dialogue.phase = dialogue.phase.after_turn(&turn.row.role, turn.row.asks);
    match turn.row.role.as_str() {
        "user" => {
            dialogue.user_act.clone_from(&turn.row.act);
            dialogue.intent = turn.row.act.clone().or(dialogue.intent.take());
        }
        "assistant" => dialogue.system_act.clone_from(&turn.row.act),
        _ => {}
    }
    Ok(())
}
