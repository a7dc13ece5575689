//! Key: `… . 0x38 . session id`. Value: [`crate::session::Summary`]. What is left of the turns that no
//! longer stand in the window. Apart from the session's row, which every turn rewrites.

use super::{Family, row};
use crate::space::SpaceKey;

/// The key of the summary of a session.
pub fn key(space: &SpaceKey, session: &str) -> Vec<u8> {
    row(space, Family::Summary, session.as_bytes())
}
