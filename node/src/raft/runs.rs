//! Which process is the real one, where two run as one node.
//!
//! Two processes on two copies of one data folder have one node id: both would vote, and what one
//! acknowledges the other denies. Each process draws a number, its *run*, when it starts, and every
//! message and reply bears it. A run that is not known is asked after at the address of the node:
//! who answers there is the node, and any other one is refused. A run that another has taken the
//! place of does not come back.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::types::NodeId;

/// Earlier runs that are remembered of each node.
const PAST_MAX: usize = 8;
/// How long a run goes unasked that could not be asked after.
const UNASKED: Duration = Duration::from_secs(5);

/// What to think of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is the node.
    Known,
    /// It may be the node after a restart: to be asked after at the node's address.
    Unknown,
    /// Another process runs as this node since.
    Past,
}

#[derive(Default)]
struct Known {
    current: Option<u64>,
    past: VecDeque<u64>,
    /// Accepted without being asked after, and until when.
    unasked: Option<(u64, Instant)>,
}

/// The runs of the other nodes.
#[derive(Default)]
pub(crate) struct Runs(Mutex<HashMap<NodeId, Known>>);

impl Runs {
    /// What to think of a message that bears this run. 0 comes from versions that have none.
    pub(crate) fn judge(&self, node: NodeId, run: u64, now: Instant) -> Verdict {
        let nodes = self.0.lock();
        let Some(known) = nodes.get(&node) else {
            return if run == 0 { Verdict::Known } else { Verdict::Unknown };
        };
        if run == 0 || known.current == Some(run) {
            return Verdict::Known;
        }
        if known.past.contains(&run) {
            return Verdict::Past;
        }
        match known.unasked {
            Some((unasked, until)) if unasked == run && now < until => Verdict::Known,
            _ => Verdict::Unknown,
        }
    }

    /// The process at the node's address has this run.
    pub(crate) fn answered(&self, node: NodeId, run: u64) -> Verdict {
        if run == 0 {
            return Verdict::Known;
        }
        let mut nodes = self.0.lock();
        let known = nodes.entry(node).or_default();
        if known.current == Some(run) {
            return Verdict::Known;
        }
        if known.past.contains(&run) {
            return Verdict::Past;
        }
        if let Some(replaced) = known.current.replace(run) {
            known.past.push_back(replaced);
            if known.past.len() > PAST_MAX {
                known.past.pop_front();
            }
        }
        Verdict::Known
    }

    /// Nobody could be asked at the node's address: its messages count, since a network may be open
    /// in one direction only.
    pub(crate) fn could_not_ask(&self, node: NodeId, run: u64, now: Instant) {
        self.0.lock().entry(node).or_default().unasked = Some((run, now + UNASKED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_at_the_address_is_the_node() {
        let (runs, now) = (Runs::default(), Instant::now());
        assert_eq!(runs.judge(2, 7, now), Verdict::Unknown);
        assert_eq!(runs.answered(2, 7), Verdict::Known);
        assert_eq!(runs.judge(2, 7, now), Verdict::Known);
        // A restart, and then the old one again: that is a second process.
        assert_eq!(runs.judge(2, 8, now), Verdict::Unknown);
        assert_eq!(runs.answered(2, 8), Verdict::Known);
        assert_eq!(runs.judge(2, 7, now), Verdict::Past);
        assert_eq!(runs.answered(2, 7), Verdict::Past);
        assert_eq!(runs.judge(2, 8, now), Verdict::Known, "it stays the node");
        assert_eq!(runs.judge(3, 7, now), Verdict::Unknown, "another node is another matter");
        assert_eq!(runs.judge(2, 0, now), Verdict::Known, "versions without runs");
        for restart in 9..100 {
            assert_eq!(runs.answered(2, restart), Verdict::Known);
        }
        assert_eq!(runs.judge(2, 98, now), Verdict::Past);
    }

    #[test]
    fn silence_at_the_address_proves_nothing() {
        let (runs, now) = (Runs::default(), Instant::now());
        runs.could_not_ask(2, 7, now);
        assert_eq!(runs.judge(2, 7, now), Verdict::Known);
        assert_eq!(runs.judge(2, 8, now), Verdict::Unknown);
        assert_eq!(runs.judge(2, 7, now + UNASKED), Verdict::Unknown, "it is asked again");
        assert_eq!(runs.answered(2, 8), Verdict::Known);
        assert_eq!(runs.judge(2, 7, now + UNASKED), Verdict::Unknown);
    }
}
