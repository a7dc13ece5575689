//! Key: `… . 0x14 . source id \0 derived id`. Value: the format byte. Leads from a memory to those
//! that were made from it ([`crate::memory::MemoryRow::derived_from`]), which go when it goes. Written
//! only for memories that were made from others.

use super::{Family, row};
use crate::codec::Format;
use crate::session::turn_reference;
use crate::space::SpaceKey;

/// The prefix of all that was made from a memory. Ids hold no `\0`, so no id is a prefix of another.
pub fn prefix(space: &SpaceKey, source: &str) -> Vec<u8> {
    let mut key = row(space, Family::Derived, source.as_bytes());
    key.push(0);
    key
}

/// The key that says that one memory was made from another.
pub fn key(space: &SpaceKey, source: &str, derived: &str) -> Vec<u8> {
    let mut key = prefix(space, source);
    key.extend_from_slice(derived.as_bytes());
    key
}

/// The id of the derived memory in a key below [`prefix`]; `None` if the key is damaged.
pub fn derived<'a>(prefix: &[u8], key: &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(key.strip_prefix(prefix)?).ok()
}

/// The prefixes of what was made from turns of a session of which this is the first: from it alone, and from it
/// and later ones.
pub fn of_turns(space: &SpaceKey, session: &str, first: u64) -> [Vec<u8>; 2] {
    let alone = turn_reference(session, first, first);
    let several = row(space, Family::Derived, format!("{alone}-").as_bytes());
    [prefix(space, &alone), several]
}

/// The id of the derived memory in any key of the family; `None` if the key is damaged.
pub fn any_derived(key: &[u8]) -> Option<&str> {
    let at = key.iter().rposition(|byte| *byte == 0)?;
    std::str::from_utf8(&key[at + 1..]).ok()
}

/// In the place of a source: what an erasure has still to take out. No id begins so, since ids hold no control
/// characters; behind it stands, in the place of the derived memory, what the deletion wrote down.
pub fn left_of_erasure(erasure: &str) -> String {
    format!("\u{1}{erasure}")
}

/// In the place of a source: what deletions have still to take out, as [`left_of_erasure`] has it for an erasure. It
/// stands in `due` as well; the value says at which time.
pub fn left_of_deletions() -> String {
    "\u{1}".to_owned()
}

/// The value of a row below [`left_of_deletions`].
pub fn noted(at_us: i64) -> Vec<u8> {
    let mut value = value();
    value.extend_from_slice(&at_us.to_be_bytes());
    value
}

/// Reads [`noted`]; `None` if it is another row's.
pub fn noted_at(value: &[u8]) -> Option<i64> {
    let (format, at_us) = value.split_first()?;
    (*format == Format::V1 as u8).then_some(())?;
    Some(i64::from_be_bytes(at_us.try_into().ok()?))
}

/// The value of every other row.
pub fn value() -> Vec<u8> {
    vec![Format::V1 as u8]
}
