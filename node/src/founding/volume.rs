use super::plan::Plan;
use crate::durable::replace_file;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The file that says what a volume is.
const FILE: &str = "volume.json";
/// The file that is locked while a process uses the volume.
const LOCK: &str = "lock";
/// Version of the file's format.
const FORMAT: u8 = 1;

/// What stands in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u8,
    instance: String,
    /// Missing until the founding.
    plan: Option<Plan>,
    /// Whether the node has started with its plan: from then on it has data, or has lost it.
    started: bool,
}

/// The directory that a node keeps everything in, used by one process at a time.
#[derive(Debug)]
pub struct Volume {
    dir: PathBuf,
    record: Mutex<Record>,
    /// Held for the life of the process; the system lets it go however the process ends.
    _lock: File,
}

/// Why a volume cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Another process has it.
    #[error("another holdfast uses {0}; stop it, or give this node its own folder with node.data")]
    InUse(PathBuf),
    /// The file that says what it is cannot be understood.
    #[error(
        "{path} is damaged ({detail}); restore the file from a backup of this volume, or take the node out \
         of the cluster: guessing its identity could lose acknowledged writes"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// There is data, but not the file that says whose it is.
    #[error(
        "{0} holds the data of a node, but no volume.json that says which; this folder was not made by \
         `holdfast node`, or the file was lost: restore it, or use an empty folder"
    )]
    Unnamed(PathBuf),
}

/// Why a plan is not taken.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// It names other nodes.
    #[error("the plan does not name this node (instance {0}); its disk may have been replaced")]
    NotNamed(String),
    /// The node belongs to another cluster.
    #[error("this node belongs to cluster {0} already")]
    Taken(String),
    /// It could not be stored.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

impl Volume {
    /// Takes the directory for this process. One that is missing or empty becomes a new volume with
    /// a random instance id, which is on disk when this returns.
    ///
    /// # Errors
    /// [`VolumeError`] says why it cannot be used.
    pub fn open(dir: &Path) -> Result<Self, VolumeError> {
        let io_error = |path: &Path, error| VolumeError::Io { path: path.to_owned(), error };
        fs::create_dir_all(dir).map_err(|error| io_error(dir, error))?;
        let lock = File::create(dir.join(LOCK)).map_err(|error| io_error(&dir.join(LOCK), error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(VolumeError::InUse(dir.to_owned())),
            Err(TryLockError::Error(error)) => return Err(io_error(&dir.join(LOCK), error)),
        }
        let path = dir.join(FILE);
        let record = match fs::read(&path) {
            Ok(bytes) => {
                read(&bytes).map_err(|detail| VolumeError::Damaged { path: path.clone(), detail })?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if crate::identity::was_used(dir) {
                    return Err(VolumeError::Unnamed(dir.to_owned()));
                }
                let instance = format!("{:032x}", rand::random::<u128>());
                let record = Record { format: FORMAT, instance, plan: None, started: false };
                write(&path, &record)?;
                record
            }
            Err(error) => return Err(io_error(&path, error)),
        };
        Ok(Self { dir: dir.to_owned(), record: Mutex::new(record), _lock: lock })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The random id that tells this volume from every other.
    pub fn instance(&self) -> String {
        self.record.lock().instance.clone()
    }

    /// The plan that it has taken.
    pub fn plan(&self) -> Option<Plan> {
        self.record.lock().plan.clone()
    }

    /// Whether the node has ever started with its plan.
    pub fn has_started(&self) -> bool {
        self.record.lock().started
    }

    /// Takes the plan, which is on disk when this returns. The same plan again is no error.
    ///
    /// # Errors
    /// [`AdoptError`]; nothing is changed then.
    pub fn adopt(&self, plan: &Plan) -> Result<(), AdoptError> {
        let mut record = self.record.lock();
        match &record.plan {
            Some(taken) if taken == plan => return Ok(()),
            Some(taken) => return Err(AdoptError::Taken(taken.cluster_id.clone())),
            None => {}
        }
        if plan.member(&record.instance).is_none() {
            return Err(AdoptError::NotNamed(record.instance.clone()));
        }
        let changed = Record { plan: Some(plan.clone()), ..record.clone() };
        write(&self.dir.join(FILE), &changed)?;
        *record = changed;
        Ok(())
    }

    /// Notes that the node runs: from now on it must find its data here.
    ///
    /// # Errors
    /// [`VolumeError::Io`].
    pub fn set_started(&self) -> Result<(), VolumeError> {
        let mut record = self.record.lock();
        if record.started {
            return Ok(());
        }
        let changed = Record { started: true, ..record.clone() };
        write(&self.dir.join(FILE), &changed)?;
        *record = changed;
        Ok(())
    }
}

fn read(bytes: &[u8]) -> Result<Record, String> {
    let record: Record = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if record.format != FORMAT {
        return Err(format!("its format {} is not known to this version", record.format));
    }
    if let Some(plan) = &record.plan {
        plan.check().map_err(|error| error.to_string())?;
        if plan.member(&record.instance).is_none() {
            return Err("its plan does not name its own instance".into());
        }
    }
    Ok(record)
}

fn write(path: &Path, record: &Record) -> Result<(), VolumeError> {
    let io_error = |error| VolumeError::Io { path: path.to_owned(), error };
    let bytes = serde_json::to_vec_pretty(record).map_err(|error| io_error(error.into()))?;
    replace_file(path, &bytes, 0o644).map_err(io_error)
}
