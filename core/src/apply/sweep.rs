//! Works off what is due by log time: expired memories and tasks, old idempotency rows, tombstones
//! and sessions.

use super::delete::{self, Rest};
use super::{ApplyError, Context, Step, idempotency, sessions, tasks};
use crate::codec::Stored;
use crate::keys::due::{Due, DueKind};
use crate::keys::{self, Family};
use crate::limits::{EXPIRE_ROWS_MAX, RECHECK_KEEP_US, TOMBSTONE_KEEP_US};
use crate::memory::TombstoneRow;
use crate::outcome::Outcome;
use crate::space::SpaceKey;
use crate::state::State;

/// Tombstones that are read in one step.
const TOMBSTONES_STEP: usize = 1000;

pub(super) fn apply<S: State>(context: &mut Context<'_, S>, limit: u16) -> Step<Outcome> {
    let rows = context.rows.scan(&keys::due::prefix(), None, usize::from(limit))?;
    let (mut done, mut goes_on) = (0, false);
    for (key, _) in &rows {
        let Some(due) = Due::parse(key) else {
            return Err(ApplyError::Inconsistent("a due row cannot be read".into()).into());
        };
        if due.at_us > context.now_us {
            return Ok(Outcome::Swept { done, more: false });
        }
        if context.rows.are_full() {
            return Ok(Outcome::Swept { done, more: true });
        }
        let waited_us = context.now_us.saturating_sub(due.at_us);
        if due.kind == DueKind::Recheck && waited_us < RECHECK_KEEP_US {
            // The leader's to do, which alone can look.
            continue;
        }
        context.rows.delete(key)?;
        match due.kind {
            DueKind::Recheck => {}
            DueKind::Idempotency => idempotency::expire(context, &due.space)?,
            DueKind::Tombstone => expire_tombstones(context, &due.space)?,
            DueKind::Receipt => context.rows.delete(&keys::erasure::key(&due.space, &due.id))?,
            // The whole space goes; half of the rows of a memory may be gone already.
            DueKind::Derived | DueKind::Expiry | DueKind::Task | DueKind::Session
                if is_being_erased(context, &due.space)? => {}
            DueKind::Expiry => expire_memory(context, &due)?,
            DueKind::Derived => {
                delete::cascade(context, &due.space, delete::Left::parse(&due.id), Rest::Due)?;
                // What it leaves is due at once.
                goes_on = true;
            }
            DueKind::Task => tasks::expire(context, &due)?,
            DueKind::Session => sessions::due(context, &due)?,
        }
        done += 1;
    }
    Ok(Outcome::Swept { done, more: goes_on || done > 0 && rows.len() == usize::from(limit) })
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

fn expire_tombstones<S: State>(context: &mut Context<'_, S>, space: &SpaceKey) -> Step<()> {
    let mut counters = context.rows.counters(space)?;
    let (mut oldest_us, mut taken): (Option<i64>, usize) = (None, 0);
    let mut after: Option<Vec<u8>> = None;
    let prefix = keys::family_prefix(space, Family::Tombstone);
    loop {
        let rows = context.rows.scan(&prefix, after.as_deref(), TOMBSTONES_STEP)?;
        for (key, value) in &rows {
            let deleted_us = TombstoneRow::decode(value).map_err(ApplyError::from)?.deleted_us;
            let is_old = context.now_us.saturating_sub(deleted_us) >= TOMBSTONE_KEEP_US;
            if is_old && taken < EXPIRE_ROWS_MAX {
                taken += 1;
                context.rows.delete(key)?;
                counters.tombstones = counters.tombstones.saturating_sub(1);
            } else {
                oldest_us = Some(oldest_us.map_or(deleted_us, |oldest| oldest.min(deleted_us)));
            }
        }
        if rows.len() < TOMBSTONES_STEP {
            break;
        }
        after = rows.last().map(|(key, _)| key.clone());
    }
    counters.tombstone_due_us = oldest_us.map(|at_us| at_us.saturating_add(TOMBSTONE_KEEP_US));
    if let Some(at_us) = counters.tombstone_due_us {
        context.rows.put_due(&delete::tombstones_due(space, at_us))?;
    }
    Ok(context.rows.write_counters(space, &counters)?)
}
