//! Works off what is due by log time: expired memories and tasks, old idempotency rows, tombstones
//! and sessions.

use super::delete::{self, Rest};
use super::{ApplyError, Context, Step, claims, idempotency, sessions, tasks, tenant, tombstones};
use crate::keys;
use crate::keys::due::{Due, DueKind};
use crate::limits::RECHECK_KEEP_US;
use crate::outcome::Outcome;
use crate::space::SpaceKey;
use crate::state::State;

/// Pages of `due` that one sweep looks at: rows that wait for the leader must not hold up those behind them.
const LOOKS_MAX: usize = 64;

pub(super) fn apply<S: State>(context: &mut Context<'_, S>, limit: u16) -> Step<Outcome> {
    let (mut done, mut goes_on) = (0, false);
    let mut after: Option<Vec<u8>> = None;
    for _ in 0..LOOKS_MAX {
        let rows = context.rows.scan(&keys::due::prefix(), after.as_deref(), usize::from(limit))?;
        for (key, _) in &rows {
            let due = Due::parse(key).ok_or_else(unreadable)?;
            if due.at_us > context.now_us {
                return Ok(Outcome::Swept { done, more: goes_on });
            }
            if context.rows.are_full() || done == u32::from(limit) {
                return Ok(Outcome::Swept { done, more: true });
            }
            let waited_us = context.now_us.saturating_sub(due.at_us);
            if due.kind == DueKind::Recheck && waited_us < RECHECK_KEEP_US {
                // The leader's to do, which alone can look.
                continue;
            }
            context.rows.delete(key)?;
            goes_on |= one(context, &due)?;
            done += 1;
        }
        if rows.len() < usize::from(limit) {
            return Ok(Outcome::Swept { done, more: goes_on });
        }
        after = rows.into_iter().next_back().map(|(key, _)| key);
    }
    Ok(Outcome::Swept { done, more: done > 0 })
}

fn unreadable() -> ApplyError {
    ApplyError::Inconsistent("a due row cannot be read".into())
}

/// Does what is due. Whether it leaves something that is due at once.
fn one<S: State>(context: &mut Context<'_, S>, due: &Due) -> Step<bool> {
    if tenant::is_erased(context, due.space.tenant())? {
        // All of it goes, and nothing is written any more.
        return Ok(false);
    }
    match due.kind {
        DueKind::Recheck => {}
        DueKind::Idempotency => idempotency::expire(context, &due.space)?,
        DueKind::Claims => return claims::expire(context, due),
        DueKind::Tombstone => return tombstones::expire(context, due),
        DueKind::Receipt => context.rows.delete(&keys::erasure::key(&due.space, &due.id))?,
        // The whole space goes; half of the rows of a memory may be gone already.
        DueKind::Derived | DueKind::Expiry | DueKind::Task | DueKind::Session
            if is_being_erased(context, &due.space)? => {}
        DueKind::Expiry => expire_memory(context, due)?,
        DueKind::Derived => {
            delete::forget_note(context, due)?;
            delete::cascade(context, &due.space, delete::Left::parse(&due.id), Rest::Due)?;
            return Ok(true);
        }
        DueKind::Task => tasks::expire(context, due)?,
        DueKind::Session => sessions::due(context, due)?,
    }
    Ok(false)
}

fn is_being_erased<S: State>(context: &Context<'_, S>, space: &SpaceKey) -> Step<bool> {
    Ok(context.rows.counters(space)?.erasing.is_some())
}

fn expire_memory<S: State>(context: &mut Context<'_, S>, due: &Due) -> Step<()> {
    let Some(memory) = context.rows.memory(&due.space, &due.id)? else { return Ok(()) };
    let row = context.rows.index_row(&due.space, memory.seq)?;
    // Changes of `expires_us` move the due row; one that stayed behind must not delete anything.
    if row.expires_us == Some(due.at_us) {
        delete::remove(context, &due.space, &due.id, &memory, Rest::Due)?;
    }
    Ok(())
}
