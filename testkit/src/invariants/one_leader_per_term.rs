use super::{Held, broken};
use std::collections::BTreeMap;

/// In one term of one group at most one node leads (Ongaro, "Consensus", 2014: Election Safety).
#[derive(Debug, Clone, Default)]
pub struct OneLeaderPerTerm(BTreeMap<(u64, u64), u64>);

impl OneLeaderPerTerm {
    /// The name of the invariant.
    pub const NAME: &str = "one leader per term";

    /// A node says that it leads.
    ///
    /// # Errors
    /// If another one said so for the same term.
    pub fn leads(&mut self, group: u64, term: u64, node: u64) -> Held {
        match *self.0.entry((group, term)).or_insert(node) {
            known if known == node => Ok(()),
            known => {
                broken(Self::NAME, format!("nodes {known} and {node} lead group {group} in term {term}"))
            }
        }
    }

    /// Terms that had a leader.
    pub fn terms(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_leader_of_a_term_is_found() {
        let mut one = OneLeaderPerTerm::default();
        let terms = [(1, 1, 1), (1, 1, 1), (1, 2, 2), (2, 1, 3)];
        assert!(terms.iter().all(|(group, term, node)| one.leads(*group, *term, *node).is_ok()));
        assert_eq!(one.terms(), 3);
        assert!(one.leads(1, 2, 1).is_err());
    }
}
