//! What a node opens when it starts: its states, and its log with the groups on it.

use crate::config::NodeConfig;
use crate::identity::RAFT;
use crate::index::Spaces;
use crate::metrics::ApplyMetrics;
use crate::node::StartError;
use crate::raft::{
    Clock, GroupId, GroupSpec, OpenError, RaftNode, RaftNodeConfig, StaticAddresses, panic_text,
};
use crate::shard::{BootId, ShardPlace, ShardState, let_go};
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Opens the log and starts the groups on it.
pub(crate) async fn open_raft(
    config: &NodeConfig,
    states: &BTreeMap<GroupId, Arc<ShardState>>,
    clock: &Arc<dyn Clock>,
) -> Result<RaftNode, OpenError> {
    let specs = states.iter().map(|(id, state)| GroupSpec {
        id: *id,
        replicas: config.members.iter().map(|(node, _)| *node).collect(),
        applier: Arc::clone(state) as _,
    });
    let mut raft = RaftNodeConfig::new(config.node_id, config.cluster_id.clone(), config.dir.join(RAFT));
    raft.heartbeat = config.heartbeat;
    raft.log_files = config.log_files;
    raft.security = config.security.clone();
    let uris = config.members.iter().map(|(id, address)| (*id, format!("http://{address}")));
    let addresses = Arc::new(StaticAddresses::new(uris));
    RaftNode::open(raft, specs.collect(), addresses, Arc::clone(clock)).await
}

/// Opens the states of all groups; the blocking work runs beside the runtime.
pub(crate) async fn open_states(
    config: &NodeConfig,
    metrics: ApplyMetrics,
) -> Result<BTreeMap<GroupId, Arc<ShardState>>, StartError> {
    let (dir, shards, cluster) = (config.dir.join("shards"), config.shards, config.cluster_id.clone());
    let share = config.state_cache_bytes / (u64::from(shards) + 1);
    let indices = config.dir.join("indices");
    let spaces = Spaces::open(config.spaces_bytes, config.index, &indices)
        .map_err(|error| StartError::Io { path: indices, error })?;
    let spaces = Arc::new(spaces);
    // Dropped with this future: a start that is given up ends between two states.
    let given_up = CancellationToken::new();
    let opening = given_up.clone();
    let _giving_up = given_up.drop_guard();
    let open = tokio::task::spawn_blocking(move || {
        let boot = BootId::current()
            .map_err(|error| StartError::Io { path: "/proc/sys/kernel/random/boot_id".into(), error })?;
        let mut states = BTreeMap::new();
        for group in 0..=GroupId::from(shards) {
            if opening.is_cancelled() {
                return Err(StartError::Config("the start was given up".into()));
            }
            let dir = dir.join(group.to_string());
            let place =
                ShardPlace { cluster: &cluster, shards, group, dir: &dir, boot: &boot, cache_bytes: share };
            match open_state(place, &spaces) {
                Ok(state) => states.insert(group, Arc::new(state.measured_by(metrics.clone()))),
                Err(error) => {
                    states.into_values().for_each(let_go);
                    return Err(error);
                }
            };
        }
        Ok(states)
    });
    open.await.map_err(|error| StartError::Config(format!("opening the states: {error}")))?
}

/// sled panics when a disk fails at the wrong moment; the sentence that ends the process must name the
/// directory all the same.
fn open_state(place: ShardPlace<'_>, spaces: &Arc<Spaces>) -> Result<ShardState, StartError> {
    match catch_unwind(AssertUnwindSafe(|| ShardState::open(place, Arc::clone(spaces)))) {
        Ok(opened) => Ok(opened?),
        Err(panic) => {
            let error = io::Error::other(panic_text(panic.as_ref()));
            Err(StartError::Io { path: place.dir.to_owned(), error })
        }
    }
}
