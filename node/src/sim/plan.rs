//! What a simulation is made from.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::str::FromStr;
use std::time::Duration;

/// A defect that is put in on purpose, to see it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sabotage {
    /// The log reports a write done before it is on disk.
    AckBeforeSync,
    /// The log takes what it finds at its start for durable, whether it was synced or not.
    TrustUnsynced,
    /// The leader answers a write that it has not replicated.
    AckBeforeQuorum,
    /// Any replica answers a read, whatever its token says.
    IgnoreToken,
    /// A leader answers a linearizable read without asking a majority.
    ReadWithoutQuorum,
    /// A vote is forgotten at a restart.
    ForgetVote,
    /// A client repeats a write without its idempotency key.
    RepeatWithoutKey,
    /// A replica applies now and then another time than the entry's.
    OwnClockInApply,
    /// A deletion leaves no tombstone.
    NoTombstone,
    /// Something comes from the machine and not from the seed.
    Chance,
}

impl Sabotage {
    /// All of them, with their names.
    pub(super) const ALL: [(&str, Self); 10] = [
        ("ack-before-sync", Self::AckBeforeSync),
        ("trust-unsynced", Self::TrustUnsynced),
        ("ack-before-quorum", Self::AckBeforeQuorum),
        ("ignore-token", Self::IgnoreToken),
        ("read-without-quorum", Self::ReadWithoutQuorum),
        ("forget-vote", Self::ForgetVote),
        ("repeat-without-key", Self::RepeatWithoutKey),
        ("own-clock-in-apply", Self::OwnClockInApply),
        ("no-tombstone", Self::NoTombstone),
        ("chance", Self::Chance),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, sabotage)| *sabotage == self).map_or("", |(name, _)| *name)
    }
}

impl FromStr for Sabotage {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, sabotage)| *sabotage).ok_or_else(|| format!("there is no sabotage {name:?}"))
    }
}

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breaks {
    /// Anything, as the seed has it.
    Anything,
    /// In this order, again and again: one node of three cannot be reached, another one is killed while it
    /// syncs and comes back at once, and loses its power soon after; the third, which knows more, is gone for
    /// a while. Chance comes to that too seldom.
    KillThenCut,
}

/// A simulation. Everything but the sabotage and the kind of faults follows from the seed.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) sabotage: Option<Sabotage>,
    pub(super) breaks: Breaks,
    /// Nodes, each with a replica of every group.
    pub(super) nodes: u64,
    /// Groups, which are shards.
    pub(super) shards: u16,
    pub(super) clients: u64,
    /// For how long things break.
    pub(super) faulty: Duration,
    pub(super) latency_max: Duration,
    /// The usual time of a sync.
    pub(super) sync: Duration,
    /// How much faster a node's monotonic clock may run than the true time; in parts per million.
    pub(super) drift_ppm_max: u64,
}

impl Plan {
    pub(super) fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
        // Another stream than the run's own: the plan must not move with what the run draws.
        let mut chance = StdRng::seed_from_u64(seed ^ 0x706c_616e);
        Plan {
            seed,
            sabotage,
            breaks: Breaks::Anything,
            nodes: if chance.random_bool(0.35) { 5 } else { 3 },
            shards: chance.random_range(1..=3),
            clients: chance.random_range(3..=5),
            faulty: Duration::from_secs(chance.random_range(20..=30)),
            latency_max: Duration::from_millis(chance.random_range(2..=15)),
            sync: Duration::from_millis(chance.random_range(1..=30)),
            drift_ppm_max: 500,
        }
    }

    /// The same with [`Breaks::KillThenCut`].
    pub(super) fn kill_then_cut(seed: u64, sabotage: Option<Sabotage>) -> Self {
        Plan { breaks: Breaks::KillThenCut, nodes: 3, ..Plan::new(seed, sabotage) }
    }

    pub(super) fn is(&self, sabotage: Sabotage) -> bool {
        self.sabotage == Some(sabotage)
    }
}
