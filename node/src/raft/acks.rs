//! When a majority last acknowledged this node's leadership.
//!
//! openraft reports an age, but only at the moment it last looked. This clock instead keeps, for each
//! peer, when the newest acknowledged request was *sent*: the peer's leader lease began after that.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use parking_lot::Mutex;

use super::types::NodeId;

/// The newest acknowledgement of each peer.
#[derive(Debug, Default)]
pub(crate) struct AckClock {
    /// Term and send time. Of two terms the higher counts, whichever was sent later.
    acks: Mutex<HashMap<NodeId, (u64, Instant)>>,
}

impl AckClock {
    /// Records that `peer` accepted a request that this leader of `term` sent at `sent`.
    pub(crate) fn record(&self, peer: NodeId, term: u64, sent: Instant) {
        let mut acks = self.acks.lock();
        let newest = acks.entry(peer).or_insert((term, sent));
        *newest = (*newest).max((term, sent));
    }

    /// The latest time at which a majority of each voter set had not yet turned away from this node's
    /// leadership of `term`; `None` if there was none. The node itself always agrees, at `now`.
    pub(crate) fn quorum(
        &self,
        this_node: NodeId,
        term: u64,
        voter_sets: &[BTreeSet<NodeId>],
        now: Instant,
    ) -> Option<Instant> {
        let acks = self.acks.lock();
        let mut quorum = None;
        for voters in voter_sets {
            let mut times: Vec<Instant> = voters
                .iter()
                .filter_map(|voter| match acks.get(voter) {
                    _ if *voter == this_node => Some(now),
                    Some(&(acked_term, sent)) if acked_term == term => Some(sent),
                    _ => None,
                })
                .collect();
            times.sort_unstable_by(|a, b| b.cmp(a));
            let majority = times.get(voters.len() / 2)?;
            quorum = Some(quorum.map_or(*majority, |earliest: Instant| earliest.min(*majority)));
        }
        quorum
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::time::Duration;

    use super::*;

    #[test]
    fn a_majority_in_every_voter_set_counts() {
        let clock = AckClock::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let three = [BTreeSet::from([1, 2, 3])];
        assert_eq!(clock.quorum(1, 5, &three, at(100)), None);
        clock.record(2, 5, at(10));
        assert_eq!(clock.quorum(1, 5, &three, at(100)), Some(at(10)));
        clock.record(3, 5, at(40));
        assert_eq!(clock.quorum(1, 5, &three, at(100)), Some(at(40)));
        clock.record(3, 5, at(20));
        assert_eq!(clock.quorum(1, 5, &three, at(100)), Some(at(40)), "older sends never count back");
        assert_eq!(clock.quorum(1, 6, &three, at(100)), None, "acknowledgements of another term");
        let joint = [BTreeSet::from([1, 2, 3]), BTreeSet::from([1, 2, 4])];
        assert_eq!(clock.quorum(1, 5, &joint, at(100)), Some(at(10)));
        let five = [BTreeSet::from([1, 2, 3, 4, 5])];
        assert_eq!(clock.quorum(1, 5, &five, at(100)), Some(at(10)));
        assert_eq!(clock.quorum(1, 5, &[BTreeSet::from([1])], at(100)), Some(at(100)));
        assert_eq!(clock.quorum(9, 5, &three, at(100)), Some(at(10)), "a leader without a vote");
        assert_eq!(clock.quorum(1, 5, &[], at(100)), None);
    }
}
