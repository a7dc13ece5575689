//! The highest position seen of each shard: what a read may not go behind, token or no token.

use holdfast_core::space::Shard;
use holdfast_core::token::Seen;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// At most one entry per shard, so at most 257.
#[derive(Default)]
pub(super) struct Floors(Mutex<BTreeMap<Shard, Seen>>);

impl Floors {
    pub(super) fn of(&self, shard: Shard) -> Option<Seen> {
        self.0.lock().get(&shard).copied()
    }

    pub(super) fn raise(&self, seen: Seen) {
        let mut floors = self.0.lock();
        let floor = floors.entry(seen.shard).or_insert(seen);
        if (floor.incarnation, floor.index) < (seen.incarnation, seen.index) {
            *floor = seen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_only_rise() {
        let floors = Floors::default();
        let seen = |incarnation, index| Seen { shard: Shard(3), incarnation, index };
        for position in [seen(0, 5), seen(0, 4), seen(1, 1), seen(0, 9)] {
            floors.raise(position);
        }
        assert_eq!(floors.of(Shard(3)), Some(seen(1, 1)));
        assert_eq!(floors.of(Shard(4)), None);
    }
}
