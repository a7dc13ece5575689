//! The node's log: one raft-engine holds the entries, votes and commit marks of all groups, and one
//! thread writes them, so that many groups share each fsync.

mod cleaner;
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
pub(crate) use writer::panic_text;

/// What another device than the engine needs.
#[cfg(test)]
pub(crate) mod sim {
    pub(crate) use super::engine::key;
    pub(crate) use super::reader::decode as decode_entries;
    pub(crate) use super::writer::{Change, Done};
}

#[cfg(test)]
mod engine_tests;
#[cfg(test)]
mod renew_tests;
#[cfg(test)]
mod store_tests;
