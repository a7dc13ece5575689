//! Key: `… . 0x33 . 0x01 . label`. Value: [`crate::tiers::block::BlockRow`]. The core blocks of a
//! space are one short range: a context reads all of them at once.
//!
//! Beside them `… . 0x33 . 0x02 . label \0 version u64 BE`, of the same form: earlier versions, the
//! newest [`crate::limits::BLOCK_VERSIONS_MAX`] of each block; and `… . 0x33 . 0x00`, with
//! [`crate::tiers::TierRow`]: how many there are.
//!
//! An export writes the rows of [`prefix`] and those of [`versions_of`] for each; the row of
//! [`tier`] follows from them. An erasure of the space drops the range of the family.

use super::{Family, row};
use crate::space::SpaceKey;

const CURRENT: u8 = 0x01;
const EARLIER: u8 = 0x02;

/// The key of the row that counts the blocks.
pub fn tier(space: &SpaceKey) -> Vec<u8> {
    row(space, Family::Block, &[0])
}

/// The prefix of all blocks, without their earlier versions.
pub fn prefix(space: &SpaceKey) -> Vec<u8> {
    row(space, Family::Block, &[CURRENT])
}

/// The key of a block.
pub fn key(space: &SpaceKey, label: &str) -> Vec<u8> {
    let mut key = prefix(space);
    key.extend_from_slice(label.as_bytes());
    key
}

/// The prefix of the earlier versions of all blocks.
pub fn versions(space: &SpaceKey) -> Vec<u8> {
    row(space, Family::Block, &[EARLIER])
}

/// The prefix of the earlier versions of a block. Labels hold no `\0`.
pub fn versions_of(space: &SpaceKey, label: &str) -> Vec<u8> {
    let mut key = versions(space);
    key.extend_from_slice(label.as_bytes());
    key.push(0);
    key
}

/// The key of an earlier version of a block.
pub fn version(space: &SpaceKey, label: &str, version: u64) -> Vec<u8> {
    let mut key = versions_of(space, label);
    key.extend_from_slice(&version.to_be_bytes());
    key
}
