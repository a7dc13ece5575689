//! Receiving: checks that a message is meant for this node, and hands it to its group.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_proto::v1::raft_server::{Raft, RaftServer};
use holdfast_proto::v1::{RaftKind, RaftRequest, RaftResponse};
use parking_lot::RwLock;
use tonic::{Request, Response, Status};

use super::record::DecodeError;
use super::transfer::Transfers;
use super::types::{Applier, GroupId, NodeId, RaftHandle};
use super::wire::{self, MESSAGE_BYTES_MAX};

/// A group as messages of other nodes reach it.
#[derive(Clone)]
pub(crate) struct Reachable {
    pub(crate) raft: RaftHandle,
    pub(crate) applier: Arc<dyn Applier>,
    /// Held while a snapshot file is received: one at a time.
    pub(crate) receiving: Arc<tokio::sync::Mutex<()>>,
}

/// The groups of this node, by id.
#[derive(Default)]
pub(crate) struct Registry(RwLock<HashMap<GroupId, Reachable>>);

impl Registry {
    pub(crate) fn insert(&self, group: GroupId, raft: RaftHandle, applier: Arc<dyn Applier>) {
        let receiving = Arc::default();
        self.0.write().insert(group, Reachable { raft, applier, receiving });
    }

    pub(crate) fn clear(&self) {
        self.0.write().clear();
    }

    fn get(&self, group: GroupId) -> Option<Reachable> {
        self.0.read().get(&group).cloned()
    }
}

/// The gRPC service that takes the Raft messages of other nodes.
#[derive(Clone)]
pub struct RaftService {
    this_node: NodeId,
    cluster: Arc<str>,
    groups: Arc<Registry>,
    transfers: Arc<Transfers>,
}

impl RaftService {
    pub(crate) fn new(
        this_node: NodeId,
        cluster: &str,
        groups: Arc<Registry>,
        transfers: Arc<Transfers>,
    ) -> Self {
        RaftService { this_node, cluster: cluster.into(), groups, transfers }
    }

    /// The tonic service, with its message sizes limited.
    pub fn into_server(self) -> RaftServer<Self> {
        RaftServer::new(self)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// A message that went astray must not be obeyed: its vote or entries belong to other logs.
    fn check(&self, request: &RaftRequest) -> Result<(), Status> {
        if request.cluster_id != *self.cluster {
            return Err(Status::failed_precondition(format!(
                "this node belongs to cluster {:?}, not to {:?}",
                self.cluster, request.cluster_id
            )));
        }
        if request.to != self.this_node {
            return Err(Status::failed_precondition(format!(
                "this is node {}, not node {}: the sender's address book is wrong",
                self.this_node, request.to
            )));
        }
        if request.from == self.this_node {
            return Err(Status::failed_precondition(format!("two nodes have the id {}", self.this_node)));
        }
        Ok(())
    }
}

#[tonic::async_trait]
impl Raft for RaftService {
    async fn call(&self, request: Request<RaftRequest>) -> Result<Response<RaftResponse>, Status> {
        let request = request.into_inner();
        self.check(&request)?;
        let Some(group) = self.groups.get(request.group) else {
            return Err(Status::not_found(format!(
                "node {} has no replica of group {}",
                self.this_node, request.group
            )));
        };
        let payload = match request.kind() {
            RaftKind::Append => {
                let append = wire::decode_append(&request.payload).map_err(bad_payload)?;
                let reply = group.raft.append_entries(append).await.map_err(not_running)?;
                wire::encode_append_reply(&reply)
            }
            RaftKind::Vote => {
                let vote = wire::decode_vote(&request.payload).map_err(bad_payload)?;
                let reply = group.raft.vote(vote).await.map_err(not_running)?;
                wire::encode_vote_reply(&reply)
            }
            RaftKind::SnapshotOffer => {
                let offer = wire::decode_offer(&request.payload).map_err(bad_payload)?;
                let reply = self.transfers.take(request.group, request.from, &group, offer).await?;
                wire::encode_offer_reply(&reply)
            }
            RaftKind::SnapshotRead => {
                let read = wire::decode_read(&request.payload).map_err(bad_payload)?;
                wire::encode_piece(&self.transfers.read(&group, read).await?)
            }
            RaftKind::Unspecified => return Err(Status::invalid_argument("unknown kind of Raft message")),
        };
        let payload = payload.map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(RaftResponse { payload }))
    }
}

fn bad_payload(error: DecodeError) -> Status {
    Status::invalid_argument(error.to_string())
}

fn not_running(error: impl std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}
