//! Whether the disk under a state still does its work.
//!
//! sled writes behind the backs of its callers, and refuses everything once a write has failed. A state
//! whose disk is full or broken is of no use, and neither is the rest of the node, which lies on the same
//! disk: the process ends and says why, as it does when the log fails, and the other replicas go on. Rows
//! that are there and wrong are another matter: they cost their own group alone (see `quarantine.rs`).

use super::applier::ShardState;
use super::files::OpenError;
use crate::snapshot::SnapshotError;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;

/// What the system said when it first refused to read or write a state, if it did.
#[derive(Debug, Default)]
pub(super) struct DiskFailure(OnceLock<String>);

/// Whether all that is missing is room, so that what is on the disk is still what was written.
pub(super) fn is_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

impl ShardState {
    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Why nothing can be read from or written to it any more, if so. It comes back with a restart only.
    pub fn disk_failure(&self) -> Option<String> {
        self.disk.0.get().cloned()
    }

    /// Takes note of what sled said, if it is about the disk.
    pub(super) fn sled_failed(&self, error: &sled::Error) {
        if let sled::Error::Io(error) = error {
            self.disk_failed(error);
        }
    }

    /// The same for a snapshot file that could not take the place of the state.
    pub(super) fn install_failed(&self, error: &OpenError) {
        match error {
            OpenError::Sled { error, .. } => self.sled_failed(error),
            OpenError::Io { error, .. } | OpenError::Snapshot(SnapshotError::Io { error, .. })
                if error.raw_os_error().is_some() =>
            {
                self.disk_failed(error);
            }
            OpenError::Io { .. } | OpenError::Snapshot(_) => {}
        }
    }

    fn disk_failed(&self, error: &io::Error) {
        let mut is_first = false;
        self.disk.0.get_or_init(|| {
            is_first = true;
            error.to_string()
        });
        if !is_first {
            return;
        }
        tracing::error!(group = self.group, %error, "the disk of a state failed");
        // The kernel drops pages that it could not write: what is read later may be older than what was
        // written. The next start makes the state anew from the snapshot file and the log.
        if !is_no_room(error) {
            self.suspect_rows(self.visible().unwrap_or(0), &format!("the disk failed: {error}"));
        }
    }
}

/// Drops what holds a database. sled panics if the sync with which it ends fails; nothing counts on that
/// sync.
pub(crate) fn let_go<T>(held: T) {
    if catch_unwind(AssertUnwindSafe(|| drop(held))).is_err() {
        tracing::warn!("a database could not be synced when it was closed");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::{boot, log, open};
    use super::*;
    use crate::raft::Applier;
    use crate::shard::Reason;

    const EIO: i32 = 5;
    const ENOSPC: i32 = 28;

    #[test]
    fn a_full_disk_ends_the_node_and_leaves_the_state_to_be_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let state = open(dir.path(), &boot(1));
        state.apply(log()).unwrap();
        state.write_out();
        state.sled_failed(&sled::Error::Unsupported("no matter of the disk".into()));
        assert_eq!(state.disk_failure(), None);
        state.sled_failed(&sled::Error::Io(io::Error::from_raw_os_error(ENOSPC)));
        state.sled_failed(&sled::Error::Io(io::Error::from_raw_os_error(EIO)));
        let said = state.disk_failure().unwrap();
        assert!(said.contains("No space left on device"), "the first is the cause: {said}");
        assert!(!state.quarantine().holds());
        let before = state.hash();
        let_go(state);
        assert_eq!(open(dir.path(), &boot(1)).hash(), before);
    }

    #[test]
    fn a_disk_that_fails_costs_the_state_at_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let state = open(dir.path(), &boot(1));
        state.apply(log()).unwrap();
        state.sled_failed(&sled::Error::Io(io::Error::from_raw_os_error(EIO)));
        assert!(state.disk_failure().unwrap().contains("Input/output error"));
        assert_eq!(state.quarantine().suspicion().unwrap().reason, Reason::Unreadable);
        let_go(state);
        let state = open(dir.path(), &boot(1));
        assert_eq!((state.visible(), state.quarantine().holds()), (None, false), "made anew from the log");
        assert_eq!(state.disk_failure(), None);
    }

    #[test]
    fn a_snapshot_file_that_cannot_be_installed_for_want_of_a_disk_counts_and_a_damaged_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let state = open(dir.path(), &boot(1));
        let (path, no_room) = (dir.path().to_owned(), || io::Error::from_raw_os_error(ENOSPC));
        state.install_failed(&OpenError::Snapshot(SnapshotError::Damaged("a flipped bit".into())));
        state.install_failed(&OpenError::Io { path: path.clone(), error: io::Error::other("closed") });
        assert_eq!(state.disk_failure(), None);
        state.install_failed(&OpenError::Snapshot(SnapshotError::Io { path, error: no_room() }));
        assert!(state.disk_failure().is_some());
    }

    #[test]
    fn letting_go_bears_a_panic() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("没有磁盘");
            }
        }
        let_go(Panics);
    }
}
