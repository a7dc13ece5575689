//! Key: `… . 0x11 . seq u64 BE`. Value: [`crate::memory::IndexRow`]. Keyed by record order, so that
//! a scan of the family rebuilds the columnar image in the order in which the rows came.

use super::{Family, row};
use crate::space::SpaceKey;

/// The key of the columns of a memory.
pub fn key(space: &SpaceKey, seq: u64) -> Vec<u8> {
    row(space, Family::IndexRow, &seq.to_be_bytes())
}

/// The `seq` at the end of a key of this family.
pub fn seq(key: &[u8]) -> Option<u64> {
    key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}
