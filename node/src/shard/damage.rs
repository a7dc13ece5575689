//! Damage on purpose, for tests alone.
#![allow(clippy::unwrap_used)]

use super::applier::ShardState;
use super::position::Applied;
use holdfast_core::keys;

/// What is wrong afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The row alone, as on a bad disk.
    Row,
    /// The hash fits it, as if the entry had been applied in another way.
    Applied,
}

impl ShardState {
    /// Adds `by` to the last byte of the first row with this prefix.
    pub(crate) fn damage(&self, prefix: &[u8], by: u8, damage: Damage) {
        let mut applying = self.applying.lock();
        let db = self.db();
        let (key, value) = db.scan_prefix(prefix).next().expect("a row").unwrap();
        assert!(keys::is_replicated(&key));
        let mut changed = value.to_vec();
        let last = changed.last_mut().unwrap();
        *last = last.wrapping_add(by);
        if damage == Damage::Applied {
            applying.applied.hash.remove(&key, &value);
            applying.applied.hash.add(&key, &changed);
            db.insert(Applied::key(), applying.applied.encode().unwrap()).unwrap();
            let applied = applying.applied.clone();
            self.publish(&applied);
        }
        db.insert(&key, changed).unwrap();
    }
}
