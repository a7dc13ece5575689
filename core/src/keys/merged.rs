//! Key: `… . 0x15 . id of the memory that stands \0 id of the merged one`. Value:
//! [`crate::upkeep::MergedRow`]. And the way back, `… . 0x15 . \u{1} . id of the merged one`, with the format
//! byte and the id of the one that stands. Both are there, or none; written only for what was merged.

use super::{Family, row};
use crate::codec::Format;
use crate::space::SpaceKey;

/// The prefix of all that was merged into a memory. Ids hold no `\0`, so no id is a prefix of another.
pub fn prefix(space: &SpaceKey, stands: &str) -> Vec<u8> {
    let mut key = row(space, Family::Merged, stands.as_bytes());
    key.push(0);
    key
}

/// The key that says that one memory was merged into another.
pub fn key(space: &SpaceKey, stands: &str, merged: &str) -> Vec<u8> {
    let mut key = prefix(space, stands);
    key.extend_from_slice(merged.as_bytes());
    key
}

/// The id of the merged memory in a key below [`prefix`]; `None` if the key is damaged.
pub fn merged<'a>(prefix: &[u8], key: &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(key.strip_prefix(prefix)?).ok()
}

/// The key of the way back. Ids hold no control characters, so it is no key of the other form.
pub fn into(space: &SpaceKey, merged: &str) -> Vec<u8> {
    row(space, Family::Merged, format!("\u{1}{merged}").as_bytes())
}

/// The value of the way back.
pub fn into_value(stands: &str) -> Vec<u8> {
    [&[Format::V1 as u8], stands.as_bytes()].concat()
}

/// Reads the id in such a value; `None` if it is damaged.
pub fn stands(value: &[u8]) -> Option<&str> {
    match value.split_first() {
        Some((format, id)) if *format == Format::V1 as u8 => std::str::from_utf8(id).ok(),
        _ => None,
    }
}
