//! One stream to a peer, which carries the small messages of all groups.
//!
//! A call of its own costs each message its headers, its trailers and several wake-ups on both sides.
//! Here what is queued while a frame is on its way makes the next frame, and replies come back in the
//! same manner. There is no timer: a lone message leaves at once.
//!
//! Invariants:
//! 1. *Every message is answered once*: by its reply, or by an error when the stream ends. A stream
//!    that ended is opened again by the next message.
//! 2. *A large message never holds up others*: what is larger than [`MESSAGE_BYTES_MAX`] goes by a call
//!    of its own.
//! 3. *Bounded*: in messages that wait, and in those that wait for a reply.

use std::collections::BTreeMap;
use std::future::Future;

use holdfast_proto::v1::{RaftFrame, RaftKind, RaftMessage, RaftReplies, RaftReply, RaftRequest};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::types::GroupId;

/// The largest message that goes by the stream.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Messages that may wait to be sent.
const QUEUE_MESSAGES_MAX: usize = 4_096;
/// Messages that may wait for their replies.
const UNANSWERED_MAX: usize = 8_192;
/// The most messages in one frame.
const FRAME_MESSAGES_MAX: usize = 256;
/// A frame is closed once its messages reach this size.
const FRAME_BYTES_MAX: usize = 1 << 20;

type Answer = oneshot::Sender<Result<Vec<u8>, Status>>;

/// A message on its way.
struct Outgoing {
    group: GroupId,
    kind: RaftKind,
    payload: Vec<u8>,
    answer: Answer,
}

impl Outgoing {
    fn fail(self, why: &Status) {
        // The caller may be gone.
        let _ = self.answer.send(Err(why.clone()));
    }
}

/// Sends messages by the stream to one peer. Clones share it; it ends with the last one.
#[derive(Clone)]
pub(crate) struct Link(mpsc::Sender<Outgoing>);

/// An open stream: frames go in, replies come out.
pub(crate) type Opened = (mpsc::Sender<RaftFrame>, Streaming<RaftReplies>);

/// A stream's sending side, for the call that opens it.
pub(crate) fn frames() -> (mpsc::Sender<RaftFrame>, ReceiverStream<RaftFrame>) {
    // One: what waits longer is gathered here.
    let (sender, receiver) = mpsc::channel(1);
    (sender, ReceiverStream::new(receiver))
}

impl Link {
    /// A link whose stream `open` opens when there is something to send.
    pub(crate) fn start<O, F>(envelope: RaftRequest, open: O) -> Self
    where
        O: Fn() -> F + Send + 'static,
        F: Future<Output = Result<Opened, Status>> + Send + 'static,
    {
        let (sender, queue) = mpsc::channel(QUEUE_MESSAGES_MAX);
        tokio::spawn(run(envelope, queue, open));
        Link(sender)
    }

    /// Sends a message and waits for its reply.
    pub(crate) async fn call(
        &self,
        group: GroupId,
        kind: RaftKind,
        payload: Vec<u8>,
    ) -> Result<Vec<u8>, Status> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(Outgoing { group, kind, payload, answer }).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => {
                Status::resource_exhausted("too many messages wait for this peer")
            }
            mpsc::error::TrySendError::Closed(_) => ended(),
        })?;
        answered.await.map_err(|_dropped| ended())?
    }
}

fn ended() -> Status {
    Status::unavailable("the stream to this peer has ended")
}

async fn run<O, F>(envelope: RaftRequest, mut queue: mpsc::Receiver<Outgoing>, open: O)
where
    O: Fn() -> F,
    F: Future<Output = Result<Opened, Status>>,
{
    while let Some(first) = queue.recv().await {
        let why = match open().await {
            Ok((frames, replies)) => {
                let mut exchange = Exchange { waiting: vec![first], ..Exchange::new(&envelope) };
                let why = exchange.run(&mut queue, frames, replies).await;
                exchange.fail(&why);
                why
            }
            Err(why) => {
                first.fail(&why);
                why
            }
        };
        // What was queued meanwhile meant this stream: its senders back off and come again.
        while let Ok(outgoing) = queue.try_recv() {
            outgoing.fail(&why);
        }
    }
}

/// The life of one stream.
struct Exchange<'a> {
    envelope: &'a RaftRequest,
    waiting: Vec<Outgoing>,
    unanswered: BTreeMap<u64, Answer>,
    next_id: u64,
}

impl<'a> Exchange<'a> {
    fn new(envelope: &'a RaftRequest) -> Self {
        Exchange { envelope, waiting: Vec::new(), unanswered: BTreeMap::new(), next_id: 0 }
    }

    /// Runs until the stream or the queue ends.
    async fn run(
        &mut self,
        queue: &mut mpsc::Receiver<Outgoing>,
        frames: mpsc::Sender<RaftFrame>,
        mut replies: Streaming<RaftReplies>,
    ) -> Status {
        loop {
            let room = FRAME_MESSAGES_MAX.saturating_sub(self.waiting.len());
            tokio::select! {
                received = replies.message() => match received {
                    Ok(Some(received)) => received.replies.into_iter().for_each(|reply| self.answer(reply)),
                    Ok(None) => return ended(),
                    Err(status) => return status,
                },
                permit = frames.reserve(), if !self.waiting.is_empty() => match permit {
                    Ok(permit) => {
                        if let Some(frame) = self.frame() {
                            permit.send(frame);
                        }
                    }
                    Err(_closed) => return ended(),
                },
                taken = queue.recv_many(&mut self.waiting, room), if room > 0 => {
                    if taken == 0 {
                        return ended();
                    }
                }
            }
        }
    }

    /// Packs what waits, as far as it fits.
    fn frame(&mut self) -> Option<RaftFrame> {
        let mut bytes = 0;
        let fits = |outgoing: &&Outgoing| {
            bytes += outgoing.payload.len();
            bytes <= FRAME_BYTES_MAX
        };
        // At least one fits: it is far smaller than a frame.
        let count = self.waiting.iter().take_while(fits).count();
        let mut messages = Vec::with_capacity(count);
        for outgoing in self.waiting.drain(..count) {
            // A caller that went away asks again by itself.
            if outgoing.answer.is_closed() {
                continue;
            }
            if self.unanswered.len() >= UNANSWERED_MAX {
                self.unanswered.retain(|_, answer| !answer.is_closed());
            }
            if self.unanswered.len() >= UNANSWERED_MAX {
                outgoing.fail(&Status::resource_exhausted("this peer leaves too many messages unanswered"));
                continue;
            }
            let id = self.next_id;
            self.next_id += 1;
            self.unanswered.insert(id, outgoing.answer);
            let (group, kind, payload) = (outgoing.group, outgoing.kind.into(), outgoing.payload);
            messages.push(RaftMessage { id, group, kind, payload });
        }
        (!messages.is_empty()).then(|| RaftFrame { envelope: Some(self.envelope.clone()), messages })
    }

    fn answer(&mut self, reply: RaftReply) {
        let RaftReply { id, code, error, payload } = reply;
        let Some(answer) = self.unanswered.remove(&id) else {
            tracing::warn!(id, "a peer answered a message that nobody waits for");
            return;
        };
        let code = Code::from_i32(i32::try_from(code).unwrap_or(i32::MAX));
        // The caller may be gone.
        let _ = answer.send(if code == Code::Ok { Ok(payload) } else { Err(Status::new(code, error)) });
    }

    fn fail(&mut self, why: &Status) {
        for outgoing in self.waiting.drain(..) {
            outgoing.fail(why);
        }
        for (_, answer) in std::mem::take(&mut self.unanswered) {
            // The caller may be gone.
            let _ = answer.send(Err(why.clone()));
        }
    }
}

/// One answered message, as it goes back.
pub(crate) fn reply(id: u64, result: Result<Vec<u8>, Status>) -> RaftReply {
    match result {
        Ok(payload) => RaftReply { id, code: 0, error: String::new(), payload },
        Err(status) => RaftReply {
            id,
            code: u32::try_from(i32::from(status.code())).unwrap_or(u32::MAX),
            error: status.message().to_owned(),
            payload: Vec::new(),
        },
    }
}
