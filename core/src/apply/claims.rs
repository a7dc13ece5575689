//! Makes an id unique in a collection, and the key of a request unique in all of its partitions.
//!
//! Invariant: while writes of new memories of one id are under way, all of them go to one partition, where it is
//! decided as within one space which of them is stored. The partition that the id hashes to is where they agree on it:
//! a claim there names the one, and neither another claim nor a memory that would be stored there itself gets past it.

use super::{Answers, ApplyError, Context, Step};
use crate::command::Claim;
use crate::keys;
use crate::keys::due::Due;
use crate::limits::EXPIRE_ROWS_MAX;
use crate::memory::{IdempotencyId, IdempotencyItem};
use crate::outcome::{ItemOutcome, ItemStatus};
use crate::space::SpaceKey;
use crate::state::State;
use crate::{Error, ErrorCode};

/// The field of the error by which a partition refuses a new memory whose id is claimed for another one.
pub const CLAIMED_FIELD: &str = "claim";

/// Answers for each id in which partition it belongs, as the `version` of its outcome: here, if there is such a
/// memory; else what was claimed before; else as is claimed now.
pub(super) fn apply<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    claims: &[Claim],
) -> Step<Answers> {
    let period = keys::claim::period(context.now_us);
    let (mut answers, mut has_written) = (Answers::new(), false);
    for claim in claims {
        let partition = if context.rows.exists(&keys::memory::key(space, &claim.id))? {
            space.partition()
        } else {
            let partition = holder(context, space, &claim.id)?.unwrap_or(claim.partition);
            if partition != claim.partition && !claim.obeys {
                answers.push(recorded(claim.id.clone(), partition.into()));
                continue;
            }
            // It holds as long as the last one who relies on it needs.
            let key = keys::claim::key(space, period, &claim.id);
            if !context.rows.exists(&key)? {
                context.rows.put(key, keys::claim::value(partition))?;
                has_written = true;
            }
            partition
        };
        answers.push(recorded(claim.id.clone(), partition.into()));
    }
    let due = keys::claim::due(space, period);
    if has_written && !context.rows.exists(&due.key())? {
        context.rows.put_due(&due)?;
    }
    Ok(answers)
}

/// The partition that an id is claimed for, if it is.
fn holder<S: State>(context: &Context<'_, S>, space: &SpaceKey, id: &str) -> Step<Option<u8>> {
    let period = keys::claim::period(context.now_us);
    for period in [Some(period), period.checked_sub(1)].into_iter().flatten() {
        if let Some(value) = context.rows.value(&keys::claim::key(space, period, id))? {
            let damaged = || ApplyError::Inconsistent(format!("a claim of {space} is damaged"));
            return Ok(Some(keys::claim::partition(&value).ok_or_else(damaged)?));
        }
    }
    Ok(None)
}

/// Refuses a new memory that is about to be stored where its id is claimed for another partition.
pub(super) fn refuse_elsewhere<S: State>(
    context: &Context<'_, S>,
    space: &SpaceKey,
    id: &str,
) -> Step<Option<Error>> {
    if space.collection().is_none() {
        return Ok(None);
    }
    let other = holder(context, space, id)?.filter(|partition| *partition != space.partition());
    Ok(other.map(|_| {
        let detail =
            "another write of this id goes to another partition of the collection; retry after a moment";
        Error::new(ErrorCode::Unavailable, detail).at(CLAIMED_FIELD)
    }))
}

/// Takes claims out whose time is over, not too many at once. Whether there may be more.
pub(super) fn expire<S: State>(context: &mut Context<'_, S>, due: &Due) -> Step<bool> {
    let prefix = keys::claim::prefix(&due.space, keys::claim::period_due(due.at_us));
    let rows = context.rows.scan(&prefix, None, EXPIRE_ROWS_MAX)?;
    for (key, _) in &rows {
        context.rows.delete(key)?;
    }
    let goes_on = rows.len() == EXPIRE_ROWS_MAX;
    if goes_on {
        context.rows.put_due(due)?;
    }
    Ok(goes_on)
}

/// Keeps numbers under the key of a request: its repetition is answered with those of the first time.
pub(super) fn keep(numbers: &[u64]) -> Answers {
    numbers.iter().map(|number| recorded(String::new(), *number)).collect()
}

fn recorded(id: String, version: u64) -> (ItemOutcome, IdempotencyItem) {
    let status = ItemStatus::Recorded;
    let kept = IdempotencyItem { status, version, id: IdempotencyId::Requested };
    (ItemOutcome { version, status, ..ItemOutcome::new(id) }, kept)
}
