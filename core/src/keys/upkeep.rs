//! Key: `… . 0x16`. Value: [`crate::upkeep::UpkeepRow`]. How far jobs have looked at the memories of the
//! partition. Apart from the counters, which every write changes.

use super::{Family, family_prefix};
use crate::space::SpaceKey;

/// The key of the one row.
pub fn key(space: &SpaceKey) -> Vec<u8> {
    family_prefix(space, Family::Upkeep)
}
