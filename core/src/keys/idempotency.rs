//! Key: `… . 0x50 . hash of the caller's key, u128 BE`. Value: [`crate::memory::IdempotencyRow`].
//! Answers a repeated write as the first one was answered, without doing it again.

use super::{Family, row};
use crate::space::SpaceKey;

/// The key of the outcome of a write.
pub fn key(space: &SpaceKey, key_hash: u128) -> Vec<u8> {
    row(space, Family::Idempotency, &key_hash.to_be_bytes())
}
