//! Erasures, worked off: leaders take out the rows, step by step ([`leader`], [`tenants`]); every node lets go of the
//! copies that its replicas keep of them ([`replica`]), and leaders write down who has.
//!
//! Invariants, each held by a test:
//! - a step is bounded, and follows from the rows alone: whoever leads goes on where the last one was;
//! - every erasure that is not done gets its turn, however many there are;
//! - what was recorded after an erasure began is not touched by it;
//! - a replica says that a place holds nothing more only after the files of before are gone.

mod leader;
mod replica;
mod select;
mod tenants;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use tenants::{going as tenants_going, spaces_left};

use crate::integrity::Versions;
use crate::raft::{Clock, GroupId, RaftNode};
use crate::service::Replica;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How erasures are worked off.
#[derive(Debug, Clone, Copy)]
pub struct EraseSettings {
    /// How often leaders and replicas look.
    pub look_every: Duration,
    /// How long after the rows went a replica makes a new snapshot file and lets go of the log before it.
    /// What is erased meanwhile goes with it.
    pub log_after: Duration,
    /// The same for the directory of its database.
    pub database_after: Duration,
}

impl Default for EraseSettings {
    /// Twice a second; half of the hour and half of the day that are promised.
    fn default() -> Self {
        Self {
            look_every: Duration::from_millis(500),
            log_after: Duration::from_mins(30),
            database_after: Duration::from_hours(12),
        }
    }
}

/// Up to which log index what was erased is no longer in the places of one replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Forgotten {
    /// Images of active spaces.
    pub images: u64,
    /// Log and snapshot files.
    pub log: u64,
    /// The directory of the database.
    pub database: u64,
}

impl Forgotten {
    /// Of one place.
    pub(crate) fn of(&self, place: holdfast_core::erasure::Place) -> u64 {
        use holdfast_core::erasure::Place;
        match place {
            Place::Images => self.images,
            Place::Log => self.log,
            Place::Database => self.database,
        }
    }
}

/// Starts both parts; they end with `stop`.
pub(crate) fn start(
    raft: &Arc<RaftNode>,
    replicas: &BTreeMap<GroupId, Replica>,
    settings: EraseSettings,
    clock: &Arc<dyn Clock>,
    versions: &Versions,
    stop: &CancellationToken,
) -> JoinHandle<()> {
    let leader = leader::run(Arc::clone(raft), replicas.clone(), settings, versions.clone(), stop.clone());
    let replica = replica::run(Arc::clone(raft), replicas.clone(), settings, Arc::clone(clock), stop.clone());
    tokio::spawn(async move {
        tokio::join!(leader, replica);
    })
}
