//! The data directory of `holdfast dev`: who may use it, and what it is.

use anyhow::{Context, Result, bail};
use holdfast_node::durable::replace_file;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// What a development cluster is; written once, before its first start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cluster {
    /// In hexadecimal.
    pub(super) cluster_id: String,
    pub(super) nodes: u64,
    pub(super) shards: u16,
    /// Whether its nodes have started once and know each other.
    #[serde(default)]
    pub(super) founded: bool,
    /// The first key, with its secret: the file can be read by its owner alone.
    pub(super) key: String,
}

/// A directory that this process alone uses.
#[derive(Debug)]
pub(super) struct DataDir {
    path: PathBuf,
    /// Held for the life of the process; the system lets it go however the process ends.
    _lock: File,
}

impl DataDir {
    /// Takes the directory, which is made if it is missing.
    pub(super) fn take(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        let lock_path = path.join("lock");
        let lock =
            File::create(&lock_path).with_context(|| format!("cannot open {}", lock_path.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => bail!(
                "another holdfast uses {}; stop it, or give this one its own folder with --data",
                path.display()
            ),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", lock_path.display()))
            }
        }
    }

    /// Where a node keeps its data.
    pub(super) fn node(&self, id: u64) -> PathBuf {
        self.path.join(format!("node-{id}"))
    }

    /// What the cluster in this directory is, if there is one.
    pub(super) fn cluster(&self) -> Result<Option<Cluster>> {
        let path = self.path.join("cluster.json");
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .with_context(|| format!("{} is damaged", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Says what the cluster is, durably: before its nodes first start, and when it is founded.
    pub(super) fn write(&self, cluster: &Cluster) -> Result<()> {
        let path = self.path.join("cluster.json");
        // For its owner alone: it holds the first key.
        replace_file(&path, &serde_json::to_vec_pretty(cluster)?, 0o600)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}
