//! The snapshot files of one shard on this disk.
//!
//! A file gets its final name only when it is synced and was read back and verified: what bears that
//! name may be purged up to. `current` here is the newest of them; the others are removed.

use super::drafts::{Incoming, SnapshotDraft};
use super::format::{END, FileId, Header, SnapshotError, Summary, damaged};
use super::reader::SnapshotReader;
use crate::crash::{Step, crash_point};
use crate::raft::GroupId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

const FINAL: &str = "snap";
const TEMPORARY: &str = "tmp";
const PARTIAL: &str = "part";
const DAMAGED: &str = "damaged";
const BUFFER_BYTES: usize = 256 << 10;

/// A verified file, open: it can be read to its end even after a newer one has replaced it.
#[derive(Debug)]
pub struct SnapshotFile {
    path: PathBuf,
    file: Arc<File>,
    header: Header,
    id: FileId,
    bytes: u64,
}

impl SnapshotFile {
    /// What it says about itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Which file it is.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it from the beginning.
    ///
    /// # Errors
    /// [`SnapshotError`] if its head is damaged by now.
    pub fn reader(&self) -> Result<SnapshotReader<impl Read>, SnapshotError> {
        let from = BufReader::with_capacity(BUFFER_BYTES, ReadAt { file: Arc::clone(&self.file), at: 0 });
        SnapshotReader::new(from, &self.path)
    }

    /// The bytes at `at`, at most `length` of them; fewer at the end.
    ///
    /// # Errors
    /// What the system said.
    pub fn read_at(&self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let left = usize::try_from(self.bytes.saturating_sub(at)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length.min(left)];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    /// Opens a file and checks its two ends. Not its rows: that is for whoever uses them.
    fn open(path: &Path, cluster: &str, group: GroupId) -> Result<Self, SnapshotError> {
        let file = Arc::new(File::open(path).map_err(|error| io_error(path, error))?);
        let bytes = file.metadata().map_err(|error| io_error(path, error))?.len();
        let reader = SnapshotReader::new(ReadAt { file: Arc::clone(&file), at: 0 }, path)?;
        check_owner(reader.header(), cluster, group)?;
        let mut end = [0; END];
        let at = bytes.checked_sub(END as u64).ok_or_else(|| damaged("it ends too early"))?;
        file.read_exact_at(&mut end, at).map_err(|error| io_error(path, error))?;
        reader.check_end(&end, bytes)?;
        let (header, id) = (reader.header().clone(), reader.id());
        Ok(Self { path: path.to_owned(), file, header, id, bytes })
    }
}

/// Reads an open file from a place of its own.
struct ReadAt {
    file: Arc<File>,
    at: u64,
}

impl Read for ReadAt {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(bytes, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// The snapshot files of one shard.
#[derive(Debug)]
pub struct SnapshotFiles {
    dir: PathBuf,
    cluster: String,
    group: GroupId,
    state: Mutex<Known>,
    damaged: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    newest: Option<Arc<SnapshotFile>>,
    /// Older files that somebody still reads.
    lent: HashMap<FileId, Weak<SnapshotFile>>,
}

impl SnapshotFiles {
    /// Finds the newest usable file in `dir`, which is made if it is missing. What is not usable is set
    /// aside and reported; what an interrupted write left is removed.
    ///
    /// # Errors
    /// [`SnapshotError::Io`] if the directory cannot be read or written.
    pub fn open(dir: &Path, cluster: &str, group: GroupId) -> Result<Arc<Self>, SnapshotError> {
        create_durably(dir).map_err(|error| io_error(dir, error))?;
        let files = Self {
            dir: dir.to_owned(),
            cluster: cluster.to_owned(),
            group,
            state: Mutex::default(),
            damaged: AtomicU64::new(0),
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(|error| io_error(dir, error))? {
            let path = entry.map_err(|error| io_error(dir, error))?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(FINAL) => names.push(path),
                Some(TEMPORARY) => remove(&path)?,
                _ => {}
            }
        }
        // The index leads the name, in as many digits as it can have.
        names.sort();
        let newest = files.first_usable(names.into_iter().rev())?;
        files.state.lock().newest = newest.map(Arc::new);
        Ok(Arc::new(files))
    }

    fn first_usable(
        &self,
        newest_first: impl Iterator<Item = PathBuf>,
    ) -> Result<Option<SnapshotFile>, SnapshotError> {
        let mut found = None;
        for path in newest_first {
            if found.is_some() {
                remove(&path)?;
                continue;
            }
            match SnapshotFile::open(&path, &self.cluster, self.group) {
                Ok(file) => found = Some(file),
                Err(error @ SnapshotError::Io { .. }) => return Err(error),
                Err(error) => self.put_aside(&path, &error)?,
            }
        }
        Ok(found)
    }

    /// The newest verified file.
    pub fn newest(&self) -> Option<Arc<SnapshotFile>> {
        self.state.lock().newest.clone()
    }

    /// The file with this id, if it is the newest or somebody still reads it.
    pub fn by_id(&self, id: FileId) -> Option<Arc<SnapshotFile>> {
        let known = self.state.lock();
        match &known.newest {
            Some(newest) if newest.id == id => Some(Arc::clone(newest)),
            _ => known.lent.get(&id).and_then(Weak::upgrade),
        }
    }

    /// The log index of the newest verified file: how far the log may be purged.
    pub fn newest_index(&self) -> Option<u64> {
        self.state.lock().newest.as_ref().map(|file| file.id.index)
    }

    /// How many damaged files were found since the start.
    pub fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Begins a new file.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn draft(self: &Arc<Self>, header: Header) -> Result<SnapshotDraft, SnapshotError> {
        check_owner(&header, &self.cluster, self.group)?;
        let path = self.dir.join(format!("{:020}.{TEMPORARY}", header.position.index));
        SnapshotDraft::begin(Arc::clone(self), path, header)
    }

    /// Goes on with a file that is being received, where it was left.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn receive(self: &Arc<Self>, id: FileId, bytes: u64) -> Result<Incoming, SnapshotError> {
        let path = self.dir.join(format!("{id}.{PARTIAL}"));
        self.remove_partial(Some(&path))?;
        Incoming::resume(Arc::clone(self), path, id, bytes)
    }

    /// Removes what is left of files that were being received, but for one.
    fn remove_partial(&self, but: Option<&Path>) -> Result<(), SnapshotError> {
        for entry in fs::read_dir(&self.dir).map_err(|error| io_error(&self.dir, error))? {
            let path = entry.map_err(|error| io_error(&self.dir, error))?.path();
            let partial = path.extension().is_some_and(|extension| extension == PARTIAL);
            if partial && Some(path.as_path()) != but {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// Sets the newest file aside because reading it failed; the replica has none then.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn give_up(&self, file: &SnapshotFile, cause: &SnapshotError) -> Result<(), SnapshotError> {
        let mut known = self.state.lock();
        if known.newest.as_ref().is_some_and(|newest| newest.id == file.id) {
            known.newest = None;
        }
        self.put_aside(&file.path, cause)
    }

    /// Keeps a damaged file for whoever wants to look; only the last one.
    fn put_aside(&self, path: &Path, cause: &SnapshotError) -> Result<(), SnapshotError> {
        tracing::error!(group = self.group, ?path, %cause, "a snapshot file cannot be used; it is set aside");
        self.damaged.fetch_add(1, Ordering::Relaxed);
        let aside = self.dir.join(format!("snapshot.{DAMAGED}"));
        fs::rename(path, &aside).map_err(|error| io_error(path, error))?;
        self.sync_dir()?;
        crash_point(Step::DamagedAside);
        Ok(())
    }

    /// Removes what may hold rows that were erased up to `index`: the damaged file, and what came of files
    /// that end before, which nobody needs beside a newer one.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub(crate) fn remove_kept(&self, index: u64) -> Result<(), SnapshotError> {
        for entry in fs::read_dir(&self.dir).map_err(|error| io_error(&self.dir, error))? {
            let path = entry.map_err(|error| io_error(&self.dir, error))?.path();
            let ends_at = || path.file_stem()?.to_str()?.split('-').next()?.parse::<u64>().ok();
            let is_old = match path.extension().and_then(|extension| extension.to_str()) {
                Some(DAMAGED) => true,
                Some(PARTIAL) => ends_at().is_none_or(|ends_at| ends_at < index),
                _ => false,
            };
            if is_old {
                remove(&path)?;
            }
        }
        self.sync_dir()
    }

    /// Verifies a synced file, gives it its final name and makes it the newest. One that is not newer
    /// than the newest is dropped, and the newest answered.
    pub(super) fn publish(&self, temporary: &Path, id: FileId) -> Result<Arc<SnapshotFile>, SnapshotError> {
        self.verify(temporary, id)?;
        crash_point(Step::Verified);
        let mut known = self.state.lock();
        if let Some(newest) = &known.newest
            && newest.id.index >= id.index
        {
            let newest = Arc::clone(newest);
            remove(temporary)?;
            return Ok(newest);
        }
        let path = self.dir.join(format!("{id}.{FINAL}"));
        fs::rename(temporary, &path).map_err(|error| io_error(&path, error))?;
        crash_point(Step::Renamed);
        self.sync_dir()?;
        crash_point(Step::Named);
        let file = Arc::new(SnapshotFile::open(&path, &self.cluster, self.group)?);
        let before = known.newest.replace(Arc::clone(&file));
        known.lent.retain(|_, lent| lent.strong_count() > 0);
        if let Some(before) = before {
            known.lent.insert(before.id, Arc::downgrade(&before));
            remove(&before.path)?;
        }
        crash_point(Step::OlderRemoved);
        Ok(file)
    }

    /// Reads a file back from the disk, every byte of it.
    fn verify(&self, path: &Path, id: FileId) -> Result<Summary, SnapshotError> {
        let file = File::open(path).map_err(|error| io_error(path, error))?;
        // What was just written is still in memory; the disk is what counts. Only advice.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        let reader = SnapshotReader::new(BufReader::with_capacity(BUFFER_BYTES, file), path)?;
        check_owner(reader.header(), &self.cluster, self.group)?;
        if reader.id() != id {
            return Err(damaged(format!("it is file {} and not {id}", reader.id())));
        }
        reader.verify()
    }

    fn sync_dir(&self) -> Result<(), SnapshotError> {
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(|error| io_error(&self.dir, error))
    }
}

/// Makes a directory that a power cut cannot take away again, with the files in it: it is the shard's,
/// in that of all shards, in the node's.
fn create_durably(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for ancestor in dir.ancestors().take(4).filter(|path| !path.as_os_str().is_empty()) {
        File::open(ancestor)?.sync_all()?;
    }
    Ok(())
}

fn check_owner(header: &Header, cluster: &str, group: GroupId) -> Result<(), SnapshotError> {
    if header.cluster == cluster && header.group == group {
        return Ok(());
    }
    let owner = |cluster: &str, group: GroupId| format!("group {group} of cluster {cluster:?}");
    Err(SnapshotError::Foreign { found: owner(&header.cluster, header.group), wanted: owner(cluster, group) })
}

pub(super) fn remove(path: &Path) -> Result<(), SnapshotError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(path, error)),
        _ => Ok(()),
    }
}

pub(super) fn io_error(path: &Path, error: io::Error) -> SnapshotError {
    SnapshotError::Io { path: path.to_owned(), error }
}
