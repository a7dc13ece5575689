//! What a job made of turns. It was made of an earlier state: where the session is another one by now,
//! or the same work was done meanwhile, it is dropped whole.

use super::{one, sources, write};
use crate::apply::{Answers, Context, Step, add};
use crate::command::{Add, Digest, DigestResult};
use crate::keys;
use crate::outcome::ItemStatus;
use crate::session::rows::is_turn_of;
use crate::session::{SessionRow, Summary};
use crate::space::SpaceKey;
use crate::state::State;
use crate::{Error, ErrorCode};

pub(in super::super) fn apply<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    digest: &Digest,
) -> Step<Answers> {
    let session = &digest.session;
    let row: Option<SessionRow> = context.rows.read(&keys::session::key(space, session))?;
    let same = |row: &SessionRow| row.is_there() && row.created_us == digest.created_us;
    let Some(mut row) = row.filter(same) else { return Err(stale("the session is gone")) };
    let most = match &digest.result {
        DigestResult::Summary(_) => row.window_start().saturating_sub(1),
        DigestResult::Promoted(_) | DigestResult::Condensed(_) => row.turns,
    };
    let done = match &digest.result {
        DigestResult::Summary(_) => &mut row.summarised,
        DigestResult::Promoted(_) => &mut row.promoted,
        DigestResult::Condensed(_) => &mut row.condensed,
    };
    if *done != digest.base || digest.through > most {
        return Err(stale("the work was done meanwhile"));
    }
    *done = digest.through;
    match &digest.result {
        DigestResult::Summary(lines) => {
            let summary = Summary { through: digest.through, lines: lines.clone() };
            context.rows.write(keys::summary::key(space, session), &summary)?;
        }
        DigestResult::Promoted(add) | DigestResult::Condensed(add) => {
            if let Some(add) = add {
                memories(context, space, session, add)?;
            }
        }
    }
    let version = row.version;
    write(context, space, session, row)?;
    Ok(one(session, version, ItemStatus::Recorded))
}

/// Stores memories, and remembers which stand on turns of the session. What a caller said does not.
fn memories<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, session: &str, add: &Add) -> Step<()> {
    for (outcome, _) in add::apply(context, space, add)? {
        let stands = match outcome.status {
            ItemStatus::Created => true,
            ItemStatus::Merged => {
                let memory = context.rows.memory(space, &outcome.id)?;
                memory.is_some_and(|memory| memory.derived_from.iter().any(|from| is_turn_of(from, session)))
            }
            _ => false,
        };
        if stands {
            sources::name(context, space, session, &outcome.id)?;
        }
    }
    Ok(())
}

fn stale(why: &str) -> crate::apply::Stop {
    Error::new(ErrorCode::Conflict, format!("stale: {why}; look again")).into()
}
