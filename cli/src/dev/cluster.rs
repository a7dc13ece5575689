//! The nodes of a development cluster, all in this process.

use super::Tuning;
use super::data::{Cluster, DataDir};
use anyhow::{Context, Result, bail};
use futures::future::BoxFuture;
use holdfast_core::access::{ApiKeyRow, TenantRow};
use holdfast_core::command::MetaCommand;
use holdfast_core::{Error, ErrorCode};
use holdfast_models::Embedder;
use holdfast_node::founding::InitError;
use holdfast_node::{JobEmbedder, Node, NodeConfig, StartError};
use holdfast_router::{NodeControl, Registries};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

/// The tenant that a development cluster starts with.
pub(super) const TENANT: &str = "default";
/// How long the first leaders may take.
const START_MAX: Duration = Duration::from_secs(30);

/// One node, if it runs. Locked while it starts or stops.
type Slot = Arc<Mutex<Option<Node>>>;

/// The nodes, running or stopped.
pub(super) struct Nodes {
    cluster: Cluster,
    dirs: Arc<DataDir>,
    members: Vec<(u64, String)>,
    founded: AtomicBool,
    running: BTreeMap<u64, Slot>,
    /// The metrics of those that run.
    registries: Registries,
    /// What is not as usual.
    tuning: Tuning,
    /// The router's model, for the jobs of the nodes.
    embedder: JobEmbedder,
}

impl Nodes {
    /// Starts every node, and founds the cluster if the directory is new.
    pub(super) async fn start(
        cluster: Cluster,
        dirs: Arc<DataDir>,
        first_key: ApiKeyRow,
        tuning: Tuning,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Result<Arc<Self>> {
        let embedder = JobEmbedder::opened_by(move || embedder.clone());
        let mut listeners = BTreeMap::new();
        for id in 1..=cluster.nodes {
            let listener =
                TcpListener::bind("127.0.0.1:0").await.context("no free loopback port for a node")?;
            listeners.insert(id, listener);
        }
        let mut members = Vec::new();
        for (id, listener) in &listeners {
            members.push((*id, listener.local_addr()?.to_string()));
        }
        let running = listeners.keys().map(|id| (*id, Slot::default())).collect();
        let founded = AtomicBool::new(cluster.founded);
        let registries = Registries::default();
        let nodes = Arc::new(Self { cluster, dirs, members, founded, running, registries, tuning, embedder });
        let mut lost = 0;
        for (id, listener) in listeners {
            match nodes.start_node(id, listener).await {
                Ok(node) => *nodes.slot(id)?.lock().await = Some(node),
                // A minority may lose its disks: the others have all that was acknowledged.
                Err(StartError::Lost { path, node }) if 2 * (lost + 1) < nodes.cluster.nodes => {
                    lost += 1;
                    tracing::error!(
                        node,
                        ?path,
                        "the data of a node is gone; the cluster goes on without it"
                    );
                }
                Err(error) => {
                    nodes.stop_all().await;
                    return Err(error).with_context(|| format!("node {id} does not start"));
                }
            }
        }
        nodes.found(first_key).await?;
        Ok(nodes)
    }

    /// Id and address of every node.
    pub(super) fn members(&self) -> &[(u64, String)] {
        &self.members
    }

    /// The metrics of the nodes that run.
    pub(super) fn registries(&self) -> Registries {
        self.registries.clone()
    }

    fn slot(&self, id: u64) -> holdfast_core::Result<&Slot> {
        self.running.get(&id).ok_or_else(|| Error::new(ErrorCode::NotFound, "there is no node with this id"))
    }

    async fn start_node(&self, id: u64, listener: TcpListener) -> Result<Node, StartError> {
        let dir = self.dirs.node(id);
        let members = self.members.clone();
        let mut config = NodeConfig::new(id, &self.cluster.cluster_id, &dir, members, self.cluster.shards);
        config.embedder = self.embedder.clone();
        config.founding = !self.founded.load(Ordering::Acquire);
        if let Some(after) = self.tuning.erase_after {
            (config.erasure.log_after, config.erasure.database_after) = (after, after);
        }
        config.jobs.merge = self.tuning.merges;
        if let Some(from) = self.tuning.lists_from {
            config.index.lists_from = from;
        }
        if let Some(bytes) = self.tuning.snapshot_log_bytes {
            config.snapshots.log_bytes_min = bytes;
            config.snapshots.look_every = Duration::from_millis(100);
            config.log_files.file_bytes = 1 << 20;
            config.log_files.keep_bytes = 2 << 20;
            config.log_files.look_every = Duration::from_millis(500);
        }
        let node = Node::start(config, listener).await?;
        self.registries.insert(registry_name(id), node.registry().clone());
        Ok(node)
    }

    /// Forms the groups and names the cluster. Both happen once and are no error the next time, so
    /// that a start that was cut off half-way goes on where it was.
    async fn found(&self, key: ApiKeyRow) -> Result<()> {
        if self.founded.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(node) = self.slot(1)?.lock().await.as_ref() {
            node.founder().form_groups().await?;
        }
        let deadline = Instant::now() + START_MAX;
        let cluster_id =
            u128::from_str_radix(&self.cluster.cluster_id, 16).context("the cluster id is damaged")?;
        let tenant = TenantRow { id: TENANT.into(), name: "Default tenant".into(), created_us: 0 };
        let init = MetaCommand::InitCluster { cluster_id, shards: self.cluster.shards, tenant, key };
        while Instant::now() < deadline {
            for slot in self.running.values() {
                let node = slot.lock().await;
                let Some(node) = node.as_ref() else { continue };
                if !node.wait_for_leaders(deadline.saturating_duration_since(Instant::now())).await {
                    continue;
                }
                match node.founder().name_cluster(init.clone(), Duration::from_secs(5)).await {
                    Ok(true) => return self.set_founded(),
                    Err(InitError::Refused(error)) if error.code == ErrorCode::AlreadyExists => {
                        return self.set_founded();
                    }
                    // It does not lead, or a change of leader came in between: another round finds out.
                    Ok(false) | Err(InitError::Propose(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("the nodes elected no leaders within {START_MAX:?}")
    }

    /// From now on a node without its data has lost it.
    fn set_founded(&self) -> Result<()> {
        self.dirs.write(&Cluster { founded: true, ..self.cluster.clone() })?;
        self.founded.store(true, Ordering::Release);
        Ok(())
    }

    /// Stops every node that runs, all at once.
    pub(super) async fn stop_all(&self) {
        let stop = self.running.iter().map(async |(id, slot)| {
            self.registries.remove(&registry_name(*id));
            if let Some(node) = slot.lock().await.take() {
                node.stop().await;
            }
        });
        futures::future::join_all(stop).await;
    }
}

fn registry_name(node: u64) -> String {
    format!("node-{node}")
}

impl NodeControl for Nodes {
    fn stop(&self, id: u64) -> BoxFuture<'_, holdfast_core::Result<()>> {
        Box::pin(async move {
            let slot = Arc::clone(self.slot(id)?);
            let registries = self.registries.clone();
            // In a task of its own: a caller that gives up must not leave a half-stopped node.
            let stop = tokio::spawn(async move {
                let mut slot = slot.lock().await;
                if let Some(node) = slot.take() {
                    registries.remove(&registry_name(id));
                    node.stop().await;
                }
            });
            stop.await.map_err(|error| Error::new(ErrorCode::Internal, format!("the stop failed: {error}")))
        })
    }

    fn start(&self, id: u64) -> BoxFuture<'_, holdfast_core::Result<()>> {
        Box::pin(async move {
            let mut slot = self.slot(id)?.lock().await;
            if slot.is_some() {
                return Ok(());
            }
            let failed = |error: String| Error::new(ErrorCode::Unavailable, error);
            let address = self.members.iter().find(|(member, _)| *member == id).map(|(_, address)| address);
            let address = address.ok_or_else(|| failed(format!("node {id} has no address")))?;
            let listener = TcpListener::bind(address).await.map_err(|error| {
                failed(format!("the address of node {id} cannot be bound again: {error}"))
            })?;
            let node = self.start_node(id, listener).await.map_err(|error| failed(error.to_string()))?;
            *slot = Some(node);
            Ok(())
        })
    }
}
