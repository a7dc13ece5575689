//! What jobs do for a space as a whole. A job works on an earlier state: where that has changed, its work, or
//! the part of it that has, is dropped.
//!
//! Invariant, held by a test: a partition has a row in `work` exactly as long as its row of upkeep says so, and
//! that says so as long as there are memories that were not looked at.

use super::{Answers, Context, Step, add, merged};
use crate::command::Upkeep;
use crate::keys;
use crate::keys::work::{Work, WorkKind};
use crate::limits::UPKEEP_AFTER_US;
use crate::space::SpaceKey;
use crate::state::State;
use crate::upkeep::UpkeepRow;
use crate::{Error, ErrorCode};

pub(super) fn apply<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    upkeep: &Upkeep,
) -> Step<Answers> {
    let Upkeep::Duplicates { base, through, merges } = upkeep;
    let mut row: UpkeepRow = context.rows.read(&keys::upkeep::key(space))?.unwrap_or_default();
    let last_seq = context.rows.counters(space)?.last_seq;
    if row.looked != *base || *through > last_seq {
        let detail = "stale: the work was done meanwhile; look again";
        return Err(Error::new(ErrorCode::Conflict, detail).into());
    }
    let mut answers = Vec::with_capacity(merges.len());
    for merge in merges {
        let answer = match merged::merge(context, space, merge)? {
            Some(answer) => answer,
            None => {
                let detail = "one of the two has changed meanwhile, or is told apart by more than its text";
                add::rejected(&merge.merged.id, Error::new(ErrorCode::Conflict, detail))
            }
        };
        answers.push(answer);
    }
    row.looked = *through;
    let wanted = (*through < last_seq).then_some(context.now_us);
    write(context, space, row, wanted)?;
    Ok(answers)
}

/// New memories are to be looked at, a little later: what is said at once is looked at together.
pub(super) fn wake<S: State>(context: &mut Context<'_, S>, space: &SpaceKey) -> Step<()> {
    let row: UpkeepRow = context.rows.read(&keys::upkeep::key(space))?.unwrap_or_default();
    let at_us = context.now_us.saturating_add(UPKEEP_AFTER_US);
    if row.work_us.is_some_and(|work_us| work_us <= at_us) {
        return Ok(());
    }
    write(context, space, row, Some(at_us))
}

/// Writes the row of upkeep, with its row in `work`.
fn write<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    mut row: UpkeepRow,
    work_us: Option<i64>,
) -> Step<()> {
    if let Some(at_us) = row.work_us {
        context.rows.delete(&work(space, at_us).key())?;
    }
    if let Some(at_us) = work_us {
        context.rows.put(work(space, at_us).key(), keys::work::value())?;
    }
    row.work_us = work_us;
    Ok(context.rows.write(keys::upkeep::key(space), &row)?)
}

pub(super) fn work(space: &SpaceKey, at_us: i64) -> Work {
    Work { at_us, space: space.clone(), kind: WorkKind::Upkeep, id: String::new() }
}
