//! Which nodes seem to answer nobody, such as one that is stopped or hangs, before its groups have other leaders.
//!
//! A read that goes to another replica because of it takes the place of the one that would have waited: unlike a hedge it
//! is no more work, and needs no budget.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Reads that miss their answers, with none that comes in between, until a node counts as silent.
const MISSES: u32 = 3;
/// How long it does, before a read tries it again.
const AVOIDED_FOR: Duration = Duration::from_secs(1);

/// What is known of the nodes; as many entries as there are nodes at most.
#[derive(Debug, Default)]
pub(super) struct Silence(Mutex<BTreeMap<u64, Heard>>);

#[derive(Debug, Default)]
struct Heard {
    misses: u32,
    answered: Option<Instant>,
    avoided_until: Option<Instant>,
}

impl Silence {
    /// A node has answered a read.
    pub(super) fn answered(&self, node: u64, now: Instant) {
        self.0.lock().insert(node, Heard { answered: Some(now), ..Heard::default() });
    }

    /// A read that began at `since` has waited for a node longer than nearly all reads do.
    pub(super) fn missed(&self, node: u64, since: Instant, now: Instant) {
        let mut nodes = self.0.lock();
        let heard = nodes.entry(node).or_default();
        // It answers others, and this one asks for more than they do.
        if heard.answered.is_some_and(|answered| answered >= since) {
            return;
        }
        heard.misses = heard.misses.saturating_add(1);
        if heard.misses >= MISSES {
            heard.avoided_until = Some(now + AVOIDED_FOR);
        }
    }

    /// There is no connection to a node, or it broke.
    pub(super) fn lost(&self, node: u64, now: Instant) {
        let mut nodes = self.0.lock();
        let heard = nodes.entry(node).or_default();
        // The next one that tries it finds out at once.
        heard.misses = MISSES;
        heard.avoided_until = Some(now + AVOIDED_FOR);
    }

    /// Whether a node had better not be asked.
    pub(super) fn is_silent(&self, node: u64, now: Instant) -> bool {
        self.0.lock().get(&node).is_some_and(|heard| heard.avoided_until.is_some_and(|until| now < until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_answers_nobody_is_avoided_for_a_while() {
        let (silence, start) = (Silence::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        for n in 0..u64::from(MISSES) {
            assert!(!silence.is_silent(1, at(n)));
            silence.missed(1, at(0), at(n));
        }
        assert!(silence.is_silent(1, at(10)) && !silence.is_silent(2, at(10)));
        assert!(!silence.is_silent(1, at(1_002)), "it is tried again");
        silence.missed(1, at(1_002), at(1_010));
        assert!(silence.is_silent(1, at(1_011)), "one miss is enough then");
        silence.answered(1, at(1_012));
        assert!(!silence.is_silent(1, at(1_012)));
    }

    #[test]
    fn one_that_answers_others_is_only_slow() {
        let (silence, start) = (Silence::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        for n in 0..50 {
            silence.answered(1, at(n));
            silence.missed(1, at(n), at(n + 1));
        }
        assert!(!silence.is_silent(1, at(60)));
    }

    #[test]
    fn a_broken_connection_needs_no_second_look() {
        let (silence, now) = (Silence::default(), Instant::now());
        silence.lost(3, now);
        assert!(silence.is_silent(3, now) && !silence.is_silent(3, now + AVOIDED_FOR));
    }
}
