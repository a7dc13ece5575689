//! What came of recalled memories: the only thing that strengthens or weakens them by default.

use super::{Answers, Context, Step, add};
use crate::command::{FeedbackItem, Verdict};
use crate::event::Event;
use crate::keys;
use crate::memory::{IdempotencyId, IndexRow, STRENGTH_MAX, STRENGTH_MIN};
use crate::outcome::{ItemOutcome, ItemStatus};
use crate::space::SpaceKey;
use crate::state::State;
use crate::{Error, ErrorCode};

pub(super) fn apply<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    items: &[FeedbackItem],
) -> Step<Answers> {
    let mut answers = Vec::with_capacity(items.len());
    for item in items {
        let Some(memory) = context.rows.memory(space, &item.id)? else {
            answers.push(unknown(&item.id));
            continue;
        };
        let mut row = context.rows.index_row(space, memory.seq)?;
        reinforce(&mut row, item.verdict, context.now_us);
        context.rows.write(keys::index_row::key(space, memory.seq), &row)?;
        context.events.push(Event::Put { space: space.clone(), seq: memory.seq, row: Box::new(row) });
        answers.push(add::answer(&item.id, memory.version, ItemStatus::Recorded, IdempotencyId::Requested));
    }
    Ok(answers)
}

/// A memory that was forgotten meanwhile must not spoil the feedback for the others.
fn unknown(id: &str) -> (ItemOutcome, crate::memory::IdempotencyItem) {
    let (mut outcome, kept) = add::answer(id, 0, ItemStatus::Rejected, IdempotencyId::Requested);
    outcome.reason = Some(Error::new(ErrorCode::NotFound, "there is no memory with this id in this space"));
    (outcome, kept)
}

/// Adopted: one more use, last access now, strength x1.5. Otherwise strength x0.7. In thousandths
/// and integers, so that every replica rounds alike.
fn reinforce(row: &mut IndexRow, verdict: Verdict, now_us: i64) {
    let strength = u32::from(row.strength_milli);
    let changed = match verdict {
        Verdict::Adopted => {
            row.access_count = row.access_count.saturating_add(1);
            row.last_access_us = row.last_access_us.max(now_us);
            strength * 3 / 2
        }
        Verdict::Useless | Verdict::Harmful => strength * 7 / 10,
    };
    let bounded = changed.clamp(u32::from(STRENGTH_MIN), u32::from(STRENGTH_MAX));
    row.strength_milli = u16::try_from(bounded).unwrap_or(STRENGTH_MAX);
}
