//! One call to a group: finds the leader, follows hints, tries other nodes, backs off, and says
//! honestly how it ended.

use super::topology::NodeView;
use super::{Client, Nodes};
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, millis};
use holdfast_core::ErrorCode;
use holdfast_core::space::Shard;
use holdfast_proto::{MESSAGE_BYTES_MAX, Refused, refusal_of, v1};
use holdfast_transport::ConnectError;
use std::error::Error as _;
use std::future::Future;
use std::time::Duration;
use tonic::{Code, Response, Status};

/// Most attempts of one call, whatever the deadline.
const ATTEMPTS_MAX: u32 = 100;
/// How often in a row a node is asked that says to ask again.
const SAME_NODE_MAX: u32 = 2;
const BACKOFF_FIRST: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_millis(250);

/// What a repetition would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Safety {
    /// Nothing: it reads.
    Read,
    /// The same as one: it carries an idempotency key.
    Repeatable,
    /// Maybe harm: it is not repeated once a node may have accepted it.
    Once,
}

/// How a call ended without an answer.
pub(super) enum Ended {
    /// The caller is told.
    Problem(Problem),
    /// Another shard is the owner, by a map of this epoch if it is known. Nothing was done.
    WrongShard(Option<u64>),
}

impl From<Problem> for Ended {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<Ended> for Problem {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Problem(problem) => problem,
            Ended::WrongShard(_) => moved_away(),
        }
    }
}

/// The owner of a slot could not be found in time.
pub(super) fn moved_away() -> Problem {
    let detail = "this part of the data is moving to another shard; nothing was done; retry after a moment";
    Problem::new(ErrorCode::Unavailable, detail)
}

/// How one attempt failed.
struct Failure {
    refused: Refused,
    /// Whether the node may have done it nevertheless.
    maybe_done: bool,
    /// Whether the node itself answered.
    answered: bool,
    /// Whether the time of the attempt was over, which is shorter than that of the call.
    late: bool,
}

impl Nodes {
    /// As [`Nodes::try_call`], for a group that is asked for itself and not for a part of the data.
    pub(crate) async fn call<R, F, Fut>(
        &self,
        group: Shard,
        safety: Safety,
        deadline: Deadline,
        ask: F,
    ) -> Answer<R>
    where
        F: Fn(Client, u32) -> Fut,
        Fut: Future<Output = Result<Response<R>, Status>>,
    {
        self.try_call(group, safety, deadline, &ask).await.map_err(Problem::from)
    }

    /// Calls `ask` on the leader of `group` until it succeeds, is refused for good, or the deadline
    /// passes. `ask` gets the client of a node and the milliseconds that are left.
    pub(super) async fn try_call<R, F, Fut>(
        &self,
        group: Shard,
        safety: Safety,
        deadline: Deadline,
        ask: &F,
    ) -> Result<R, Ended>
    where
        F: Fn(Client, u32) -> Fut,
        Fut: Future<Output = Result<Response<R>, Status>>,
    {
        let mut search = Search::default();
        for _ in 0..ATTEMPTS_MAX {
            let left = deadline.left();
            if left.is_zero() || self.cut_off.is_cancelled() {
                break;
            }
            let Some(node) = self.pick(group, &search) else { break };
            // Twice as long after each attempt that ran out of time: a dead node costs little, and a
            // call that takes long still gets its time.
            let attempt = left.min(self.attempt_timeout.saturating_mul(1 << search.late.min(8)));
            let asking = tokio::time::timeout(attempt, ask(node.client.clone(), millis(attempt)));
            // Whatever the deadline still allows: this router is about to end.
            let asked = tokio::select! {
                asked = asking => asked.map_err(|_| "no answer in time"),
                () = self.cut_off.cancelled() => Err("this router stops"),
            };
            let failure = match asked {
                Ok(Ok(response)) => {
                    self.topology.set_leader(group, node.id);
                    return Ok(response.into_inner());
                }
                Ok(Err(status)) => failure_of(&status, safety),
                Err(why) => failure_of(&Status::deadline_exceeded(why), safety),
            };
            search.maybe_done |= failure.maybe_done;
            search.late += u32::from(failure.late);
            if let Some(ended) = final_answer(&failure, &search, safety) {
                return Err(ended);
            }
            let wait = self.learn_from(group, &node, &failure, &mut search);
            search.last = Some(failure.refused);
            tokio::select! {
                () = tokio::time::sleep(wait.min(deadline.left())) => {}
                () = self.cut_off.cancelled() => {}
            }
        }
        Err(search.give_up(safety).into())
    }

    /// The node to ask next: who is said to lead, else who is known to, else the next in turn.
    fn pick(&self, group: Shard, search: &Search) -> Option<NodeView> {
        let nodes = self.topology.nodes();
        let leader = self.topology.leader(group).filter(|leader| Some(*leader) != search.failed);
        let by_id = |id: u64| nodes.iter().find(|node| node.id == id);
        if let Some(node) = search.hint.or(leader).and_then(by_id) {
            return Some(node.clone());
        }
        let after = search.failed.unwrap_or(0);
        let next = nodes.iter().find(|node| node.id > after).or(nodes.first())?;
        Some(next.clone())
    }

    /// Draws the conclusions from a failure: whom to ask next, and after how long.
    fn learn_from(&self, group: Shard, node: &NodeView, failure: &Failure, search: &mut Search) -> Duration {
        search.hint = None;
        search.failed = Some(node.id);
        let hint =
            failure.refused.leader.filter(|leader| *leader != node.id && Some(*leader) != search.silent);
        if !failure.answered {
            search.silent = Some(node.id);
        }
        let reason = match (failure.answered, failure.refused.route) {
            (false, _) => "transport",
            (true, v1::Route::NotLeader) => "not_leader",
            (true, v1::Route::Behind) => "behind",
            // A wrong shard has ended the call before.
            (true, v1::Route::Retry | v1::Route::None | v1::Route::WrongShard) => "retry",
        };
        self.metrics.count_retry(reason);
        if reason == "retry" {
            let asked = failure.refused.retry_after_ms.map_or(Duration::ZERO, Duration::from_millis);
            search.same = if search.busy == Some(node.id) { search.same + 1 } else { 1 };
            search.busy = Some(node.id);
            // It leads and is busy, or it was cut off and only believes that it leads: it is asked
            // again, and now and then the others are asked whether they know a better one.
            if search.same < SAME_NODE_MAX {
                search.hint = Some(node.id);
            } else {
                search.busy = None;
            }
            return asked.max(search.backoff());
        }
        if reason != "behind" {
            self.topology.forget_leader(group, node.id);
        }
        match hint {
            Some(leader) if search.hops < 2 => {
                self.topology.set_leader(group, leader);
                search.hint = Some(leader);
                search.hops += 1;
                Duration::ZERO
            }
            _ => {
                search.hops = 0;
                search.tried += 1;
                // Every node is asked once without a pause: a single dead one costs no time.
                if search.tried < self.topology.nodes().len() { Duration::ZERO } else { search.backoff() }
            }
        }
    }
}

/// What a call has learned so far.
#[derive(Default)]
struct Search {
    hint: Option<u64>,
    failed: Option<u64>,
    /// The node that last gave no answer at all: hints that name it are not followed.
    silent: Option<u64>,
    hops: u32,
    tried: usize,
    waits: u32,
    /// The node that last asked for patience, and how often in a row.
    busy: Option<u64>,
    same: u32,
    /// Attempts that ran out of time.
    late: u32,
    maybe_done: bool,
    last: Option<Refused>,
}

impl Search {
    /// Doubling, bounded, and spread over half of it so that callers do not come in step.
    fn backoff(&mut self) -> Duration {
        let full = BACKOFF_FIRST.saturating_mul(1 << self.waits.min(8)).min(BACKOFF_MAX);
        self.waits += 1;
        full.mul_f64(0.5 + rand::random::<f64>() / 2.0)
    }

    /// The answer when there is no time, no attempt or no node left.
    fn give_up(self, safety: Safety) -> Problem {
        if self.maybe_done && safety != Safety::Read {
            return unknown_outcome(safety);
        }
        match self.last {
            Some(refused) if refused.error.code == ErrorCode::UnknownOutcome => {
                Problem::new(ErrorCode::Unavailable, "no node could be reached; nothing was done; retry")
            }
            Some(refused) if refused.route == v1::Route::NotLeader => {
                let detail =
                    "no leader could be found in time for this part of the data; nothing was done; retry";
                Problem::new(ErrorCode::Unavailable, detail)
            }
            Some(refused) => {
                let mut problem = Problem::from(refused.error);
                problem.retry_after_ms = refused.retry_after_ms.or(problem.retry_after_ms);
                problem
            }
            None if safety == Safety::Read => {
                Problem::new(ErrorCode::DeadlineExceeded, "there was no time left to ask a node; allow more")
            }
            None => Problem::new(
                ErrorCode::Unavailable,
                "there was no time left to ask a node; nothing was done; retry",
            ),
        }
    }
}

fn unknown_outcome(safety: Safety) -> Problem {
    let what_to_do = match safety {
        Safety::Once => "look whether it happened before you repeat it",
        _ => "repeat it with the same Idempotency-Key and body: it then happens exactly once",
    };
    let detail =
        format!("no answer came back in time, so the write may or may not have happened; {what_to_do}");
    Problem::new(ErrorCode::UnknownOutcome, detail)
}

/// The end of the call, if this failure is one that repeating cannot mend.
fn final_answer(failure: &Failure, search: &Search, safety: Safety) -> Option<Ended> {
    if safety == Safety::Once && search.maybe_done {
        return Some(unknown_outcome(safety).into());
    }
    let refused = &failure.refused;
    if failure.answered && refused.route == v1::Route::WrongShard {
        return Some(Ended::WrongShard(refused.map_epoch));
    }
    let is_final = failure.answered && !failure.late && refused.route == v1::Route::None;
    if is_final || refused.error.code == ErrorCode::TooLarge {
        let mut problem = Problem::from(refused.error.clone());
        problem.retry_after_ms = refused.retry_after_ms.or(problem.retry_after_ms);
        return Some(problem.into());
    }
    None
}

fn failure_of(status: &Status, safety: Safety) -> Failure {
    let is_write = safety != Safety::Read;
    let mut refused = refusal_of(status, is_write);
    let answered = !status.details().is_empty();
    let maybe_done = is_write && refused.error.code == ErrorCode::UnknownOutcome && !never_sent(status);
    let late = if answered {
        refused.error.code == ErrorCode::DeadlineExceeded
    } else {
        matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled)
    };
    if !answered {
        // What the transport says is for the log; the caller cannot act on it.
        tracing::debug!(code = ?status.code(), "a node did not answer: {}", status.message());
        refused.error.detail = match refused.error.code {
            ErrorCode::TooLarge => {
                let mib = MESSAGE_BYTES_MAX / (1024 * 1024);
                format!("the answer has more than {mib} MiB; ask for less, with a smaller top_k or limit")
            }
            ErrorCode::DeadlineExceeded => {
                "no node answered before the deadline; allow more time, or retry".into()
            }
            _ => "no node answered; retry after a moment".into(),
        };
    }
    Failure { refused, maybe_done, answered, late }
}

/// Whether there was not even a connection, so that nothing can have been done.
fn never_sent(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return io.kind() == std::io::ErrorKind::ConnectionRefused;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_core::Error;

    #[test]
    fn backoff_grows_to_a_bound() {
        let mut search = Search::default();
        let waits: Vec<Duration> = (0..20).map(|_| search.backoff()).collect();
        assert!(waits[0] <= BACKOFF_FIRST && waits[0] >= BACKOFF_FIRST / 2);
        assert!(waits.iter().all(|wait| *wait <= BACKOFF_MAX));
        assert!(waits[19] >= BACKOFF_MAX / 2);
    }

    #[test]
    fn the_end_of_a_call_is_told_as_it_was() {
        let code = |search: Search, safety| search.give_up(safety).error.code;
        let lost = || Search { maybe_done: true, ..Search::default() };
        assert_eq!(code(lost(), Safety::Repeatable), ErrorCode::UnknownOutcome);
        assert_eq!(code(lost(), Safety::Once), ErrorCode::UnknownOutcome);
        assert_eq!(code(Search::default(), Safety::Repeatable), ErrorCode::Unavailable);
        assert_eq!(code(Search::default(), Safety::Read), ErrorCode::DeadlineExceeded);
        let refused = Refused::from(Error::new(ErrorCode::Overloaded, "busy"));
        let busy = Search { last: Some(refused), ..Search::default() };
        assert_eq!(code(busy, Safety::Repeatable), ErrorCode::Overloaded);
    }
}
