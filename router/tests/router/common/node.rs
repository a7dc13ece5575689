//! The nodes: one state per group, shared by all of them, as if replication were instant.

use super::TENANT;
use super::{reads, tiers};
use holdfast_core::access::{Access, ApiKeyRow, ClusterRow, Rights, TenantRow};
use holdfast_core::apply::{Position, apply};
use holdfast_core::codec::Stored;
use holdfast_core::collection::CollectionRow;
use holdfast_core::command::{Command, MetaCommand, Write};
use holdfast_core::keys::{self, meta};
use holdfast_core::outcome::Outcome;
use holdfast_core::shard_map::ShardMap;
use holdfast_core::space::{Shard, SpaceKey};
use holdfast_core::state::{BTreeState, Overlay, Reader, StateHash};
use holdfast_core::token::Seen;
use holdfast_core::transfer::{self, Cursor};
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1::node_server::{Node, NodeServer};
use holdfast_proto::v1::{self, read_meta_request::What};
use holdfast_proto::{MESSAGE_BYTES_MAX, Refused, check_graph, graph_of};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

const SHARDS: u16 = 4;

#[derive(Default)]
pub struct Group {
    pub state: BTreeState,
    pub hash: StateHash,
    pub index: u64,
}

pub struct Cluster {
    pub groups: Mutex<BTreeMap<u16, Group>>,
    /// The node that leads every group.
    pub leader: AtomicU64,
    nodes: Vec<Arc<FakeNode>>,
    /// How many writes reached apply.
    pub applied: AtomicUsize,
    /// A shard whose searches are never answered; 0 for none.
    pub silent_shard: AtomicU16,
    /// A shard of which searches only hear that it has no leader, at once; 0 for none.
    pub refusing_shard: AtomicU16,
    /// The index that each search wanted, with the version of the wish.
    pub wished: Mutex<Vec<Option<(String, u64)>>>,
    /// By what the last search was scored: profile, weights, tau.
    pub scored_by: Mutex<(String, Option<[f32; 4]>, Option<f64>)>,
    /// Who owns which slot.
    pub map: Mutex<ShardMap>,
    /// The epoch of the map that nodes tell; those that refuse know the newest one.
    pub told_epoch: AtomicU64,
}

/// How a node misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    #[default]
    None,
    /// Refuses every connection's calls as a dead process would.
    Dead,
    /// Does not answer at all.
    Silent,
    /// Does the write, then loses the answer, once.
    LoseAnswer,
    /// Does one write and answers it, then falls silent.
    OneWrite,
    /// Does one write and answers it, then is as [`Fault::CutOff`].
    OneWriteThenCutOff,
    /// The same with two.
    TwoWritesThenCutOff,
    /// Says that it leads not, and names nobody.
    Lost,
    /// As [`Fault::Lost`], for the meta group alone.
    MetaLost,
    /// Believes that it leads, and cannot prove it: says to ask again, for ever.
    CutOff,
    /// Answers after 700 ms.
    Slow,
    /// Says that it is behind, once.
    Behind,
    /// Says that it is busy, once.
    Busy,
    /// Is behind whatever a read asks of a follower, for ever.
    Lagging,
}

pub struct FakeNode {
    pub id: u64,
    address: String,
    fault: Mutex<Fault>,
    pub calls: AtomicUsize,
}

impl FakeNode {
    pub fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    fn fault(&self) -> Fault {
        *self.fault.lock().unwrap()
    }
}

impl Cluster {
    pub async fn start(nodes: u64, key: ApiKeyRow, stop: &CancellationToken) -> Arc<Self> {
        let mut listeners = Vec::new();
        let mut known = Vec::new();
        for id in 1..=nodes {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            known.push(Arc::new(FakeNode {
                id,
                address,
                fault: Mutex::default(),
                calls: AtomicUsize::new(0),
            }));
            listeners.push(listener);
        }
        let cluster = Arc::new(Self {
            groups: Mutex::default(),
            leader: AtomicU64::new(1),
            nodes: known.clone(),
            applied: AtomicUsize::new(0),
            silent_shard: AtomicU16::new(0),
            refusing_shard: AtomicU16::new(0),
            wished: Mutex::default(),
            scored_by: Mutex::default(),
            map: Mutex::new(ShardMap::initial(SHARDS)),
            told_epoch: AtomicU64::new(u64::MAX),
        });
        let tenant = TenantRow { id: TENANT.into(), name: TENANT.into(), created_us: 0 };
        let init = MetaCommand::InitCluster { cluster_id: 7, shards: SHARDS, tenant, key };
        cluster.apply(0, &Command::Meta(Box::new(init)));
        for (node, listener) in known.into_iter().zip(listeners) {
            let service = NodeServer::new(Service { node, cluster: cluster.clone() })
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX);
            let stop = stop.clone();
            tokio::spawn(async move {
                let server = tonic::transport::Server::builder().add_service(service);
                server
                    .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop.cancelled())
                    .await
                    .unwrap();
            });
        }
        cluster
    }

    pub fn addresses(&self) -> Vec<(u64, String)> {
        self.nodes.iter().map(|node| (node.id, node.address.clone())).collect()
    }

    pub fn node(&self, id: u64) -> &FakeNode {
        self.nodes.iter().find(|node| node.id == id).unwrap()
    }

    pub fn owner(&self, space: &SpaceKey) -> Shard {
        self.map.lock().unwrap().owner(space.slot())
    }

    /// A collection that is there, or was deleted last.
    pub fn collection(&self, name: &str) -> CollectionRow {
        let mut groups = self.groups.lock().unwrap();
        let state = &groups.entry(0).or_default().state;
        let row = state.get(&meta::collection(TENANT, name)).unwrap().unwrap();
        CollectionRow::decode(&row).unwrap()
    }

    /// A partition of it.
    pub fn shared(&self, name: &str, partition: u8) -> SpaceKey {
        self.collection(name).space(partition).unwrap()
    }

    /// The ids of the memories of a partition.
    pub fn memories(&self, space: &SpaceKey) -> Vec<String> {
        let mut groups = self.groups.lock().unwrap();
        let state = &groups.entry(self.owner(space).0).or_default().state;
        reads::ids(state, space)
    }

    /// Moves a space, with all that is in its shard, to another one that is empty.
    pub fn move_to(&self, space: &SpaceKey, to: Shard) {
        let mut groups = self.groups.lock().unwrap();
        let mut map = self.map.lock().unwrap();
        let from = groups.entry(map.owner(space.slot()).0).or_default();
        let (state, hash) = (from.state.clone(), from.hash);
        let target = groups.entry(to.0).or_default();
        assert_eq!(target.index, 0, "the target is empty");
        *target = Group { state, hash, index: 1 };
        *map = map.moved(space.slot(), to).unwrap();
    }

    pub fn apply(&self, group: u16, command: &Command) -> (Outcome, Seen) {
        let mut groups = self.groups.lock().unwrap();
        let Group { state, hash, index } = groups.entry(group).or_default();
        *index += 1;
        self.applied.fetch_add(1, Ordering::SeqCst);
        let stamp_us = jiff::Timestamp::now().as_microsecond();
        let mut overlay = Overlay::new(&*state);
        let applied = apply(&mut overlay, Position { log_index: *index, stamp_us }, command).unwrap();
        let changes = overlay.into_changes().unwrap();
        hash.follow(&changes);
        state.commit(changes);
        (applied.outcome, Seen { shard: Shard(group), incarnation: 0, index: *index })
    }
}

struct Service {
    node: Arc<FakeNode>,
    cluster: Arc<Cluster>,
}

type Answer<T> = Result<Response<T>, Status>;

fn refuse(error: Error, route: v1::Route, leader: Option<u64>) -> Status {
    Refused { error, route, leader, retry_after_ms: None, map_epoch: None }.into()
}

impl Service {
    /// Whether this node may answer a read: as its leader, or as a follower if that will do.
    async fn may_read(&self, read: Option<&v1::Read>) -> Result<(), Status> {
        let follows = self.cluster.leader.load(Ordering::SeqCst) != self.node.id;
        let will_do = read.is_some_and(|read| read.any_replica);
        match self.node.fault() {
            Fault::None if follows && will_do => {
                self.node.calls.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
            Fault::Lagging if follows && will_do => {
                self.node.calls.fetch_add(1, Ordering::SeqCst);
                Err(refuse(Error::new(ErrorCode::Unavailable, "behind"), v1::Route::Behind, None))
            }
            _ => self.lead().await,
        }
    }

    /// Whether the group that the router chose owns the space.
    fn own(&self, space: &SpaceKey, group: u32) -> Result<Shard, Status> {
        let owner = self.cluster.owner(space);
        if u32::from(owner.0) == group {
            return Ok(owner);
        }
        let error = Error::new(ErrorCode::Unavailable, "it has moved");
        let map_epoch = Some(self.cluster.map.lock().unwrap().epoch());
        let route = v1::Route::WrongShard;
        Err(Refused { error, route, leader: None, retry_after_ms: None, map_epoch }.into())
    }

    /// Whether the shard of a space answers searches.
    async fn answers(&self, space: &SpaceKey) -> Result<(), Status> {
        let shard = self.cluster.owner(space).0;
        if self.cluster.silent_shard.load(Ordering::SeqCst) == shard {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        if self.cluster.refusing_shard.load(Ordering::SeqCst) == shard {
            return Err(refuse(Error::new(ErrorCode::Unavailable, "no quorum now"), v1::Route::Retry, None));
        }
        Ok(())
    }

    /// Whether this node answers for the leader; what it says if not.
    async fn lead(&self) -> Result<(), Status> {
        self.node.calls.fetch_add(1, Ordering::SeqCst);
        let leader = self.cluster.leader.load(Ordering::SeqCst);
        let unavailable = || Error::new(ErrorCode::Unavailable, "not here");
        match self.node.fault() {
            Fault::Dead => return Err(Status::unavailable("connection reset")),
            Fault::Silent => tokio::time::sleep(Duration::from_secs(60)).await,
            Fault::Lost => return Err(refuse(unavailable(), v1::Route::NotLeader, None)),
            Fault::Behind => {
                self.node.set(Fault::None);
                return Err(refuse(unavailable(), v1::Route::Behind, None));
            }
            Fault::Busy => {
                self.node.set(Fault::None);
                return Err(refuse(Error::new(ErrorCode::Overloaded, "busy"), v1::Route::Retry, None));
            }
            Fault::CutOff => {
                return Err(refuse(
                    Error::new(ErrorCode::Unavailable, "no quorum now"),
                    v1::Route::Retry,
                    None,
                ));
            }
            Fault::Slow => tokio::time::sleep(Duration::from_millis(700)).await,
            Fault::None
            | Fault::Lagging
            | Fault::LoseAnswer
            | Fault::MetaLost
            | Fault::OneWrite
            | Fault::OneWriteThenCutOff
            | Fault::TwoWritesThenCutOff => {}
        }
        if leader == self.node.id {
            return Ok(());
        }
        Err(refuse(unavailable(), v1::Route::NotLeader, Some(leader)))
    }

    /// The space of a read, once the wall is checked as a node checks it.
    fn space(&self, access: Option<v1::Access>, space: Option<v1::Space>) -> Result<SpaceKey, Status> {
        let refused = |error: Error| Status::from(Refused::from(error));
        let access = Access::try_from(access.unwrap()).map_err(refused)?;
        let space = SpaceKey::try_from(space.unwrap()).map_err(refused)?;
        access.check(&space, Rights::READ).map_err(refused)?;
        Ok(space)
    }

    /// Reads a group's state at its visible index.
    fn read<T>(
        &self,
        space: &SpaceKey,
        read: Option<v1::Read>,
        ask: impl FnOnce(&BTreeState) -> Result<T, Error>,
    ) -> Result<(T, Option<v1::Seen>), Status> {
        let asked = read.and_then(|read| read.owner).expect("every read names the owner");
        let group = self.own(space, asked.shard)?;
        let mut groups = self.cluster.groups.lock().unwrap();
        let entry = groups.entry(group.0).or_default();
        let at_least = read.and_then(|read| read.at_least).map_or(0, |seen| seen.index);
        if at_least > entry.index {
            let error = Error::new(ErrorCode::Unavailable, "behind");
            return Err(refuse(error, v1::Route::Behind, None));
        }
        let answer = ask(&entry.state).map_err(|error| Status::from(Refused::from(error)))?;
        let seen = Seen { shard: group, incarnation: 0, index: entry.index };
        Ok((answer, Some(seen.into())))
    }
}

#[tonic::async_trait]
impl Node for Service {
    async fn write(&self, request: Request<v1::WriteRequest>) -> Answer<v1::WriteResponse> {
        self.lead().await?;
        let request = request.into_inner();
        let refused = |error: Error| Status::from(Refused::from(error));
        let access = Access::try_from(request.access.unwrap()).map_err(refused)?;
        let command = Command::decode(&request.command).unwrap();
        command.check().map_err(refused)?;
        match &command {
            Command::Space(command) => {
                access.check(&command.space, Rights::WRITE).map_err(refused)?;
                self.own(&command.space, request.group)?;
                let is_claim = matches!(command.write, Write::Claim(_));
                assert!(is_claim || command.idempotency.is_some(), "every write can be repeated");
            }
            Command::Meta(_) => assert_eq!(request.group, 0),
            Command::Sweep { .. } | Command::HashPoint | Command::Tenant(_) => panic!("a leader's own"),
        }
        let (outcome, seen) = self.cluster.apply(u16::try_from(request.group).unwrap(), &command);
        match self.node.fault() {
            Fault::LoseAnswer => {
                self.node.set(Fault::None);
                return Err(Status::unavailable("connection reset"));
            }
            Fault::OneWrite => self.node.set(Fault::Silent),
            Fault::OneWriteThenCutOff => self.node.set(Fault::CutOff),
            Fault::TwoWritesThenCutOff => self.node.set(Fault::OneWriteThenCutOff),
            _ => {}
        }
        let outcome = outcome.encode().unwrap();
        Ok(Response::new(v1::WriteResponse { outcome, seen: Some(seen.into()) }))
    }

    async fn get(&self, request: Request<v1::GetRequest>) -> Answer<v1::GetResponse> {
        let request = request.into_inner();
        self.may_read(request.read.as_ref()).await?;
        let space = self.space(request.access, request.space)?;
        let (memory, seen) =
            self.read(&space, request.read, |state| reads::get(state, &space, &request.id))?;
        Ok(Response::new(v1::GetResponse { memory, seen }))
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Answer<v1::ListResponse> {
        let request = request.into_inner();
        self.may_read(request.read.as_ref()).await?;
        let space = self.space(request.access.clone(), request.space.clone())?;
        let read = request.read;
        let ((memories, next_after_seq), seen) =
            self.read(&space, read, |state| reads::list(state, &space, &request))?;
        Ok(Response::new(v1::ListResponse { memories, next_after_seq, seen }))
    }

    async fn history(&self, request: Request<v1::HistoryRequest>) -> Answer<v1::HistoryResponse> {
        let request = request.into_inner();
        self.may_read(request.read.as_ref()).await?;
        let space = self.space(request.access, request.space)?;
        let (versions, seen) =
            self.read(&space, request.read, |state| reads::history(state, &space, &request.id))?;
        Ok(Response::new(v1::HistoryResponse { versions, seen }))
    }

    async fn recall(&self, request: Request<v1::RecallRequest>) -> Answer<v1::RecallResponse> {
        let request = request.into_inner();
        self.may_read(request.read.as_ref()).await?;
        let space = self.space(request.access.clone(), request.space.clone())?;
        self.answers(&space).await?;
        let wish = request.index.as_ref().map(|wish| (wish.kind.clone(), wish.version));
        self.cluster.wished.lock().unwrap().push(wish);
        let weights = request.weights.map(|w| [w.relevance, w.recency, w.importance, w.frequency]);
        *self.cluster.scored_by.lock().unwrap() = (request.profile.clone(), weights, request.tau_hours);
        let read = request.read;
        let (response, seen) = self.read(&space, read, |state| reads::recall(state, &space, &request))?;
        Ok(Response::new(v1::RecallResponse { seen, ..response }))
    }

    async fn recall_stats(
        &self,
        request: Request<v1::RecallStatsRequest>,
    ) -> Answer<v1::RecallStatsResponse> {
        let request = request.into_inner().recall.unwrap();
        self.may_read(request.read.as_ref()).await?;
        let space = self.space(request.access.clone(), request.space.clone())?;
        self.answers(&space).await?;
        let read = request.read;
        let (response, seen) = self.read(&space, read, |state| Ok(reads::stats(state, &space, &request)))?;
        Ok(Response::new(v1::RecallStatsResponse { seen, ..response }))
    }

    async fn list_facts(&self, request: Request<v1::ListFactsRequest>) -> Answer<v1::ListFactsResponse> {
        let request = request.into_inner();
        self.may_read(request.read.as_ref()).await?;
        let space = self.space(request.access.clone(), request.space.clone())?;
        let (facts, seen) =
            self.read(&space, request.read, |state| Ok(reads::facts(state, &space, &request)))?;
        Ok(Response::new(v1::ListFactsResponse { facts, next: None, seen }))
    }

    async fn read_tier(&self, request: Request<v1::ReadTierRequest>) -> Answer<v1::ReadTierResponse> {
        let request = request.into_inner();
        self.may_read(request.read.as_ref()).await?;
        let space = self.space(request.access.clone(), request.space.clone())?;
        let (entries, seen) =
            self.read(&space, request.read, |state| Ok(tiers::read(state, &space, &request)))?;
        Ok(Response::new(v1::ReadTierResponse { entries, seen }))
    }

    async fn graph(&self, request: Request<v1::GraphRequest>) -> Answer<v1::GraphResponse> {
        let request = request.into_inner();
        self.may_read(request.read.as_ref()).await?;
        let space = self.space(request.access, request.space)?;
        let (what, sight) = (request.what.unwrap(), request.sight.unwrap());
        let (response, seen) = self.read(&space, request.read, |state| {
            check_graph(&what)?;
            Ok(graph_of(state, &space, &what, &sight).unwrap())
        })?;
        Ok(Response::new(v1::GraphResponse { seen, ..response }))
    }

    async fn get_session(&self, request: Request<v1::GetSessionRequest>) -> Answer<v1::GetSessionResponse> {
        let request = request.into_inner();
        self.may_read(request.read.as_ref()).await?;
        let space = self.space(request.access, request.space)?;
        let (found, seen) =
            self.read(&space, request.read, |state| Ok(reads::session(state, &space, &request.session)))?;
        let (session, window) = found.unzip();
        Ok(Response::new(v1::GetSessionResponse { session, window, seen }))
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Answer<v1::ListSessionsResponse> {
        let request = request.into_inner();
        self.may_read(request.read.as_ref()).await?;
        let space = self.space(request.access.clone(), request.space.clone())?;
        let ((sessions, next), seen) =
            self.read(&space, request.read, |state| Ok(reads::sessions(state, &space, &request)))?;
        Ok(Response::new(v1::ListSessionsResponse { sessions, next, seen }))
    }

    async fn list_turns(&self, request: Request<v1::ListTurnsRequest>) -> Answer<v1::ListTurnsResponse> {
        let request = request.into_inner();
        self.may_read(request.read.as_ref()).await?;
        let space = self.space(request.access.clone(), request.space.clone())?;
        let (found, seen) = self.read(&space, request.read, |state| {
            let session = reads::session(state, &space, &request.session).map(|(session, _)| session);
            Ok((session, reads::turns(state, &space, &request.session)))
        })?;
        let first = |turn: &v1::Turn| turn.number > request.after;
        let mut turns: Vec<_> = found.1.into_iter().filter(first).collect();
        let next = turns.get(request.limit as usize).map(|turn| turn.number - 1);
        turns.truncate(request.limit as usize);
        Ok(Response::new(v1::ListTurnsResponse { session: found.0, turns, next, seen }))
    }

    async fn read_meta(&self, request: Request<v1::ReadMetaRequest>) -> Answer<v1::ReadMetaResponse> {
        self.lead().await?;
        if self.node.fault() == Fault::MetaLost {
            let error = Error::new(ErrorCode::Unavailable, "no leader");
            return Err(refuse(error, v1::Route::NotLeader, None));
        }
        let mut groups = self.cluster.groups.lock().unwrap();
        let state = &groups.entry(0).or_default().state;
        let one = |key: Vec<u8>| state.get(&key).unwrap().into_iter().collect::<Vec<_>>();
        let all = |prefix: Vec<u8>| -> Vec<Vec<u8>> {
            state.scan(&prefix, None, 10_000).unwrap().into_iter().map(|(_, value)| value).collect()
        };
        let rows = match request.into_inner().what.unwrap() {
            What::ApiKey(id) => {
                let mut rows = one(meta::api_key(&id));
                let tenant = |row: &Vec<u8>| ApiKeyRow::decode(row).unwrap().tenant;
                rows.retain(|row| state.get(&keys::tenant::key(&tenant(row))).unwrap().is_none());
                rows
            }
            What::Tenant(id) => one(meta::tenant(&id)),
            What::TenantErasure(id) => one(keys::tenant::key(&id)),
            What::TenantsGoing(_) => {
                let going = state.scan(&keys::tenant::going_prefix(), None, 10_000).unwrap();
                let ids = going.iter().map(|(key, _)| keys::tenant::parse_going(key).unwrap());
                ids.flat_map(|id| one(keys::tenant::key(id))).collect()
            }
            What::Tenants(_) => all(meta::tenants()),
            What::Cluster(_) => one(meta::cluster()),
            What::FactRules(tenant) => one(meta::fact_rules(&tenant)),
            What::Scoring(tenant) => one(meta::scoring(&tenant)),
            What::Collection(of) => one(meta::collection(&of.tenant, &of.name)),
            What::CollectionsOf(tenant) => all(meta::collections(&tenant)),
            What::CollectionSettings(of) => one(meta::collection_settings(&of.tenant, &of.name)),
            What::SettingsOfCollections(tenant) => all(meta::settings_of_collections(&tenant)),
            What::KeysOf(keys) => all(meta::api_keys())
                .into_iter()
                .filter(|row| {
                    let row = ApiKeyRow::decode(row).unwrap();
                    keys.tenant.as_ref().is_none_or(|tenant| *tenant == row.tenant)
                })
                .collect(),
        };
        Ok(Response::new(v1::ReadMetaResponse { rows }))
    }

    async fn topology(&self, _: Request<v1::TopologyRequest>) -> Answer<v1::TopologyResponse> {
        match self.node.fault() {
            Fault::Dead => return Err(Status::unavailable("connection reset")),
            Fault::Silent => tokio::time::sleep(Duration::from_secs(60)).await,
            _ => {}
        }
        let told = {
            let map = self.cluster.map.lock().unwrap();
            let epoch = map.epoch().min(self.cluster.told_epoch.load(Ordering::SeqCst));
            let is_newest = epoch == map.epoch();
            let owners = map.owners().iter().filter(|_| is_newest).map(|owner| owner.0.into()).collect();
            v1::Map { epoch, owners }
        };
        let groups = self.cluster.groups.lock().unwrap();
        let cluster = groups[&0].state.get(&meta::cluster()).unwrap().unwrap();
        let cluster = ClusterRow::decode(&cluster).unwrap();
        let leader = self.cluster.leader.load(Ordering::SeqCst);
        let meta_lost = self.node.fault() == Fault::MetaLost;
        let led = |group: u16| (group > 0 || !meta_lost).then_some(leader);
        let group =
            |group: u16| v1::Group { group: group.into(), leader: led(group), term: leader, visible: 0 };
        let member = |(id, address): (u64, String)| v1::Member { id, address };
        Ok(Response::new(v1::TopologyResponse {
            reverted: None,
            refused: Vec::new(),
            map: Some(told),
            cluster_id: format!("{:x}", cluster.cluster_id),
            shards: cluster.shards.into(),
            nodes: self.cluster.addresses().into_iter().map(member).collect(),
            groups: (0..=cluster.shards).map(group).collect(),
        }))
    }

    async fn hash_point(&self, request: Request<v1::HashPointRequest>) -> Answer<v1::HashPointResponse> {
        if self.node.fault() == Fault::Dead {
            return Err(Status::unavailable("connection reset"));
        }
        let group = u16::try_from(request.into_inner().group).unwrap();
        let mut groups = self.cluster.groups.lock().unwrap();
        let index = groups.entry(group).or_default().index;
        Ok(Response::new(v1::HashPointResponse { index }))
    }

    async fn verify(&self, request: Request<v1::VerifyRequest>) -> Answer<v1::VerifyResponse> {
        if self.node.fault() == Fault::Dead {
            return Err(Status::unavailable("connection reset"));
        }
        let request = request.into_inner();
        let group = u16::try_from(request.group).unwrap();
        let mut groups = self.cluster.groups.lock().unwrap();
        let Group { hash, index, .. } = groups.entry(group).or_default();
        let equal = v1::Check { state: v1::CheckState::Equal.into(), ..v1::Check::default() };
        Ok(Response::new(v1::VerifyResponse {
            hash: (*index == request.point).then(|| hash.0.to_be_bytes().to_vec()),
            visible: *index,
            rows: request.rows.then(|| equal.clone()),
            spaces: (request.spaces() == v1::SpacesExtent::All).then_some(equal),
            ..v1::VerifyResponse::default()
        }))
    }

    async fn export(&self, request: Request<v1::ExportRequest>) -> Answer<v1::ExportResponse> {
        let request = request.into_inner();
        self.may_read(request.read.as_ref()).await?;
        let space = self.space(request.access, request.space)?;
        let cursor = request.cursor.unwrap_or_default();
        let v1::ExportCursor { links, after_seq, part, after, until_us } = cursor;
        let cursor = Cursor { links, after_seq, part, after, until_us };
        // Pieces of a few lines, so that there are many.
        let (page, seen) = self.read(&space, request.read, |state| {
            Ok(transfer::page(state, &space, cursor.clone(), 600).unwrap())
        })?;
        let items = page.items.iter().map(|item| item.encode().unwrap()).collect();
        let next = page.next.map(|next| {
            let Cursor { links, after_seq, part, after, until_us } = next;
            v1::ExportCursor { links, after_seq, part, after, until_us }
        });
        Ok(Response::new(v1::ExportResponse { items, next, seen, beside: true }))
    }

    async fn space_stats(&self, request: Request<v1::SpaceStatsRequest>) -> Answer<v1::SpaceStatsResponse> {
        let request = request.into_inner();
        self.may_read(request.read.as_ref()).await?;
        let space = self.space(request.access, request.space)?;
        let ((counters, settings), seen) = self.read(&space, request.read, |state| {
            let row = |key: Vec<u8>| state.get(&key).unwrap().unwrap_or_default();
            Ok((row(keys::counters::key(&space)), row(keys::space_row::key(&space))))
        })?;
        Ok(Response::new(v1::SpaceStatsResponse { counters, settings, seen }))
    }

    async fn locate(&self, request: Request<v1::LocateRequest>) -> Answer<v1::LocateResponse> {
        let request = request.into_inner();
        self.may_read(request.read.as_ref()).await?;
        let refused = |error: Error| Status::from(Refused::from(error));
        let access = Access::try_from(request.access.clone().unwrap()).map_err(refused)?;
        let space = SpaceKey::try_from(request.space.clone().unwrap()).map_err(refused)?;
        access.check(&space, Rights::WRITE).map_err(refused)?;
        let (found, seen) =
            self.read(&space, request.read, |state| Ok(reads::locate(state, &space, &request)))?;
        Ok(Response::new(v1::LocateResponse { seen, ..found }))
    }

    async fn get_erasure(&self, request: Request<v1::GetErasureRequest>) -> Answer<v1::GetErasureResponse> {
        let request = request.into_inner();
        self.may_read(request.read.as_ref()).await?;
        let space = self.space(request.access, request.space)?;
        let (row, seen) = self.read(&space, request.read, |state| {
            Ok(state.get(&keys::erasure::key(&space, &request.id)).unwrap())
        })?;
        Ok(Response::new(v1::GetErasureResponse {
            row,
            replicas: vec![1, 2, 3],
            log_after_ms: 1_000,
            database_after_ms: 2_000,
            log_time_us: 0,
            seen,
        }))
    }

    async fn get_tenant_erasure(
        &self,
        request: Request<v1::GetTenantErasureRequest>,
    ) -> Answer<v1::GetTenantErasureResponse> {
        let request = request.into_inner();
        self.may_read(request.read.as_ref()).await?;
        let refused = |error: Error| Status::from(Refused::from(error));
        let access = Access::try_from(request.access.unwrap()).map_err(refused)?;
        access.require(Rights::CLUSTER).map_err(refused)?;
        let group = u16::try_from(request.group).unwrap();
        if self.cluster.refusing_shard.load(Ordering::SeqCst) == group && group > 0 {
            return Err(refuse(Error::new(ErrorCode::Unavailable, "no quorum now"), v1::Route::Retry, None));
        }
        let mut groups = self.cluster.groups.lock().unwrap();
        let state = &groups.entry(group).or_default().state;
        Ok(Response::new(v1::GetTenantErasureResponse {
            row: state.get(&keys::tenant::key(&request.tenant)).unwrap(),
            replicas: vec![1, 2, 3],
            log_after_ms: 1_000,
            database_after_ms: 2_000,
            spaces_left: reads::spaces_of(state, &request.tenant),
            more_spaces: false,
            seen: None,
        }))
    }
}
