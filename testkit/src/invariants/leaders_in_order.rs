use super::{Held, broken};
use std::collections::BTreeMap;

/// Along a committed log leaders follow each other and none comes back: terms go up, and within a term
/// the nodes do.
///
/// It takes the place of "one leader per term" (Ongaro, "Consensus", 2014: Election Safety), which openraft
/// does not promise: its leaders are pairs of term and node, and a voter that has voted for one may vote
/// for a greater node in the same term. Then both say that they lead; the entries of the first that a
/// majority lacks are overwritten, as after a change of terms.
#[derive(Debug, Clone, Default)]
pub struct LeadersInOrder(BTreeMap<(u64, u64), (u64, u64)>);

impl LeadersInOrder {
    /// The name of the invariant.
    pub const NAME: &str = "leaders in order along the committed log";

    /// The entry at `index`, which is committed, was written by this leader.
    ///
    /// # Errors
    /// If an earlier entry was written by a later leader, or the same entry by another one.
    pub fn wrote(&mut self, group: u64, index: u64, term: u64, node: u64) -> Held {
        let (at, leader) = ((group, index), (term, node));
        let before = self.0.range((group, 0)..at).next_back();
        let behind = self.0.range(at..=(group, u64::MAX)).next();
        for (known, other) in before.into_iter().chain(behind) {
            let fits = match known.1.cmp(&index) {
                std::cmp::Ordering::Less => *other <= leader,
                std::cmp::Ordering::Equal => *other == leader,
                std::cmp::Ordering::Greater => *other >= leader,
            };
            if !fits {
                let observed = format!(
                    "in group {group} entry {} is of leader {other:?} (term, node) and entry {index} of {leader:?}",
                    known.1
                );
                return broken(Self::NAME, observed);
            }
        }
        self.0.insert(at, leader);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_that_comes_back_is_found() {
        let mut leaders = LeadersInOrder::default();
        for (index, term, node) in [(1, 1, 1), (4, 2, 1), (5, 2, 3), (6, 4, 1)] {
            assert!(leaders.wrote(1, index, term, node).is_ok());
        }
        assert!(leaders.wrote(2, 7, 1, 1).is_ok(), "another group");
        assert!(leaders.wrote(1, 6, 4, 1).is_ok(), "a replay");
        assert!(leaders.wrote(1, 6, 5, 1).is_err());
        assert!(leaders.wrote(1, 7, 3, 9).is_err());
        assert!(leaders.wrote(1, 3, 2, 2).is_err());
        assert!(leaders.wrote(1, 2, 1, 2).is_ok());
    }
}
