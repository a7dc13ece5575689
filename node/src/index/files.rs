//! Files of indices: caches on the node's disk, one folder a space.
//!
//! What is in them is in the store, too. So they are written when there is time, read back with checksums,
//! and thrown away when they are damaged or do not belong to what is in the store now.
//!
//! Invariant: **once [`Files::remove`] of a space has returned, no file has what the space held before**, nor
//! will one. A draft is begun and published under one lock with the question whether its image is still the
//! live one, and a removal makes the image go under the same lock. That is what an erasure relies on.

use holdfast_core::space::SpaceKey;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_128;

/// Files and folders are for the node's own user.
const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// What is not finished yet.
const DRAFT: &str = "tmp";
/// Caches leave so much of the disk to logs and states, or a tenth of it if that is less.
const RESERVE_BYTES: u64 = 1 << 30;
/// Behind a sealed value: its length, its hash and the mark of its kind.
const TRAILER: usize = 8 + 16 + 8;
/// Most that a sealed value may take: some 40 million rows.
const SEALED_MAX: u64 = 1 << 30;

/// Why a file of an index cannot be used or made. The store still has everything.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    #[error("it belongs to something else")]
    Foreign,
    #[error("the disk has no room for {0} bytes")]
    Full(u64),
    #[error("no files of indices are kept here")]
    Nowhere,
    #[error("it was given up")]
    GivenUp,
}

/// The folder of all files of indices.
#[derive(Debug, Default)]
pub(super) struct Files {
    root: Option<PathBuf>,
    lock: Mutex<()>,
    /// Drafts so far: two of one file, of an image that goes and of the next, have two names.
    drafts: AtomicU64,
}

/// A file that is being written. Dropped, it is gone.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) file: File,
    draft: PathBuf,
    path: PathBuf,
}

impl Files {
    /// No files: indices live in memory alone.
    pub(super) fn none() -> Self {
        Self::default()
    }

    /// Files in a folder, which is made if it is missing. What an earlier process did not finish is removed.
    ///
    /// # Errors
    /// If the folder cannot be made or read.
    pub(super) fn at(root: &Path) -> io::Result<Self> {
        make_dir(root)?;
        for space in fs::read_dir(root)? {
            let space = space?.path();
            if !space.is_dir() {
                continue;
            }
            for file in fs::read_dir(space)? {
                let file = file?.path();
                if file.extension().is_some_and(|extension| extension == DRAFT) {
                    fs::remove_file(file)?;
                }
            }
        }
        Ok(Self { root: Some(root.to_owned()), ..Self::default() })
    }

    /// Whether there are any.
    pub(super) fn are_kept(&self) -> bool {
        self.root.is_some()
    }

    /// The names of the files of a space that end in `extension`, in alphabetical order.
    pub(super) fn names(&self, space: &SpaceKey, extension: &str) -> io::Result<Vec<String>> {
        let Ok(dir) = self.dir(space) else { return Ok(Vec::new()) };
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            if Path::new(&name).extension().is_some_and(|found| found == extension)
                && let Some(name) = name.to_str()
            {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Where a file of a space is, or would be.
    pub(super) fn path(&self, space: &SpaceKey, name: &str) -> Result<PathBuf, FileError> {
        Ok(self.dir(space)?.join(name))
    }

    /// Begins a file of about so many bytes, if it `is_wanted`.
    pub(super) fn draft(
        &self,
        space: &SpaceKey,
        name: &str,
        bytes: u64,
        is_wanted: impl FnOnce() -> bool,
    ) -> Result<Draft, FileError> {
        let dir = self.dir(space)?;
        let _locked = self.lock.lock();
        if !is_wanted() {
            return Err(FileError::GivenUp);
        }
        make_dir(&dir)?;
        has_room(&dir, bytes)?;
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        let (path, draft) = (dir.join(name), dir.join(format!("{name}.{number}.{DRAFT}")));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(FILE_MODE).open(&draft)?;
        Ok(Draft { file, draft, path })
    }

    /// Puts a draft in its place, on disk, if it still `is_wanted`.
    pub(super) fn publish(&self, draft: Draft, is_wanted: impl FnOnce() -> bool) -> Result<(), FileError> {
        draft.file.sync_all()?;
        let _locked = self.lock.lock();
        if !is_wanted() {
            return Err(FileError::GivenUp);
        }
        fs::rename(&draft.draft, &draft.path)?;
        sync_dir(draft.path.parent())?;
        Ok(())
    }

    /// Removes one file of a space; one that is not there is no error.
    pub(super) fn discard(&self, space: &SpaceKey, name: &str) -> Result<(), FileError> {
        let path = self.path(space, name)?;
        let _locked = self.lock.lock();
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed?,
        }
        Ok(sync_dir(path.parent())?)
    }

    /// Removes all files of a space, once `forget` has made its image go; nothing is removed if it answers no.
    pub(super) fn remove(&self, space: &SpaceKey, forget: impl FnOnce() -> bool) -> io::Result<()> {
        let _locked = self.lock.lock();
        if !forget() {
            return Ok(());
        }
        let Ok(dir) = self.dir(space) else { return Ok(()) };
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => sync_dir(dir.parent()),
        }
    }

    /// The folder is named by a hash; each file says in full which space it is of.
    fn dir(&self, space: &SpaceKey) -> Result<PathBuf, FileError> {
        let root = self.root.as_ref().ok_or(FileError::Nowhere)?;
        Ok(root.join(Self::folder(space)))
    }

    /// The name of the folder of a space.
    pub(super) fn folder(space: &SpaceKey) -> String {
        let name = format!("{}\0{}\0{}", space.tenant(), space.space(), space.partition());
        format!("{:032x}", xxh3_128(name.as_bytes()))
    }

    /// The names of all folders of spaces: what others put there is none of ours.
    pub(super) fn folders(&self) -> io::Result<BTreeSet<String>> {
        let Some(root) = &self.root else { return Ok(BTreeSet::new()) };
        let is_ours = |name: &String| {
            name.len() == 32
                && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.extend(entry.file_name().into_string().ok().filter(is_ours));
            }
        }
        Ok(names)
    }

    /// Removes folders, once `forget` has made the images of their spaces go; it answers which spaces have images
    /// still, whose folders stay. One that cannot be removed holds up no other.
    pub(super) fn remove_folders(
        &self,
        mut names: BTreeSet<String>,
        forget: impl FnOnce() -> Vec<SpaceKey>,
    ) -> io::Result<()> {
        let _locked = self.lock.lock();
        for space in forget() {
            names.remove(&Self::folder(&space));
        }
        let Some(root) = self.root.as_ref().filter(|_| !names.is_empty()) else { return Ok(()) };
        let mut ended = Ok(());
        for name in names {
            match fs::remove_dir_all(root.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => ended = ended.and(removed),
            }
        }
        ended.and(sync_dir(Some(root)))
    }
}

impl Draft {
    /// Whether the disk still has room for so many bytes more: others write to it, too.
    ///
    /// # Errors
    /// [`FileError::Full`] if not.
    pub(super) fn has_room(&self, bytes: u64) -> Result<(), FileError> {
        self.draft.parent().map_or(Ok(()), |dir| has_room(dir, bytes))
    }

    /// Where it is written.
    pub(super) fn written_to(&self) -> &Path {
        &self.draft
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Published or removed, there is nothing left of it. What cannot be removed goes at the next start.
        if let Err(error) = fs::remove_file(&self.draft)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.draft.display(), %error, "an unfinished file of an index stays");
        }
    }
}

/// A value as the end of a file, with its hash.
pub(super) fn seal(value: &impl Serialize, mark: [u8; 8]) -> Result<Vec<u8>, FileError> {
    let mut bytes = postcard::to_extend(value, Vec::new()).map_err(io::Error::other)?;
    let (len, hash) = (bytes.len() as u64, xxh3_128(&bytes));
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(&hash.to_le_bytes());
    bytes.extend_from_slice(&mark);
    Ok(bytes)
}

/// The value at the end of a file, and where it begins.
pub(super) fn unseal<T: DeserializeOwned>(file: &File, mark: [u8; 8]) -> Result<(T, u64), FileError> {
    let size = file.metadata()?.len();
    let behind = size.checked_sub(TRAILER as u64).ok_or(FileError::Damaged("too short"))?;
    let mut trailer = [0; TRAILER];
    file.read_exact_at(&mut trailer, behind)?;
    let (len, rest) = trailer.split_at(8);
    let (hash, found) = rest.split_at(16);
    if found != mark {
        return Err(FileError::Damaged("unknown kind or version"));
    }
    let len = u64::from_le_bytes(len.try_into().map_err(|_| FileError::Damaged("trailer"))?);
    let begin = behind.checked_sub(len).filter(|_| len <= SEALED_MAX).ok_or(FileError::Damaged("length"))?;
    let len = usize::try_from(len).map_err(|_| FileError::Damaged("length"))?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, begin)?;
    if xxh3_128(&bytes).to_le_bytes() != hash {
        return Err(FileError::Damaged("checksum"));
    }
    let value = postcard::from_bytes(&bytes).map_err(|_| FileError::Damaged("encoding"))?;
    Ok((value, begin))
}

fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)?;
    sync_dir(dir.parent())
}

fn sync_dir(dir: Option<&Path>) -> io::Result<()> {
    match dir.filter(|dir| !dir.as_os_str().is_empty()) {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

fn has_room(dir: &Path, bytes: u64) -> Result<(), FileError> {
    let disk = rustix::fs::statvfs(dir).map_err(io::Error::from)?;
    let reserve = RESERVE_BYTES.min(disk.f_blocks.saturating_mul(disk.f_frsize) / 10);
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free.saturating_sub(reserve) < bytes { Err(FileError::Full(bytes)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;

    const MARK: [u8; 8] = *b"HFTEST_1";

    fn space() -> SpaceKey {
        SpaceKey::user("acme", "小明").unwrap()
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::at(&dir.path().join("indices")).unwrap();
        let mut draft = files.draft(&space(), "0.lists", 10, || true).unwrap();
        draft.file.write_all(b"some").unwrap();
        assert!(files.names(&space(), "lists").unwrap().is_empty());
        files.publish(draft, || true).unwrap();
        assert_eq!(files.names(&space(), "lists").unwrap(), ["0.lists"]);
        assert!(files.names(&space(), "graph").unwrap().is_empty());
        // Not wanted any more, or not finished: the old one stays.
        let draft = files.draft(&space(), "0.lists", 10, || true).unwrap();
        assert!(matches!(files.publish(draft, || false), Err(FileError::GivenUp)));
        let draft = files.draft(&space(), "0.lists", 10, || true).unwrap();
        assert!(draft.has_room(10).is_ok() && matches!(draft.has_room(u64::MAX), Err(FileError::Full(_))));
        drop(draft);
        assert!(matches!(files.draft(&space(), "0.lists", 10, || false), Err(FileError::GivenUp)));
        assert!(matches!(files.draft(&space(), "0.lists", u64::MAX, || true), Err(FileError::Full(_))));
        let path = files.path(&space(), "0.lists").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"some");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        // What a crash left is removed at the next start.
        fs::write(path.with_extension("lists.tmp"), b"half").unwrap();
        let files = Files::at(&dir.path().join("indices")).unwrap();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        // Another space's stay; one that has none may be asked too.
        let other = SpaceKey::user("acme", "bob").unwrap();
        files.remove(&other, || true).unwrap();
        files.discard(&other, "0.lists").unwrap();
        files.remove(&space(), || false).unwrap();
        assert!(path.exists());
        files.remove(&space(), || true).unwrap();
        assert!(!path.exists());
        // What others put there neither counts nor goes.
        let root = dir.path().join("indices");
        fs::create_dir(root.join("lost+found")).unwrap();
        fs::write(root.join("0123456789abcdef0123456789abcdef"), b"a file").unwrap();
        drop(files.draft(&space(), "0.lists", 10, || true).unwrap());
        assert_eq!(files.folders().unwrap(), BTreeSet::from([Files::folder(&space())]));
        files.remove_folders(files.folders().unwrap(), || vec![space()]).unwrap();
        assert_eq!(files.folders().unwrap().len(), 1, "a live space keeps its folder");
        files.remove_folders(files.folders().unwrap(), Vec::new).unwrap();
        assert!(files.folders().unwrap().is_empty() && root.join("lost+found").exists());
        assert!(matches!(Files::none().path(&space(), "x"), Err(FileError::Nowhere)));
        Files::none().remove(&space(), || true).unwrap();
    }

    #[test]
    fn a_flipped_byte_of_a_sealed_value_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sealed");
        let whole: Vec<u8> = b"front".iter().copied().chain(seal(&(7u64, "你好"), MARK).unwrap()).collect();
        let read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            unseal::<(u64, String)>(&File::open(&path).unwrap(), MARK)
        };
        assert_eq!(read(&whole).unwrap(), ((7, "你好".to_owned()), 5));
        for at in 5..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            assert!(read(&bytes).is_err(), "byte {at}");
        }
        for len in 0..whole.len() {
            assert!(read(&whole[..len]).is_err(), "{len} bytes");
        }
    }
}
