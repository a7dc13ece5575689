//! Takes old tombstones out, in passes over those of a space. A pass has many steps, each bounded, since a space
//! may have millions: what the next step has to know is the id of its `due` row.
//!
//! Invariant: while a space has tombstones, it has one `due` row for them, [`TOMBSTONE_KEEP_US`] ahead at most.

use super::{ApplyError, Context, Step, delete};
use crate::codec::Stored;
use crate::keys::due::Due;
use crate::keys::{self, Family};
use crate::limits::{EXPIRE_ROWS_MAX, TOMBSTONE_KEEP_US};
use crate::memory::{Counters, TombstoneRow};
use crate::space::SpaceKey;
use crate::state::State;

/// Tombstones that are read in one step.
const STEP: usize = 1_000;

/// Where a pass stands.
#[derive(Debug, Default, PartialEq, Eq)]
struct Pass {
    /// The last tombstone that was looked at: what follows the prefix of the family in its key.
    after: String,
    /// When the oldest of those that stay was made. One that is made behind the pass is not older than its
    /// second step, where it begins at the latest.
    oldest_us: Option<i64>,
}

impl Pass {
    /// Ids hold no `\0`.
    fn text(&self) -> String {
        let oldest_us = self.oldest_us.map(|at_us| at_us.to_string()).unwrap_or_default();
        format!("{oldest_us}\0{}", self.after)
    }

    /// Reads [`Pass::text`]; the empty text is the beginning of a pass.
    fn parse(text: &str) -> Self {
        let (oldest_us, after) = text.split_once('\0').unwrap_or_default();
        Self { after: after.to_owned(), oldest_us: oldest_us.parse().ok() }
    }
}

/// Takes a step. Whether the next one is due at once.
pub(super) fn expire<S: State>(context: &mut Context<'_, S>, due: &Due) -> Step<bool> {
    let space = &due.space;
    let mut counters = context.rows.counters(space)?;
    if counters.tombstone_due_us != Some(due.at_us) {
        // The space was erased as a whole in the middle of a pass: there is another `due` row.
        return Ok(false);
    }
    let mut pass = Pass::parse(&due.id);
    let goes_on = step(context, space, &mut counters, &mut pass)?;
    if goes_on {
        pass.oldest_us = Some(pass.oldest_us.map_or(context.now_us, |oldest| oldest.min(context.now_us)));
    }
    counters.tombstone_due_us = match pass.oldest_us {
        _ if goes_on => Some(context.now_us),
        oldest_us => oldest_us.map(|at_us| at_us.saturating_add(TOMBSTONE_KEEP_US)),
    };
    if let Some(at_us) = counters.tombstone_due_us {
        let id = if goes_on { pass.text() } else { String::new() };
        context.rows.put_due(&Due { id, ..delete::tombstones_due(space, at_us) })?;
    }
    context.rows.write_counters(space, &counters)?;
    Ok(goes_on)
}

/// Reads the next tombstones and takes out the old ones. Whether there may be more.
fn step<S: State>(
    context: &mut Context<'_, S>,
    space: &SpaceKey,
    counters: &mut Counters,
    pass: &mut Pass,
) -> Step<bool> {
    let prefix = keys::family_prefix(space, Family::Tombstone);
    let after = (!pass.after.is_empty()).then(|| keys::tombstone::key(space, &pass.after));
    let rows = context.rows.scan(&prefix, after.as_deref(), STEP)?;
    let mut taken = 0;
    for (key, value) in &rows {
        let deleted_us = TombstoneRow::decode(value).map_err(ApplyError::from)?.deleted_us;
        if context.now_us.saturating_sub(deleted_us) < TOMBSTONE_KEEP_US {
            pass.oldest_us = Some(pass.oldest_us.map_or(deleted_us, |oldest| oldest.min(deleted_us)));
        } else if taken == EXPIRE_ROWS_MAX {
            return Ok(true);
        } else {
            taken += 1;
            context.rows.delete(key)?;
            counters.tombstones = counters.tombstones.saturating_sub(1);
        }
        pass.after =
            String::from_utf8_lossy(key.strip_prefix(prefix.as_slice()).unwrap_or_default()).into_owned();
    }
    Ok(rows.len() == STEP)
}
