//! The nodes of the cluster: connections, who leads what, and calls that find the right one.

mod call;
mod floors;
mod topology;

pub(crate) use call::Safety;
pub(crate) use topology::{GroupView, NodeView};

use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::metrics::Metrics;
use floors::Floors;
use holdfast_core::access::Access;
use holdfast_core::codec::Stored;
use holdfast_core::command::Command;
use holdfast_core::outcome::Outcome;
use holdfast_core::space::{Shard, SpaceKey};
use holdfast_core::token::{Seen, Token};
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1::{self, node_client::NodeClient};
use holdfast_transport::{DialError, Security};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use topology::Topology;

pub(crate) type Client = NodeClient<Channel>;

/// All that the router knows of the nodes.
pub(crate) struct Nodes {
    topology: Topology,
    floors: Floors,
    metrics: Arc<Metrics>,
    attempt_timeout: Duration,
    /// Ends all calls, so that each is answered before its connection is cut.
    cut_off: CancellationToken,
}

/// How a read wants to be answered.
#[derive(Debug, Clone)]
pub(crate) struct ReadWish {
    pub(crate) linearizable: bool,
    pub(crate) token: Token,
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
    ) -> Result<Self, DialError> {
        Ok(Self {
            topology: Topology::new(nodes, seeds, security)?,
            floors: Floors::default(),
            metrics,
            attempt_timeout,
            cut_off: CancellationToken::new(),
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

    /// The Raft group of a space.
    pub(crate) async fn group_of(&self, space: &SpaceKey, deadline: Deadline) -> Answer<Shard> {
        Ok(space.slot().initial_shard(self.topology.shards(deadline).await?))
    }

    /// What a read of a shard asks of the node: not older than the caller's token, nor than what
    /// this router has seen itself.
    pub(crate) fn read(&self, group: Shard, wish: &ReadWish, deadline: Deadline) -> v1::Read {
        let floor = self.floors.of(group);
        let token = wish.token.seen(group);
        let at_least = match (token, floor) {
            (Some(a), Some(b)) => {
                Some(if (a.incarnation, a.index) < (b.incarnation, b.index) { b } else { a })
            }
            (a, b) => a.or(b),
        };
        let consistency =
            if wish.linearizable { v1::Consistency::Linearizable } else { v1::Consistency::Session };
        v1::Read {
            consistency: consistency.into(),
            at_least: at_least.map(Into::into),
            deadline_ms: crate::http::time::millis(deadline.left()),
        }
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
        let bytes = command.encode().map_err(|error| Error::new(ErrorCode::Internal, error.to_string()))?;
        let request = v1::WriteRequest {
            access: Some(access.clone().into()),
            group: u32::from(group.0),
            command: bytes,
            deadline_ms: 0,
        };
        let ask = |mut client: Client, deadline_ms| {
            let request = v1::WriteRequest { deadline_ms, ..request.clone() };
            async move { client.write(request).await }
        };
        let response = self.call(group, safety, deadline, ask).await?;
        let seen = self.observe(response.seen);
        match Outcome::decode(&response.outcome) {
            Ok(Outcome::Failed(error)) => Err(error.into()),
            Ok(outcome) => Ok((outcome, seen)),
            Err(error) => {
                Err(Problem::new(ErrorCode::Internal, format!("the outcome cannot be read: {error}")))
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
        let group = self.group_of(space, deadline).await?;
        match self.propose(access, group, command, Safety::Repeatable, deadline).await? {
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
        let wish = ReadWish { linearizable: false, token: Token::new("") };
        let ask = |mut client: Client, deadline_ms| {
            let read = v1::Read { deadline_ms, ..self.read(Shard::META, &wish, deadline) };
            let request = v1::ReadMetaRequest { read: Some(read), what: Some(what.clone()) };
            async move { client.read_meta(request).await }
        };
        let response = self.call(Shard::META, Safety::Read, deadline, ask).await?;
        let rows: Result<Vec<T>, _> = response.rows.iter().map(|row| T::decode(row)).collect();
        rows.map_err(|error| Problem::new(ErrorCode::Corrupted, format!("a row cannot be read: {error}")))
    }
}
