//! Sessions: one file per command, and what they share.
//!
//! Invariants, each held by a test:
//! - what is said of a session in its row follows from its turns;
//! - a session has a row in `work` exactly as long as a job has something to do for it, or will have;
//! - a session that is being deleted is not there for anybody, and nothing is made of it any more.

mod append;
mod change;
mod delete;
mod digest;
mod erase;
mod sources;

pub(super) use append::{apply as append, take};
pub(super) use change::{dialogue, end};
pub(super) use delete::{apply as delete, due};
pub(super) use digest::apply as digest;
pub(super) use erase::erase;
pub(super) use sources::{is_of_others, join, let_go, name_all};

use super::{Answers, Context, Step};
use crate::keys;
use crate::keys::due::{Due, DueKind};
use crate::keys::work::{Work, WorkKind};
use crate::limits::SESSION_KEEP_US;
use crate::memory::{IdempotencyId, IdempotencyItem};
use crate::outcome::{ItemOutcome, ItemStatus};
use crate::session::SessionRow;
use crate::space::SpaceKey;
use crate::state::State;
use crate::{Error, ErrorCode};

/// The session, if callers see it and it has the version that is expected.
fn current<S: State>(
    context: &Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    if_version: Option<u64>,
) -> Step<SessionRow> {
    let row: Option<SessionRow> = context.rows.read(&keys::session::key(space, session))?;
    let Some(row) = row.filter(SessionRow::is_there) else {
        return Err(Error::new(ErrorCode::NotFound, "there is no session with this id in this space")
            .at("session")
            .into());
    };
    match if_version {
        Some(expected) if expected != row.version => {
            let detail = format!(
                "the session has version {}, not {expected}; read it again and repeat the change",
                row.version
            );
            Err(Error::new(ErrorCode::Conflict, detail).at("version").into())
        }
        _ => Ok(row),
    }
}

/// Writes a session, with its row in `work` where that moves.
pub(super) fn write<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    mut row: SessionRow,
) -> Step<()> {
    let wanted = row.wants_work_at(context.now_us);
    if wanted != row.work_us {
        if let Some(at_us) = row.work_us {
            context.rows.delete(&work(space, session, at_us).key())?;
        }
        if let Some(at_us) = wanted {
            context.rows.put(work(space, session, at_us).key(), keys::work::value())?;
        }
        row.work_us = wanted;
    }
    Ok(context.rows.write(keys::session::key(space, session), &row)?)
}

pub(super) fn work(space: &SpaceKey, session: &str, at_us: i64) -> Work {
    Work { at_us, space: space.clone(), kind: WorkKind::Session, id: session.to_owned() }
}

/// Keeps a session for a while after its last change.
pub(super) fn keep<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    session: &str,
    updated_us: i64,
) -> Step<()> {
    let until_us = updated_us.saturating_add(SESSION_KEEP_US);
    Ok(context.rows.put_due(&retention(space, session, until_us))?)
}

fn retention(space: &SpaceKey, session: &str, at_us: i64) -> Due {
    Due { at_us, space: space.clone(), kind: DueKind::Session, id: session.to_owned() }
}

/// An answer about a session. The number is that of a turn, or the version of the session.
fn answer(session: &str, number: u64, status: ItemStatus) -> (ItemOutcome, IdempotencyItem) {
    let outcome = ItemOutcome { version: number, status, ..ItemOutcome::new(session.to_owned()) };
    (outcome, IdempotencyItem { status, version: number, id: IdempotencyId::Requested })
}

fn one(session: &str, number: u64, status: ItemStatus) -> Answers {
    vec![answer(session, number, status)]
}
