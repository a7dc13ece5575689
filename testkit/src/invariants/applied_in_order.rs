use super::{Held, broken};
use std::collections::BTreeMap;

/// A replica applies the entries of a log one after the other, none twice and none left out. After a
/// restart it goes on behind what its state held.
#[derive(Debug, Clone, Default)]
pub struct AppliedInOrder(BTreeMap<(u64, u64), Option<u64>>);

impl AppliedInOrder {
    /// The name of the invariant.
    pub const NAME: &str = "entries are applied in order";

    /// A replica starts with a state that holds the entries up to `last`.
    pub fn starts(&mut self, node: u64, group: u64, last: Option<u64>) {
        self.0.insert((node, group), last);
    }

    /// A replica applies the entry at `index`.
    ///
    /// # Errors
    /// If it is not the one that follows.
    pub fn applies(&mut self, node: u64, group: u64, index: u64) -> Held {
        let last = self.0.entry((node, group)).or_default();
        let next = last.map_or(0, |last| last + 1);
        if index != next {
            let observed = format!("node {node} applies entry {index} of group {group} where {next} follows");
            return broken(Self::NAME, observed);
        }
        *last = Some(index);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_and_a_repetition_are_found() {
        let mut order = AppliedInOrder::default();
        assert!(order.applies(1, 1, 0).is_ok());
        assert!(order.applies(1, 1, 1).is_ok());
        assert!(order.clone().applies(1, 1, 1).is_err());
        assert!(order.clone().applies(1, 1, 3).is_err());
        order.starts(1, 1, Some(0));
        assert!(order.applies(1, 1, 1).is_ok(), "a restart on an older state");
    }
}
