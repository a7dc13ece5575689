//! Key: `… . 0x40 . memory id`. Value: [`crate::memory::TombstoneRow`]. Keeps jobs, imports and
//! restores from bringing a deleted memory back. It never blocks a new statement by a user.

use super::{Family, row};
use crate::space::SpaceKey;
use xxhash_rust::xxh3::xxh3_64;

/// The key of the tombstone of a memory.
pub fn key(space: &SpaceKey, id: &str) -> Vec<u8> {
    row(space, Family::Tombstone, id.as_bytes())
}

/// The salted hash of the id of a source: the space is the salt, so that hashes of two spaces
/// cannot be compared.
pub fn source_hash(space: &SpaceKey, source_id: &str) -> u64 {
    let mut bytes = space.path();
    bytes.extend_from_slice(source_id.as_bytes());
    xxh3_64(&bytes)
}
