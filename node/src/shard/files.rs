//! Which sled directory of a shard may be opened.
//!
//! sled overwrites freed segments behind `sync_file_range`, which is no fsync: after a power cut
//! even a state that was once synced may be damaged. So a directory is opened only after a clean
//! shutdown, or under the same kernel boot as at the last open (a killed process loses only rows
//! that the log replays). Otherwise it is set aside and the state is rebuilt from the snapshot file
//! and the log.

use super::disk::{is_no_room, let_go};
use crate::crash::{Step, crash_point};
use crate::snapshot::SnapshotError;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The identity of the kernel's uptime: changes with every boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootId(pub String);

impl BootId {
    /// The running kernel's.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn current() -> io::Result<Self> {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        Ok(Self(id.trim().to_owned()))
    }
}

/// A shard's state cannot be opened, not even empty.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file operation failed.
    #[error("{path}: {error}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A new, empty database could not be opened.
    #[error("{path}: sled: {error}")]
    Sled {
        /// Where.
        path: PathBuf,
        /// What sled said.
        error: sled::Error,
    },
    /// The snapshot files cannot be looked at.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// The file that says which directory is current and how it was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Current {
    format: u8,
    generation: u64,
    boot: BootId,
    clean: bool,
}

const FORMAT: u8 = 1;
const CURRENT: &str = "current.json";
/// How the names of databases begin that are kept for whoever wants to look.
const LOST: &str = "lost-";

/// The directory of one shard: `current.json`, `sled-<generation>/`, at most one `lost-…/`, and the
/// `snapshots/`, which are not this type's concern.
#[derive(Debug)]
pub struct ShardFiles {
    dir: PathBuf,
    current: Current,
}

/// An open database, and whether an earlier one had to be given up.
pub struct Opened {
    /// The database.
    pub db: sled::Db,
    /// The directory's bookkeeping, for [`ShardFiles::close_clean`].
    pub files: ShardFiles,
    /// Why the state starts empty although there was one, if so.
    pub set_aside: Option<String>,
}

impl ShardFiles {
    /// Opens the state in `dir`, which is made if it is missing, with `cache_bytes` of sled's cache.
    /// `is_sound` looks at an opened database and says what is wrong with it.
    ///
    /// # Errors
    /// [`OpenError`] if even an empty database cannot be opened.
    pub fn open(
        dir: &Path,
        boot: &BootId,
        cache_bytes: u64,
        is_sound: impl Fn(&sled::Db) -> Result<(), String>,
    ) -> Result<Opened, OpenError> {
        fs::create_dir_all(dir).map_err(|error| io_error(dir, error))?;
        let before = read_current(dir)?;
        let mut set_aside = None;
        let generation = before.as_ref().map_or(1, |current| current.generation);
        if let Some(current) = &before {
            match open_existing(dir, current, boot, cache_bytes, &is_sound) {
                Ok(db) => return Self::begin(dir, generation, boot, db, None),
                Err(Unusable::Failed(error)) => return Err(error),
                Err(Unusable::Damaged(reason)) => {
                    put_aside(dir, generation)?;
                    set_aside = Some(reason);
                }
            }
        }
        let generation = generation + u64::from(before.is_some());
        let db = open_empty(dir, generation, cache_bytes)?;
        Self::begin(dir, generation, boot, db, set_aside)
    }

    /// Marks the directory as in use before the first write reaches it.
    fn begin(
        dir: &Path,
        generation: u64,
        boot: &BootId,
        db: sled::Db,
        set_aside: Option<String>,
    ) -> Result<Opened, OpenError> {
        let current = Current { format: FORMAT, generation, boot: boot.clone(), clean: false };
        let files = Self { dir: dir.to_owned(), current };
        match files.write().and_then(|()| files.remove_others()) {
            Ok(()) => Ok(Opened { db, files, set_aside }),
            Err(error) => {
                let_go(db);
                Err(error)
            }
        }
    }

    /// An empty database to be filled beside the current one, of the next generation.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) fn open_next(&self, cache_bytes: u64) -> Result<sled::Db, OpenError> {
        open_empty(&self.dir, self.current.generation + 1, cache_bytes)
    }

    /// Removes the database that [`ShardFiles::open_next`] opened; it must be closed.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) fn discard_next(&self) -> Result<(), OpenError> {
        remove_if_there(&sled_dir(&self.dir, self.current.generation + 1))
    }

    /// Makes the database of the next generation the current one: from the rename on, and for good.
    ///
    /// # Errors
    /// [`OpenError`]; either of the two may be current then.
    pub(super) fn switch_to_next(&mut self) -> Result<(), OpenError> {
        let next = Current { generation: self.current.generation + 1, ..self.current.clone() };
        let before = std::mem::replace(&mut self.current, next);
        let written = self.write();
        if written.is_err() {
            self.current = before;
        }
        written
    }

    /// Keeps the database that was current before [`ShardFiles::switch_to_next`], for whoever wants to
    /// look, and says where. One that was kept earlier is removed.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) fn keep_previous(&self) -> Result<PathBuf, OpenError> {
        let previous = self.current.generation.saturating_sub(1);
        put_aside(&self.dir, previous)?;
        Ok(self.dir.join(format!("{LOST}{previous}")))
    }

    /// Removes the databases that are not the current one, and those that were kept for whoever wants to
    /// look. Answers where the current one is.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) fn remove_all_others(&self) -> Result<PathBuf, OpenError> {
        self.remove_others()?;
        remove_lost(&self.dir)?;
        // A power cut must not bring back what an erasure was said to have taken.
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(|error| io_error(&self.dir, error))?;
        crash_point(Step::OthersRemoved);
        Ok(sled_dir(&self.dir, self.current.generation))
    }

    /// Whether there is a database beside the current one, kept or not yet removed.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) fn has_others(&self) -> Result<bool, OpenError> {
        let current = sled_dir(&self.dir, self.current.generation);
        for entry in fs::read_dir(&self.dir).map_err(|error| io_error(&self.dir, error))? {
            let path = entry.map_err(|error| io_error(&self.dir, error))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path != current && (name.starts_with("sled-") || name.starts_with(LOST)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes the databases that are not the current one. Whoever has one open may go on reading it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) fn remove_others(&self) -> Result<(), OpenError> {
        let current = sled_dir(&self.dir, self.current.generation);
        for entry in fs::read_dir(&self.dir).map_err(|error| io_error(&self.dir, error))? {
            let path = entry.map_err(|error| io_error(&self.dir, error))?.path();
            let is_state = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("sled-"));
            if is_state && path != current {
                remove_if_there(&path)?;
            }
        }
        Ok(())
    }

    /// Flushes and fsyncs the database and marks it as left in order.
    ///
    /// # Errors
    /// If a file cannot be synced; the directory then counts as not left in order.
    pub fn close_clean(mut self, db: &sled::Db) -> Result<(), OpenError> {
        let path = sled_dir(&self.dir, self.current.generation);
        db.flush().map_err(|error| OpenError::Sled { path: path.clone(), error })?;
        sync_tree(&path).map_err(|error| io_error(&path, error))?;
        crash_point(Step::StateSynced);
        self.current.clean = true;
        self.write()?;
        crash_point(Step::MarkedClean);
        Ok(())
    }

    /// temp -> fsync -> rename -> fsync of the directory.
    fn write(&self) -> Result<(), OpenError> {
        let path = self.dir.join(CURRENT);
        let temp = self.dir.join("current.json.tmp");
        let write = || -> io::Result<()> {
            let mut file = File::create(&temp)?;
            file.write_all(&serde_json::to_vec(&self.current)?)?;
            file.sync_all()?;
            crash_point(Step::CurrentSynced);
            fs::rename(&temp, &path)?;
            crash_point(Step::CurrentRenamed);
            File::open(&self.dir)?.sync_all()?;
            crash_point(Step::CurrentNamed);
            Ok(())
        };
        write().map_err(|error| io_error(&path, error))
    }
}

fn io_error(path: &Path, error: io::Error) -> OpenError {
    OpenError::Io { path: path.to_owned(), error }
}

fn sled_dir(dir: &Path, generation: u64) -> PathBuf {
    dir.join(format!("sled-{generation}"))
}

/// Opens a new database; what an interrupted earlier attempt left there was never current.
fn open_empty(dir: &Path, generation: u64, cache_bytes: u64) -> Result<sled::Db, OpenError> {
    let path = sled_dir(dir, generation);
    remove_if_there(&path)?;
    let db = sled_config(&path, cache_bytes).open().map_err(|error| OpenError::Sled { path, error })?;
    crash_point(Step::StateCreated);
    Ok(db)
}

fn sled_config(path: &Path, cache_bytes: u64) -> sled::Config {
    // Durability is the log's: sled's own flusher would only add writes that nobody counts on.
    sled::Config::new().path(path).flush_every_ms(None).cache_capacity(cache_bytes)
}

fn read_current(dir: &Path) -> Result<Option<Current>, OpenError> {
    let path = dir.join(CURRENT);
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| io_error(&path, io::Error::new(io::ErrorKind::InvalidData, error))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error(&path, error)),
    }
}

/// Opens the current database, or says why it must not be used.
fn open_existing(
    dir: &Path,
    current: &Current,
    boot: &BootId,
    cache_bytes: u64,
    is_sound: impl Fn(&sled::Db) -> Result<(), String>,
) -> Result<sled::Db, Unusable> {
    if current.format != FORMAT {
        let reason = format!("it is of format {}, which this version does not know", current.format);
        return Err(Unusable::Damaged(reason));
    }
    if !current.clean && current.boot != *boot {
        return Err(Unusable::Damaged("the machine went down while it was open".into()));
    }
    let path = sled_dir(dir, current.generation);
    if !path.is_dir() {
        return Err(Unusable::Damaged("its directory is missing".into()));
    }
    // sled may write while it opens: from here on the directory is in use.
    let in_use = Current { boot: boot.clone(), clean: false, ..current.clone() };
    ShardFiles { dir: dir.to_owned(), current: in_use }.write().map_err(Unusable::Failed)?;
    // sled panics on some kinds of damage; nothing of what it built by then is used.
    let open =
        AssertUnwindSafe(|| sled_config(&path, cache_bytes).open().map(|db| is_sound(&db).map(|()| db)));
    let Ok(opened) = catch_unwind(open) else {
        return Err(Unusable::Damaged("sled panicked while it opened it".into()));
    };
    crash_point(Step::StateOpened);
    match opened {
        Ok(sound) => sound.map_err(Unusable::Damaged),
        // Somebody else has it open. That is no damage, and setting it aside would make it one.
        Err(error) if is_lock(&error) => Err(Unusable::Failed(OpenError::Sled { path, error })),
        // Nor is this: what is there is what was written.
        Err(error) if is_out_of_means(&error) => Err(Unusable::Failed(OpenError::Sled { path, error })),
        Err(error) => Err(Unusable::Damaged(format!("sled: {error}"))),
    }
}

/// Why a database that is there is not opened.
enum Unusable {
    /// It must not be used: to be set aside.
    Damaged(String),
    /// It may be sound: nothing is to be changed.
    Failed(OpenError),
}

/// Whether sled could not get the lock of its directory; it has no error of its own for that.
fn is_lock(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(error) if error.to_string().contains("could not acquire lock"))
}

/// Whether the system lacked what it takes to open anything: room, or the right to write.
fn is_out_of_means(error: &sled::Error) -> bool {
    use io::ErrorKind::{OutOfMemory, PermissionDenied, ReadOnlyFilesystem};
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error, sled::Error::Io(error) if is_no_room(error)
        || matches!(error.kind(), OutOfMemory | PermissionDenied | ReadOnlyFilesystem)
        || matches!(error.raw_os_error(), Some(ENFILE | EMFILE)))
}

/// Keeps a directory that must not be used for whoever wants to look; only the newest one.
fn put_aside(dir: &Path, generation: u64) -> Result<(), OpenError> {
    let from = sled_dir(dir, generation);
    if !from.is_dir() {
        return Ok(());
    }
    remove_lost(dir)?;
    fs::rename(&from, dir.join(format!("{LOST}{generation}"))).map_err(|error| io_error(&from, error))?;
    crash_point(Step::StateAside);
    Ok(())
}

/// Removes what was kept earlier.
fn remove_lost(dir: &Path) -> Result<(), OpenError> {
    for entry in fs::read_dir(dir).map_err(|error| io_error(dir, error))? {
        let path = entry.map_err(|error| io_error(dir, error))?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(LOST)) {
            remove_if_there(&path)?;
        }
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> Result<(), OpenError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(path, error)),
        _ => Ok(()),
    }
}

fn sync_tree(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(path)?.sync_all()
}
