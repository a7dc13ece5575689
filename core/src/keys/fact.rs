//! Key: `… . 0x20 . subject \0 predicate \0 xxh3-128 of about . seq u64 BE . ordinal u8`. Value:
//! [`crate::memory::FactRow`]. One row for each statement of a memory, in the normal forms that
//! make two statements one group: the chain of what held and was believed is one short range.
//!
//! Normal forms hold no `\0`, so the facts of one subject, and of one subject and predicate, are
//! ranges too. What narrows a group may be long and is hashed.

use super::{Family, row};
use crate::memory::Statement;
use crate::space::SpaceKey;
use xxhash_rust::xxh3::xxh3_128;

/// The prefix of all facts of a subject.
pub fn subject_prefix(space: &SpaceKey, subject: &str) -> Vec<u8> {
    let mut key = row(space, Family::Fact, subject.as_bytes());
    key.push(0);
    key
}

/// The prefix of all facts of a subject and a predicate.
pub fn predicate_prefix(space: &SpaceKey, subject: &str, predicate: &str) -> Vec<u8> {
    let mut key = subject_prefix(space, subject);
    key.extend_from_slice(predicate.as_bytes());
    key.push(0);
    key
}

/// The prefix of the group that a statement belongs to.
pub fn group_prefix(space: &SpaceKey, statement: &Statement) -> Vec<u8> {
    let mut key = predicate_prefix(space, &statement.subject, &statement.predicate);
    key.extend_from_slice(&xxh3_128(statement.about.as_bytes()).to_be_bytes());
    key
}

/// The key of one fact of a group.
pub fn key(group: &[u8], seq: u64, ordinal: u8) -> Vec<u8> {
    let mut key = group.to_vec();
    key.extend_from_slice(&seq.to_be_bytes());
    key.push(ordinal);
    key
}

/// The group that a key belongs to; `None` if the key is damaged.
pub fn group_of(key: &[u8]) -> Option<&[u8]> {
    key.len().checked_sub(size_of::<u64>() + 1).map(|end| &key[..end])
}
