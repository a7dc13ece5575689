//! Files on their way to their final name: written here, or received.

use super::files::{SnapshotFile, SnapshotFiles, io_error, remove};
use super::format::{FileId, Header, SnapshotError, damaged};
use super::writer::SnapshotWriter;
use crate::crash::{Step, crash_point};
use holdfast_core::sabotage::{Fault, is};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

/// A long write is synced in pieces of this size, so that the fsync of the log never waits for all
/// of it at once.
const SYNC_BYTES: u64 = 8 << 20;
const BUFFER_BYTES: usize = 256 << 10;

/// A file that is being written. Dropped before [`SnapshotDraft::publish`], it leaves nothing.
pub struct SnapshotDraft {
    files: Arc<SnapshotFiles>,
    temporary: Temporary,
    writer: SnapshotWriter<BufWriter<SyncedFile>>,
}

impl SnapshotDraft {
    /// Begins a file at `path`, which gets its final name when it is published.
    pub(super) fn begin(
        files: Arc<SnapshotFiles>,
        path: PathBuf,
        header: Header,
    ) -> Result<Self, SnapshotError> {
        let file = File::create(&path).map_err(|error| io_error(&path, error))?;
        let temporary = Temporary { path: path.clone(), keep: false };
        let to = BufWriter::with_capacity(BUFFER_BYTES, SyncedFile { file, unsynced: 0 });
        let writer = SnapshotWriter::new(to, &path, header)?;
        Ok(Self { files, temporary, writer })
    }

    /// Adds a row, which must sort behind the one before.
    ///
    /// # Errors
    /// [`SnapshotError`]; the draft is useless then.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), SnapshotError> {
        self.writer.push(key, value)
    }

    /// Completes, syncs, verifies and names the file.
    ///
    /// # Errors
    /// [`SnapshotError`]; the newest file is then the one before.
    pub fn publish(self) -> Result<Arc<SnapshotFile>, SnapshotError> {
        let Self { files, mut temporary, writer } = self;
        let head = writer.head_checksum();
        let index = writer.index();
        let (to, _summary) = writer.finish()?;
        let file = to.into_inner().map_err(|error| io_error(&temporary.path, error.into_error()))?;
        crash_point(Step::Written);
        if !is(Fault::PurgeBeforeSnapshot) {
            file.file.sync_all().map_err(|error| io_error(&temporary.path, error))?;
        }
        crash_point(Step::Synced);
        let published = files.publish(&temporary.path, FileId { index, head })?;
        temporary.keep = true;
        Ok(published)
    }
}

/// Removes its file unless it was kept.
struct Temporary {
    path: PathBuf,
    keep: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = ?self.path, %error, "an unfinished snapshot file was not removed");
        }
    }
}

/// A file that is being received, in order and from any number of connections.
pub struct Incoming {
    files: Arc<SnapshotFiles>,
    path: PathBuf,
    file: SyncedFile,
    id: FileId,
    bytes: u64,
    at: u64,
}

impl Incoming {
    /// Opens what has come of a file so far.
    pub(super) fn resume(
        files: Arc<SnapshotFiles>,
        path: PathBuf,
        id: FileId,
        bytes: u64,
    ) -> Result<Self, SnapshotError> {
        let open = || -> io::Result<(File, u64)> {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
            let mut at = file.metadata()?.len();
            if at > bytes {
                // Of another length: it cannot be the beginning of this one.
                file.set_len(0)?;
                at = 0;
            }
            Ok((file, at))
        };
        let (file, at) = open().map_err(|error| io_error(&path, error))?;
        Ok(Self { files, path, file: SyncedFile { file, unsynced: 0 }, id, bytes, at })
    }

    /// How much is there: where the next piece begins.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Whether all of it is there.
    pub fn is_complete(&self) -> bool {
        self.at >= self.bytes
    }

    /// Adds the next piece.
    ///
    /// # Errors
    /// [`SnapshotError`] if it is longer than what is missing, or cannot be written.
    pub fn append(&mut self, piece: &[u8]) -> Result<(), SnapshotError> {
        if self.at + piece.len() as u64 > self.bytes {
            return Err(damaged("more bytes came than the file has"));
        }
        let written = self.file.file.write_all_at(piece, self.at).and_then(|()| self.file.count(piece.len()));
        written.map_err(|error| io_error(&self.path, error))?;
        crash_point(Step::PieceWritten);
        self.at += piece.len() as u64;
        Ok(())
    }

    /// Syncs, verifies and names the file. One that is damaged is removed: it comes anew.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn publish(self) -> Result<Arc<SnapshotFile>, SnapshotError> {
        self.file.file.sync_all().map_err(|error| io_error(&self.path, error))?;
        crash_point(Step::IncomingSynced);
        let published = self.files.publish(&self.path, self.id);
        match &published {
            Ok(_) => crash_point(Step::Received),
            Err(SnapshotError::Io { .. }) => {}
            Err(_) => remove(&self.path)?,
        }
        published
    }
}

/// A file that is synced from time to time while it is written.
struct SyncedFile {
    file: File,
    unsynced: u64,
}

impl SyncedFile {
    fn count(&mut self, written: usize) -> io::Result<()> {
        self.unsynced += written as u64;
        if self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            self.file.sync_data()?;
        }
        Ok(())
    }
}

impl Write for SyncedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.count(written)?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
