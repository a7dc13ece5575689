//! The nodes of a development cluster, all in this process.

use super::data::{Cluster, DataDir};
use anyhow::{Context, Result, bail};
use futures::future::BoxFuture;
use holdfast_core::access::{ApiKeyRow, TenantRow};
use holdfast_core::command::MetaCommand;
use holdfast_core::{Error, ErrorCode};
use holdfast_node::{InitError, Node, NodeConfig};
use holdfast_router::NodeControl;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

/// The tenant that a development cluster starts with.
pub(super) const TENANT: &str = "default";
/// How long the first leaders may take.
const START_MAX: Duration = Duration::from_secs(30);

/// The nodes, running or stopped.
pub(super) struct Nodes {
    cluster: Cluster,
    dirs: Arc<DataDir>,
    members: Vec<(u64, String)>,
    running: BTreeMap<u64, Mutex<Option<Node>>>,
}

impl Nodes {
    /// Starts every node, and founds the cluster if the directory is new.
    pub(super) async fn start(
        cluster: Cluster,
        dirs: Arc<DataDir>,
        first_key: ApiKeyRow,
    ) -> Result<Arc<Self>> {
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
        let running = listeners.keys().map(|id| (*id, Mutex::new(None))).collect();
        let nodes = Arc::new(Self { cluster, dirs, members, running });
        for (id, listener) in listeners {
            let node = nodes.start_node(id, listener).await?;
            *nodes.slot(id)?.lock().await = Some(node);
        }
        nodes.found(first_key).await?;
        Ok(nodes)
    }

    /// Id and address of every node.
    pub(super) fn members(&self) -> &[(u64, String)] {
        &self.members
    }

    fn slot(&self, id: u64) -> holdfast_core::Result<&Mutex<Option<Node>>> {
        self.running.get(&id).ok_or_else(|| Error::new(ErrorCode::NotFound, "there is no node with this id"))
    }

    async fn start_node(&self, id: u64, listener: TcpListener) -> Result<Node> {
        let dir = self.dirs.node(id);
        let members = self.members.clone();
        let config = NodeConfig::new(id, &self.cluster.cluster_id, &dir, members, self.cluster.shards);
        Node::start(config, listener).await.with_context(|| format!("node {id} does not start"))
    }

    /// Forms the groups and names the cluster. Both happen once and are no error the next time, so
    /// that a start that was cut off half-way goes on where it was.
    async fn found(&self, key: ApiKeyRow) -> Result<()> {
        if let Some(node) = self.slot(1)?.lock().await.as_ref() {
            node.form_groups().await?;
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
                match node.name_cluster(init.clone(), Duration::from_secs(5)).await {
                    Ok(true) => return Ok(()),
                    Err(InitError::Refused(error)) if error.code == ErrorCode::AlreadyExists => return Ok(()),
                    // It does not lead, or a change of leader came in between: another round finds out.
                    Ok(false) | Err(InitError::Propose(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("the nodes elected no leaders within {START_MAX:?}")
    }

    /// Stops every node that runs, all at once.
    pub(super) async fn stop_all(&self) {
        let stop = self.running.values().map(async |slot| {
            if let Some(node) = slot.lock().await.take() {
                node.stop().await;
            }
        });
        futures::future::join_all(stop).await;
    }
}

impl NodeControl for Nodes {
    fn stop(&self, id: u64) -> BoxFuture<'_, holdfast_core::Result<()>> {
        Box::pin(async move {
            if let Some(node) = self.slot(id)?.lock().await.take() {
                node.stop().await;
            }
            Ok(())
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
            let node = self.start_node(id, listener).await.map_err(|error| failed(format!("{error:#}")))?;
            *slot = Some(node);
            Ok(())
        })
    }
}
