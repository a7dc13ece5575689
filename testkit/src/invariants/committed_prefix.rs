use super::{Held, broken};
use std::collections::BTreeMap;

/// An entry that one replica applied is the entry that every replica applies at that index, now and
/// after each restart (Log Matching and State Machine Safety).
#[derive(Debug, Clone, Default)]
pub struct CommittedPrefix(BTreeMap<(u64, u64), (u128, u64)>);

impl CommittedPrefix {
    /// The name of the invariant.
    pub const NAME: &str = "log matching of the committed prefix";

    /// A node has applied an entry. `entry` is a fingerprint of its position and content.
    ///
    /// # Errors
    /// If another entry was applied at the index, by whichever node.
    pub fn applied(&mut self, node: u64, group: u64, index: u64, entry: u128) -> Held {
        match *self.0.entry((group, index)).or_insert((entry, node)) {
            (known, _) if known == entry => Ok(()),
            (_, first) => broken(
                Self::NAME,
                format!(
                    "nodes {first} and {node} applied different entries at index {index} of group {group}"
                ),
            ),
        }
    }

    /// Entries that were applied, each counted once.
    pub fn entries(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_different_entry_is_found_also_after_a_restart() {
        let mut prefix = CommittedPrefix::default();
        assert!(prefix.applied(1, 1, 5, 0xa).is_ok());
        assert!(prefix.applied(2, 1, 5, 0xa).is_ok());
        assert!(prefix.applied(2, 2, 5, 0xb).is_ok());
        assert_eq!(prefix.entries(), 2);
        assert!(prefix.applied(1, 1, 5, 0xc).is_err(), "its own of before");
    }
}
