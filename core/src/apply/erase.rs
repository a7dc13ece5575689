//! Erasures, step by step. Which memories a step takes out was looked up before it was proposed; here
//! it is only made sure that none of them was recorded after the erasure began.

use super::delete::{self, Rest};
use super::{Answers, ApplyError, Context, Step, add, links, sessions, tasks, upkeep};
use crate::codec::{Format, Stored};
use crate::erasure::{
    Confirmation, ERASURES_MAX, ERASURES_OF_ALL_MAX, EraseStep, Erased, ErasureRow, Phase, Selection,
    SelectionKind,
};
use crate::event::Event;
use crate::keys::due::{Due, DueKind};
use crate::keys::{self, Family};
use crate::limits::TOMBSTONE_KEEP_US;
use crate::memory::{Counters, IdempotencyId, IndexRow, TombstoneRow};
use crate::outcome::ItemStatus;
use crate::session::SessionRow;
use crate::space::SpaceKey;
use crate::state::State;
use crate::tiers::task::TaskRow;
use crate::upkeep::UpkeepRow;
use crate::{Error, ErrorCode};

/// Families whose rows an erasure of the whole space leaves: what counts on and the receipts (with no
/// content), and the answers to requests, so that a repetition of an old one stores nothing again. Claims go by themselves
/// in a few minutes: writes that rely on them may be under way to partitions that are not erased yet.
const KEPT: [Family; 4] = [Family::Counters, Family::Erasure, Family::Idempotency, Family::Claim];

pub(super) fn apply<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    step: &EraseStep,
) -> Step<Answers> {
    match step {
        EraseStep::Begin { id, selection } => return begin(context, space, id, selection),
        EraseStep::Close { id } => {
            context.rows.put(keys::counters::closed(space), vec![Format::V1 as u8])?;
            return begin(context, space, id, &Selection::All);
        }
        EraseStep::Remove { .. } | EraseStep::Drop { .. } | EraseStep::Confirm { .. } => {}
    }
    let key = keys::erasure::key(space, step.id());
    // A leader that was late: another one has gone on.
    let Some(mut row) = context.rows.read::<ErasureRow>(&key)? else { return Ok(Vec::new()) };
    match (step, row.phase) {
        // Half of the rows may be gone by now; the erasure of everything takes these out as well, and this
        // one finds nothing when it goes on.
        (EraseStep::Remove { .. }, _) if is_dropped(context, space)? => return Ok(Vec::new()),
        (EraseStep::Remove { memories, after, ended, .. }, Phase::Removing)
            if row.kind != SelectionKind::All =>
        {
            let all = take_out(context, space, step.id(), &mut row, memories, *after)?;
            if all && *ended && !is_left(context, space, step.id(), &mut row)? {
                removed(context, &mut row);
            }
        }
        (EraseStep::Drop { limit, .. }, Phase::Removing) if row.kind == SelectionKind::All => {
            if drop_rows(context, space, &mut row, usize::from(*limit))? {
                leave_one_tombstone(context, space)?;
                removed(context, &mut row);
            }
        }
        (EraseStep::Confirm { confirmations, done, .. }, Phase::Purging) => {
            confirm(context, space, step.id(), &mut row, confirmations, *done)?;
        }
        _ => return Ok(Vec::new()),
    }
    context.rows.write(key, &row)?;
    Ok(Vec::new())
}

/// Whether everything of the space is being erased.
fn is_dropped<S: State>(context: &mut Context<'_, S>, space: &SpaceKey) -> Step<bool> {
    Ok(context.rows.counters(space)?.erasing.is_some())
}

fn begin<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    selection: &Selection,
) -> Step<Answers> {
    let key = keys::erasure::key(space, id);
    if context.rows.read::<ErasureRow>(&key)?.is_some() {
        // A repetition is answered before it comes here, for as long as its key is remembered. The receipt
        // lives longer, and what was stored behind the first erasure is not taken out by saying so.
        let detail = "this key began an erasure before; give a new Idempotency-Key for a new erasure";
        return Err(Error::new(ErrorCode::Conflict, detail).at("Idempotency-Key").into());
    }
    make_room(context, space, *selection == Selection::All)?;
    let mut counters = context.rows.counters(space)?;
    let row = ErasureRow {
        selection: Some(selection.clone()),
        kind: selection.kind(),
        begun_us: context.now_us,
        begun_index: context.log_index,
        upto_seq: counters.last_seq,
        ..ErasureRow::default()
    };
    context.rows.write(key, &row)?;
    context.rows.put(keys::erasure::open_key(space, id), keys::erasure::open_value())?;
    if *selection == Selection::All {
        counters.erasing = Some(id.to_owned());
        context.rows.write_counters(space, &counters)?;
    }
    Ok(vec![add::answer(id, 1, ItemStatus::Created, IdempotencyId::Requested)])
}

/// Makes sure that there is room for another receipt. Nobody is kept from erasing everything by what was
/// erased before.
fn make_room<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, of_all: bool) -> Step<()> {
    let prefix = keys::family_prefix(space, Family::Erasure);
    let receipts = context.rows.scan(&prefix, None, ERASURES_OF_ALL_MAX)?;
    if !of_all && receipts.len() >= ERASURES_MAX {
        let detail = format!(
            "this space has {ERASURES_MAX} receipts of erasures; they are kept for 35 days; name more in one erasure, \
             or erase everything"
        );
        return Err(Error::new(ErrorCode::QuotaExceeded, detail).into());
    }
    if receipts.len() < ERASURES_OF_ALL_MAX {
        return Ok(());
    }
    let mut oldest: Option<(i64, &[u8])> = None;
    for (key, value) in &receipts {
        let row = ErasureRow::decode(value).map_err(ApplyError::from)?;
        if let Some(done_us) =
            row.done_us.filter(|done_us| oldest.is_none_or(|(oldest, _)| *done_us < oldest))
        {
            oldest = Some((done_us, key));
        }
    }
    let Some((done_us, key)) = oldest else {
        let detail =
            "this space has as many erasures under way as it may, of everything among them; retry later";
        return Err(Error::new(ErrorCode::Unavailable, detail).into());
    };
    context.rows.delete(key)?;
    let id = String::from_utf8_lossy(key.strip_prefix(prefix.as_slice()).unwrap_or_default()).into_owned();
    Ok(context.rows.delete_due(&receipt_due(space, id, done_us))?)
}

fn receipt_due(space: &SpaceKey, id: String, done_us: i64) -> Due {
    let at_us = done_us.saturating_add(TOMBSTONE_KEEP_US);
    Due { at_us, space: space.clone(), kind: DueKind::Receipt, id }
}

/// Takes out what earlier steps have left, and then these memories, as far as the command may. Whether that
/// was all; where it was not, the erasure goes on behind what it came to.
fn take_out<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    erasure: &str,
    row: &mut ErasureRow,
    memories: &[String],
    after: u64,
) -> Step<bool> {
    row.erased.add(delete::go_on(context, space, erasure)?);
    // A list is counted by its places, everything else by the number of the memory.
    let in_list = matches!(row.selection, Some(Selection::Ids(_)));
    let mut place = after.saturating_sub(memories.len() as u64);
    for id in memories {
        if context.rows.are_full() {
            return Ok(false);
        }
        let memory = context.rows.memory(space, id)?;
        place = match &memory {
            _ if in_list => place + 1,
            Some(memory) => memory.seq.min(after),
            None => row.after,
        };
        // Chunks go with the memory that they are parts of.
        if let Some(memory) = memory.filter(|memory| memory.seq <= row.upto_seq && memory.chunk.is_none()) {
            let rest = Rest::Of(erasure);
            row.erased.add(match &row.selection {
                Some(Selection::Session(session)) => {
                    let begun_us = Some(row.begun_us);
                    sessions::let_go(context, space, session, (id, &memory), begun_us, rest)?
                }
                _ => delete::remove(context, space, id, &memory, rest)?,
            });
        }
        row.after = row.after.max(place);
    }
    row.after = row.after.max(after);
    Ok(true)
}

/// Takes turns out, with what stands beside them, where a session is erased. Whether there are more, or
/// anything that was made from what is gone.
fn is_left<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    erasure: &str,
    row: &mut ErasureRow,
) -> Step<bool> {
    if context.rows.are_full() {
        return Ok(true);
    }
    let (begun_us, rest) = (row.begun_us, Rest::Of(erasure));
    let more = match &row.selection {
        Some(Selection::Session(session)) => {
            sessions::erase(context, space, session, begun_us, rest, &mut row.erased)?
        }
        _ => false,
    };
    Ok(more || delete::is_left(context, space, erasure)?)
}

/// The rows are gone. What was named in order to find them goes as well.
fn removed<S>(context: &Context<'_, S>, row: &mut ErasureRow) {
    row.selection = None;
    row.phase = Phase::Purging;
    row.removed_us = Some(context.now_us);
    row.removed_index = Some(context.log_index);
}

/// Takes the next rows out of a space that is erased as a whole, family by family: memories before their
/// columns, so that no reader ever finds a memory without them. Answers whether nothing is left.
fn drop_rows<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    row: &mut ErasureRow,
    limit: usize,
) -> Step<bool> {
    let mut left = limit;
    for family in row.after..=u64::from(u8::MAX) {
        row.after = family;
        let Ok(family) = u8::try_from(family) else { break };
        if KEPT.iter().any(|kept| *kept as u8 == family) {
            continue;
        }
        let mut prefix = keys::space_prefix(space);
        prefix.push(family);
        let rows = context.rows.scan(&prefix, None, left)?;
        for row in &rows {
            erase_row(context, space, family, (row.0.as_slice(), row.1.as_slice()))?;
        }
        count(&mut row.erased, family, rows.len() as u64);
        left -= rows.len();
        if left == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes one row out, with what stands outside of the space for its sake.
pub(super) fn erase_row<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    family: u8,
    (key, value): (&[u8], &[u8]),
) -> Step<()> {
    context.rows.delete(key)?;
    if let Some(id) = key.strip_prefix(keys::task::prefix(space).as_slice()) {
        let row = TaskRow::decode(value).map_err(ApplyError::from)?;
        let id = String::from_utf8_lossy(id);
        context.rows.delete_due(&tasks::due(space, &id, row.expires_us))?;
    }
    if family == Family::Session as u8
        && let Some(id) = keys::session::id(space, key)
    {
        let row = SessionRow::decode(value).map_err(ApplyError::from)?;
        if let Some(at_us) = row.work_us {
            context.rows.delete(&sessions::work(space, id, at_us).key())?;
        }
    }
    if family == Family::Derived as u8 {
        delete::forget_due_of_note(context, space, key, value)?;
    }
    if family == Family::Upkeep as u8 {
        let row = UpkeepRow::decode(value).map_err(ApplyError::from)?;
        if let Some(at_us) = row.work_us {
            context.rows.delete(&upkeep::work(space, at_us).key())?;
        }
    }
    if family == Family::IndexRow as u8 {
        let row = IndexRow::decode(value).map_err(ApplyError::from)?;
        if let Some(at_us) = row.expires_us {
            context.rows.delete_due(&add::expiry(space, &row.id, at_us))?;
        }
        context.rows.delete_due(&links::recheck(space, &row.id, row.created_us))?;
        if let Some(seq) = keys::index_row::seq(key) {
            context.events.push(Event::Remove { space: space.clone(), seq });
        }
    }
    Ok(())
}

pub(super) fn count(erased: &mut Erased, family: u8, rows: u64) {
    let counter = match family {
        f if f == Family::Memory as u8 => &mut erased.memories,
        f if f == Family::History as u8 => &mut erased.versions,
        f if f == Family::Fact as u8 => &mut erased.facts,
        // What only leads to memories, or says how far jobs have come.
        f if [Family::IndexRow, Family::Merged, Family::Upkeep].iter().any(|own| *own as u8 == f) => return,
        _ => &mut erased.others,
    };
    *counter += rows;
}

/// One row in the place of all tombstones. `seq` counts on, so that no number ever names two memories.
fn leave_one_tombstone<S: State>(context: &mut Context<'_, S>, space: &SpaceKey) -> Step<()> {
    let old = context.rows.counters(space)?;
    if let Some(at_us) = old.tombstone_due_us {
        context.rows.delete_due(&delete::tombstones_due(space, at_us))?;
    }
    let tombstone = TombstoneRow {
        seq: old.last_seq,
        version: 0,
        log_index: context.log_index,
        deleted_us: context.now_us,
        sources: Vec::new(),
    };
    context.rows.write(keys::tombstone::of_space(space), &tombstone)?;
    let at_us = context.now_us.saturating_add(TOMBSTONE_KEEP_US);
    context.rows.put_due(&delete::tombstones_due(space, at_us))?;
    let counters = Counters {
        last_seq: old.last_seq,
        idempotency_rows: old.idempotency_rows,
        idempotency_due_us: old.idempotency_due_us,
        tombstones: 1,
        tombstone_due_us: Some(at_us),
        ..Counters::default()
    };
    Ok(context.rows.write_counters(space, &counters)?)
}

fn confirm<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    id: &str,
    row: &mut ErasureRow,
    confirmations: &[Confirmation],
    done: bool,
) -> Step<()> {
    for said in confirmations {
        if !row.is_confirmed(said.node, said.place) {
            row.confirmed.push(Confirmation { at_us: context.now_us, ..*said });
        }
    }
    if done {
        row.phase = Phase::Done;
        row.done_us = Some(context.now_us);
        context.rows.delete(&keys::erasure::open_key(space, id))?;
        context.rows.put_due(&receipt_due(space, id.to_owned(), context.now_us))?;
    }
    Ok(())
}
