use super::Changes;
use crate::keys::is_replicated;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3Default;

/// The hash of a set of rows: the 128-bit wrapping sum of xxh3-128 (key length, key, value) over
/// them. A sum does not depend on the order, and takes a row out as easily as in, so it is kept
/// batch by batch and compared between replicas. Rows of one replica alone do not count.
///
/// It finds accidents (lost, doubled, differing rows); it is not meant against forgery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateHash(pub u128);

impl StateHash {
    /// Takes a row in.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.0 = self.0.wrapping_add(row_hash(key, value));
    }

    /// Takes a row out that was taken in before.
    pub fn remove(&mut self, key: &[u8], value: &[u8]) {
        self.0 = self.0.wrapping_sub(row_hash(key, value));
    }

    /// Follows the changes of a batch.
    pub fn follow(&mut self, changes: &Changes) {
        for change in &changes.rows {
            if let Some(old) = &change.old {
                self.remove(&change.key, old);
            }
            if let Some(new) = &change.new {
                self.add(&change.key, new);
            }
        }
    }
}

fn row_hash(key: &[u8], value: &[u8]) -> u128 {
    if !is_replicated(key) {
        return 0;
    }
    let mut hasher = Xxh3Default::new();
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(value);
    hasher.digest128()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    #[test]
    fn order_does_not_matter_and_rows_can_leave() {
        let (mut one, mut two) = (StateHash::default(), StateHash::default());
        one.add(b"a", b"1");
        one.add(b"b", b"2");
        two.add(b"b", b"2");
        two.add(b"c", b"3");
        two.add(b"a", b"1");
        assert_ne!(one, two);
        two.remove(b"c", b"3");
        assert_eq!(one, two);
    }

    #[test]
    fn the_border_between_key_and_value_counts() {
        let (mut one, mut two) = (StateHash::default(), StateHash::default());
        one.add(b"ab", b"c");
        two.add(b"a", b"bc");
        assert_ne!(one, two);
    }

    #[test]
    fn local_rows_do_not_count() {
        let mut hash = StateHash::default();
        hash.add(&keys::local("applied"), b"7");
        assert_eq!(hash, StateHash::default());
    }
}
