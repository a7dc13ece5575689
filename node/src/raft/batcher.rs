//! Packs the commands that wait for one group into entries.
//!
//! openraft flushes each entry on its own before it takes the next, so one group commits at most one
//! entry per fsync: throughput comes from entries that hold many commands. There is no timer: what
//! queued while earlier entries were in flight makes the next one, so a lone writer never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use openraft::error::ClientWriteError;
use openraft::raft::{ClientWriteResponse, ClientWriteResult};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

use super::clock::Clock;
use super::error::ProposeError;
use super::rest::Rest;
use super::status::LeadershipWatch;
use super::types::{
    ENTRY_PAYLOAD_FORMAT, EntryPayload, LogPosition, Outcomes, Proposal, RaftHandle, Submitted, TypeConfig,
};

/// The most commands in one entry.
pub const ENTRY_COMMANDS_MAX: usize = 256;
/// The most bytes of commands in one entry, and the largest single command.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;
/// Entries of one group that may be in flight.
const IN_FLIGHT_MAX: usize = 2;
/// Commands that may wait for one group.
const QUEUE_COMMANDS_MAX: usize = 4_096;
/// Bytes of commands that may wait for one group.
const QUEUE_BYTES_MAX: usize = 16 << 20;

/// The answer to a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposed {
    /// What the state answered for this command.
    pub outcome: Bytes,
    /// The entry that carried it: the token of the write.
    pub position: LogPosition,
}

type Answer = Result<Proposed, ProposeError>;

/// Whether a command may have left the queue. Each command makes exactly one of the two moves.
#[derive(Clone, Default)]
struct Ticket(Arc<AtomicU8>);

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Ticket {
    /// The batcher takes the command; false if its caller has given up.
    fn take(&self) -> bool {
        self.0.compare_exchange(WAITING, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The caller gives up; true if the command is certain not to be proposed.
    fn give_up(&self) -> bool {
        self.0.compare_exchange(WAITING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Gives up when the caller's future is dropped.
struct GiveUpOnDrop(Ticket);

impl Drop for GiveUpOnDrop {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

struct Waiting {
    command: Bytes,
    ticket: Ticket,
    deadline: Instant,
    answer: oneshot::Sender<Answer>,
}

/// Puts commands into a group's queue.
#[derive(Clone)]
pub(crate) struct Queue {
    sender: mpsc::Sender<Waiting>,
    bytes: Arc<AtomicUsize>,
}

impl Queue {
    pub(crate) async fn propose(&self, command: Bytes, deadline: Instant) -> Answer {
        if command.len() > ENTRY_BYTES_MAX {
            return Err(ProposeError::TooLarge { bytes: command.len(), bytes_max: ENTRY_BYTES_MAX });
        }
        let size = command.len();
        if self.bytes.fetch_add(size, Ordering::AcqRel) + size > QUEUE_BYTES_MAX {
            self.bytes.fetch_sub(size, Ordering::AcqRel);
            return Err(ProposeError::Overloaded);
        }
        let ticket = Ticket::default();
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting { command, ticket: ticket.clone(), deadline, answer };
        if let Err(refused) = self.sender.try_send(waiting) {
            self.bytes.fetch_sub(size, Ordering::AcqRel);
            return Err(match refused {
                mpsc::error::TrySendError::Full(_) => ProposeError::Overloaded,
                mpsc::error::TrySendError::Closed(_) => stopping(),
            });
        }
        let give_up = GiveUpOnDrop(ticket);
        match tokio::time::timeout_at(deadline.into(), answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_dropped)) if give_up.0.give_up() => Err(stopping()),
            Err(_late) if give_up.0.give_up() => Err(ProposeError::DeadlineExceeded),
            _ => Err(ProposeError::UnknownOutcome),
        }
    }
}

fn stopping() -> ProposeError {
    ProposeError::Unavailable("the group is stopping".into())
}

/// How often entries were proposed, and with how many commands.
#[derive(Debug, Default)]
pub(crate) struct BatchCounters {
    pub(crate) entries: AtomicUsize,
    pub(crate) commands: AtomicUsize,
}

/// Stops a batcher for the time of a hand-over, and tells what it knows.
pub(crate) struct Reins {
    /// Hand-overs that hold the batcher: it takes nothing while there are any.
    held: watch::Sender<usize>,
    /// Whether it is held and nothing is in flight.
    quiet: watch::Receiver<bool>,
    leading_since: Arc<Mutex<Option<Instant>>>,
}

/// The batcher goes on when this is dropped.
pub(crate) struct Held<'a>(&'a Reins);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.send_modify(|held| *held -= 1);
    }
}

impl Reins {
    /// From now on commands wait in the queue.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.held.send_modify(|held| *held += 1);
        Held(self)
    }

    /// Waits until nothing is in flight; to be called while the batcher is held.
    pub(crate) async fn quiet(&self) {
        // An error means that the batcher has ended: then nothing is in flight either.
        let _ = self.quiet.clone().wait_for(|quiet| *quiet).await;
    }

    /// A moment at or after the one in which this replica was elected, if it leads.
    pub(crate) fn leading_since(&self) -> Option<Instant> {
        *self.leading_since.lock()
    }
}

/// The task that proposes one group's commands.
pub(crate) struct Batcher {
    raft: RaftHandle,
    clock: Arc<dyn Clock>,
    leadership: LeadershipWatch,
    queue: mpsc::Receiver<Waiting>,
    queued_bytes: Arc<AtomicUsize>,
    counters: Arc<BatchCounters>,
    /// A command that did not fit into the last entry.
    held: Option<Waiting>,
    /// Hand-overs that stop the taking.
    holds: watch::Receiver<usize>,
    quiet: watch::Sender<bool>,
    leading_since: Arc<Mutex<Option<Instant>>>,
    rest: Arc<Rest>,
}

impl Batcher {
    pub(crate) fn new(
        raft: RaftHandle,
        clock: Arc<dyn Clock>,
        leadership: LeadershipWatch,
        counters: Arc<BatchCounters>,
        rest: Arc<Rest>,
    ) -> (Queue, Reins, Self) {
        let (sender, queue) = mpsc::channel(QUEUE_COMMANDS_MAX);
        let bytes = Arc::new(AtomicUsize::new(0));
        let (held, holds) = watch::channel(0);
        let (quiet, is_quiet) = watch::channel(false);
        let leading_since = Arc::new(Mutex::new(leadership.is_leader().then(Instant::now)));
        let reins = Reins { held, quiet: is_quiet, leading_since: Arc::clone(&leading_since) };
        let queued_bytes = Arc::clone(&bytes);
        let batcher = Batcher {
            raft,
            clock,
            leadership,
            queue,
            queued_bytes,
            counters,
            held: None,
            holds,
            quiet,
            leading_since,
            rest,
        };
        (Queue { sender, bytes }, reins, batcher)
    }

    /// Runs until `stop` resolves or every [`Queue`] is gone; then answers what is left.
    pub(crate) async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        let mut in_flight: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
        loop {
            let is_held = *self.holds.borrow_and_update() > 0;
            let is_quiet = is_held && in_flight.is_empty();
            self.quiet.send_if_modified(|quiet| std::mem::replace(quiet, is_quiet) != is_quiet);
            tokio::select! {
                biased;
                _ = &mut stop => break,
                Some(()) = in_flight.next(), if !in_flight.is_empty() => {}
                alive = self.leadership.changed() => {
                    if !alive {
                        break;
                    }
                    self.note_leading();
                    self.turn_away_unless_leader(is_held);
                }
                Ok(()) = self.holds.changed() => self.turn_away_unless_leader(false),
                first = next(&mut self.held, &mut self.queue), if !is_held && in_flight.len() < IN_FLIGHT_MAX => {
                    let Some(first) = first else { break };
                    let batch = self.collect(first);
                    if !batch.is_empty() {
                        in_flight.push(self.propose(batch));
                    }
                }
            }
        }
        self.queue.close();
        while let Some(waiting) = self.held.take().or_else(|| self.queue.try_recv().ok()) {
            self.turn_away(waiting, stopping());
        }
        // What is in flight ends by itself: applied, refused, or cut off when openraft stops.
        while in_flight.next().await.is_some() {}
    }

    /// Takes what waits, from `first` on, as far as it fits into one entry.
    fn collect(&mut self, first: Waiting) -> Vec<Waiting> {
        let now = Instant::now();
        let mut batch = Vec::new();
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(waiting) = next {
            let size = waiting.command.len();
            if bytes + size > ENTRY_BYTES_MAX {
                self.held = Some(waiting);
                break;
            }
            self.queued_bytes.fetch_sub(size, Ordering::AcqRel);
            if waiting.deadline > now && waiting.ticket.take() {
                bytes += size;
                batch.push(waiting);
            }
            if batch.len() == ENTRY_COMMANDS_MAX {
                break;
            }
            next = self.queue.try_recv().ok();
        }
        batch
    }

    fn propose(&self, batch: Vec<Waiting>) -> BoxFuture<'static, ()> {
        self.counters.entries.fetch_add(1, Ordering::Relaxed);
        self.counters.commands.fetch_add(batch.len(), Ordering::Relaxed);
        let payload = EntryPayload {
            format: ENTRY_PAYLOAD_FORMAT,
            stamp_us: self.clock.now_us(),
            commands: batch.iter().map(|waiting| waiting.command.clone()).collect(),
        };
        let raft = self.raft.clone();
        let (leadership, rest) = (self.leadership.clone(), Arc::clone(&self.rest));
        Box::pin(async move {
            let _doing = rest.doing();
            let result = propose(raft, payload, leadership).await;
            distribute(batch, result);
        })
    }

    fn note_leading(&self) {
        let mut since = self.leading_since.lock();
        match (self.leadership.is_leader(), *since) {
            (true, None) => *since = Some(Instant::now()),
            (false, Some(_)) => *since = None,
            _ => {}
        }
    }

    /// While it is handed over, commands wait until their callers can be told who leads now.
    fn turn_away_unless_leader(&mut self, is_held: bool) {
        if self.leadership.is_leader() {
            return;
        }
        let leader = self.leadership.leader();
        if is_held && leader.is_none() {
            return;
        }
        while let Some(waiting) = self.held.take().or_else(|| self.queue.try_recv().ok()) {
            self.turn_away(waiting, ProposeError::NotLeader { leader });
        }
    }

    fn turn_away(&self, waiting: Waiting, error: ProposeError) {
        self.queued_bytes.fetch_sub(waiting.command.len(), Ordering::AcqRel);
        // The caller may be gone.
        let _ = waiting.answer.send(Err(error));
    }
}

async fn next(held: &mut Option<Waiting>, queue: &mut mpsc::Receiver<Waiting>) -> Option<Waiting> {
    match held.take() {
        Some(waiting) => Some(waiting),
        None => queue.recv().await,
    }
}

/// Proposes one entry and waits for what becomes of it.
async fn propose(
    raft: RaftHandle,
    payload: EntryPayload,
    mut leadership: LeadershipWatch,
) -> Result<(LogPosition, Outcomes), ProposeError> {
    let submitted = Submitted::default();
    let proposal = Proposal { payload, submitted: submitted.clone() };
    leadership.mark_seen();
    let mut answer = match raft.client_write_ff(proposal).await {
        Ok(answer) => answer,
        // The message did not reach openraft's loop.
        Err(fatal) => return Err(ProposeError::Unavailable(fatal.to_string())),
    };
    loop {
        tokio::select! {
            biased;
            answered = &mut answer => {
                return interpret(answered.ok(), &submitted);
            }
            alive = leadership.changed() => {
                // An entry that the log has seen may now be overwritten or committed by others, and
                // openraft may never answer. One that it has not seen will be answered at once.
                if submitted.is_set() && (!alive || leadership.moved()) {
                    return Err(ProposeError::UnknownOutcome);
                }
                if !alive {
                    return interpret((&mut answer).await.ok(), &submitted);
                }
            }
        }
    }
}

fn interpret(
    answered: Option<ClientWriteResult<TypeConfig>>,
    submitted: &Submitted,
) -> Result<(LogPosition, Outcomes), ProposeError> {
    match answered {
        Some(Ok(ClientWriteResponse { log_id, data, .. })) => Ok((log_id.into(), data)),
        Some(Err(_)) | None if submitted.is_set() => Err(ProposeError::UnknownOutcome),
        Some(Err(ClientWriteError::ForwardToLeader(forward))) => {
            Err(ProposeError::NotLeader { leader: forward.leader_id })
        }
        Some(Err(error)) => Err(ProposeError::Unavailable(error.to_string())),
        None => Err(stopping()),
    }
}

fn distribute(batch: Vec<Waiting>, result: Result<(LogPosition, Outcomes), ProposeError>) {
    match result {
        // The state machine has checked that there is one outcome for each command.
        Ok((position, outcomes)) => {
            for (waiting, outcome) in batch.into_iter().zip(outcomes) {
                let _ = waiting.answer.send(Ok(Proposed { outcome, position }));
            }
        }
        Err(error) => {
            for waiting in batch {
                let _ = waiting.answer.send(Err(error.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn a_ticket_is_taken_or_given_up_never_both() {
        let ticket = Ticket::default();
        assert!(ticket.take());
        assert!(!ticket.give_up() && !ticket.take());
        let ticket = Ticket::default();
        drop(GiveUpOnDrop(ticket.clone()));
        assert!(!ticket.take());
    }

    #[test]
    fn an_entry_that_the_log_saw_is_never_called_refused() {
        let forward = || {
            Some(Err(ClientWriteError::ForwardToLeader(openraft::error::ForwardToLeader {
                leader_id: Some(3),
                leader_node: None,
            })))
        };
        let unseen = Submitted::default();
        assert_eq!(interpret(forward(), &unseen), Err(ProposeError::NotLeader { leader: Some(3) }));
        assert_eq!(interpret(None, &unseen), Err(stopping()));
        let seen = Submitted::default();
        seen.set();
        assert_eq!(interpret(forward(), &seen), Err(ProposeError::UnknownOutcome));
        assert_eq!(interpret(None, &seen), Err(ProposeError::UnknownOutcome));
    }
}
