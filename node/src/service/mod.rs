//! What routers ask of this node: the gRPC service over groups, states and images.
//!
//! Every call names an access that a router's authentication made; it is checked again here, so
//! that a router's mistake cannot cross the wall between two tenants.

mod facts;
pub(crate) mod gate;
mod going;
mod graph;
mod lifecycle;
mod meta;
mod reads;
mod recall;
pub(crate) mod refusals;
mod sessions;
mod stated;
#[cfg(test)]
mod tests;
mod tiers;
mod turns;
mod verify;
mod why_not;
mod write;

use crate::erasing::EraseSettings;
use crate::integrity::{Checks, Integrity, Versions};
use crate::metrics::{NodeMetrics, ProposalMetrics};
use crate::raft::{Group, GroupId, ProposeError, Proposed, RaftNode};
use crate::shard::ShardState;
use bytes::Bytes;
use holdfast_core::access::{Access, Rights};
use holdfast_core::shard_map::ShardMap;
use holdfast_core::space::{Shard, SpaceKey};
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::{Refused, v1};
use parking_lot::RwLock;
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
    /// Who owns which slot, as far as this node knows.
    map: RwLock<Arc<ShardMap>>,
    members: Vec<v1::Member>,
    raft: Arc<RaftNode>,
    replicas: BTreeMap<GroupId, Replica>,
    searches: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    turns: turns::TurnCache,
    going: going::Going,
    metrics: Arc<NodeMetrics>,
    checks: Arc<Checks>,
    versions: Versions,
    erasure: EraseSettings,
}

/// The cluster as it was founded.
pub(crate) struct Layout {
    pub(crate) cluster_id: String,
    pub(crate) shards: u16,
    pub(crate) members: Vec<v1::Member>,
    pub(crate) erasure: EraseSettings,
}

impl NodeService {
    /// The service of a node that runs `replicas`: group 0 and one group for each shard.
    pub(crate) fn new(
        layout: Layout,
        raft: Arc<RaftNode>,
        replicas: BTreeMap<GroupId, Replica>,
        search_threads: usize,
        metrics: Arc<NodeMetrics>,
        integrity: &Integrity,
    ) -> Self {
        let Layout { cluster_id, shards, members, erasure } = layout;
        let inner = Inner {
            incarnation: incarnation(&cluster_id),
            cluster_id,
            map: RwLock::new(Arc::new(ShardMap::initial(shards))),
            members,
            raft,
            replicas,
            searches: Arc::new(Semaphore::new(search_threads.max(1))),
            waiting: Arc::new(Semaphore::new(SEARCHES_WAITING_MAX)),
            turns: turns::TurnCache::default(),
            going: going::Going::default(),
            metrics,
            checks: Arc::clone(integrity.checks()),
            versions: integrity.versions().clone(),
            erasure,
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

    fn map(&self) -> Arc<ShardMap> {
        Arc::clone(&self.inner.map.read())
    }

    /// Goes by another map from now on, if it is newer than the one that this node has.
    pub(crate) fn set_shard_map(&self, map: ShardMap) {
        let mut known = self.inner.map.write();
        if map.epoch() > known.epoch() {
            *known = Arc::new(map);
        }
    }

    /// The group that owns a partition of a space, if it is the one that the router takes for it.
    ///
    /// A shard that does not own a slot must not touch it, whatever an older map says: the owner may
    /// have changed it since. One that owns it by both maps may, whichever of them is newer.
    fn owner(&self, space: &SpaceKey, asked: Option<v1::Owner>) -> Result<GroupId, Refused> {
        let map = self.map();
        let group = GroupId::from(map.owner(space.slot()).0);
        match asked {
            Some(asked) if asked.shard != group && asked.epoch > map.epoch() => {
                Err(refusals::map_not_known())
            }
            Some(asked) if asked.shard != group => Err(refusals::wrong_shard(map.epoch())),
            _ => Ok(group),
        }
    }

    /// Who asks, unless that is a tenant that is being erased: a router may take its keys to be good for a while.
    fn admitted(&self, access: Option<v1::Access>) -> Result<Access, Refused> {
        let access = known_access(access)?;
        let meta = self.replica(GroupId::from(Shard::META.0))?;
        self.inner.going.check(&meta.state, &access.tenant, &self.inner.turns)?;
        Ok(access)
    }

    /// Checks who asks for what, and finds the replica.
    fn enter(
        &self,
        access: Option<v1::Access>,
        space: Option<v1::Space>,
        needed: Rights,
        owner: Option<v1::Owner>,
    ) -> Result<(SpaceKey, GroupId, &Replica), Refused> {
        let access = self.admitted(access)?;
        let space = space.ok_or_else(|| Error::invalid("space", "the call names no space"))?;
        let space = SpaceKey::try_from(space)?;
        access.check(&space, needed)?;
        let group = self.owner(&space, owner)?;
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

    async fn recall_stats(
        &self,
        request: Request<v1::RecallStatsRequest>,
    ) -> Result<Response<v1::RecallStatsResponse>, Status> {
        self.answer("recall_stats", self.recall_statistics(request.into_inner())).await
    }

    async fn list_facts(
        &self,
        request: Request<v1::ListFactsRequest>,
    ) -> Result<Response<v1::ListFactsResponse>, Status> {
        self.answer("list_facts", self.read_facts(request.into_inner())).await
    }

    async fn read_tier(
        &self,
        request: Request<v1::ReadTierRequest>,
    ) -> Result<Response<v1::ReadTierResponse>, Status> {
        self.answer("read_tier", self.read_tier_rows(request.into_inner())).await
    }

    async fn graph(&self, request: Request<v1::GraphRequest>) -> Result<Response<v1::GraphResponse>, Status> {
        self.answer("graph", self.read_graph(request.into_inner())).await
    }

    async fn get_session(
        &self,
        request: Request<v1::GetSessionRequest>,
    ) -> Result<Response<v1::GetSessionResponse>, Status> {
        self.answer("get_session", self.read_session(request.into_inner())).await
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        self.answer("list_sessions", self.read_sessions(request.into_inner())).await
    }

    async fn list_turns(
        &self,
        request: Request<v1::ListTurnsRequest>,
    ) -> Result<Response<v1::ListTurnsResponse>, Status> {
        self.answer("list_turns", self.read_turns(request.into_inner())).await
    }

    async fn read_meta(
        &self,
        request: Request<v1::ReadMetaRequest>,
    ) -> Result<Response<v1::ReadMetaResponse>, Status> {
        self.answer("read_meta", self.read_meta_rows(request.into_inner())).await
    }

    async fn topology(
        &self,
        request: Request<v1::TopologyRequest>,
    ) -> Result<Response<v1::TopologyResponse>, Status> {
        let known_epoch = request.into_inner().known_epoch;
        self.answer("topology", async { Ok(self.describe(known_epoch)) }).await
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

    async fn export(
        &self,
        request: Request<v1::ExportRequest>,
    ) -> Result<Response<v1::ExportResponse>, Status> {
        self.answer("export", self.export_piece(request.into_inner())).await
    }

    async fn space_stats(
        &self,
        request: Request<v1::SpaceStatsRequest>,
    ) -> Result<Response<v1::SpaceStatsResponse>, Status> {
        self.answer("space_stats", self.read_stats(request.into_inner())).await
    }

    async fn locate(
        &self,
        request: Request<v1::LocateRequest>,
    ) -> Result<Response<v1::LocateResponse>, Status> {
        self.answer("locate", self.locate_memories(request.into_inner())).await
    }

    async fn get_erasure(
        &self,
        request: Request<v1::GetErasureRequest>,
    ) -> Result<Response<v1::GetErasureResponse>, Status> {
        self.answer("get_erasure", self.read_erasure(request.into_inner())).await
    }

    async fn get_tenant_erasure(
        &self,
        request: Request<v1::GetTenantErasureRequest>,
    ) -> Result<Response<v1::GetTenantErasureResponse>, Status> {
        self.answer("get_tenant_erasure", self.read_tenant_erasure(request.into_inner())).await
    }
}
