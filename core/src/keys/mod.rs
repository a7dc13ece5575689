//! The key of every stored row.
//!
//! A row of a space: `slot u16 BE . tenant \0 space \0 partition u8 . family u8 . id`. A slot is one
//! key range, so it is hashed, moved and dropped as a range; a space is one key range in it, so
//! nothing that belongs to one space can be reached from another.
//!
//! Slots end at 4,095; prefixes above hold what belongs to no slot:
//! [`SHARD_ROWS`] (replicated, of the shard), [`LOCAL_ROWS`] (of this replica alone: not replicated,
//! not hashed), [`META_ROWS`] (the cluster's own data, in the meta group), [`due`] and [`work`].
//!
//! One file per family says its key, its value and why it exists.

pub mod block;
pub mod claim;
pub mod counters;
pub mod derived;
pub mod due;
pub mod edge;
pub mod entity;
pub mod erasure;
pub mod fact;
pub mod history;
pub mod idempotency;
pub mod index_row;
pub mod memory;
pub mod merged;
pub mod meta;
pub mod procedure;
pub mod session;
pub mod session_memory;
pub mod space_row;
pub mod summary;
pub mod task;
pub mod tenant;
pub mod text_hash;
pub mod tombstone;
pub mod turn;
pub mod upkeep;
pub mod work;

use crate::space::{Slot, SpaceKey};
use crate::state::{Reader, StateError};

/// Prefix of the meta group's rows.
pub const META_ROWS: u16 = 0xFFF0;
/// Prefix of the rows of [`work`] of spaces as a whole.
pub const UPKEEP_ROWS: u16 = 0xFFFB;
/// Prefix of the rows of [`work`] of sessions.
pub const WORK_ROWS: u16 = 0xFFFC;
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
    /// [`derived`]
    Derived = 0x14,
    /// [`merged`]
    Merged = 0x15,
    /// [`upkeep`]
    Upkeep = 0x16,
    /// [`fact`]
    Fact = 0x20,
    /// [`entity`]
    Entity = 0x21,
    /// [`edge`]
    Edge = 0x22,
    /// [`session`]
    Session = 0x30,
    /// [`turn`]
    Turn = 0x31,
    /// [`task`]
    Task = 0x32,
    /// [`block`]
    Block = 0x33,
    /// [`procedure`]
    Procedure = 0x34,
    /// [`summary`]
    Summary = 0x38,
    /// [`session_memory`]
    SessionMemory = 0x39,
    /// [`tombstone`]
    Tombstone = 0x40,
    /// [`erasure`]
    Erasure = 0x41,
    /// [`idempotency`]
    Idempotency = 0x50,
    /// [`claim`]
    Claim = 0x51,
    /// Reserved: the feed of changes.
    Change = 0x60,
}

impl Family {
    /// Every family. A test holds it complete.
    pub const ALL: [Self; 24] = [
        Self::Space,
        Self::Counters,
        Self::Memory,
        Self::IndexRow,
        Self::TextHash,
        Self::History,
        Self::Derived,
        Self::Merged,
        Self::Upkeep,
        Self::Fact,
        Self::Entity,
        Self::Edge,
        Self::Session,
        Self::Turn,
        Self::Task,
        Self::Block,
        Self::Procedure,
        Self::Summary,
        Self::SessionMemory,
        Self::Tombstone,
        Self::Erasure,
        Self::Idempotency,
        Self::Claim,
        Self::Change,
    ];
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

/// The partition of a space that a row belongs to; `None` for rows that belong to no space.
pub fn space_of(key: &[u8]) -> Option<SpaceKey> {
    let (slot, path) = key.split_first_chunk::<2>()?;
    if u16::from_be_bytes(*slot) >= crate::space::SLOTS {
        return None;
    }
    let mut parts = path.splitn(3, |byte| *byte == 0);
    let text = |part: Option<&[u8]>| String::from_utf8(part?.to_vec()).ok();
    let (tenant, space) = (text(parts.next())?, text(parts.next())?);
    let partition = *parts.next()?.first()?;
    SpaceKey::from_parts(tenant, space, partition).ok()
}

/// The first partition of a space behind `after` that a store has rows of.
///
/// # Errors
/// [`StateError`] if the store cannot be read, or a key is not of this form.
pub fn next_space(store: &dyn Reader, after: Option<&SpaceKey>) -> Result<Option<SpaceKey>, StateError> {
    let mut after = after.map(space_prefix);
    if let Some(after) = &mut after {
        // Behind every family of it.
        after.push(u8::MAX);
    }
    let rows = store.scan(&[], after.as_deref(), 1)?;
    let Some((key, _)) = rows.first() else { return Ok(None) };
    if key.first_chunk::<2>().is_some_and(|slot| u16::from_be_bytes(*slot) >= crate::space::SLOTS) {
        return Ok(None);
    }
    match space_of(key) {
        Some(space) => Ok(Some(space)),
        None => Err(StateError(format!("a key belongs to no space: {key:02x?}"))),
    }
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
    fn spaces_are_found_by_their_rows() {
        use crate::state::{BTreeState, State};
        let spaces = [
            SpaceKey::user("t", "u").expect("valid"),
            SpaceKey::user("t", "u2").expect("valid"),
            SpaceKey::user("租户", "用户🙂").expect("valid"),
            SpaceKey::shared("t", "docs", 0).expect("valid"),
            SpaceKey::shared("t", "docs", 63).expect("valid"),
        ];
        let mut state = BTreeState::new();
        for space in &spaces {
            for seq in 0..3 {
                state.put(index_row::key(space, seq), vec![1]).expect("memory");
            }
            state.put(memory::key(space, "m"), vec![1]).expect("memory");
            assert_eq!(space_of(&memory::key(space, "m")).as_ref(), Some(space));
        }
        for key in [clock(), local("applied"), meta::cluster(), vec![0], vec![]] {
            assert_eq!(space_of(&key), None);
            state.put(key, vec![1]).expect("memory");
        }
        state.delete(&[]).expect("memory");
        state.delete(&[0]).expect("memory");
        let mut found = Vec::new();
        while let Some(space) = next_space(&state, found.last()).expect("sound") {
            found.push(space);
        }
        let mut expected = spaces.to_vec();
        expected.sort_by_key(space_prefix);
        assert_eq!(found, expected);
    }

    #[test]
    fn the_list_of_families_is_complete() {
        let source = include_str!("mod.rs");
        let body = source.split_once("pub enum Family {").and_then(|(_, rest)| rest.split_once("\n}"));
        let body = body.expect("the enum").0;
        let variants = body.lines().filter(|line| line.contains(" = 0x")).count();
        assert_eq!(Family::ALL.len(), variants);
        let numbers: std::collections::BTreeSet<u8> =
            Family::ALL.iter().map(|family| *family as u8).collect();
        assert_eq!(numbers.len(), variants, "each once");
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
