//! The applied state of one shard replica: a sled database, and the last few rows before it in memory,
//! that the snapshot file and the log can rebuild at any time.
//!
//! Invariants:
//! - every batch writes rows, applied position, membership and state hash in one atomic step, alone
//!   or with those that follow it;
//! - no batch splits a command, so a crash leaves a prefix of the commands of the log;
//! - the visible index advances only after the rows are in the store **and** in the live images;
//! - what cannot be read is set aside and rebuilt from snapshot file and log, never taken as empty.

mod applier;
mod batch;
mod check_index;
mod copies;
#[cfg(test)]
mod damage;
mod disk;
mod files;
#[cfg(test)]
mod integrity_tests;
mod kinds;
mod points;
mod position;
mod quarantine;
mod rebuild;
mod scrub;
mod sled_reader;
#[cfg(test)]
mod snapshot_tests;
mod snapshots;
mod store;
#[cfg(test)]
pub(crate) mod tests;
mod view;

pub use applier::{ShardHash, ShardPlace, ShardState};
#[cfg(test)]
pub(crate) use damage::Damage;
pub(crate) use disk::let_go;
pub use files::{BootId, OpenError, Opened, ShardFiles};
pub use kinds::KindCounts;
pub use points::Point;
pub use quarantine::{Quarantine, Reason, Suspicion};
pub use rebuild::{RebuildError, Source, point};
pub use scrub::{Progress, Scrubbed};
pub use sled_reader::{ShardReader, SledReader};
pub use snapshots::{BuildError, BuildLimits};
