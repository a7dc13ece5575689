//! Key: `… . 0x31 . session id \0 number u64 BE`. Value: [`crate::session::TurnRow`]. The turns of a
//! session in the order in which they came; a turn is written once and never changed.

use super::{Family, row};
use crate::space::SpaceKey;

/// The prefix of all turns of a session. Ids hold no `\0`, so no id is a prefix of another.
pub fn prefix(space: &SpaceKey, session: &str) -> Vec<u8> {
    let mut key = row(space, Family::Turn, session.as_bytes());
    key.push(0);
    key
}

/// The key of one turn.
pub fn key(space: &SpaceKey, session: &str, number: u64) -> Vec<u8> {
    let mut key = prefix(space, session);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The number of the turn that a key names; `None` if the key is damaged.
pub fn number(key: &[u8]) -> Option<u64> {
    key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}
