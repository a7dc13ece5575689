//! What the groups of a node run on. A machine gives them a log on disk, threads and sockets; the
//! simulation gives them its own, and everything above is the same code.

use std::sync::Arc;

use tonic::transport::{Channel, Endpoint};

use super::apply_pool::ApplyPool;
use super::error::OpenError;
use super::log::{LogDevice, LogEngine, LogOptions};
use super::multi::RaftNodeConfig;

/// Memory for the newest log entries, shared by all groups of the node.
const LOG_CACHE_BYTES: usize = 64 << 20;
/// A group's least share of it.
const LOG_CACHE_GROUP_BYTES_MIN: usize = 256 << 10;

/// Makes the connection to an endpoint: at its first use, and again whenever it is lost.
pub(crate) type Connect = Arc<dyn Fn(&Endpoint) -> Channel + Send + Sync>;

/// The ground under a node's groups.
pub(crate) struct Platform {
    pub(crate) log: Arc<dyn LogDevice>,
    /// Memory for the newest log entries of each group.
    pub(crate) group_cache_bytes: usize,
    pub(crate) pool: ApplyPool,
    pub(crate) connect: Connect,
}

impl Platform {
    /// Opens the log in the node's directory and starts the threads.
    pub(super) async fn of_machine(config: &RaftNodeConfig, groups: usize) -> Result<Self, OpenError> {
        let options = LogOptions {
            dir: config.dir.clone(),
            node: config.node_id,
            cluster: config.cluster_id.clone(),
            files: config.log_files,
        };
        let log = tokio::task::spawn_blocking(move || LogEngine::open(&options))
            .await
            .map_err(|error| OpenError::Config(format!("opening the log: {error}")))??;
        let threads = config.apply_threads.unwrap_or_else(ApplyPool::default_threads);
        let pool = ApplyPool::start(threads)
            .map_err(|error| OpenError::Config(format!("starting the apply threads: {error}")))?;
        let group_cache_bytes = (LOG_CACHE_BYTES / groups.max(1)).max(LOG_CACHE_GROUP_BYTES_MIN);
        let security = config.security.clone();
        let connect: Connect = Arc::new(move |endpoint| security.connect_lazy(endpoint));
        Ok(Platform { log, group_cache_bytes, pool, connect })
    }
}
