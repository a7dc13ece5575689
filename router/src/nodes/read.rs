//! Reads of a space: which replica is asked, and how fresh its answer must be.
//!
//! - `session` and `linearizable` go to the leader. A session read that knows a position (of its
//!   token, or one that this router has seen) may be hedged: a follower that has reached the position
//!   answers as well as the leader.
//! - `bounded` goes to the replicas in turn; each proves its freshness itself or says at once that it
//!   cannot. The leader is asked last: it can ask a majority.

use super::call::{Ended, Safety};
use super::hedge::Hedging;
use super::topology::{NodeView, Owner};
use super::{Client, Nodes};
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, millis};
use futures::future::{Either, select};
use holdfast_core::space::{Shard, SpaceKey};
use holdfast_core::token::{Seen, Token};
use holdfast_proto::v1;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Response, Status};

/// Replicas that a bounded read asks before it goes to the leader.
const REPLICAS_ASKED_MAX: usize = 5;

/// How fresh an answer must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Not behind the token, nor behind what this router has seen.
    Session,
    /// All that was acknowledged before.
    Linearizable,
    /// All that was acknowledged until so long ago.
    Bounded(Duration),
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Linearizable => "linearizable",
            Self::Bounded(_) => "bounded",
        }
    }
}

/// How a read wants to be answered.
#[derive(Debug, Clone)]
pub(crate) struct ReadWish {
    pub(crate) level: Level,
    pub(crate) token: Token,
}

/// What a read costs a node, roughly: reads of one kind take similar times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadKind {
    /// A few rows.
    Point,
    /// A whole space.
    Scan,
}

/// Who answered.
enum By {
    Leader,
    Replica,
    Hedge,
}

impl Nodes {
    /// Reads from the shard that owns a space. `ask` gets the client of a node and what the read asks
    /// of it.
    pub(crate) async fn read_space<R, F, Fut>(
        &self,
        kind: ReadKind,
        space: &SpaceKey,
        wish: &ReadWish,
        deadline: Deadline,
        ask: F,
    ) -> Answer<R>
    where
        F: Fn(Client, v1::Read) -> Fut,
        Fut: Future<Output = Result<Response<R>, Status>>,
    {
        let ask = &ask;
        let read = |owner: Owner| async move {
            let read = self.read_of(owner, wish);
            match wish.level {
                Level::Session => self.session(self.hedging(kind), owner.group, read, deadline, ask).await,
                Level::Linearizable => {
                    Ok((self.at_leader(owner.group, read, deadline, ask).await?, By::Leader))
                }
                Level::Bounded(_) => self.bounded(owner.group, read, deadline, ask).await,
            }
        };
        let (answer, by) = match self.on_owner(space, deadline, read).await {
            Ok((answer, By::Leader)) => (Ok(answer), "leader"),
            Ok((answer, By::Replica)) => (Ok(answer), "replica"),
            Ok((answer, By::Hedge)) => (Ok(answer), "hedge"),
            Err(problem) => (Err(problem), "failed"),
        };
        self.metrics.count_read(wish.level.name(), by);
        answer
    }

    fn hedging(&self, kind: ReadKind) -> &Hedging {
        match kind {
            ReadKind::Point => &self.hedging[0],
            ReadKind::Scan => &self.hedging[1],
        }
    }

    /// What a read of the meta group asks: not older than what this router has seen.
    pub(super) fn read_of_meta(&self) -> v1::Read {
        v1::Read {
            consistency: v1::Consistency::Session.into(),
            at_least: self.floors.of(Shard::META).map(Into::into),
            ..v1::Read::default()
        }
    }

    /// What a read of a shard asks of a node. Below its token it never goes; what this router has seen
    /// besides is a floor for reads without a bound of their own.
    fn read_of(&self, owner: Owner, wish: &ReadWish) -> v1::Read {
        let token = wish.token.seen(owner.group);
        let (consistency, max_staleness, floor) = match wish.level {
            Level::Session => (v1::Consistency::Session, Duration::ZERO, self.floors.of(owner.group)),
            Level::Linearizable => (v1::Consistency::Linearizable, Duration::ZERO, None),
            Level::Bounded(staleness) => (v1::Consistency::Bounded, staleness, None),
        };
        v1::Read {
            consistency: consistency.into(),
            at_least: later(token, floor).map(Into::into),
            deadline_ms: 0,
            max_staleness_ms: millis(max_staleness),
            any_replica: false,
            owner: Some(v1::Owner { shard: u32::from(owner.group.0), epoch: owner.epoch }),
        }
    }

    async fn at_leader<R, F, Fut>(
        &self,
        group: Shard,
        read: v1::Read,
        deadline: Deadline,
        ask: &F,
    ) -> Result<R, Ended>
    where
        F: Fn(Client, v1::Read) -> Fut,
        Fut: Future<Output = Result<Response<R>, Status>>,
    {
        let timed = |client: Client, deadline_ms| ask(client, v1::Read { deadline_ms, ..read });
        self.try_call(group, Safety::Read, deadline, &timed).await
    }

    async fn session<R, F, Fut>(
        &self,
        hedging: &Hedging,
        group: Shard,
        read: v1::Read,
        deadline: Deadline,
        ask: &F,
    ) -> Result<(R, By), Ended>
    where
        F: Fn(Client, v1::Read) -> Fut,
        Fut: Future<Output = Result<Response<R>, Status>>,
    {
        let started = Instant::now();
        let delay = hedging.begin();
        let mut first = pin!(async {
            let answer = self.at_leader(group, read, deadline, ask).await;
            if answer.is_ok() {
                hedging.answered(started.elapsed());
            }
            answer
        });
        // Without a position there is nothing that a follower could prove itself by.
        if let Some(delay) = delay.filter(|_| read.at_least.is_some()) {
            match tokio::time::timeout(delay, &mut first).await {
                Ok(answer) => return Ok((answer?, By::Leader)),
                Err(_) => {
                    if let Some(follower) = self.follower(group).filter(|_| hedging.spend()) {
                        let second = pin!(self.at_replica(&follower, read, deadline, ask));
                        return self.race(first, second).await;
                    }
                }
            }
        }
        Ok((first.await?, By::Leader))
    }

    /// The first good answer of the two.
    async fn race<R>(
        &self,
        first: impl Future<Output = Result<R, Ended>> + Unpin,
        second: impl Future<Output = Result<R, Missed>> + Unpin,
    ) -> Result<(R, By), Ended> {
        match select(first, second).await {
            Either::Left((Ok(answer), _)) => {
                self.metrics.count_hedge("lost");
                Ok((answer, By::Leader))
            }
            // The leader's end is the read's, unless the follower can still answer.
            Either::Left((Err(ended), second)) => match second.await {
                Ok(answer) => {
                    self.metrics.count_hedge("won");
                    Ok((answer, By::Hedge))
                }
                Err(missed) => {
                    self.metrics.count_hedge(missed.hedge());
                    Err(ended)
                }
            },
            Either::Right((Ok(answer), _)) => {
                self.metrics.count_hedge("won");
                Ok((answer, By::Hedge))
            }
            Either::Right((Err(missed), first)) => {
                self.metrics.count_hedge(missed.hedge());
                Ok((first.await?, By::Leader))
            }
        }
    }

    async fn bounded<R, F, Fut>(
        &self,
        group: Shard,
        read: v1::Read,
        deadline: Deadline,
        ask: &F,
    ) -> Result<(R, By), Ended>
    where
        F: Fn(Client, v1::Read) -> Fut,
        Fut: Future<Output = Result<Response<R>, Status>>,
    {
        for node in self.in_turn().into_iter().take(REPLICAS_ASKED_MAX) {
            match self.at_replica(&node, read, deadline, ask).await {
                Ok(answer) => return Ok((answer, By::Replica)),
                Err(Missed::Ended(ended)) => return Err(ended),
                Err(Missed::Behind) => self.metrics.count_retry("behind"),
                Err(Missed::Silent) => self.metrics.count_retry("transport"),
                Err(Missed::Refused) => self.metrics.count_retry("retry"),
            }
        }
        Ok((self.at_leader(group, read, deadline, ask).await?, By::Leader))
    }

    /// Asks one replica once.
    async fn at_replica<R, F, Fut>(
        &self,
        node: &NodeView,
        read: v1::Read,
        deadline: Deadline,
        ask: &F,
    ) -> Result<R, Missed>
    where
        F: Fn(Client, v1::Read) -> Fut,
        Fut: Future<Output = Result<Response<R>, Status>>,
    {
        let time = deadline.left().min(self.attempt_timeout);
        let read = v1::Read { any_replica: true, deadline_ms: millis(time), ..read };
        let asked = tokio::time::timeout(time, ask(node.client.clone(), read));
        let asked = tokio::select! {
            asked = asked => asked,
            () = self.cut_off.cancelled() => return Err(Missed::Silent),
        };
        match asked {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(Missed::of(&status)),
            Err(_) => Err(Missed::Silent),
        }
    }

    /// The nodes that answer, from another one on with each call.
    fn in_turn(&self) -> Vec<NodeView> {
        let mut nodes = self.topology.nodes();
        nodes.retain(|node| node.reachable);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let first = turn.checked_rem(nodes.len()).unwrap_or(0);
        nodes.rotate_left(first);
        nodes
    }

    /// A node that answers and does not lead the group.
    fn follower(&self, group: Shard) -> Option<NodeView> {
        let leader = self.topology.leader(group);
        self.in_turn().into_iter().find(|node| Some(node.id) != leader)
    }
}

/// Why a replica that was asked once gave no answer.
enum Missed {
    /// It is behind what was asked.
    Behind,
    /// It did not answer.
    Silent,
    /// It cannot answer now.
    Refused,
    /// Nobody could answer better.
    Ended(Ended),
}

impl Missed {
    fn of(status: &Status) -> Self {
        if status.details().is_empty() {
            return Self::Silent;
        }
        let refused = holdfast_proto::refusal_of(status, false);
        match refused.route {
            v1::Route::Behind => Self::Behind,
            v1::Route::WrongShard => Self::Ended(Ended::WrongShard(refused.map_epoch)),
            // The time of one attempt is shorter than that of the read.
            v1::Route::None if refused.error.code == holdfast_core::ErrorCode::DeadlineExceeded => {
                Self::Refused
            }
            v1::Route::None => Self::Ended(Ended::Problem(Problem::from(refused.error))),
            v1::Route::NotLeader | v1::Route::Retry => Self::Refused,
        }
    }

    /// As the metric of hedges names it.
    fn hedge(&self) -> &'static str {
        match self {
            Self::Behind => "behind",
            Self::Silent | Self::Refused | Self::Ended(_) => "failed",
        }
    }
}

/// The later of two positions in one shard.
fn later(a: Option<Seen>, b: Option<Seen>) -> Option<Seen> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if (a.incarnation, a.index) < (b.incarnation, b.index) { b } else { a }),
        (a, b) => a.or(b),
    }
}
