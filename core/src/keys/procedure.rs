//! Key: `… . 0x34 . 0x01 . name`. Value: [`crate::tiers::procedure::ProcedureRow`]: which versions
//! there are, and which is used.
//!
//! Beside them `… . 0x34 . 0x02 . name \0 version u64 BE`, with
//! [`crate::tiers::procedure::VersionRow`]; and `… . 0x34 . 0x00`, with [`crate::tiers::TierRow`]: how
//! many procedures there are. A version never changes what it says, so one that is superseded is kept
//! as it was.
//!
//! An export writes the rows of [`prefix`] and those of [`versions_of`] for each; the row of
//! [`tier`] follows from them. An erasure of the space drops the range of the family.

use super::{Family, row};
use crate::space::SpaceKey;

const PROCEDURE: u8 = 0x01;
const VERSION: u8 = 0x02;

/// The key of the row that counts the procedures.
pub fn tier(space: &SpaceKey) -> Vec<u8> {
    row(space, Family::Procedure, &[0])
}

/// The prefix of all procedures, without their versions.
pub fn prefix(space: &SpaceKey) -> Vec<u8> {
    row(space, Family::Procedure, &[PROCEDURE])
}

/// The key of a procedure.
pub fn key(space: &SpaceKey, name: &str) -> Vec<u8> {
    let mut key = prefix(space);
    key.extend_from_slice(name.as_bytes());
    key
}

/// The prefix of the versions of all procedures.
pub fn versions(space: &SpaceKey) -> Vec<u8> {
    row(space, Family::Procedure, &[VERSION])
}

/// The prefix of the versions of a procedure. Names hold no `\0`.
pub fn versions_of(space: &SpaceKey, name: &str) -> Vec<u8> {
    let mut key = versions(space);
    key.extend_from_slice(name.as_bytes());
    key.push(0);
    key
}

/// The key of a version of a procedure.
pub fn version(space: &SpaceKey, name: &str, version: u64) -> Vec<u8> {
    let mut key = versions_of(space, name);
    key.extend_from_slice(&version.to_be_bytes());
    key
}
