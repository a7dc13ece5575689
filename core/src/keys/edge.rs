//! Key: `… . 0x22 . object \0 . the rest of the fact's key`. Value: the format byte. The way back from
//! an object to the facts that name it; the way there is the family of facts itself, which begins
//! with the subject. One row for each fact whose object can be an entity, written and taken out with
//! it: what else is known of the relation (validity, retraction, who says it) stands in the fact
//! alone.

use super::{Family, family_prefix, row};
use crate::codec::Format;
use crate::space::SpaceKey;

/// The prefix of all relations that lead to an object.
pub fn object_prefix(space: &SpaceKey, object: &str) -> Vec<u8> {
    let mut key = row(space, Family::Edge, object.as_bytes());
    key.push(0);
    key
}

/// The key of the way back from `object` to the fact with the key `fact`; `None` if that is no key of
/// a fact of this space.
pub fn key(space: &SpaceKey, object: &str, fact: &[u8]) -> Option<Vec<u8>> {
    let rest = fact.strip_prefix(family_prefix(space, Family::Fact).as_slice())?;
    let mut key = object_prefix(space, object);
    key.extend_from_slice(rest);
    Some(key)
}

/// The key of the fact that a row below [`object_prefix`] leads to; `None` if it is damaged.
pub fn fact(space: &SpaceKey, object_prefix: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    let rest = key.strip_prefix(object_prefix)?;
    Some(row(space, Family::Fact, rest))
}

/// The value of every row.
pub fn value() -> Vec<u8> {
    vec![Format::V1 as u8]
}
