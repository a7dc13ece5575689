//! Key: `… . 0x10 . memory id`. Value: [`crate::memory::MemoryRow`]. Found by the id that callers
//! know; kept apart from the columns so that loading an index never reads text.

use super::{Family, row};
use crate::space::SpaceKey;

/// The key of a memory.
pub fn key(space: &SpaceKey, id: &str) -> Vec<u8> {
    row(space, Family::Memory, id.as_bytes())
}
