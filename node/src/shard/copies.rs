//! Up to where what was erased has left the copies that this replica keeps.

use super::applier::ShardState;
use super::files::{OpenError, ShardFiles};
use crate::erasing::Forgotten;
use crate::snapshot::SnapshotError;
use std::sync::atomic::Ordering;

impl ShardState {
    /// Up to where what was erased has left the copies of this replica, as far as this process knows.
    pub fn forgotten(&self) -> Forgotten {
        *self.forgotten.lock()
    }

    /// The images hold nothing any more that was erased up to this index.
    pub(crate) fn forgot_images(&self, index: u64) {
        let mut forgotten = self.forgotten.lock();
        forgotten.images = forgotten.images.max(index);
    }

    /// Neither do log and snapshot files.
    pub(crate) fn forgot_log(&self, index: u64) {
        let mut forgotten = self.forgotten.lock();
        forgotten.log = forgotten.log.max(index);
    }

    /// The current database was made from what stood at this index. Its directory holds nothing that was
    /// erased before, unless another database is kept beside it.
    pub(super) fn made_from(&self, index: u64, files: &ShardFiles) {
        self.made_from.fetch_max(index, Ordering::Relaxed);
        match files.has_others() {
            Ok(false) => self.forgot_database(index),
            Ok(true) => {}
            Err(error) => tracing::warn!(group = self.group, %error, "what is kept of a state is not known"),
        }
    }

    fn forgot_database(&self, index: u64) {
        let mut forgotten = self.forgotten.lock();
        forgotten.database = forgotten.database.max(index);
    }

    /// Removes the databases that are kept beside the current one, if that alone is what keeps rows that
    /// were erased up to `index`: it was itself made from what stood then, or later. Answers whether it was.
    ///
    /// # Errors
    /// [`OpenError`] if they cannot be removed.
    pub(crate) fn let_go_of_kept(&self, index: u64) -> Result<bool, OpenError> {
        let _one_at_a_time = self.replacing.lock();
        let made_from = self.made_from.load(Ordering::Relaxed);
        let files = self.files.lock();
        let Some(files) = files.as_ref().filter(|_| made_from >= index) else { return Ok(false) };
        files.remove_all_others()?;
        self.forgot_database(made_from);
        Ok(true)
    }

    /// Removes what is kept beside the newest snapshot file, where that may hold rows that were erased up to
    /// `index`: a damaged file, and pieces of files that were being received.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub(crate) fn let_go_of_files(&self, index: u64) -> Result<(), SnapshotError> {
        self.snapshots().remove_kept(index)
    }
}
