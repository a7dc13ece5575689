//! Key: `… . 0x30 . session id`. Value: [`crate::session::SessionRow`]. What is known of a conversation
//! but its words: one small row, so that a list of sessions reads no turn.

use super::{Family, row};
use crate::space::SpaceKey;

/// The key of a session.
pub fn key(space: &SpaceKey, session: &str) -> Vec<u8> {
    row(space, Family::Session, session.as_bytes())
}

/// The id of the session that a key names; `None` if the key is damaged.
pub fn id<'a>(space: &SpaceKey, key: &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(key.strip_prefix(super::family_prefix(space, Family::Session).as_slice())?).ok()
}
