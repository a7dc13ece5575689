//! Linearizable reads: one confirmation of leadership serves all reads that wait for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openraft::LogIdOptionExt;
use openraft::error::{CheckIsLeaderError, RaftError};
use tokio::sync::{mpsc, oneshot};

use super::error::ReadError;
use super::rest::Rest;
use super::types::{NodeId, RaftHandle};

/// Reads that may wait for one group.
const QUEUE_READS_MAX: usize = 4_096;
/// The pause before a leadership that no majority confirmed is checked again.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

struct Waiting {
    deadline: Instant,
    answer: oneshot::Sender<Result<u64, ReadError>>,
}

/// Asks for read points.
#[derive(Clone)]
pub(crate) struct ReadQueue(mpsc::Sender<Waiting>);

impl ReadQueue {
    /// The index up to which the state is visible now, and includes all that was acknowledged before
    /// this call.
    pub(crate) async fn read_point(&self, deadline: Instant) -> Result<u64, ReadError> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(Waiting { deadline, answer }).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => ReadError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => stopping(),
        })?;
        match tokio::time::timeout_at(deadline.into(), answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_dropped)) => Err(stopping()),
            Err(_late) => Err(ReadError::DeadlineExceeded),
        }
    }
}

fn stopping() -> ReadError {
    ReadError::Unavailable("the group is stopping".into())
}

/// The task that confirms the leadership for one group's reads.
pub(crate) struct ReadConfirmer {
    raft: RaftHandle,
    queue: mpsc::Receiver<Waiting>,
    rest: Arc<Rest>,
}

impl ReadConfirmer {
    pub(crate) fn new(raft: RaftHandle, rest: Arc<Rest>) -> (ReadQueue, Self) {
        let (sender, queue) = mpsc::channel(QUEUE_READS_MAX);
        (ReadQueue(sender), ReadConfirmer { raft, queue, rest })
    }

    /// Runs until `stop` resolves or every [`ReadQueue`] is gone.
    pub(crate) async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        loop {
            let first = tokio::select! {
                biased;
                _ = &mut stop => return,
                first = self.queue.recv() => match first {
                    Some(first) => first,
                    None => return,
                },
            };
            // Only reads that wait before the round starts may use its read point.
            let mut round = vec![first];
            while let Ok(waiting) = self.queue.try_recv() {
                round.push(waiting);
            }
            let _doing = self.rest.doing();
            let deadline = round.iter().map(|waiting| waiting.deadline).max();
            let confirm = confirm(&self.raft, deadline.unwrap_or_else(Instant::now));
            let result = tokio::select! {
                biased;
                _ = &mut stop => return,
                result = confirm => result,
            };
            for waiting in round {
                // The reader may be gone.
                let _ = waiting.answer.send(result.clone());
            }
        }
    }
}

async fn confirm(raft: &RaftHandle, deadline: Instant) -> Result<u64, ReadError> {
    loop {
        let round = tokio::time::timeout_at(deadline.into(), raft.ensure_linearizable()).await;
        let error = match round {
            Ok(Ok(read_point)) => return Ok(read_point.index().unwrap_or(0)),
            Ok(Err(error)) => error,
            Err(_late) => return Err(ReadError::DeadlineExceeded),
        };
        match read_error(error) {
            ReadError::Unavailable(cause) if Instant::now() + RETRY_PAUSE < deadline => {
                tracing::debug!(cause, "a read could not confirm the leadership; trying again");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            other => return Err(other),
        }
    }
}

fn read_error(error: RaftError<NodeId, CheckIsLeaderError<NodeId, ()>>) -> ReadError {
    match error {
        RaftError::APIError(CheckIsLeaderError::ForwardToLeader(forward)) => {
            ReadError::NotLeader { leader: forward.leader_id }
        }
        RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(error)) => {
            ReadError::Unavailable(error.to_string())
        }
        RaftError::Fatal(fatal) => ReadError::Unavailable(fatal.to_string()),
    }
}
