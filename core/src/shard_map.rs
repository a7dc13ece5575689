//! Which shard owns which slot.

use crate::space::{SHARDS_MAX, SLOTS, Shard, Slot};
use crate::{Error, Result};

/// The epoch of the map that a cluster starts with.
pub const FIRST_EPOCH: u64 = 1;

/// The owner of every slot, at one epoch. In each epoch a slot has exactly one owner; a slot that
/// moves gets its new owner in a new epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardMap {
    epoch: u64,
    shards: u16,
    /// One for each slot; empty for the map that a cluster starts with, which is a formula.
    owners: Vec<Shard>,
}

impl ShardMap {
    /// The map that a cluster of `shards` shards starts with: see [`Slot::initial_shard`].
    pub fn initial(shards: u16) -> Self {
        Self { epoch: FIRST_EPOCH, shards, owners: Vec::new() }
    }

    /// A map from its parts. No owners mean the map that a cluster starts with.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] if there is not one owner of 1..=`shards` for each slot,
    /// or no epoch.
    pub fn new(epoch: u64, shards: u16, owners: Vec<Shard>) -> Result<Self> {
        let wrong = |detail: &str| Err(Error::invalid("map", detail));
        if shards == 0 || shards > SHARDS_MAX || epoch == 0 {
            return wrong("a map has an epoch and 1 to 256 shards");
        }
        if !owners.is_empty() && owners.len() != usize::from(SLOTS) {
            return wrong("a map names one shard for each of the 4,096 slots");
        }
        if owners.iter().any(|owner| *owner == Shard::META || owner.0 > shards) {
            return wrong("a map names a shard that does not exist");
        }
        Ok(Self { epoch, shards, owners })
    }

    /// When it came into force: of two maps the one with the higher epoch is right.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many shards there are.
    pub fn shards(&self) -> u16 {
        self.shards
    }

    /// The shard that owns a slot.
    pub fn owner(&self, slot: Slot) -> Shard {
        let stored = self.owners.get(usize::from(slot.0)).copied();
        stored.unwrap_or_else(|| slot.initial_shard(self.shards))
    }

    /// The owners slot by slot; empty for the map that a cluster starts with.
    pub fn owners(&self) -> &[Shard] {
        &self.owners
    }

    /// The next map, in which `slot` belongs to `shard`.
    ///
    /// # Errors
    /// As [`ShardMap::new`].
    pub fn moved(&self, slot: Slot, shard: Shard) -> Result<Self> {
        let owner = |of: u16| if of == slot.0 { shard } else { self.owner(Slot(of)) };
        Self::new(self.epoch + 1, self.shards, (0..SLOTS).map(owner).collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_slot_has_one_owner_in_each_epoch() {
        let first = ShardMap::initial(8);
        let second = first.moved(Slot(9), Shard(5)).unwrap();
        assert_eq!((first.owner(Slot(9)), second.owner(Slot(9))), (Shard(2), Shard(5)));
        assert_eq!((first.epoch(), second.epoch()), (1, 2));
        for slot in (0..SLOTS).filter(|slot| *slot != 9).map(Slot) {
            assert_eq!(first.owner(slot), second.owner(slot));
        }
        let read = ShardMap::new(second.epoch(), second.shards(), second.owners().to_vec());
        assert_eq!(read, Ok(second));
    }

    #[test]
    fn maps_that_cannot_be_are_refused() {
        let first = ShardMap::initial(2);
        assert!(first.moved(Slot(1), Shard(3)).is_err() && first.moved(Slot(1), Shard::META).is_err());
        assert!(ShardMap::new(0, 2, Vec::new()).is_err());
        assert!(ShardMap::new(1, 0, Vec::new()).is_err());
        assert!(ShardMap::new(1, SHARDS_MAX + 1, Vec::new()).is_err());
        assert!(ShardMap::new(1, 2, vec![Shard(1); 7]).is_err());
    }
}
