//! The file system under raft-engine: the operating system's, with every sync counted and timed.
//!
//! Tests inject slow and failing syncs here.

use std::io::{Error, Result};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use raft_engine::env::{DefaultFileSystem, FileSystem, Handle, Permission};

use super::times::{TimeCounts, Times};

type OsHandle = <DefaultFileSystem as FileSystem>::Handle;

/// Counts of the syncs done, and the faults to inject.
#[derive(Debug, Default)]
pub(crate) struct SyncProbe {
    syncs: AtomicU64,
    times: Times,
    fail: AtomicBool,
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
        match self.observe(sync) {
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

/// A file that reports its syncs.
pub(crate) struct ObservedFile {
    inner: Arc<OsHandle>,
    probe: Arc<SyncProbe>,
}

impl Handle for ObservedFile {
    fn truncate(&self, offset: usize) -> Result<()> {
        self.inner.truncate(offset)
    }

    fn file_size(&self) -> Result<usize> {
        self.inner.file_size()
    }

    fn sync(&self) -> Result<()> {
        self.probe.around(|| self.inner.sync())
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
    type Writer = <DefaultFileSystem as FileSystem>::Writer;

    fn create<P: AsRef<Path>>(&self, path: P) -> Result<Self::Handle> {
        Ok(self.observe(DefaultFileSystem.create(path)?))
    }

    fn open<P: AsRef<Path>>(&self, path: P, perm: Permission) -> Result<Self::Handle> {
        Ok(self.observe(DefaultFileSystem.open(path, perm)?))
    }

    fn delete<P: AsRef<Path>>(&self, path: P) -> Result<()> {
        DefaultFileSystem.delete(path)
    }

    fn rename<P: AsRef<Path>>(&self, src_path: P, dst_path: P) -> Result<()> {
        DefaultFileSystem.rename(src_path, dst_path)
    }

    fn new_reader(&self, handle: Arc<Self::Handle>) -> Result<Self::Reader> {
        DefaultFileSystem.new_reader(handle.inner.clone())
    }

    fn new_writer(&self, handle: Arc<Self::Handle>) -> Result<Self::Writer> {
        DefaultFileSystem.new_writer(handle.inner.clone())
    }
}
