//! The node's log: one raft-engine holds the entries, votes and commit marks of all groups, and one
//! thread writes them, so that many groups share each fsync.

mod device;
mod engine;
mod files;
mod reader;
mod store;
mod tail;
mod times;
mod writer;

pub(crate) use device::LogDevice;
pub(crate) use engine::{LogEngine, LogOptions};
pub use engine::{LogFiles, LogStats};
pub(crate) use store::{APPEND_ENTRIES_MAX, GroupLog};
pub use times::{TIME_BOUNDS_US, TimeCounts};

#[cfg(test)]
mod engine_tests;
#[cfg(test)]
mod store_tests;
