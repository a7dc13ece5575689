//! The file system under raft-engine: the operating system's, with every sync counted and timed.
//!
//! Tests inject slow and failing syncs here.

use std::io::{Error, Result, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use raft_engine::env::{DefaultFileSystem, FileSystem, Handle, Permission, WriteExt};

use crate::crash::{Step, crash_point};

use super::times::{TimeCounts, Times};

type OsHandle = <DefaultFileSystem as FileSystem>::Handle;

/// Counts of the syncs done, and the faults to inject.
#[derive(Debug, Default)]
pub(crate) struct SyncProbe {
    syncs: AtomicU64,
    times: Times,
    fail: AtomicBool,
    failure: OnceLock<String>,
    delay_us: AtomicU64,
    closing: AtomicBool,
}

impl SyncProbe {
    /// How many syncs have completed.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Acquire)
    }

    /// Completed syncs by their time.
    pub(crate) fn times(&self) -> TimeCounts {
        self.times.read()
    }

    /// What the system said when a sync failed for the first time, if one did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.get().map(|said| format!("a sync failed: {said}"))
    }

    /// Makes every later sync fail.
    #[cfg(test)]
    pub(crate) fn fail(&self) {
        self.fail.store(true, Ordering::Release);
    }

    /// Makes every later sync take at least this long.
    #[cfg(test)]
    pub(crate) fn delay(&self, delay: Duration) {
        self.delay_us.store(u64::try_from(delay.as_micros()).unwrap(), Ordering::Release);
    }

    /// From here on failed syncs are logged and forgiven.
    ///
    /// raft-engine panics when the sync of a file that it closes fails, and it closes two: the second
    /// panic would abort the process. What had to be durable was synced, or reported as failed, before.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    fn around(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let result = self.observe(sync).inspect_err(|error| {
            self.failure.get_or_init(|| error.to_string());
        });
        match result {
            Err(error) if self.closing.load(Ordering::Acquire) => {
                tracing::error!(%error, "a log file could not be synced when it was closed");
                Ok(())
            }
            result => result,
        }
    }

    fn observe(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let delay_us = self.delay_us.load(Ordering::Acquire);
        if delay_us > 0 {
            std::thread::sleep(Duration::from_micros(delay_us));
        }
        if self.fail.load(Ordering::Acquire) {
            return Err(Error::other("injected sync failure"));
        }
        let start = Instant::now();
        sync()?;
        self.times.add(start.elapsed());
        self.syncs.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

/// raft-engine keeps the kind of an error and puts the name of the call in the place of what the system
/// said, which is what an operator needs. It is still in `errno`: nothing but the call came before.
fn as_said(error: Error) -> Error {
    let said = Error::last_os_error();
    if said.kind() == error.kind() { said } else { error }
}

/// A file that reports its syncs.
pub(crate) struct ObservedFile {
    inner: Arc<OsHandle>,
    probe: Arc<SyncProbe>,
}

impl Handle for ObservedFile {
    fn truncate(&self, offset: usize) -> Result<()> {
        self.inner.truncate(offset).map_err(as_said)
    }

    fn file_size(&self) -> Result<usize> {
        self.inner.file_size().map_err(as_said)
    }

    fn sync(&self) -> Result<()> {
        self.probe.around(|| self.inner.sync().map_err(as_said))?;
        crash_point(Step::LogSynced);
        Ok(())
    }
}

/// What is written through it may be cut off by a test after any call.
pub(crate) struct ObservedWriter(<DefaultFileSystem as FileSystem>::Writer);

impl Write for ObservedWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let written = self.0.write(bytes).map_err(as_said)?;
        crash_point(Step::LogWritten);
        Ok(written)
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}

impl Seek for ObservedWriter {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.0.seek(to)
    }
}

impl WriteExt for ObservedWriter {
    fn truncate(&mut self, offset: usize) -> Result<()> {
        self.0.truncate(offset).map_err(as_said)
    }

    fn allocate(&mut self, offset: usize, size: usize) -> Result<()> {
        self.0.allocate(offset, size).map_err(as_said)
    }
}

/// The operating system's files, observed.
pub(crate) struct ObservedFiles {
    probe: Arc<SyncProbe>,
}

impl ObservedFiles {
    pub(crate) fn new(probe: Arc<SyncProbe>) -> Self {
        ObservedFiles { probe }
    }

    fn observe(&self, inner: OsHandle) -> ObservedFile {
        ObservedFile { inner: Arc::new(inner), probe: self.probe.clone() }
    }
}

impl FileSystem for ObservedFiles {
    type Handle = ObservedFile;
    type Reader = <DefaultFileSystem as FileSystem>::Reader;
    type Writer = ObservedWriter;

    fn create<P: AsRef<Path>>(&self, path: P) -> Result<Self::Handle> {
        let file = DefaultFileSystem.create(path).map_err(as_said)?;
        crash_point(Step::LogFileCreated);
        Ok(self.observe(file))
    }

    fn open<P: AsRef<Path>>(&self, path: P, perm: Permission) -> Result<Self::Handle> {
        Ok(self.observe(DefaultFileSystem.open(path, perm).map_err(as_said)?))
    }

    fn delete<P: AsRef<Path>>(&self, path: P) -> Result<()> {
        DefaultFileSystem.delete(path)?;
        crash_point(Step::LogFileRemoved);
        Ok(())
    }

    fn rename<P: AsRef<Path>>(&self, src_path: P, dst_path: P) -> Result<()> {
        DefaultFileSystem.rename(src_path, dst_path)
    }

    fn new_reader(&self, handle: Arc<Self::Handle>) -> Result<Self::Reader> {
        DefaultFileSystem.new_reader(handle.inner.clone())
    }

    fn new_writer(&self, handle: Arc<Self::Handle>) -> Result<Self::Writer> {
        DefaultFileSystem.new_writer(handle.inner.clone()).map(ObservedWriter)
    }
}
