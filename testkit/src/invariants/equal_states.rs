use super::{Held, broken};
use std::collections::BTreeMap;

/// Replicas that have applied the log up to the same index have the same rows.
#[derive(Debug, Clone, Default)]
pub struct EqualStates(BTreeMap<(u64, u64), (u128, u64)>);

impl EqualStates {
    /// The name of the invariant.
    pub const NAME: &str = "equal states at an equal index";

    /// The hash of a node's rows after the entry at `index`.
    ///
    /// # Errors
    /// If a node had other rows at that index.
    pub fn state(&mut self, node: u64, group: u64, index: u64, hash: u128) -> Held {
        match *self.0.entry((group, index)).or_insert((hash, node)) {
            (known, _) if known == hash => Ok(()),
            (known, first) => broken(
                Self::NAME,
                format!(
                    "at index {index} of group {group} node {first} has {known:032x}, node {node} {hash:032x}"
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_hash_at_an_index_is_found() {
        let mut states = EqualStates::default();
        assert!(states.state(1, 1, 1, 7).is_ok());
        assert!(states.state(2, 1, 1, 7).is_ok());
        assert!(states.state(2, 1, 2, 8).is_ok());
        assert!(states.state(3, 1, 2, 7).is_err());
    }
}
