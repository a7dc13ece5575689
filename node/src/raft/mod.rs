//! Replication: everything that touches openraft and raft-engine, and nothing else of the node.
//!
//! Commands and outcomes are opaque bytes here. The path of a write: [`Group::propose`] queues it,
//! the batcher packs what waits into one entry, openraft replicates it, the log thread makes it durable
//! together with the entries of other groups, and an apply thread hands it to the group's [`Applier`].
//!
//! No openraft type leaves this module, and the log's format is ours (`record`), so that a new
//! version of openraft concerns this module alone.

mod acks;
mod address;
mod apply_pool;
mod batcher;
mod clock;
mod error;
mod freshness;
mod group;
mod guarded_clock;
mod handover;
mod link;
mod log;
mod multi;
mod network;
mod platform;
mod reads;
mod record;
mod report;
mod rest;
mod reversion;
mod runs;
mod service;
mod starter;
mod state_machine;
mod status;
mod transfer;
mod types;
mod wire;
mod witness;

pub use address::{AddressBook, StaticAddresses};
pub use batcher::{ENTRY_BYTES_MAX, ENTRY_COMMANDS_MAX, Proposed};
pub use clock::{Clock, SystemClock};
pub use error::{ApplierError, InitializeError, LogError, OpenError, ProposeError, ReadError, ReadRefused};
pub use group::{BatchStats, Group};
pub use guarded_clock::{GuardedClock, SinceBoot, SteadyTime};
pub use handover::HandOverError;
pub(crate) use log::panic_text;
pub use log::{LogStats, TIME_BOUNDS_US, TimeCounts};
pub use multi::{GroupSpec, LogFiles, RaftNode, RaftNodeConfig, Timing};
pub use report::{NodeReport, ReplicaReport};
pub use reversion::Reverted;
pub use service::RaftService;
pub use status::{GroupStatus, LeadershipWatch};
pub use types::{
    AppliedState, Applier, CommittedBody, CommittedEntry, ENTRY_PAYLOAD_FORMAT, EntryPayload, GroupId,
    LogPosition, NodeId, Outcomes,
};
pub use witness::{Kept, Mark};

/// What the simulation stands on in place of a machine.
#[cfg(test)]
pub(crate) mod sim {
    pub(crate) use super::apply_pool::ApplyPool;
    pub(crate) use super::error::LogError;
    pub(crate) use super::log::sim::{Change, Done, decode_entries, key};
    pub(crate) use super::log::{LogDevice, LogStats};
    pub(crate) use super::platform::{Connect, Platform};
    pub(crate) use super::types::RaftEntry;
}
