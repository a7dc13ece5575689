//! Key: `… . 0x02`. Value: [`crate::memory::Counters`]. One row, so that `seq`, the number of
//! memories and the stored bytes change together, once per batch.

use super::{Family, row};
use crate::space::SpaceKey;

/// The key of the counters of a partition.
pub fn key(space: &SpaceKey) -> Vec<u8> {
    row(space, Family::Counters, &[])
}
