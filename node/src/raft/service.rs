//! Receiving: checks that a message is meant for this node, and hands it to its group.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::stream::FuturesUnordered;
use futures::{FutureExt, Stream, StreamExt};
use holdfast_proto::v1::raft_server::{Raft, RaftServer};
use holdfast_proto::v1::{self, RaftFrame, RaftKind, RaftReplies, RaftReply, RaftRequest, RaftResponse};
use holdfast_transport::Peer;
use openraft::raft::AppendEntriesResponse;
use parking_lot::RwLock;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::freshness::{Following, RunClock};
use super::group::Group;
use super::link;
use super::network::Peers;
use super::record::DecodeError;
use super::report::NodeReport;
use super::reversion::{Reversion, Stop};
use super::runs::Verdict;
use super::transfer::Transfers;
use super::types::{Applier, GroupId, NodeId, RaftHandle};
use super::wire::{self, HandOver, MESSAGE_BYTES_MAX};
use super::witness::Mark;

/// Frames of one stream that are worked on at the same time.
const STREAM_FRAMES_MAX: usize = 1_024;
/// Replies that may wait to be sent, and that go out together.
const STREAM_REPLIES_MAX: usize = 256;

/// How long the process at a node's address may take to say that it is the one.
const HELLO_TIME: Duration = Duration::from_secs(1);

/// A group as messages of other nodes reach it.
#[derive(Clone)]
pub(crate) struct Reachable {
    pub(crate) raft: RaftHandle,
    pub(crate) applier: Arc<dyn Applier>,
    pub(crate) following: Arc<Following>,
    /// Held while a snapshot file is received: one at a time.
    pub(crate) receiving: Arc<tokio::sync::Mutex<()>>,
}

/// The groups of this node, by id.
#[derive(Default)]
pub(crate) struct Registry {
    groups: RwLock<HashMap<GroupId, Reachable>>,
    /// Whether this node takes no leadership any more.
    out_of_service: AtomicBool,
    /// Ends the streams of the other nodes.
    stopped: CancellationToken,
}

impl Registry {
    pub(crate) fn insert(&self, group: &Group, applier: Arc<dyn Applier>) {
        let (raft, following) = (group.raft().clone(), group.following());
        let reachable = Reachable { raft, applier, following, receiving: Arc::default() };
        self.groups.write().insert(group.id(), reachable);
    }

    pub(crate) fn clear(&self) {
        self.stopped.cancel();
        self.groups.write().clear();
    }

    /// The states of all groups, by id.
    pub(crate) fn appliers(&self) -> BTreeMap<GroupId, Arc<dyn Applier>> {
        self.groups.read().iter().map(|(id, group)| (*id, Arc::clone(&group.applier))).collect()
    }

    fn get(&self, group: GroupId) -> Option<Reachable> {
        self.groups.read().get(&group).cloned()
    }

    /// This node is about to stop: it takes over nothing.
    pub(crate) fn go_out_of_service(&self) {
        self.out_of_service.store(true, Ordering::Release);
    }

    /// Starts an election here, if `request` comes from the present leader and nothing is missing.
    async fn take_over(&self, group: &Reachable, request: HandOver) -> Result<bool, Status> {
        let may = {
            let metrics = group.raft.metrics();
            let metrics = metrics.borrow();
            metrics.vote == request.vote
                && metrics.last_log_index >= request.last_index
                && !self.out_of_service.load(Ordering::Acquire)
                && group.applier.may_be_copied()
        };
        if may {
            group.raft.trigger().elect().await.map_err(not_running)?;
        }
        Ok(may)
    }
}

/// The gRPC service that takes the Raft messages of other nodes.
#[derive(Clone)]
pub struct RaftService {
    this_node: NodeId,
    cluster: Arc<str>,
    groups: Arc<Registry>,
    transfers: Arc<Transfers>,
    peers: Arc<Peers>,
    /// Held while a process is asked who it is: once for all groups.
    asking: Arc<tokio::sync::Mutex<()>>,
    reversion: Arc<Reversion>,
    clock: Arc<RunClock>,
}

impl RaftService {
    pub(crate) fn new(
        this_node: NodeId,
        cluster: &str,
        groups: Arc<Registry>,
        transfers: Arc<Transfers>,
        peers: Arc<Peers>,
        reversion: Arc<Reversion>,
    ) -> Self {
        let (asking, clock) = (Arc::default(), Arc::new(RunClock::new()));
        let cluster = cluster.into();
        RaftService { this_node, cluster, groups, transfers, peers, asking, reversion, clock }
    }

    /// The tonic service, with its message sizes limited.
    pub fn into_server(self) -> RaftServer<Self> {
        RaftServer::new(self)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// A message that went astray must not be obeyed: its vote or entries belong to other logs.
    fn check(&self, request: &RaftRequest, peer: Option<&Peer>) -> Result<(), Status> {
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
        self.peers.check_sender(request.from, peer).map_err(|why| {
            self.peers.tell(&format!("a message of another node was refused: {why}"));
            Status::failed_precondition(why)
        })
    }

    /// Of two processes that run as one node, the messages of one alone count.
    async fn check_run(&self, from: NodeId, run: u64) -> Result<(), Status> {
        match self.peers.runs.judge(from, run, Instant::now()) {
            Verdict::Known => return Ok(()),
            Verdict::Past => return Err(self.twin(from)),
            Verdict::Unknown => {}
        }
        let _one_at_a_time = self.asking.lock().await;
        if self.peers.runs.judge(from, run, Instant::now()) == Verdict::Unknown {
            let asking = self.peers.call(0, from, RaftKind::Hello, Vec::new());
            if !matches!(tokio::time::timeout(HELLO_TIME, asking).await, Ok(Ok(_))) {
                self.peers.runs.could_not_ask(from, run, Instant::now());
            }
        }
        match self.peers.runs.judge(from, run, Instant::now()) {
            Verdict::Known => Ok(()),
            Verdict::Unknown | Verdict::Past => Err(self.twin(from)),
        }
    }

    fn twin(&self, node: NodeId) -> Status {
        let why = format!(
            "another process runs as node {node} and is the one at its address; two processes must never run \
             on copies of one data folder: stop this one, and keep its copy from being started"
        );
        self.peers.tell(&format!("a message was refused that claims to be of node {node}: {why}"));
        Status::failed_precondition(why)
    }

    /// A message of somebody who remembers more than is here must not reach openraft.
    fn admit(&self, group: GroupId, from: NodeId, remembered: Option<Mark>) -> Result<(), Status> {
        self.reversion.admit(group, from, remembered).map_err(|stop| match stop {
            Stop::Reverted(proof) => Status::data_loss(proof.to_string()),
            Stop::Log(error) => Status::unavailable(error.to_string()),
        })
    }

    /// Hands a message to its group and answers the reply.
    async fn deliver(
        &self,
        from: NodeId,
        group_id: GroupId,
        kind: RaftKind,
        payload: &[u8],
    ) -> Result<Vec<u8>, Status> {
        if kind == RaftKind::Report {
            let report = NodeReport::of(&self.groups).encode();
            return report.map_err(|error| Status::internal(error.to_string()));
        }
        let Some(group) = self.groups.get(group_id) else {
            let detail = format!("node {} has no replica of group {group_id}", self.this_node);
            return Err(Status::not_found(detail));
        };
        let reply = match kind {
            RaftKind::Append => {
                let (append, aside) = wire::decode_append(payload).map_err(bad_payload)?;
                self.admit(group_id, from, aside.remembered)?;
                let shown = Mark::of_append(&append);
                let reply = group.raft.append_entries(append).await.map_err(not_running)?;
                if matches!(reply, AppendEntriesResponse::Success | AppendEntriesResponse::PartialSuccess(_))
                {
                    self.peers.witness.record(group_id, from, shown);
                }
                if let Some(fresh) = &aside.fresh {
                    group.following.told(fresh, &self.clock);
                }
                wire::encode_append_reply(&reply, self.clock.stamp())
            }
            RaftKind::Vote => {
                let (vote, remembered) = wire::decode_vote(payload).map_err(bad_payload)?;
                self.admit(group_id, from, remembered)?;
                if !self.reversion.takes_part() {
                    let detail = "this node waits for what others remember of it before it votes";
                    return Err(Status::unavailable(detail));
                }
                let reply = group.raft.vote(vote).await.map_err(not_running)?;
                wire::encode_vote_reply(&reply)
            }
            RaftKind::SnapshotOffer => {
                let offer = wire::decode_offer(payload).map_err(bad_payload)?;
                if let Some(proof) = self.reversion.found() {
                    return Err(Status::data_loss(proof.to_string()));
                }
                let reply = self.transfers.take(group_id, from, &group, offer).await?;
                wire::encode_offer_reply(&reply)
            }
            RaftKind::SnapshotRead => {
                let read = wire::decode_read(payload).map_err(bad_payload)?;
                wire::encode_piece(&self.transfers.read(&group, read).await?)
            }
            RaftKind::HandOver => {
                let request = wire::decode_hand_over(payload).map_err(bad_payload)?;
                wire::encode_hand_over_reply(self.groups.take_over(&group, request).await?)
            }
            RaftKind::Report | RaftKind::Hello | RaftKind::Unspecified => {
                return Err(Status::invalid_argument("unknown kind of Raft message"));
            }
        };
        reply.map_err(|error| Status::internal(error.to_string()))
    }

    /// Delivers the messages of one frame at once, and sends each reply as soon as it is there,
    /// together with those that are there by then.
    async fn deliver_frame(self, frame: RaftFrame, replies: mpsc::Sender<Vec<RaftReply>>) {
        let from = frame.envelope.map_or(0, |envelope| envelope.from);
        let mut delivering: FuturesUnordered<_> = frame
            .messages
            .into_iter()
            .map(|message| {
                let this = &self;
                async move {
                    let kind = message.kind();
                    let done = this.deliver(from, message.group, kind, &message.payload).await;
                    link::reply(message.id, done)
                }
            })
            .collect();
        while let Some(first) = delivering.next().await {
            let mut ready = vec![first];
            if !delivering.is_empty() {
                // The others were handed over at the same moment and are often done by now.
                tokio::task::yield_now().await;
                while let Some(Some(reply)) = delivering.next().now_or_never() {
                    ready.push(reply);
                }
            }
            if replies.send(ready).await.is_err() {
                // The stream has ended; what is delivered runs on in its group.
                return;
            }
        }
    }

    /// Takes frames until the stream ends or one must be refused.
    async fn take_frames(
        &self,
        mut frames: Streaming<RaftFrame>,
        peer: Option<&Peer>,
        replies: &mpsc::Sender<Vec<RaftReply>>,
    ) -> Result<(), Status> {
        let running = Arc::new(Semaphore::new(STREAM_FRAMES_MAX));
        loop {
            let frame = tokio::select! {
                frame = frames.message() => frame?,
                () = self.groups.stopped.cancelled() => None,
            };
            let Some(frame) = frame else { return Ok(()) };
            let envelope = frame.envelope.as_ref();
            let envelope =
                envelope.ok_or_else(|| Status::invalid_argument("a frame without its envelope"))?;
            self.check(envelope, peer)?;
            self.check_run(envelope.from, envelope.run).await?;
            let Ok(turn) = Arc::clone(&running).acquire_owned().await else { return Ok(()) };
            let delivering = self.clone().deliver_frame(frame, replies.clone());
            tokio::spawn(async move {
                delivering.await;
                drop(turn);
            });
        }
    }
}

type Replies = Pin<Box<dyn Stream<Item = Result<RaftReplies, Status>> + Send>>;

#[tonic::async_trait]
impl Raft for RaftService {
    type StreamStream = Replies;

    async fn call(&self, request: Request<RaftRequest>) -> Result<Response<RaftResponse>, Status> {
        let peer = request.extensions().get::<Peer>().cloned();
        let request = request.into_inner();
        self.check(&request, peer.as_ref())?;
        let (kind, run) = (request.kind(), self.peers.run);
        if kind == RaftKind::Hello {
            return Ok(Response::new(RaftResponse { payload: Vec::new(), run }));
        }
        self.check_run(request.from, request.run).await?;
        let payload = self.deliver(request.from, request.group, kind, &request.payload).await?;
        Ok(Response::new(RaftResponse { payload, run }))
    }

    async fn stream(&self, request: Request<Streaming<RaftFrame>>) -> Result<Response<Replies>, Status> {
        let (sender, replies) = mpsc::channel(STREAM_REPLIES_MAX);
        let this = self.clone();
        let peer = request.extensions().get::<Peer>().cloned();
        // An error is the last that the sender hears.
        let (refusal, refused) = oneshot::channel();
        tokio::spawn(async move {
            if let Err(status) = this.take_frames(request.into_inner(), peer.as_ref(), &sender).await {
                // Nobody listens if the stream has ended.
                let _ = refusal.send(status);
            }
        });
        let gathered = futures::stream::unfold(Some((replies, refused)), |state| async move {
            let (mut replies, refused) = state?;
            let mut ready = Vec::new();
            if replies.recv_many(&mut ready, STREAM_REPLIES_MAX).await > 0 {
                let ready = RaftReplies { replies: ready.into_iter().flatten().collect() };
                return Some((Ok(ready), Some((replies, refused))));
            }
            refused.await.ok().map(|status| (Err(status), None))
        });
        Ok(Response::new(Box::pin(gathered)))
    }

    async fn recollect(
        &self,
        request: Request<RaftRequest>,
    ) -> Result<Response<v1::RecollectResponse>, Status> {
        let peer = request.extensions().get::<Peer>().cloned();
        let request = request.into_inner();
        self.check(&request, peer.as_ref())?;
        self.check_run(request.from, request.run).await?;
        let marks =
            self.peers.witness.of_node(request.from).into_iter().map(|(group, mark)| mark.to_wire(group));
        Ok(Response::new(v1::RecollectResponse { marks: marks.collect() }))
    }
}

fn bad_payload(error: DecodeError) -> Status {
    Status::invalid_argument(error.to_string())
}

fn not_running(error: impl std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}
