//! Changes of core blocks.

use super::delete::{Tier, bury};
use super::{Answers, Context, Step, add, tiers};
use crate::keys::block as keys;
use crate::limits::{BLOCK_VERSIONS_MAX, BLOCKS_MAX};
use crate::memory::IdempotencyId;
use crate::outcome::ItemStatus;
use crate::space::SpaceKey;
use crate::state::State;
use crate::tiers::block::{BlockChange, BlockRow, BlockWrite, LIMIT_CHARS_DEFAULT};
use crate::tiers::other_version;
use crate::{Error, ErrorCode};

pub(super) fn apply<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    write: &BlockWrite,
) -> Step<Answers> {
    let old: Option<BlockRow> = context.rows.read(&keys::key(space, &write.label))?;
    compare(old.as_ref(), write.if_version)?;
    may_change(old.as_ref(), write)?;
    let (version, status) = match (old, &write.change) {
        (Some(old), BlockChange::Delete) => {
            delete(context, space, &write.label, &old)?;
            (old.version, ItemStatus::Deleted)
        }
        (Some(old), change) => (update(context, space, write, &old, change)?, ItemStatus::Updated),
        (None, change @ BlockChange::Put { .. }) => {
            (create(context, space, &write.label, change)?, ItemStatus::Created)
        }
        (None, _) => return Err(missing().into()),
    };
    Ok(vec![add::answer(&write.label, version, status, IdempotencyId::Requested)])
}

fn missing() -> Error {
    Error::new(ErrorCode::NotFound, "there is no block with this label in this space; make it with PUT")
        .at("label")
}

fn compare(old: Option<&BlockRow>, if_version: Option<u64>) -> Step<()> {
    match (old, if_version) {
        (None, Some(_)) => Err(missing().into()),
        (Some(old), Some(expected)) if old.version != expected => {
            Err(other_version("block", old.version, expected).into())
        }
        _ => Ok(()),
    }
}

/// A block that is read-only, or becomes so or otherwise, is changed by administrators alone.
fn may_change(old: Option<&BlockRow>, write: &BlockWrite) -> Step<()> {
    let asks = matches!(write.change, BlockChange::Put { read_only: Some(true), .. });
    if write.by_admin || !asks && !old.is_some_and(|old| old.read_only) {
        return Ok(());
    }
    let detail = "only a credential with the right admin changes a read-only block, or makes one so";
    Err(Error::new(ErrorCode::PermissionDenied, detail).at("read_only").into())
}

fn create<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    label: &str,
    change: &BlockChange,
) -> Step<u64> {
    let tier_key = keys::tier(space);
    let version = tiers::enter(context, &tier_key, BLOCKS_MAX, "core blocks")?;
    let empty = BlockRow { limit_chars: LIMIT_CHARS_DEFAULT, ..BlockRow::default() };
    let (now_us, created_us) = (context.now_us, context.now_us);
    let row = BlockRow { version, created_us, updated_us: now_us, ..changed(&empty, change)? };
    tiers::count_bytes(context, space, 0, row.stored_bytes())?;
    context.rows.write(keys::key(space, label), &row)?;
    Ok(version)
}

/// Makes a new version, unless nothing is different.
fn update<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    write: &BlockWrite,
    old: &BlockRow,
    change: &BlockChange,
) -> Step<u64> {
    let row = changed(old, change)?;
    if row == *old {
        return Ok(old.version);
    }
    let row = BlockRow { version: old.version + 1, updated_us: context.now_us, ..row };
    context.rows.write(keys::version(space, &write.label, old.version), old)?;
    if let Some(too_old) = old.version.checked_sub(BLOCK_VERSIONS_MAX) {
        context.rows.delete(&keys::version(space, &write.label, too_old))?;
    }
    tiers::count_bytes(context, space, old.stored_bytes(), row.stored_bytes())?;
    context.rows.write(keys::key(space, &write.label), &row)?;
    Ok(row.version)
}

fn changed(old: &BlockRow, change: &BlockChange) -> Step<BlockRow> {
    let mut row = BlockRow { value: old.edited(change)?, ..old.clone() };
    if let BlockChange::Put { description, limit_chars, read_only, .. } = change {
        if let Some(description) = description {
            row.description.clone_from(description);
        }
        row.limit_chars = limit_chars.unwrap_or(row.limit_chars);
        row.read_only = read_only.unwrap_or(row.read_only);
    }
    row.check_size()?;
    Ok(row)
}

fn delete<S: State>(context: &mut Context<'_, S>, space: &SpaceKey, label: &str, old: &BlockRow) -> Step<()> {
    context.rows.delete(&keys::key(space, label))?;
    let most = usize::try_from(BLOCK_VERSIONS_MAX).unwrap_or(usize::MAX).saturating_add(1);
    for (key, _) in context.rows.scan(&keys::versions_of(space, label), None, most)? {
        context.rows.delete(&key)?;
    }
    bury(context, space, Tier::Block, label, old.version)?;
    tiers::leave(context, &keys::tier(space), old.version)?;
    tiers::count_bytes(context, space, old.stored_bytes(), 0)
}
