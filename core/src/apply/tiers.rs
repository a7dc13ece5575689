//! What the tiers beside memories share: how many things a space has of each, and their bytes.

use super::{Context, Step};
use crate::space::SpaceKey;
use crate::state::State;
use crate::tiers::TierRow;
use crate::{Error, ErrorCode};

/// Counts a new thing in. Answers the version that it begins with.
pub(super) fn enter<S: State>(
    context: &mut Context<'_, S>,
    tier_key: &[u8],
    max: u32,
    things: &str,
) -> Step<u64> {
    let mut tier: TierRow = context.rows.read(tier_key)?.unwrap_or_default();
    if tier.count >= max {
        let detail = format!("this space has {max} {things}, and may not have more; delete one first");
        return Err(Error::new(ErrorCode::QuotaExceeded, detail).into());
    }
    tier.count += 1;
    context.rows.write(tier_key.to_vec(), &tier)?;
    Ok(tier.version_floor + 1)
}

/// Counts a thing out that had this version.
pub(super) fn leave<S: State>(context: &mut Context<'_, S>, tier_key: &[u8], version: u64) -> Step<()> {
    let mut tier: TierRow = context.rows.read(tier_key)?.unwrap_or_default();
    tier.count = tier.count.saturating_sub(1);
    tier.version_floor = tier.version_floor.max(version);
    Ok(context.rows.write(tier_key.to_vec(), &tier)?)
}

/// Takes note of what a space stores more or less.
pub(super) fn count_bytes<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    before: u64,
    after: u64,
) -> Step<()> {
    if before == after {
        return Ok(());
    }
    let mut counters = context.rows.counters(space)?;
    counters.bytes = counters.bytes.saturating_sub(before).saturating_add(after);
    Ok(context.rows.write_counters(space, &counters)?)
}
