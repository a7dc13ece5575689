//! The tiers beside memories: what an agent keeps in mind ([`block`]), what it works on, and how it
//! does things. Rows, the commands that change them, and the pure rules of both.
//!
//! All of a space stands in its partition 0. Times are microseconds since 1970-01-01 UTC; enums are
//! stored by position: append only.

pub mod block;
pub mod procedure;
pub mod task;
pub mod template;

use crate::codec::stored;
use crate::{Error, ErrorCode};
use serde::{Deserialize, Serialize};

/// How many things of one tier a space has. One row for each tier, so that making one looks at no
/// other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierRow {
    /// Things that exist.
    pub count: u32,
    /// The highest version that a deleted thing had. A new one begins behind it, so that a version
    /// that a client still holds never fits another thing of the same name by accident.
    pub version_floor: u64,
}

stored!(TierRow);

/// The version is not the one that the caller expects.
pub(crate) fn other_version(what: &str, is: u64, expected: u64) -> Error {
    let detail = format!("the {what} has version {is}, not {expected}; read it again and repeat the change");
    Error::new(ErrorCode::Conflict, detail).at("version")
}
