//! Key: `… . 0x12 . hash u128 BE`. Value: format byte, then the id of the memory that says it.
//! Finds an exact repetition by one point read, so that it is counted and not stored again.
//!
//! The hash is xxh3-128 of the normalised text ([`crate::text::normalize`]), a zero byte and the
//! speaker (or the role, or nothing): the same words of two people are two memories.

use super::{Family, row};
use crate::codec::Format;
use crate::space::SpaceKey;
use xxhash_rust::xxh3::xxh3_128;

/// The key of a text.
pub fn key(space: &SpaceKey, hash: u128) -> Vec<u8> {
    row(space, Family::TextHash, &hash.to_be_bytes())
}

/// The hash of a text that is in its normal form.
pub fn hash(normalised: &str, speaker: Option<&str>) -> u128 {
    let mut bytes = normalised.as_bytes().to_vec();
    bytes.push(0);
    bytes.extend_from_slice(speaker.unwrap_or_default().as_bytes());
    xxh3_128(&bytes)
}

/// The value of a row: the id of a memory.
pub fn value(id: &str) -> Vec<u8> {
    [&[Format::V1 as u8], id.as_bytes()].concat()
}

/// Reads the id in a value; `None` if it is damaged.
pub fn id(value: &[u8]) -> Option<&str> {
    match value.split_first() {
        Some((format, id)) if *format == Format::V1 as u8 => std::str::from_utf8(id).ok(),
        _ => None,
    }
}
