//! The life of a node process: an empty volume waits for the founding, then the node runs until it
//! is stopped.

use crate::admin::Probes;
use crate::config::NodeConfig;
use crate::founding::{FoundingService, Moves, Plan, PlanMember, Volume, VolumeError, wait_for_plan};
use crate::node::{DiskFailure, Node, StartError};
use crate::raft::NodeId;
use holdfast_transport::{HostPort, Security};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Time between two looks whether every group has a leader.
const READY_PAUSE: Duration = Duration::from_millis(50);
/// Time between two looks whether the disk still takes what is written.
const DISK_PAUSE: Duration = Duration::from_millis(200);

/// What happens in the life of a node process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The volume is empty; the cluster must be founded.
    Waiting,
    /// Every group has a leader.
    Ready(NodeId),
}

/// Why a node process ended.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// Its volume cannot be used.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The node does not start. No source: the sentence has it all.
    #[error("node {0} does not start: {1}")]
    Start(NodeId, StartError),
    /// The disk under the log or a state has failed.
    #[error(
        "node {node} ends: {} in {} failed: {}; {advice}, then start the node again: what was acknowledged \
         is on a majority of the nodes",
        failure.what, failure.path.display(), failure.cause
    )]
    Disk {
        /// The node.
        node: NodeId,
        /// What failed, where and how.
        failure: DiskFailure,
        /// What to do.
        advice: &'static str,
    },
    /// The listener failed.
    #[error("the listener failed: {0}")]
    Listener(#[from] io::Error),
    /// The volume belongs to a node that the cluster reaches elsewhere.
    #[error(transparent)]
    Elsewhere(Box<Elsewhere>),
    /// The plan of the volume is not for it.
    #[error("the plan in {0} names other volumes")]
    Foreign(String),
}

/// A folder that belongs to a node which the cluster reaches at another address than this process has.
#[derive(Debug, thiserror::Error)]
#[error(
    "{path} holds the data of node {node} of cluster {cluster}, which the others reach at {known}, but \
     node.advertise is {advertise}. Is it the folder of another node? Then correct node.data. Has node {node} \
     moved? Then tell every process of the cluster with cluster.moved = [\"{planned}={advertise}\"]"
)]
pub struct Elsewhere {
    /// The folder.
    pub path: String,
    /// Whose it is.
    pub node: NodeId,
    /// Of which cluster.
    pub cluster: String,
    /// Where the cluster reaches that node.
    pub known: String,
    /// Where its plan says it is.
    pub planned: String,
    /// Where this process says it is.
    pub advertise: String,
}

/// A node process.
pub struct Process<'a> {
    /// The folder that it keeps everything in.
    pub data: &'a Path,
    /// How the others reach it, as `host:port`.
    pub advertise: &'a str,
    /// Nodes that are elsewhere since the cluster was founded.
    pub moves: &'a Moves,
    /// How it talks to the others, and who may call it.
    pub security: &'a Security,
    /// What the probes answer.
    pub probes: &'a Probes,
    /// Ends it.
    pub stop: &'a CancellationToken,
}

impl Process<'_> {
    /// Runs on `listener` until it is stopped, then stops serving and leaves the states in order.
    /// `tune` changes the defaults of the node's configuration; `tell` hears what happens.
    ///
    /// # Errors
    /// [`ProcessError`] says why it cannot run.
    pub async fn run(
        &self,
        listener: TcpListener,
        tune: impl FnOnce(&mut NodeConfig),
        tell: impl Fn(Event),
    ) -> Result<(), ProcessError> {
        let dir = self.data.to_owned();
        let volume = Arc::new(blocking(move || Volume::open(&dir)).await??);
        let service = FoundingService::new(Arc::clone(&volume), self.advertise);
        let (plan, listener) = match volume.plan() {
            Some(plan) => (plan, listener),
            None => {
                self.probes.waiting();
                tell(Event::Waiting);
                let (waiting, running) = twice(listener)?;
                match wait_for_plan(waiting, service.clone(), self.security, self.stop.cancelled()).await? {
                    Some(plan) => (plan, running),
                    None => return Ok(()),
                }
            }
        };
        self.probes.opening();
        let Some(this) = plan.member(&volume.instance()) else {
            return Err(ProcessError::Foreign(volume.dir().display().to_string()));
        };
        let mut config = self.config(&volume, &plan, this)?;
        tune(&mut config);
        let starting = Node::start_founded(config, listener, Some(service.clone()));
        let node = tokio::select! {
            node = starting => node.map_err(|error| ProcessError::Start(this.id, error))?,
            // What was opened is as a crash would leave it, which every start can bear.
            () = self.stop.cancelled() => {
                tracing::info!("stopped while the data was being opened");
                return Ok(());
            }
        };
        blocking(move || volume.set_started()).await??;
        service.set_running(node.founder());
        self.probes.running(&node);
        let ready = async {
            self.until_ready().await;
            tell(Event::Ready(node.id()));
            self.stop.cancelled().await;
        };
        tokio::select! {
            () = ready => {}
            () = self.stop.cancelled() => {}
            // At once: nothing works here any more, and to leave anything in order needs the disk. Not even
            // dropped: that would write and sync, and may never end.
            failure = until_disk_fails(&node) => {
                let error = disk_error(node.id(), failure);
                std::mem::forget(node);
                return Err(error);
            }
        }
        self.probes.drain();
        // What is kept was logged; there is nothing else to be done about it.
        let _kept = node.drainer().drain().await;
        node.stop().await;
        Ok(())
    }

    /// How the node runs; or why this is not the process to run it.
    fn config(&self, volume: &Volume, plan: &Plan, this: &PlanMember) -> Result<NodeConfig, ProcessError> {
        let known = self.moves.of(&this.address);
        if !is_one_place(known, self.advertise) {
            return Err(ProcessError::Elsewhere(Box::new(Elsewhere {
                path: volume.dir().display().to_string(),
                node: this.id,
                cluster: plan.cluster_id.clone(),
                known: known.to_owned(),
                planned: this.address.clone(),
                advertise: self.advertise.to_owned(),
            })));
        }
        let members = plan.addresses().into_iter();
        let members = members.map(|(id, address)| (id, self.moves.of(&address).to_owned())).collect();
        let mut config = NodeConfig::new(this.id, &plan.cluster_id, volume.dir(), members, plan.shards);
        config.founding = !volume.has_started();
        config.security = self.security.clone();
        Ok(config)
    }

    async fn until_ready(&self) {
        while !self.probes.is_ready() {
            tokio::time::sleep(READY_PAUSE).await;
        }
    }
}

/// Whether two spellings lead to one place.
fn is_one_place(one: &str, other: &str) -> bool {
    match (one.parse::<HostPort>(), other.parse::<HostPort>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

fn disk_error(node: NodeId, failure: DiskFailure) -> ProcessError {
    let is_full = ["No space left", "Disk quota exceeded"].iter().any(|words| failure.cause.contains(words));
    let advice = match is_full {
        true => "make room on this disk",
        false => "check this disk, and replace the disk if it fails",
    };
    ProcessError::Disk { node, failure, advice }
}

async fn until_disk_fails(node: &Node) -> DiskFailure {
    loop {
        if let Some(failure) = node.disk_failure() {
            return failure;
        }
        tokio::time::sleep(DISK_PAUSE).await;
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}

/// The same listening socket for two servers, one after the other: who connects in between waits
/// in its queue instead of being refused.
fn twice(listener: TcpListener) -> io::Result<(TcpListener, TcpListener)> {
    let first = listener.into_std()?;
    let second = first.try_clone()?;
    Ok((TcpListener::from_std(first)?, TcpListener::from_std(second)?))
}
