//! Whose directory it is.

use crate::durable::replace_file;
use crate::node::StartError;
use crate::raft::NodeId;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// The file that says whose directory it is.
const IDENTITY: &str = "identity.json";
/// The file in the log's directory that says whose log it is; written before the first entry.
const LOG_OWNER: &str = "OWNER";
/// The directory of the log.
pub(crate) const RAFT: &str = "raft";

/// Whose directory it is; written once, checked at every start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The node's id.
    pub node_id: NodeId,
    /// The cluster that it belongs to.
    pub cluster_id: String,
    /// Number of shards of the cluster.
    pub shards: u16,
}

/// Whether a node has run here: its identity and its log are there.
pub(crate) fn has_data(dir: &Path) -> bool {
    dir.join(IDENTITY).is_file() && dir.join(RAFT).join(LOG_OWNER).is_file()
}

/// Checks whose directory it is, or makes it this node's.
pub(crate) fn claim(dir: &Path, identity: &Identity) -> Result<(), StartError> {
    let path = dir.join(IDENTITY);
    let io_error = |error: io::Error| StartError::Io { path: path.clone(), error };
    fs::create_dir_all(dir).map_err(io_error)?;
    match fs::read(&path) {
        Ok(bytes) => {
            let found: Identity = serde_json::from_slice(&bytes).map_err(|error| io_error(error.into()))?;
            if found == *identity {
                return Ok(());
            }
            let (found, expected) = (Box::new(found), Box::new(identity.clone()));
            Err(StartError::Foreign { path: dir.to_owned(), found, expected })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let bytes = serde_json::to_vec_pretty(identity).map_err(|error| io_error(error.into()))?;
            replace_file(&path, &bytes, 0o644).map_err(io_error)
        }
        Err(error) => Err(io_error(error)),
    }
}

/// Whether anything of a node is here.
pub(crate) fn was_used(dir: &Path) -> bool {
    dir.join(IDENTITY).exists() || dir.join(RAFT).exists()
}
