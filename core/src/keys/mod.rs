//! The key of every stored row.
//!
//! A row of a space: `slot u16 BE . tenant \0 space \0 partition u8 . family u8 . id`. A slot is one
//! key range, so it is hashed, moved and dropped as a range; a space is one key range in it, so
//! nothing that belongs to one space can be reached from another.
//!
//! Slots end at 4,095; prefixes above hold what belongs to no slot:
//! [`SHARD_ROWS`] (replicated, of the shard), [`LOCAL_ROWS`] (of this replica alone: not replicated,
//! not hashed), [`META_ROWS`] (the cluster's own data, in the meta group) and [`due`].
//!
//! One file per family says its key, its value and why it exists.

pub mod counters;
pub mod due;
pub mod fact;
pub mod history;
pub mod idempotency;
pub mod index_row;
pub mod memory;
pub mod meta;
pub mod space_row;
pub mod text_hash;
pub mod tombstone;

use crate::space::{Slot, SpaceKey};

/// Prefix of the meta group's rows.
pub const META_ROWS: u16 = 0xFFF0;
/// Prefix of replicated rows that belong to the shard as a whole.
pub const SHARD_ROWS: u16 = 0xFFFD;
/// Prefix of rows that belong to one replica: the applied position and what goes with it.
/// They never enter the state hash.
pub const LOCAL_ROWS: u16 = 0xFFFE;
/// Prefix of the rows of [`due`].
pub const DUE_ROWS: u16 = 0xFFFF;

/// What a row of a space is. The numbers are stored and never change their meaning; those without
/// a file here are reserved for the tiers that bring them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Family {
    /// [`space_row`]
    Space = 0x01,
    /// [`counters`]
    Counters = 0x02,
    /// [`memory`]
    Memory = 0x10,
    /// [`index_row`]
    IndexRow = 0x11,
    /// [`text_hash`]
    TextHash = 0x12,
    /// [`history`]
    History = 0x13,
    /// [`fact`]
    Fact = 0x20,
    /// Reserved: entities and their aliases.
    Entity = 0x21,
    /// Reserved: relations between entities.
    Edge = 0x22,
    /// Reserved: sessions.
    Session = 0x30,
    /// Reserved: turns of sessions.
    Turn = 0x31,
    /// Reserved: tasks of working memory.
    Task = 0x32,
    /// Reserved: core blocks.
    Block = 0x33,
    /// Reserved: procedures and their versions.
    Procedure = 0x34,
    /// [`tombstone`]
    Tombstone = 0x40,
    /// [`idempotency`]
    Idempotency = 0x50,
    /// Reserved: the feed of changes.
    Change = 0x60,
}

/// `slot . path`: the prefix of everything stored for one partition of a space.
pub fn space_prefix(space: &SpaceKey) -> Vec<u8> {
    let mut key = space.slot().0.to_be_bytes().to_vec();
    key.extend_from_slice(&space.path());
    key
}

/// The prefix of one family of one partition of a space.
pub fn family_prefix(space: &SpaceKey, family: Family) -> Vec<u8> {
    let mut key = space_prefix(space);
    key.push(family as u8);
    key
}

/// A key of one family of one partition of a space.
pub(crate) fn row(space: &SpaceKey, family: Family, id: &[u8]) -> Vec<u8> {
    let mut key = family_prefix(space, family);
    key.extend_from_slice(id);
    key
}

/// The prefix of everything stored for one slot.
pub fn slot_prefix(slot: Slot) -> [u8; 2] {
    slot.0.to_be_bytes()
}

/// The row that holds the time of the last applied command (i64 BE), which makes log time monotonic.
pub fn clock() -> Vec<u8> {
    prefixed(SHARD_ROWS, b"clock")
}

/// A row of this replica alone, by name.
pub fn local(name: &str) -> Vec<u8> {
    prefixed(LOCAL_ROWS, name.as_bytes())
}

/// Whether a key enters the state hash and is replicated.
pub fn is_replicated(key: &[u8]) -> bool {
    !key.starts_with(&LOCAL_ROWS.to_be_bytes())
}

pub(crate) fn prefixed(prefix: u16, rest: &[u8]) -> Vec<u8> {
    let mut key = prefix.to_be_bytes().to_vec();
    key.extend_from_slice(rest);
    key
}

/// The family of a row of a space; `None` for other keys. Reads the key's structure alone.
pub fn family(key: &[u8]) -> Option<u8> {
    let (slot, path) = key.split_first_chunk::<2>()?;
    if u16::from_be_bytes(*slot) >= crate::space::SLOTS {
        return None;
    }
    let tenant_end = path.iter().position(|byte| *byte == 0)?;
    let space_end = tenant_end + 1 + path[tenant_end + 1..].iter().position(|byte| *byte == 0)?;
    // Behind it: the partition, and then the family.
    path.get(space_end + 2).copied()
}

/// A time as eight bytes that sort as it does: times before 1970 come first.
pub(crate) fn sortable_time(us: i64) -> [u8; 8] {
    (us.cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

/// Reads [`sortable_time`] back.
pub(crate) fn time_from_sortable(bytes: [u8; 8]) -> i64 {
    (u64::from_be_bytes(bytes) ^ (1 << 63)).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_sort_as_bytes() {
        let times = [i64::MIN, -1, 0, 1, 1_700_000_000_000_000, i64::MAX];
        for pair in times.windows(2) {
            assert!(sortable_time(pair[0]) < sortable_time(pair[1]));
        }
        for time in times {
            assert_eq!(time_from_sortable(sortable_time(time)), time);
        }
    }

    #[test]
    fn keys_of_a_space_are_frozen() {
        let space = SpaceKey::user("t", "u").expect("valid");
        let slot = space.slot().0.to_be_bytes();
        let expected = [&slot[..], b"t\0user:u\0\0\x10m1"].concat();
        assert_eq!(memory::key(&space, "m1"), expected);
        let expected = [&slot[..], b"t\0user:u\0\0\x11\0\0\0\0\0\0\0\x07"].concat();
        assert_eq!(index_row::key(&space, 7), expected);
        assert_eq!(index_row::seq(&expected), Some(7));
        assert_eq!(family(&expected), Some(Family::IndexRow as u8));
    }

    #[test]
    fn keys_of_no_space_have_no_family() {
        for key in [clock(), local("applied"), Vec::new(), vec![0], vec![0, 1, b't', 0, b'u', 0, 0]] {
            assert_eq!(family(&key), None, "{key:?}");
        }
    }
}
