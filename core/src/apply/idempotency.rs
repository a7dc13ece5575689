//! Answers a repeated write as the first one was answered.

use super::{ApplyError, Context, Step, add, tasks};
use crate::codec::Stored;
use crate::command::{Idempotency, SpaceCommand, Write};
use crate::keys::due::{Due, DueKind};
use crate::keys::{self, Family};
use crate::limits::{EXPIRE_ROWS_MAX, IDEMPOTENCY_KEEP_US, IDEMPOTENCY_ROWS_MAX};
use crate::memory::{IdempotencyId, IdempotencyItem, IdempotencyRow, IndexRow};
use crate::outcome::{ItemOutcome, ItemStatus, Outcome};
use crate::space::SpaceKey;
use crate::state::State;
use crate::{Error, ErrorCode};

/// When a space holds too many rows, this many of the oldest go at once, so that the scan that
/// finds them is paid once for many writes.
const EVICT_STEP: usize = IDEMPOTENCY_ROWS_MAX as usize / 10;

/// The answer of the first write with this key; `None` if this is the first. The links in it are those
/// of now: the row does not keep them.
pub(super) fn replay<S: State>(
    context: &Context<'_, S>,
    command: &SpaceCommand,
    identity: &Idempotency,
) -> Step<Option<Outcome>> {
    let key = keys::idempotency::key(&command.space, identity.key_hash);
    let Some(row) = context.rows.read::<IdempotencyRow>(&key)? else { return Ok(None) };
    if context.now_us.saturating_sub(row.at_us) >= IDEMPOTENCY_KEEP_US {
        return Ok(None);
    }
    if row.request_hash != identity.request_hash {
        let detail = "this idempotency key was used for another request; make a new key for each new write";
        return Err(Error::new(ErrorCode::Conflict, detail).at("Idempotency-Key").into());
    }
    let requested = requested_ids(&command.write);
    let mut items = Vec::with_capacity(row.items.len());
    for (at, item) in row.items.iter().enumerate() {
        let id = match &item.id {
            IdempotencyId::Made(bytes) => add::uuid_text(*bytes),
            IdempotencyId::Requested => requested.get(at).cloned().unwrap_or_default(),
            IdempotencyId::Existing(seq) => existing_id(context, &command.space, *seq)?,
        };
        let reason = reason(item);
        let outcome =
            ItemOutcome { version: item.version, status: item.status, reason, ..ItemOutcome::new(id) };
        items.push(as_of_now(context, command, at, outcome)?);
    }
    Ok(Some(Outcome::Items { items, log_index: row.log_index, replayed: true }))
}

/// The ids that the request itself brings.
fn requested_ids(write: &Write) -> Vec<String> {
    match write {
        Write::Add(add) => add.items.iter().map(|item| item.index.id.clone()).collect(),
        Write::Update(update) => vec![update.memory.index.id.clone()],
        Write::Delete { id, .. } | Write::Retract { id, .. } | Write::Relink { id, .. } => vec![id.clone()],
        Write::MergeEntities { into: name, .. } | Write::SplitEntities { from: name, .. } => {
            vec![name.clone()]
        }
        Write::Resolve { keep, retire } => std::iter::once(keep).chain(retire).cloned().collect(),
        Write::Feedback { items } => items.iter().map(|item| item.id.clone()).collect(),
        Write::Block(write) => vec![write.label.clone()],
        Write::Task(write) => vec![write.id.clone()],
        Write::Procedure(write) => vec![write.name.clone()],
        Write::Turns(append) => append.turns.iter().map(|_| append.session.clone()).collect(),
        Write::Dialogue(change) => vec![change.session.clone()],
        Write::EndSession { session, .. } | Write::DeleteSession { session, .. } => vec![session.clone()],
        Write::Digest(digest) => vec![digest.session.clone()],
        // Only leaders propose it, without a key.
        Write::Upkeep(_) => Vec::new(),
        Write::Claim(claims) => claims.iter().map(|claim| claim.id.clone()).collect(),
        // They have none.
        Write::Keep { .. } => Vec::new(),
        Write::Erase(step) => vec![step.id().to_owned()],
        Write::Import(items) => items.iter().map(|item| item.id().to_owned()).collect(),
    }
}

/// The answer for the item at this place of a write, with what the row does not keep: how it is now.
fn as_of_now<S: State>(
    context: &Context<'_, S>,
    command: &SpaceCommand,
    at: usize,
    outcome: ItemOutcome,
) -> Step<ItemOutcome> {
    match &command.write {
        Write::Block(_)
        | Write::Procedure(_)
        | Write::Turns(_)
        | Write::Dialogue(_)
        | Write::EndSession { .. }
        | Write::DeleteSession { .. }
        | Write::Digest(_)
        | Write::Upkeep(_) => Ok(outcome),
        // Behind a task that ended comes the memory of it.
        Write::Task(write) if at == 0 => {
            let heartbeat = tasks::heartbeat_now(context, &command.space, &write.id)?;
            Ok(ItemOutcome { heartbeat, ..outcome })
        }
        _ => add::with_links(context, &command.space, outcome),
    }
}

fn existing_id<S: State>(context: &Context<'_, S>, space: &SpaceKey, seq: u64) -> Step<String> {
    let row: Option<IndexRow> = context.rows.read(&keys::index_row::key(space, seq))?;
    Ok(row.map(|row| row.id).unwrap_or_default())
}

fn reason(item: &IdempotencyItem) -> Option<Error> {
    (item.status == ItemStatus::Rejected).then(|| {
        Error::new(ErrorCode::Conflict, "rejected when this request was first made; the reason is not kept")
    })
}

/// Remembers the answer of a write.
pub(super) fn record<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    identity: &Idempotency,
    items: Vec<IdempotencyItem>,
) -> Step<()> {
    let key = keys::idempotency::key(space, identity.key_hash);
    let mut counters = context.rows.counters(space)?;
    if context.rows.read::<IdempotencyRow>(&key)?.is_none() {
        counters.idempotency_rows += 1;
    }
    let (request_hash, log_index, at_us) = (identity.request_hash, context.log_index, context.now_us);
    context.rows.write(key, &IdempotencyRow { request_hash, log_index, at_us, items })?;
    if counters.idempotency_due_us.is_none() {
        let due_us = at_us.saturating_add(IDEMPOTENCY_KEEP_US);
        counters.idempotency_due_us = Some(due_us);
        context.rows.put_due(&due(space, due_us))?;
    }
    if counters.idempotency_rows > IDEMPOTENCY_ROWS_MAX {
        let mut ages = ages(context, space)?;
        ages.sort_unstable();
        for (_, key) in ages.iter().take(EVICT_STEP) {
            context.rows.delete(key)?;
            counters.idempotency_rows = counters.idempotency_rows.saturating_sub(1);
        }
    }
    Ok(context.rows.write_counters(space, &counters)?)
}

/// Takes out rows that are too old, not too many at once, and puts the next one in `due`.
pub(super) fn expire<S: State>(context: &mut Context<'_, S>, space: &SpaceKey) -> Step<()> {
    let mut counters = context.rows.counters(space)?;
    let (mut oldest_us, mut taken) = (None, 0);
    for (at_us, key) in ages(context, space)? {
        let is_old = context.now_us.saturating_sub(at_us) >= IDEMPOTENCY_KEEP_US;
        if is_old && taken < EXPIRE_ROWS_MAX {
            taken += 1;
            context.rows.delete(&key)?;
            counters.idempotency_rows = counters.idempotency_rows.saturating_sub(1);
        } else {
            oldest_us = Some(oldest_us.map_or(at_us, |oldest: i64| oldest.min(at_us)));
        }
    }
    counters.idempotency_due_us = oldest_us.map(|at_us| at_us.saturating_add(IDEMPOTENCY_KEEP_US));
    if let Some(due_us) = counters.idempotency_due_us {
        context.rows.put_due(&due(space, due_us))?;
    }
    Ok(context.rows.write_counters(space, &counters)?)
}

/// Time and key of every row of the space; their number is bounded.
fn ages<S: State>(context: &Context<'_, S>, space: &SpaceKey) -> Step<Vec<(i64, Vec<u8>)>> {
    let prefix = keys::family_prefix(space, Family::Idempotency);
    let rows = context.rows.scan(&prefix, None, IDEMPOTENCY_ROWS_MAX as usize + 1)?;
    let mut ages = Vec::with_capacity(rows.len());
    for (key, value) in rows {
        ages.push((IdempotencyRow::decode(&value).map_err(ApplyError::from)?.at_us, key));
    }
    Ok(ages)
}

fn due(space: &SpaceKey, at_us: i64) -> Due {
    Due { at_us, space: space.clone(), kind: DueKind::Idempotency, id: String::new() }
}
