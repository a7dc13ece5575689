//! Key: `… . 0x01`. Value: [`crate::memory::SpaceRow`]. The models and settings of a space; written
//! by its first write.

use super::{Family, row};
use crate::space::SpaceKey;

/// The key of the settings of a partition.
pub fn key(space: &SpaceKey) -> Vec<u8> {
    row(space, Family::Space, &[])
}
