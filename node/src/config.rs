//! How a node runs.

use crate::erasing::EraseSettings;
use crate::index::IndexSettings;
use crate::integrity::IntegritySettings;
use crate::jobs::{JobEmbedder, JobSettings};
use crate::raft::{LogFiles, NodeId};
use crate::snapshot::SnapshotSettings;
use holdfast_transport::Security;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a node runs.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// The node's id, unique in the cluster and never reused.
    pub node_id: NodeId,
    /// The id that the cluster was given at its start.
    pub cluster_id: String,
    /// Where the node keeps its data; made if it is missing.
    pub dir: PathBuf,
    /// Id and address (`host:port`) of every node, this one included.
    pub members: Vec<(NodeId, String)>,
    /// Number of shards, 1 to 256; fixed at the cluster's start.
    pub shards: u16,
    /// Whether the cluster is only now being founded. Later a node without its data must not come
    /// back under its old id: it has forgotten its votes and what it acknowledged.
    pub founding: bool,
    /// Memory for the page caches of all states together, in bytes.
    pub state_cache_bytes: u64,
    /// Memory for the images of active spaces, in bytes.
    pub spaces_bytes: usize,
    /// Which spaces get another index than the scan.
    pub index: IndexSettings,
    /// Time between two heartbeats of a leader.
    pub heartbeat: Duration,
    /// Threads that search; 0 for one a core.
    pub search_threads: usize,
    /// How it talks to the other nodes, and who may call it.
    pub security: Security,
    /// When snapshot files are written.
    pub snapshots: SnapshotSettings,
    /// When log files are removed.
    pub log_files: LogFiles,
    /// How the node watches over its replicas.
    pub integrity: IntegritySettings,
    /// The model for what jobs write. Default: none.
    pub embedder: JobEmbedder,
    /// What jobs do.
    pub jobs: JobSettings,
    /// How erasures are worked off.
    pub erasure: EraseSettings,
}

impl NodeConfig {
    /// The defaults: 128 MiB of page cache, 512 MiB of images, a heartbeat of 250 ms; without
    /// TLS, which is to be set.
    pub fn new(
        node_id: NodeId,
        cluster_id: &str,
        dir: &Path,
        members: Vec<(NodeId, String)>,
        shards: u16,
    ) -> Self {
        Self {
            node_id,
            cluster_id: cluster_id.to_owned(),
            dir: dir.to_owned(),
            members,
            shards,
            founding: false,
            state_cache_bytes: 128 << 20,
            spaces_bytes: 512 << 20,
            index: IndexSettings::default(),
            heartbeat: Duration::from_millis(250),
            search_threads: 0,
            security: Security::plain(),
            snapshots: SnapshotSettings::default(),
            log_files: LogFiles::default(),
            integrity: IntegritySettings::default(),
            embedder: JobEmbedder::default(),
            jobs: JobSettings::default(),
            erasure: EraseSettings::default(),
        }
    }
}
