//! Key: `… . 0x40 . memory id`. Value: [`crate::memory::TombstoneRow`]. Keeps jobs, imports and
//! restores from bringing a deleted memory back. It never blocks a new statement by a user. Erasing a
//! space puts one row in the place of all of them: [`of_space`]. In the place of the id there may be that of a session,
//! task, block or procedure behind its kind, or of one that was gone already the [`source_hash`] of its id.

use super::{Family, row};
use crate::space::SpaceKey;
use xxhash_rust::xxh3::xxh3_64;

/// The key of the tombstone of a memory.
pub fn key(space: &SpaceKey, id: &str) -> Vec<u8> {
    row(space, Family::Tombstone, id.as_bytes())
}

/// The key of the one row that stands for all tombstones of a space that was erased as a whole: what
/// was recorded at or before its time stays deleted. No memory has an empty id.
pub fn of_space(space: &SpaceKey) -> Vec<u8> {
    row(space, Family::Tombstone, &[])
}

/// The salted hash of the id of a source: the space is the salt, so that hashes of two spaces
/// cannot be compared.
pub fn source_hash(space: &SpaceKey, source_id: &str) -> u64 {
    let mut bytes = space.path();
    bytes.extend_from_slice(source_id.as_bytes());
    xxh3_64(&bytes)
}
