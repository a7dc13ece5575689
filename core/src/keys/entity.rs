//! Key: `… . 0x21 . name`, in normal form. Value: [`crate::graph::EntityRow`]. Only what callers decided
//! about names has a row: that some are one entity. An entity that is known by one name alone is what
//! its facts say, and has none.

use super::{Family, row};
use crate::space::SpaceKey;

/// The key of the row of a name.
pub fn key(space: &SpaceKey, name: &str) -> Vec<u8> {
    row(space, Family::Entity, name.as_bytes())
}
