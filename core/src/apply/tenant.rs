//! Erasures of tenants, step by step. What a step takes out was looked up before it was proposed; here it is made sure
//! that all of it is the tenant's, and that nothing is stored once the tenant is marked.

use super::{ApplyError, Context, Step, erase};
use crate::erasure::{Confirmation, Phase};
use crate::keys::{self, tenant as rows};
use crate::outcome::Outcome;
use crate::space::{SLOTS, Slot};
use crate::state::State;
use crate::tenant::{TENANTS_GOING_MAX, TenantErasureRow, TenantStep};
use crate::{Error, ErrorCode};

pub(super) fn apply<S: State>(context: &mut Context<'_, S>, step: &TenantStep) -> Step<Outcome> {
    let tenant = step.tenant();
    let key = rows::key(tenant);
    let row = context.rows.read::<TenantErasureRow>(&key)?;
    let mut row = match (step, row) {
        (TenantStep::Begin { id, .. }, None) => {
            begin(context, tenant, id)?;
            return Ok(Outcome::Done);
        }
        // A leader that was late: another one has begun it, or gone on.
        (TenantStep::Begin { .. }, Some(_)) | (_, None) => return Ok(Outcome::Done),
        (_, Some(row)) => row,
    };
    match (step, row.phase) {
        (TenantStep::Drop { slot, limit, .. }, Phase::Removing) if (row.slot..SLOTS).contains(slot) => {
            drop_rows(context, tenant, &mut row, Slot(*slot), usize::from(*limit))?;
        }
        (TenantStep::Rows { keys, ended, .. }, Phase::Removing) => {
            row.erased.others += take_out(context, tenant, keys)?;
            if *ended {
                (row.slot, row.phase) = (SLOTS, Phase::Purging);
                row.removed_us = Some(context.now_us);
                row.removed_index = Some(context.log_index);
            }
        }
        (TenantStep::Confirm { confirmations, done, .. }, Phase::Purging) => {
            confirm(context, tenant, &mut row, confirmations, *done)?;
        }
        _ => return Ok(Outcome::Done),
    }
    context.rows.write(key, &row)?;
    Ok(Outcome::Done)
}

/// Marks a tenant that is not marked.
pub(super) fn begin<S: State>(context: &mut Context<'_, S>, tenant: &str, id: &str) -> Step<()> {
    let row = TenantErasureRow {
        tenant: tenant.to_owned(),
        id: id.to_owned(),
        begun_us: context.now_us,
        begun_index: context.log_index,
        ..TenantErasureRow::default()
    };
    context.rows.put(rows::going_key(tenant), rows::going_value())?;
    Ok(context.rows.write(rows::key(tenant), &row)?)
}

/// Whether as many tenants are being erased as may be at once.
pub(super) fn are_too_many<S: State>(context: &Context<'_, S>) -> Step<bool> {
    Ok(context.rows.scan(&rows::going_prefix(), None, TENANTS_GOING_MAX)?.len() == TENANTS_GOING_MAX)
}

/// Whether a tenant was erased, or is being.
pub(super) fn is_erased<S: State>(context: &Context<'_, S>, tenant: &str) -> Step<bool> {
    Ok(context.rows.exists(&rows::key(tenant))?)
}

/// Why nothing is done for a tenant that was erased.
pub(super) fn gone() -> Error {
    let detail = "this tenant was erased, or is being: nothing of it can be read or written any more";
    Error::new(ErrorCode::NotFound, detail).at("tenant")
}

/// Takes the next rows of a slot out. Memories go before their columns, as their families have it.
fn drop_rows<S: State>(
    context: &mut Context<'_, S>,
    tenant: &str,
    row: &mut TenantErasureRow,
    slot: Slot,
    limit: usize,
) -> Step<()> {
    let found = context.rows.scan(&rows::in_slot(slot, tenant), None, limit)?;
    for (key, value) in &found {
        let (Some(space), Some(family)) = (keys::space_of(key), keys::family(key)) else {
            let key = key.escape_ascii();
            return Err(ApplyError::Inconsistent(format!("a key belongs to no space: {key}")).into());
        };
        erase::erase_row(context, &space, family, (key.as_slice(), value.as_slice()))?;
        erase::count(&mut row.erased, family, 1);
        row.spaces += u64::from(*key == keys::counters::key(&space));
    }
    row.slot = slot.0 + u16::from(found.len() < limit);
    Ok(())
}

/// Takes these rows out, as far as they are there and name the tenant. How many those were.
fn take_out<S: State>(context: &mut Context<'_, S>, tenant: &str, keys: &[Vec<u8>]) -> Step<u64> {
    let mut taken = 0;
    for key in keys {
        let Some(value) = context.rows.value(key)? else { continue };
        if rows::is_named(key, &value, tenant).map_err(ApplyError::from)? {
            context.rows.delete(key)?;
            taken += 1;
        }
    }
    Ok(taken)
}

fn confirm<S: State>(
    context: &mut Context<'_, S>,
    tenant: &str,
    row: &mut TenantErasureRow,
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
        context.rows.delete(&rows::going_key(tenant))?;
    }
    Ok(())
}
