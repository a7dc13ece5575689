//! Key: `0xFFFF . time . slot . tenant \0 space \0 partition . kind u8 . id`. Value: the format
//! byte. What is to be done at a time: the one place that a leader looks at, whatever the number of
//! idle spaces. Times sort as bytes.
//!
//! Kinds that may hold many rows of one space (idempotency, tombstones) have one `due` row per
//! space, for the oldest, so that a plain write adds none.

use super::{DUE_ROWS, prefixed, sortable_time, time_from_sortable};
use crate::codec::Format;
use crate::space::SpaceKey;

/// What is due. Stored: the numbers never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DueKind {
    /// A memory reaches its `expires_us`; the id is the memory's.
    Expiry = 1,
    /// The oldest idempotency row of the space may go; no id.
    Idempotency = 2,
    /// The oldest tombstone of the space may go; the id says where to go on, empty at first.
    Tombstone = 3,
    /// The receipt of an erasure may go; the id is the erasure's.
    Receipt = 4,
    /// What was made from a memory that is gone must go as well; the id is that memory's.
    Derived = 5,
    /// A session is as old as it may get, or its deletion goes on; the id is the session's.
    Session = 6,
    /// A task reaches its `expires_us`; the id is the task's.
    Task = 7,
    /// A link of a memory was lost to a concurrent change: the leader looks for it again. The id is
    /// the memory's.
    Recheck = 8,
    /// Claims of ids of the space whose time is over; no id.
    Claims = 11,
}

/// One row, read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// When, in log time.
    pub at_us: i64,
    /// In which partition.
    pub space: SpaceKey,
    /// What.
    pub kind: DueKind,
    /// Which memory, task or session; empty for the kinds that have one row per space.
    pub id: String,
}

/// The prefix of all rows.
pub fn prefix() -> Vec<u8> {
    DUE_ROWS.to_be_bytes().to_vec()
}

/// The value of every row.
pub fn value() -> Vec<u8> {
    vec![Format::V1 as u8]
}

impl Due {
    /// The key of this row.
    pub fn key(&self) -> Vec<u8> {
        let mut key = prefixed(DUE_ROWS, &sortable_time(self.at_us));
        key.extend_from_slice(&self.space.slot().0.to_be_bytes());
        key.extend_from_slice(&self.space.path());
        key.push(self.kind as u8);
        key.extend_from_slice(self.id.as_bytes());
        key
    }

    /// Reads a key; `None` if it is damaged.
    pub fn parse(key: &[u8]) -> Option<Self> {
        let rest = key.strip_prefix(&DUE_ROWS.to_be_bytes())?;
        let (time, rest) = rest.split_first_chunk::<8>()?;
        let (_slot, rest) = rest.split_first_chunk::<2>()?;
        let (space, length) = SpaceKey::parse_path(rest)?;
        let (kind, id) = rest[length..].split_first()?;
        let kind = match kind {
            1 => DueKind::Expiry,
            2 => DueKind::Idempotency,
            3 => DueKind::Tombstone,
            4 => DueKind::Receipt,
            5 => DueKind::Derived,
            6 => DueKind::Session,
            7 => DueKind::Task,
            8 => DueKind::Recheck,
            11 => DueKind::Claims,
            _ => return None,
        };
        let id = std::str::from_utf8(id).ok()?.to_owned();
        Some(Self { at_us: time_from_sortable(*time), space, kind, id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back_and_sort_by_time() {
        let space = SpaceKey::user("t", "用户").expect("valid");
        let due = |at_us| Due { at_us, space: space.clone(), kind: DueKind::Expiry, id: "m-1".into() };
        for at_us in [i64::MIN, -5, 0, 1_800_000_000_000_000] {
            assert_eq!(Due::parse(&due(at_us).key()), Some(due(at_us)));
        }
        assert!(due(-5).key() < due(3).key());
        assert_eq!(Due::parse(b"\xff\xffshort"), None);
    }
}
