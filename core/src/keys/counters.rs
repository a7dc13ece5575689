//! Key: `… . 0x02`. Value: [`crate::memory::Counters`]. One row, so that `seq`, the number of
//! memories and the stored bytes change together, once per batch. Beside it the mark of a [`closed`] partition.

use super::{Family, row};
use crate::space::SpaceKey;

/// The key of the counters of a partition.
pub fn key(space: &SpaceKey) -> Vec<u8> {
    row(space, Family::Counters, &[])
}

/// The key of the mark of a partition that takes no writes any more: the collection that it was part of is
/// deleted. Its value holds nothing. It stays: the incarnation in the name of the space is never used again.
pub fn closed(space: &SpaceKey) -> Vec<u8> {
    row(space, Family::Counters, b"closed")
}
