//! The nodes of the cluster: connections, who leads what, and calls that find the right one.

mod call;
mod floors;
mod hedge;
mod read;
mod topology;

pub(crate) use call::Safety;
pub(crate) use read::{Level, ReadKind, ReadWish};
pub(crate) use topology::{GroupView, NodeView};

use crate::collections::cache::CollectionCache;
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::metrics::Metrics;
use call::Ended;
use floors::Floors;
use hedge::Hedging;
use holdfast_core::access::Access;
use holdfast_core::apply::CLOSED_FIELD;
use holdfast_core::codec::Stored;
use holdfast_core::command::Command;
use holdfast_core::outcome::Outcome;
use holdfast_core::space::{Shard, SpaceKey};
use holdfast_core::token::Seen;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1::{self, node_client::NodeClient};
use holdfast_transport::{DialError, Security};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use topology::{Owner, Topology};

/// How often one call follows a part of the data to its new owner.
const OWNERS_MAX: usize = 8;

pub(crate) type Client = NodeClient<Channel>;

/// All that the router knows of the nodes.
pub(crate) struct Nodes {
    topology: Topology,
    floors: Floors,
    metrics: Arc<Metrics>,
    attempt_timeout: Duration,
    /// Ends all calls, so that each is answered before its connection is cut.
    cut_off: CancellationToken,
    /// Of reads of a few rows, and of whole spaces.
    hedging: [Hedging; 2],
    /// Which replica is asked first the next time.
    turn: AtomicUsize,
    /// Where a collection is forgotten whose partition says that it is deleted.
    collections: Arc<CollectionCache>,
}

/// The answer of a write to a space.
pub(crate) struct Written {
    pub(crate) items: Vec<holdfast_core::outcome::ItemOutcome>,
    pub(crate) seen: Option<Seen>,
}

impl Nodes {
    pub(crate) fn new(
        nodes: &[(u64, String)],
        seeds: &[String],
        security: Security,
        attempt_timeout: Duration,
        metrics: Arc<Metrics>,
        collections: Arc<CollectionCache>,
    ) -> Result<Self, DialError> {
        Ok(Self {
            topology: Topology::new(nodes, seeds, security)?,
            floors: Floors::default(),
            metrics,
            attempt_timeout,
            cut_off: CancellationToken::new(),
            hedging: Default::default(),
            turn: AtomicUsize::new(0),
            collections,
        })
    }

    /// Ends every call that is open and every later one: each is answered by what is known of it.
    pub(crate) fn cut_off(&self) {
        self.cut_off.cancel();
    }

    /// Asks every node for the topology, for ever: once per `interval`, or ten times as often while
    /// a group has no leader.
    pub(crate) async fn watch(&self, interval: Duration) {
        loop {
            let leaderless = self.topology.refresh().await;
            self.metrics.set_leaderless(leaderless.unwrap_or(1));
            let well = leaderless == Some(0);
            tokio::time::sleep(if well { interval } else { interval / 10 }).await;
        }
    }

    pub(crate) fn nodes(&self) -> Vec<NodeView> {
        self.topology.nodes()
    }

    pub(crate) fn groups(&self) -> Vec<GroupView> {
        self.topology.groups()
    }

    /// Whether every group of the cluster has a leader that can be reached.
    pub(crate) fn is_ready(&self) -> bool {
        self.topology.leaderless() == Some(0)
    }

    /// Does something at the shard that owns a space, and again at the next owner if the space has
    /// moved meanwhile.
    async fn on_owner<R, Fut>(
        &self,
        space: &SpaceKey,
        deadline: Deadline,
        attempt: impl Fn(Owner) -> Fut,
    ) -> Answer<R>
    where
        Fut: Future<Output = Result<R, Ended>>,
    {
        for _ in 0..OWNERS_MAX {
            let owner = self.topology.owner(space.slot(), deadline).await?;
            match attempt(owner).await {
                Ok(answer) => return Ok(answer),
                Err(Ended::Problem(problem)) => return Err(problem),
                Err(Ended::WrongShard(epoch)) => {
                    self.metrics.count_retry("wrong_shard");
                    let wanted = epoch.unwrap_or(0).max(owner.epoch + 1);
                    self.topology.wait_for_map(wanted, deadline).await?;
                }
            }
        }
        Err(call::moved_away())
    }

    /// The shard that a partition of a space lies on, as far as this router knows.
    pub(crate) async fn shard_of(&self, space: &SpaceKey, deadline: Deadline) -> Answer<Shard> {
        Ok(self.topology.owner(space.slot(), deadline).await?.group)
    }

    /// Takes note of a position in an answer, so that later reads through this router never go
    /// behind it.
    pub(crate) fn observe(&self, seen: Option<v1::Seen>) -> Option<Seen> {
        let seen = Seen::try_from(seen?).ok()?;
        self.floors.raise(seen);
        Some(seen)
    }

    /// Proposes a command to a group and answers its outcome.
    pub(crate) async fn propose(
        &self,
        access: &Access,
        group: Shard,
        command: &Command,
        safety: Safety,
        deadline: Deadline,
    ) -> Answer<(Outcome, Option<Seen>)> {
        let owner = Owner { group, epoch: 0 };
        self.try_propose(access, owner, &encoded(command)?, safety, deadline).await.map_err(Problem::from)
    }

    async fn try_propose(
        &self,
        access: &Access,
        Owner { group, epoch }: Owner,
        command: &[u8],
        safety: Safety,
        deadline: Deadline,
    ) -> Result<(Outcome, Option<Seen>), Ended> {
        let ask = |mut client: Client, deadline_ms| {
            let request = v1::WriteRequest {
                access: Some(access.clone().into()),
                group: u32::from(group.0),
                command: command.to_vec(),
                deadline_ms,
                map_epoch: epoch,
            };
            async move { client.write(request).await }
        };
        let response = self.try_call(group, safety, deadline, &ask).await?;
        let seen = self.observe(response.seen);
        match Outcome::decode(&response.outcome) {
            Ok(Outcome::Failed(error)) => Err(Problem::from(error).into()),
            Ok(outcome) => Ok((outcome, seen)),
            Err(error) => {
                let detail = format!("the outcome cannot be read: {error}");
                Err(Problem::new(ErrorCode::Internal, detail).into())
            }
        }
    }

    /// Proposes a write to a space. It must carry an idempotency key, since it is repeated when an
    /// answer is lost.
    pub(crate) async fn write(
        &self,
        access: &Access,
        space: &SpaceKey,
        command: &Command,
        deadline: Deadline,
    ) -> Answer<Written> {
        self.write_encoded(access, space, &encoded(command)?, deadline).await
    }

    /// As [`Nodes::write`], for a command that is encoded already.
    pub(crate) async fn write_encoded(
        &self,
        access: &Access,
        space: &SpaceKey,
        command: &[u8],
        deadline: Deadline,
    ) -> Answer<Written> {
        let propose = |owner| self.try_propose(access, owner, command, Safety::Repeatable, deadline);
        let proposed = self.on_owner(space, deadline, propose).await;
        if let (Err(problem), Some(collection)) = (&proposed, space.collection())
            && problem.error.code == ErrorCode::Unavailable
            && problem.error.field.as_deref() == Some(CLOSED_FIELD)
        {
            // Another router deleted it. The repetition that the answer asks for finds what has its name now.
            self.collections.forget(space.tenant(), collection).await;
        }
        match proposed? {
            (Outcome::Items { items, .. }, seen) => Ok(Written { items, seen }),
            _ => Err(Problem::new(ErrorCode::Internal, "a write was answered with another outcome")),
        }
    }

    /// Rows of the meta group in their stored form.
    pub(crate) async fn read_meta<T: Stored>(
        &self,
        what: v1::read_meta_request::What,
        deadline: Deadline,
    ) -> Answer<Vec<T>> {
        let ask = |mut client: Client, deadline_ms| {
            let read = v1::Read { deadline_ms, ..self.read_of_meta() };
            let request = v1::ReadMetaRequest { read: Some(read), what: Some(what.clone()) };
            async move { client.read_meta(request).await }
        };
        let response = self.call(Shard::META, Safety::Read, deadline, ask).await?;
        let rows: Result<Vec<T>, _> = response.rows.iter().map(|row| T::decode(row)).collect();
        rows.map_err(|error| Problem::new(ErrorCode::Corrupted, format!("a row cannot be read: {error}")))
    }
}

/// A command as it is proposed.
pub(crate) fn encoded(command: &Command) -> Answer<Vec<u8>> {
    command.encode().map_err(|error| Error::new(ErrorCode::Internal, error.to_string()).into())
}
