//! The file system under raft-engine: the operating system's, with every sync counted and timed.
//!
//! Tests inject slow and failing syncs here.

use std::io::{Error, Result};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use raft_engine::env::{DefaultFileSystem, FileSystem, Handle, Permission};

type OsHandle = <DefaultFileSystem as FileSystem>::Handle;

/// Upper bounds of [`crate::raft::LogStats::sync_counts`]: times of one sync, in microseconds.
pub const SYNC_BOUNDS_US: [u64; 13] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000];

/// Counts of the syncs done, and the faults to inject.
#[derive(Debug, Default)]
pub(crate) struct SyncProbe {
    syncs: AtomicU64,
    sync_us: AtomicU64,
    /// Syncs by their time: one for each bound, and the slower ones.
    sync_counts: [AtomicU64; SYNC_BOUNDS_US.len() + 1],
    fail: AtomicBool,
    delay_us: AtomicU64,
    closing: AtomicBool,
}

impl SyncProbe {
    /// How many syncs have completed.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Acquire)
    }

    /// Time spent in completed syncs.
    pub(crate) fn sync_time(&self) -> Duration {
        Duration::from_micros(self.sync_us.load(Ordering::Relaxed))
    }

    /// Completed syncs by their time: one count for each of [`SYNC_BOUNDS_US`], and the slower ones.
    pub(crate) fn sync_counts(&self) -> [u64; SYNC_BOUNDS_US.len() + 1] {
        std::array::from_fn(|at| self.sync_counts[at].load(Ordering::Relaxed))
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
        let elapsed_us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.sync_us.fetch_add(elapsed_us, Ordering::Relaxed);
        let bucket = SYNC_BOUNDS_US.partition_point(|bound_us| *bound_us < elapsed_us);
        self.sync_counts[bucket].fetch_add(1, Ordering::Relaxed);
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
