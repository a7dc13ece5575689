//! Snapshot files: the whole state of a shard at one log index, in a file of our own.
//!
//! sled is never trusted across a power cut, and the log may not grow for ever. So from time to time
//! the rows of a shard are written to a checksummed file, and the log is purged up to the newest one.
//! The same file rebuilds a state that was lost, and brings a slow or new replica up to date.
//!
//! The invariants that this module keeps are in `docs/adr/0007-snapshot-files.md`.

#[cfg(test)]
mod cluster_tests;
mod drafts;
mod files;
mod format;
mod reader;
mod scheduler;
#[cfg(test)]
mod tests;
mod writer;

pub use drafts::{Incoming, SnapshotDraft};
pub use files::{SnapshotFile, SnapshotFiles};
pub use format::{FileId, Header, SnapshotError, Summary};
pub use reader::SnapshotReader;
pub use scheduler::SnapshotSettings;
pub(crate) use scheduler::run;
pub use writer::SnapshotWriter;
