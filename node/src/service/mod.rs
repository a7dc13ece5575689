//! What routers ask of this node: the gRPC service over groups, states and images.
//!
//! Every call names an access that a router's authentication made; it is checked again here, so
//! that a router's mistake cannot cross the wall between two tenants.

mod facts;
pub(crate) mod gate;
mod meta;
mod reads;
mod recall;
pub(crate) mod refusals;
mod verify;
mod write;

use crate::integrity::{Checks, Integrity, Versions};
use crate::metrics::{NodeMetrics, ProposalMetrics};
use crate::raft::{Group, GroupId, ProposeError, Proposed};
use crate::shard::ShardState;
use bytes::Bytes;
use holdfast_core::access::{Access, Rights};
use holdfast_core::space::{Shard, SpaceKey};
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::{Refused, v1};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};
use xxhash_rust::xxh3::xxh3_64;

/// Longest time that one call may ask for.
const DEADLINE_MAX: Duration = Duration::from_secs(60);
/// Reads that wait for a thread of the search pool, beyond those that run.
const SEARCHES_WAITING_MAX: usize = 1024;

/// One Raft group of this node with its state.
#[derive(Clone)]
pub(crate) struct Replica {
    pub(crate) group: Group,
    pub(crate) state: Arc<ShardState>,
    pub(crate) proposals: ProposalMetrics,
}

impl Replica {
    /// As [`Group::propose`], measured.
    pub(crate) async fn propose(&self, command: Bytes, deadline: Instant) -> Result<Proposed, ProposeError> {
        let begin = Instant::now();
        let proposed = self.group.propose(command, deadline).await;
        self.proposals.proposed(&proposed, begin.elapsed());
        proposed
    }
}

/// The service. Cheap to clone.
#[derive(Clone)]
pub struct NodeService {
    inner: Arc<Inner>,
}

struct Inner {
    incarnation: u32,
    cluster_id: String,
    shards: u16,
    members: Vec<v1::Member>,
    replicas: BTreeMap<GroupId, Replica>,
    searches: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    metrics: Arc<NodeMetrics>,
    checks: Arc<Checks>,
    versions: Versions,
}

impl NodeService {
    /// The service of a node that runs `replicas`: group 0 and one group for each of `shards`.
    pub(crate) fn new(
        cluster_id: String,
        shards: u16,
        members: Vec<v1::Member>,
        replicas: BTreeMap<GroupId, Replica>,
        search_threads: usize,
        metrics: Arc<NodeMetrics>,
        integrity: &Integrity,
    ) -> Self {
        let inner = Inner {
            incarnation: incarnation(&cluster_id),
            cluster_id,
            shards,
            members,
            replicas,
            searches: Arc::new(Semaphore::new(search_threads.max(1))),
            waiting: Arc::new(Semaphore::new(SEARCHES_WAITING_MAX)),
            metrics,
            checks: Arc::clone(integrity.checks()),
            versions: integrity.versions().clone(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Answers a call and counts it.
    async fn answer<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T, Refused>>,
    ) -> Result<Response<T>, Status> {
        let counted = self.inner.metrics.calls.begin(method);
        let result = call.await;
        counted.end(result.as_ref().map_or_else(|refused| refused.error.code.as_str(), |_| "ok"));
        result.map(Response::new).map_err(Status::from)
    }

    /// What a reader of this replica has seen.
    fn seen(&self, group: GroupId, state: &ShardState) -> v1::Seen {
        let index = state.visible().unwrap_or(0);
        v1::Seen { shard: group, incarnation: self.inner.incarnation, index }
    }

    fn replica(&self, group: GroupId) -> Result<&Replica, Refused> {
        self.inner.replicas.get(&group).ok_or_else(|| refusals::no_such_group(group))
    }

    /// The group that a partition of a space belongs to.
    fn group_of(&self, space: &SpaceKey) -> GroupId {
        GroupId::from(space.slot().initial_shard(self.inner.shards).0)
    }

    /// Checks who asks for what, and finds the replica.
    fn enter(
        &self,
        access: Option<v1::Access>,
        space: Option<v1::Space>,
        needed: Rights,
    ) -> Result<(SpaceKey, GroupId, &Replica), Refused> {
        let access = known_access(access)?;
        let space = space.ok_or_else(|| Error::invalid("space", "the call names no space"))?;
        let space = SpaceKey::try_from(space)?;
        access.check(&space, needed)?;
        let group = self.group_of(&space);
        Ok((space, group, self.replica(group)?))
    }

    /// Runs a search or another read that may take long on the search pool, whose queue is bounded.
    async fn on_search_pool<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl FnOnce() -> Result<T, Refused> + Send + 'static,
    ) -> Result<T, Refused> {
        let inner = &self.inner;
        let Ok(_waiting) = inner.waiting.clone().try_acquire_owned() else {
            return Err(refusals::overloaded("too many reads wait on this node"));
        };
        let turn = tokio::time::timeout_at(deadline.into(), inner.searches.clone().acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(refusals::too_late("waiting for a thread")) };
        let run = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        match tokio::time::timeout_at(deadline.into(), run).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Err(refusals::internal(&error)),
            Err(_) => Err(refusals::too_late("reading")),
        }
    }
}

fn known_access(access: Option<v1::Access>) -> Result<Access, Refused> {
    let access = access.ok_or_else(|| Error::new(ErrorCode::Unauthenticated, "the call names no access"))?;
    Ok(Access::try_from(access)?)
}

pub(crate) fn deadline(ms: u32) -> Instant {
    Instant::now() + Duration::from_millis(u64::from(ms)).min(DEADLINE_MAX)
}

/// The life of the shards that tokens name: another cluster's tokens fit none of this one's. There
/// are no restores and no slot moves yet, which start another life of one shard.
pub(crate) fn incarnation(cluster_id: &str) -> u32 {
    let [a, b, c, d, ..] = xxh3_64(cluster_id.as_bytes()).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

fn shard(group: GroupId) -> Result<Shard, Refused> {
    u16::try_from(group).map(Shard).map_err(|_| refusals::no_such_group(group))
}

#[tonic::async_trait]
impl v1::node_server::Node for NodeService {
    async fn write(&self, request: Request<v1::WriteRequest>) -> Result<Response<v1::WriteResponse>, Status> {
        self.answer("write", self.propose(request.into_inner())).await
    }

    async fn get(&self, request: Request<v1::GetRequest>) -> Result<Response<v1::GetResponse>, Status> {
        self.answer("get", self.read_one(request.into_inner())).await
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        self.answer("list", self.read_page(request.into_inner())).await
    }

    async fn history(
        &self,
        request: Request<v1::HistoryRequest>,
    ) -> Result<Response<v1::HistoryResponse>, Status> {
        self.answer("history", self.read_history(request.into_inner())).await
    }

    async fn recall(
        &self,
        request: Request<v1::RecallRequest>,
    ) -> Result<Response<v1::RecallResponse>, Status> {
        self.answer("recall", self.search(request.into_inner())).await
    }

    async fn list_facts(
        &self,
        request: Request<v1::ListFactsRequest>,
    ) -> Result<Response<v1::ListFactsResponse>, Status> {
        self.answer("list_facts", self.read_facts(request.into_inner())).await
    }

    async fn read_meta(
        &self,
        request: Request<v1::ReadMetaRequest>,
    ) -> Result<Response<v1::ReadMetaResponse>, Status> {
        self.answer("read_meta", self.read_meta_rows(request.into_inner())).await
    }

    async fn topology(
        &self,
        _request: Request<v1::TopologyRequest>,
    ) -> Result<Response<v1::TopologyResponse>, Status> {
        self.answer("topology", async { Ok(self.describe()) }).await
    }

    async fn hash_point(
        &self,
        request: Request<v1::HashPointRequest>,
    ) -> Result<Response<v1::HashPointResponse>, Status> {
        self.answer("hash_point", self.make_point(request.into_inner())).await
    }

    async fn verify(
        &self,
        request: Request<v1::VerifyRequest>,
    ) -> Result<Response<v1::VerifyResponse>, Status> {
        self.answer("verify", self.verify_replica(request.into_inner())).await
    }
}
