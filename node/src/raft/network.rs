//! Sending: one connection per peer, shared by all groups.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use holdfast_core::sabotage::{Fault, is};
use holdfast_proto::v1::raft_client::RaftClient;
use holdfast_proto::v1::{RaftKind, RaftRequest};
use holdfast_transport::{HostPort, Identity, Peer, Quiet, explain};
use openraft::error::{
    Fatal, NetworkError, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable,
};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{AnyError, OptionalSend, RaftNetwork, RaftNetworkFactory, Snapshot};
use parking_lot::Mutex;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::acks::AckClock;
use super::address::AddressBook;
use super::freshness::Leading;
use super::link::{self, Link};
use super::multi::RaftNodeConfig;
use super::platform::Connect;
use super::record::DecodeError;
use super::rest::{Rest, next_beat};
use super::reversion::Reversion;
use super::runs::{Runs, Verdict};
use super::types::{GroupId, NodeId, RaftVote, TypeConfig};
use super::wire::{self, MESSAGE_BYTES_MAX};
use super::witness::{Mark, Witness};

/// How long a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// An idle connection is probed this often, and given up when the probe is not answered as long again.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// The first pause after a peer was found unreachable; it doubles up to the heartbeat interval, so
/// that a peer that returns hears its leader before its own election timeout.
const BACKOFF_MIN: Duration = Duration::from_millis(25);
/// How late entries go out where that is the fault.
const SABOTAGE_DELAY: Duration = Duration::from_millis(200);

/// Heartbeats of groups at rest leave at so many common moments in the time of one.
const BEATS_PER_HEARTBEAT: u32 = 8;

type RpcError = RPCError<NodeId, (), RaftError<NodeId>>;

/// The connections of this node to its peers.
pub(crate) struct Peers {
    this_node: NodeId,
    cluster: String,
    addresses: Arc<dyn AddressBook>,
    connect: Connect,
    is_plain: bool,
    quiet: Quiet,
    backoff_max: Duration,
    /// That of this process.
    pub(crate) run: u64,
    pub(crate) runs: Runs,
    clients: Mutex<HashMap<NodeId, (String, RaftClient<Channel>)>>,
    links: Mutex<HashMap<NodeId, Link>>,
    /// Heartbeats of groups at rest leave at the multiples of [`Peers::beat`] from here on.
    start: tokio::time::Instant,
    pub(crate) witness: Arc<Witness>,
}

/// A peer could not be asked, or refused the question.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("no address is known for node {0}")]
    NoAddress(NodeId),
    #[error("the address {0:?} of node {1} is not a URI")]
    BadAddress(String, NodeId),
    #[error("{}: {}", .0.code(), .0.message())]
    Refused(tonic::Status),
    #[error("node {0} has lost what it had acknowledged and is refused: {1}")]
    Reverted(NodeId, String),
    #[error("this node takes no part yet: others have not said what they remember of it")]
    TakesNoPart,
    #[error(transparent)]
    Payload(#[from] DecodeError),
    #[error(
        "two processes run as node {0}, on copies of one data folder: one that had been replaced answers again"
    )]
    Twin(NodeId),
}

impl Peers {
    pub(crate) fn new(
        config: &RaftNodeConfig,
        addresses: Arc<dyn AddressBook>,
        connect: Connect,
        witness: Arc<Witness>,
    ) -> Self {
        let (clients, links, start) = (Mutex::default(), Mutex::default(), tokio::time::Instant::now());
        Peers {
            this_node: config.node_id,
            cluster: config.cluster_id.clone(),
            addresses,
            connect,
            is_plain: config.security.is_plain(),
            quiet: Quiet::default(),
            backoff_max: config.heartbeat,
            run: config.run,
            runs: Runs::default(),
            clients,
            links,
            start,
            witness,
        }
    }

    /// The time between the common beats.
    fn beat(&self) -> Duration {
        self.backoff_max / BEATS_PER_HEARTBEAT
    }

    /// Whether a message really comes from the node that it names, by the certificate of who sent it.
    ///
    /// # Errors
    /// Says who it comes from.
    pub(crate) fn check_sender(&self, from: NodeId, peer: Option<&Peer>) -> Result<(), String> {
        if self.is_plain {
            return Ok(());
        }
        let proved = match peer.and_then(|peer| peer.identity.as_deref()) {
            Some(Ok(Identity::Node(address))) => address,
            Some(Ok(other)) => return Err(format!("a message of node {from} comes from {other}")),
            Some(Err(_)) | None => return Err(format!("a message of node {from} comes from nobody")),
        };
        let known = self.addresses.address(from).ok_or_else(|| format!("there is no node {from} here"))?;
        if place(&known).is_some_and(|known| known == *proved) {
            return Ok(());
        }
        Err(format!(
            "a message of node {from}, which is {known}, comes from the node {proved} by its certificate"
        ))
    }

    /// The client for a peer; it connects when first used and again whenever the connection is lost.
    fn client(&self, node: NodeId) -> Result<RaftClient<Channel>, CallError> {
        let address = self.addresses.address(node).ok_or(CallError::NoAddress(node))?;
        let mut clients = self.clients.lock();
        if let Some((known, client)) = clients.get(&node)
            && *known == address
        {
            return Ok(client.clone());
        }
        let endpoint = Endpoint::from_shared(address.clone())
            .map_err(|_| CallError::BadAddress(address.clone(), node))?
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        let client = RaftClient::new((self.connect)(&endpoint))
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        clients.insert(node, (address, client.clone()));
        Ok(client)
    }

    /// Sends a message and waits for its reply: a small one by the stream of its peer, a large one,
    /// or one whose answer takes long, by a call of its own.
    pub(crate) async fn call(
        self: &Arc<Self>,
        group: GroupId,
        to: NodeId,
        kind: RaftKind,
        payload: Vec<u8>,
    ) -> Result<Vec<u8>, CallError> {
        let by_stream = matches!(kind, RaftKind::Append | RaftKind::Vote);
        if by_stream && payload.len() <= link::MESSAGE_BYTES_MAX {
            let sent = self.link(to).call(group, kind, payload).await;
            return sent.map_err(|status| self.refused(to, status));
        }
        let mut client = self.client(to)?;
        let request = RaftRequest { group, kind: kind.into(), payload, ..self.envelope(to) };
        let response = client.call(request).await.map_err(|status| self.refused(to, status))?;
        let response = response.into_inner();
        self.check_answer(to, response.run)?;
        Ok(response.payload)
    }

    /// Who sends what to whom.
    fn envelope(&self, to: NodeId) -> RaftRequest {
        let (from, cluster_id, run) = (self.this_node, self.cluster.clone(), self.run);
        RaftRequest { from, to, cluster_id, run, ..RaftRequest::default() }
    }

    /// The stream to a peer; it connects when first used and again whenever it has ended.
    fn link(self: &Arc<Self>, to: NodeId) -> Link {
        let mut links = self.links.lock();
        let open = || {
            let peers = Arc::downgrade(self);
            move || Self::open(Weak::clone(&peers), to)
        };
        links.entry(to).or_insert_with(|| Link::start(self.envelope(to), open())).clone()
    }

    /// Opens the stream to a peer, once it has said which process it is.
    async fn open(peers: Weak<Self>, to: NodeId) -> Result<link::Opened, Status> {
        let gone = || Status::unavailable("this node stops");
        let (client, hello) = {
            let peers = peers.upgrade().ok_or_else(gone)?;
            (peers.client(to), RaftRequest { kind: RaftKind::Hello.into(), ..peers.envelope(to) })
        };
        let mut client = client.map_err(|error| Status::unavailable(error.to_string()))?;
        let run = client.call(hello).await?.into_inner().run;
        let known = peers.upgrade().ok_or_else(gone)?.check_answer(to, run);
        known.map_err(|error| Status::failed_precondition(error.to_string()))?;
        let (frames, sent) = link::frames();
        Ok((frames, client.stream(sent).await?.into_inner()))
    }

    /// What another node remembers of this one's replicas.
    pub(crate) async fn recollect(&self, to: NodeId) -> Result<Vec<(GroupId, Mark)>, CallError> {
        match self.client(to)?.recollect(self.envelope(to)).await {
            Ok(answer) => Ok(answer.into_inner().marks.iter().map(Mark::from_wire).collect()),
            // A version that remembers nothing.
            Err(status) if status.code() == Code::Unimplemented => Ok(Vec::new()),
            Err(status) => Err(self.refused(to, status)),
        }
    }

    /// Takes note of which process answers at a peer's address.
    fn check_answer(&self, to: NodeId, run: u64) -> Result<(), CallError> {
        if self.runs.answered(to, run) == Verdict::Past {
            let error = CallError::Twin(to);
            self.tell(&error.to_string());
            return Err(error);
        }
        Ok(())
    }

    /// A peer that did not answer. What will not mend itself is logged: openraft goes on trying, and
    /// says nothing.
    fn refused(&self, to: NodeId, status: Status) -> CallError {
        if matches!(status.code(), Code::PermissionDenied | Code::FailedPrecondition) {
            self.tell(&format!("node {to} refuses to talk to this node: {}", explain(&status)));
        }
        CallError::Refused(status)
    }

    /// Logs an error unless it was logged just now.
    pub(crate) fn tell(&self, error: &str) {
        if let Some(left_out) = self.quiet.tell(error) {
            tracing::error!(left_out, "{error}");
        }
    }
}

/// The address in a URI of the address book.
fn place(uri: &str) -> Option<HostPort> {
    uri.parse::<Uri>().ok()?.authority()?.as_str().parse().ok()
}

/// Makes openraft's clients for one group.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) group: GroupId,
    pub(crate) peers: Arc<Peers>,
    pub(crate) acks: Arc<AckClock>,
    pub(crate) rest: Arc<Rest>,
    pub(crate) leading: Arc<Leading>,
    pub(crate) reversion: Arc<Reversion>,
}

/// Sends one group's messages to one peer.
pub(crate) struct PeerClient {
    network: Network,
    target: NodeId,
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = PeerClient;

    async fn new_client(&mut self, target: NodeId, _node: &()) -> PeerClient {
        PeerClient { network: self.clone(), target }
    }
}

impl PeerClient {
    async fn call(
        &self,
        kind: RaftKind,
        payload: Result<Vec<u8>, DecodeError>,
    ) -> Result<Vec<u8>, CallError> {
        let Network { group, peers, .. } = &self.network;
        match peers.call(*group, self.target, kind, payload?).await {
            Err(CallError::Refused(status)) if status.code() == Code::DataLoss => {
                peers.witness.refuse(*group, self.target, status.message());
                Err(CallError::Reverted(self.target, status.message().to_owned()))
            }
            other => other,
        }
    }

    fn known(&self) -> Option<Mark> {
        self.network.peers.witness.of(self.network.group, self.target)
    }

    fn remember(&self, said: Mark) {
        self.network.peers.witness.record(self.network.group, self.target, said);
    }

    /// The target lacks what it had acknowledged. openraft must not hear of it: it takes that for a
    /// defect and ends the whole group on this node.
    fn refuse(&self, why: String) -> CallError {
        self.network.peers.witness.refuse(self.network.group, self.target, &why);
        CallError::Reverted(self.target, why)
    }

    /// Takes note of what an answer to `rpc` promises, and refuses one that breaks a promise.
    /// `known` is what was remembered before `rpc` was sent.
    fn check_append(
        &self,
        rpc: &AppendEntriesRequest<TypeConfig>,
        known: Option<Mark>,
        reply: AppendEntriesResponse<NodeId>,
    ) -> Result<AppendEntriesResponse<NodeId>, CallError> {
        let term = rpc.vote.leader_id.term;
        let said = match &reply {
            AppendEntriesResponse::Success => Mark::of_append(rpc),
            AppendEntriesResponse::PartialSuccess(matched) => Mark::up_to(term, *matched, rpc.leader_commit),
            AppendEntriesResponse::HigherVote(_) => return Ok(reply),
            AppendEntriesResponse::Conflict => {
                let promised = known.filter(|mark| mark.term == term).and_then(|mark| mark.acknowledged);
                if let (Some(prev), Some(promised)) = (rpc.prev_log_id, promised)
                    && prev.index <= promised
                {
                    let lacks =
                        format!("it lacks entry {} of term {term}, and had entry {promised}", prev.index);
                    return Err(self.refuse(lacks));
                }
                self.remember(Mark { term, acknowledged: None, committed: None });
                return Ok(reply);
            }
        };
        self.remember(said);
        self.network.peers.witness.accept(self.network.group, self.target);
        Ok(reply)
    }
}

impl PeerClient {
    /// For sabotage alone.
    fn send_late(&self, payload: Result<Vec<u8>, DecodeError>) {
        let (peers, group, target) = (Arc::clone(&self.network.peers), self.network.group, self.target);
        tokio::spawn(async move {
            tokio::time::sleep(SABOTAGE_DELAY).await;
            if let Ok(payload) = payload {
                // Lost where the peer does not answer: that is the fault.
                let _ = peers.call(group, target, RaftKind::Append, payload).await;
            }
        });
    }
}

/// `Unreachable` makes openraft back off; a refusal will not mend itself at once either.
fn rpc_error(error: CallError) -> RpcError {
    match error {
        CallError::Payload(_) => RPCError::Network(NetworkError::new(&error)),
        _ => RPCError::Unreachable(Unreachable::new(&error)),
    }
}

impl RaftNetwork<TypeConfig> for PeerClient {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<NodeId>, RpcError> {
        let Network { peers, acks, rest, leading, reversion, .. } = &self.network;
        // openraft goes on as the leader that it was before a restart, without an election.
        if !reversion.takes_part() {
            return Err(rpc_error(CallError::TakesNoPart));
        }
        if rpc.entries.is_empty() {
            let beat = next_beat(peers.start, peers.beat(), tokio::time::Instant::now());
            rest.wait(beat).await;
        }
        let term = rpc.vote.leader_id.term;
        let known = self.known();
        let aside = wire::Aside { remembered: known, fresh: leading.tell(self.target, term) };
        let sent = Instant::now();
        let payload = wire::encode_append(&rpc, aside);
        if is(Fault::AckBeforeQuorum) && !rpc.entries.is_empty() {
            acks.record(self.target, term, sent);
            self.send_late(payload);
            return Ok(AppendEntriesResponse::Success);
        }
        let bytes = self.call(RaftKind::Append, payload).await.map_err(rpc_error)?;
        let (reply, stamp) = wire::decode_append_reply(&bytes).map_err(|error| rpc_error(error.into()))?;
        let reply = self.check_append(&rpc, known, reply).map_err(rpc_error)?;
        if !matches!(reply, AppendEntriesResponse::HigherVote(_)) {
            acks.record(self.target, term, sent);
            leading.answered(self.target, stamp);
        }
        Ok(reply)
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<NodeId>,
        _option: RPCOption,
    ) -> Result<VoteResponse<NodeId>, RpcError> {
        if !self.network.reversion.takes_part() {
            return Err(rpc_error(CallError::TakesNoPart));
        }
        let known = self.known();
        let promised = known.and_then(|mark| mark.committed);
        let bytes = self.call(RaftKind::Vote, wire::encode_vote(&rpc, known)).await.map_err(rpc_error)?;
        let reply = wire::decode_vote_reply(&bytes).map_err(|error| rpc_error(error.into()))?;
        let last = reply.last_log_id.map(|last| last.index);
        if last < promised {
            let lacks =
                format!("its log ends at {last:?}, and it had acknowledged committed entry {promised:?}");
            return Err(rpc_error(self.refuse(lacks)));
        }
        if reply.vote_granted {
            self.remember(Mark { term: rpc.vote.leader_id.term, acknowledged: None, committed: None });
        }
        Ok(reply)
    }

    /// Offers the file, and waits until the peer has fetched and installed it. `snapshot` keeps the
    /// file readable for as long.
    async fn full_snapshot(
        &mut self,
        vote: RaftVote,
        snapshot: Snapshot<TypeConfig>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<NodeId>, StreamingError<TypeConfig, Fatal<NodeId>>> {
        let unreachable =
            |error: CallError| StreamingError::Unreachable(Unreachable::from(AnyError::new(&error)));
        let Some(file) = snapshot.snapshot.0.as_ref() else {
            return Err(StreamingError::Unreachable(Unreachable::from(AnyError::error(
                "a snapshot without a file",
            ))));
        };
        let offer = wire::Offer { vote, id: file.id(), bytes: file.bytes() };
        let offered = self.call(RaftKind::SnapshotOffer, wire::encode_offer(&offer));
        let bytes = tokio::select! {
            closed = cancel => return Err(StreamingError::Closed(closed)),
            answered = offered => answered.map_err(unreachable)?,
        };
        wire::decode_offer_reply(&bytes).map_err(|error| unreachable(error.into()))
    }

    fn backoff(&self) -> Backoff {
        let max = self.network.peers.backoff_max;
        Backoff::new(std::iter::successors(Some(BACKOFF_MIN.min(max)), move |last| {
            Some((*last * 2).min(max))
        }))
    }
}
