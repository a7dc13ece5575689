//! Key: `… . 0x41 . erasure id`. Value: [`crate::erasure::ErasureRow`]. What is to be erased, how far
//! that has come, and, when it is done, the receipt.
//!
//! Erasures that are not done yet are found by a second row, outside of their space:
//! `0xFFFD . "erasure" \0 . slot . path . erasure id`. Value: the format byte. One short range, whatever
//! the number of spaces.

use super::{Family, SHARD_ROWS, prefixed, row, space_prefix};
use crate::codec::Format;
use crate::space::SpaceKey;

const OPEN: &[u8] = b"erasure\0";

/// The key of an erasure.
pub fn key(space: &SpaceKey, id: &str) -> Vec<u8> {
    row(space, Family::Erasure, id.as_bytes())
}

/// The prefix of the rows of all erasures of the shard that are not done.
pub fn open_prefix() -> Vec<u8> {
    prefixed(SHARD_ROWS, OPEN)
}

/// The key of the row that says that an erasure is not done.
pub fn open_key(space: &SpaceKey, id: &str) -> Vec<u8> {
    let mut key = open_prefix();
    key.extend_from_slice(&space_prefix(space));
    key.extend_from_slice(id.as_bytes());
    key
}

/// Reads [`open_key`]; `None` if it is damaged.
pub fn parse_open(key: &[u8]) -> Option<(SpaceKey, String)> {
    let rest = key.strip_prefix(open_prefix().as_slice())?;
    let (_slot, rest) = rest.split_first_chunk::<2>()?;
    let (space, length) = SpaceKey::parse_path(rest)?;
    let id = std::str::from_utf8(&rest[length..]).ok()?.to_owned();
    Some((space, id))
}

/// The value of every row below [`open_prefix`].
pub fn open_value() -> Vec<u8> {
    vec![Format::V1 as u8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_erasures_read_back() {
        let space = SpaceKey::user("租户", "用户🙂").expect("valid");
        assert_eq!(parse_open(&open_key(&space, "e-1")), Some((space, "e-1".to_owned())));
        assert_eq!(parse_open(b"\xff\xfderasure\0short"), None);
    }
}
