//! Key: `… . 0x39 . session id \0 memory id`. Value: the format byte. The memories that jobs made of the
//! turns of a session, so that they go with it.

use super::{Family, row};
use crate::space::SpaceKey;

/// The prefix of all memories that were made of a session.
pub fn prefix(space: &SpaceKey, session: &str) -> Vec<u8> {
    let mut key = row(space, Family::SessionMemory, session.as_bytes());
    key.push(0);
    key
}

/// The key of one of them.
pub fn key(space: &SpaceKey, session: &str, memory: &str) -> Vec<u8> {
    let mut key = prefix(space, session);
    key.extend_from_slice(memory.as_bytes());
    key
}
