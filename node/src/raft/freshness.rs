//! How fresh a follower's state is, proved without comparing clocks of two machines.
//!
//! A leader sends with each append: its commit index, the age of the last request by which a
//! majority confirmed its leadership, and the newest stamp that the follower put on an answer. The
//! stamp was made before this message was sent, so the message is no older than the stamp, however
//! long it was on its way. All acknowledged writes of the time until (stamp - age) have an index up
//! to that commit index: those of this leader because the index was read afterwards, those of any
//! later leader because its majority has a member that still confirmed this one then. Both durations
//! are measured on one machine each, so all that is trusted is that clocks run at the same speed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use openraft::ServerState;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::acks::AckClock;
use super::log::GroupLog;
use super::status::Metrics;
use super::types::NodeId;

/// Proofs that a follower keeps: the newest may name an index that it has not applied yet.
const PROOFS_MAX: usize = 64;
/// Proofs for different indexes are kept if they are at least so far apart. Together they cover more
/// than a second of entries that wait to be applied.
const PROOFS_APART: Duration = Duration::from_millis(20);

/// A moment on the clock of one process: comparable only with others of the same run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// Drawn at random when the process starts.
    pub(crate) run: u64,
    /// Microseconds since then.
    pub(crate) at_us: u64,
}

/// A leader's word on how fresh a state is, in durations that it measured itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fresh {
    /// Everything acknowledged until `quorum_age_us` before this was sent has an index up to this one.
    pub(crate) commit: u64,
    pub(crate) quorum_age_us: u64,
    /// The newest stamp that the leader had from the receiver: it was made before this was sent.
    pub(crate) echo: Stamp,
}

/// The clock of this process that stamps are made with.
#[derive(Debug)]
pub(crate) struct RunClock {
    run: u64,
    start: Instant,
}

impl RunClock {
    pub(crate) fn new() -> Self {
        RunClock { run: rand::random(), start: Instant::now() }
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { run: self.run, at_us: micros(self.start.elapsed()) }
    }

    /// When a stamp was made; `None` for one of another run, or of the future.
    fn moment(&self, stamp: Stamp) -> Option<Instant> {
        let moment = self.start.checked_add(Duration::from_micros(stamp.at_us))?;
        (stamp.run == self.run && moment <= Instant::now()).then_some(moment)
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// What a leader knows to tell its followers.
pub(crate) struct Leading {
    node: NodeId,
    acks: Arc<AckClock>,
    log: GroupLog,
    metrics: OnceLock<watch::Receiver<Metrics>>,
    stamps: Mutex<HashMap<NodeId, Stamp>>,
}

impl Leading {
    pub(crate) fn new(node: NodeId, acks: Arc<AckClock>, log: GroupLog) -> Self {
        Leading { node, acks, log, metrics: OnceLock::new(), stamps: Mutex::default() }
    }

    /// To be called once the group runs; until then nothing is told.
    pub(crate) fn attach(&self, metrics: watch::Receiver<Metrics>) {
        // A second call cannot happen, and would change nothing.
        let _ = self.metrics.set(metrics);
    }

    /// Keeps the stamp of an answer. Answers may overtake each other.
    pub(crate) fn answered(&self, peer: NodeId, stamp: Stamp) {
        let mut stamps = self.stamps.lock();
        match stamps.get_mut(&peer) {
            Some(known) if known.run == stamp.run && known.at_us >= stamp.at_us => {}
            Some(known) => *known = stamp,
            None => {
                stamps.insert(peer, stamp);
            }
        }
    }

    /// What to tell `peer` now, as the leader of `term`.
    pub(crate) fn tell(&self, peer: NodeId, term: u64) -> Option<Fresh> {
        let echo = *self.stamps.lock().get(&peer)?;
        let now = Instant::now();
        let age = {
            let metrics = self.metrics.get()?.borrow();
            if metrics.state != ServerState::Leader || metrics.current_term != term {
                return None;
            }
            let voters = metrics.membership_config.membership().get_joint_config();
            now.saturating_duration_since(self.acks.quorum(self.node, term, voters, now)?)
        };
        // Read after the age. Until an entry of its own term is committed, a leader does not know
        // all that earlier ones acknowledged.
        let committed = self.log.committed().filter(|committed| committed.term == term)?;
        Some(Fresh { commit: committed.index, quorum_age_us: micros(age), echo })
    }
}

/// What a follower has been told.
#[derive(Debug, Default)]
pub(crate) struct Following {
    /// Oldest first: commit index, and the moment until which everything acknowledged is below it.
    proofs: Mutex<VecDeque<(u64, Instant)>>,
}

impl Following {
    pub(crate) fn told(&self, fresh: &Fresh, clock: &RunClock) {
        let Some(sent) = clock.moment(fresh.echo) else { return };
        let Some(moment) = sent.checked_sub(Duration::from_micros(fresh.quorum_age_us)) else { return };
        let mut proofs = self.proofs.lock();
        if let Some((index, newest)) = proofs.back_mut() {
            // Of proofs for one index the newest says all.
            if *index == fresh.commit {
                *newest = moment.max(*newest);
                return;
            }
            if moment < *newest + PROOFS_APART {
                return;
            }
        }
        proofs.push_back((fresh.commit, moment));
        if proofs.len() > PROOFS_MAX {
            proofs.pop_front();
        }
    }

    /// The latest moment until which a state that shows everything up to `visible` is known to hold
    /// all that was acknowledged.
    pub(crate) fn fresh_until(&self, visible: u64) -> Option<Instant> {
        let proofs = self.proofs.lock();
        proofs.iter().rev().find(|(index, _)| *index <= visible).map(|(_, moment)| *moment)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn fresh(clock: &RunClock, commit: u64, stamp_us: u64, quorum_age_us: u64) -> Fresh {
        Fresh { commit, quorum_age_us, echo: Stamp { run: clock.run, at_us: stamp_us } }
    }

    fn clock(age: Duration) -> RunClock {
        RunClock { run: 7, start: Instant::now().checked_sub(age).unwrap() }
    }

    #[test]
    fn a_state_is_as_fresh_as_the_newest_proof_that_it_satisfies() {
        let clock = clock(Duration::from_secs(10));
        let at = |us| clock.start + Duration::from_micros(us);
        let following = Following::default();
        assert_eq!(following.fresh_until(u64::MAX), None);
        following.told(&fresh(&clock, 5, 1_000_000, 200_000), &clock);
        following.told(&fresh(&clock, 9, 2_000_000, 300_000), &clock);
        assert_eq!(following.fresh_until(4), None);
        assert_eq!(following.fresh_until(5), Some(at(800_000)));
        assert_eq!(following.fresh_until(8), Some(at(800_000)));
        assert_eq!(following.fresh_until(9), Some(at(1_700_000)));
        // An older message that comes late changes nothing.
        following.told(&fresh(&clock, 7, 1_500_000, 0), &clock);
        assert_eq!(following.fresh_until(8), Some(at(800_000)));
        following.told(&fresh(&clock, 9, 3_000_000, 0), &clock);
        assert_eq!(following.fresh_until(9), Some(at(3_000_000)));
    }

    #[test]
    fn stamps_of_another_run_or_of_the_future_prove_nothing() {
        let clock = clock(Duration::from_secs(1));
        let following = Following::default();
        let stranger = RunClock { run: 8, start: clock.start };
        following.told(&fresh(&stranger, 1, 10, 0), &clock);
        following.told(&fresh(&clock, 1, 3_600_000_000, 0), &clock);
        following.told(&fresh(&clock, 1, u64::MAX, 0), &clock);
        assert_eq!(following.fresh_until(u64::MAX), None);
        // An age beyond all reason makes the proof old, and never newer than it is.
        following.told(&fresh(&clock, 1, 10, u64::MAX), &clock);
        assert!(following.fresh_until(1).is_none_or(|moment| moment < clock.start));
    }

    #[test]
    fn proofs_are_bounded() {
        let clock = clock(Duration::from_secs(100));
        let following = Following::default();
        for number in 0..10_000 {
            following.told(&fresh(&clock, number, number * 1_000, 0), &clock);
        }
        assert_eq!(following.proofs.lock().len(), PROOFS_MAX);
        assert!(following.fresh_until(9_999).is_some() && following.fresh_until(7_000).is_none());
        assert!(following.fresh_until(9_000).is_some(), "a second of waiting entries is covered");
    }
}
