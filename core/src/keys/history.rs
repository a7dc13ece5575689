//! Key: `… . 0x13 . memory id \0 version u64 BE`. Value: [`crate::memory::HistoryRow`]. The version
//! chain of a memory: what it said before each change. Goes when the memory is deleted.

use super::{Family, row};
use crate::space::SpaceKey;

/// The prefix of all earlier versions of a memory. Ids hold no `\0`, so no id is a prefix of another.
pub fn prefix(space: &SpaceKey, id: &str) -> Vec<u8> {
    let mut key = row(space, Family::History, id.as_bytes());
    key.push(0);
    key
}

/// The key of one earlier version.
pub fn key(space: &SpaceKey, id: &str, version: u64) -> Vec<u8> {
    let mut key = prefix(space, id);
    key.extend_from_slice(&version.to_be_bytes());
    key
}
