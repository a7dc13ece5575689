//! A client that finds leaders, follows hints, repeats and gives up as the router does, and tells what
//! it was told.

use super::net;
use super::node::CLUSTER;
use super::plan::Sabotage;
use super::workload;
use super::world::{Phase, World};
use crate::raft::sim::Connect;
use crate::raft::{GroupId, NodeId};
use crate::service::incarnation;
use holdfast_core::codec::Stored;
use holdfast_core::command::Write;
use holdfast_core::outcome::{ItemOutcome, ItemStatus, Outcome};
use holdfast_core::token::{Seen, Token};
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1::node_client::NodeClient;
use holdfast_proto::{refusal_of, v1};
use holdfast_testkit::history::{Answer, Cell, Change, Operation};
use holdfast_testkit::invariants::Stage;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

/// How long a call may take with all its attempts, and how long an attempt.
const CALL_MAX: Duration = Duration::from_secs(4);
const ATTEMPT_MAX: Duration = Duration::from_millis(500);
const KEEP_ALIVE: Duration = Duration::from_secs(1);
const BACKOFF_FIRST: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_millis(250);
/// How many memories one client makes.
const MEMORIES_MAX: u64 = 5;
/// Once nothing breaks any more, a client must be served within this time.
const SERVED_MAX: Duration = Duration::from_secs(60);
/// What each client still does then.
const LAST_OPERATIONS: u32 = 12;

/// The name of a client's host.
pub(super) fn host(client: u64) -> String {
    format!("client-{client}")
}

/// Adds a host for each client.
pub(super) fn add_clients(sim: &mut turmoil::Sim<'_>, world: &Arc<World>, chance: &mut StdRng) {
    for id in 1..=world.plan().clients {
        let world = Arc::clone(world);
        let chance = StdRng::seed_from_u64(chance.random());
        sim.client(host(id), async move {
            Client::new(world, id, chance).run().await;
            Ok(())
        });
    }
}

/// How a call ended.
enum Ended<R> {
    Answered(R),
    /// Refused for good.
    Refused(Error),
    /// Nothing was done, or it was a read.
    NotDone,
    /// It may have been done, or may yet be.
    Unknown,
}

struct Client {
    world: Arc<World>,
    id: u64,
    chance: StdRng,
    connect: Connect,
    nodes: BTreeMap<NodeId, NodeClient<Channel>>,
    leaders: BTreeMap<GroupId, NodeId>,
    token: Token,
    /// The versions that this client has seen.
    versions: BTreeMap<String, u64>,
    made: u64,
}

impl Client {
    fn new(world: Arc<World>, id: u64, chance: StdRng) -> Self {
        let connect = net::connect(&world);
        Client {
            world,
            id,
            chance,
            connect,
            nodes: BTreeMap::new(),
            leaders: BTreeMap::new(),
            token: Token::new("租户"),
            versions: BTreeMap::new(),
            made: 0,
        }
    }

    async fn run(mut self) {
        while self.world.phase() == Phase::Faulty {
            self.operate().await;
            let pause = self.chance.random_range(1..40);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        for _ in 0..LAST_OPERATIONS {
            self.operate().await;
        }
        let begin = Instant::now();
        loop {
            let served = self.create(true).await;
            if served {
                break;
            }
            if begin.elapsed() > SERVED_MAX {
                self.world.fail(format!("client {} is not served although nothing is broken", self.id));
                return;
            }
        }
        self.world.client_is_done();
    }

    async fn operate(&mut self) {
        let kind = self.chance.random_range(0..100);
        let memories = self.world.memories();
        let Some(memory) = memories.choose(&mut self.chance).cloned() else {
            self.create(false).await;
            return;
        };
        match kind {
            0..8 => {
                self.create(false).await;
            }
            8..32 => self.read(&memory, true).await,
            32..60 => self.read(&memory, false).await,
            60..84 => self.replace(&memory).await,
            84..95 => self.adopt(&memory).await,
            95..98 => self.delete(&memory).await,
            _ => self.import_deleted().await,
        }
    }

    async fn create(&mut self, is_last: bool) -> bool {
        if self.made >= MEMORIES_MAX && !is_last {
            return false;
        }
        self.made += 1;
        let memory = format!("m-{}-{}", self.id, self.made);
        let value = format!("记忆 {memory}");
        let change = Change::Create { value: value.clone() };
        let pending = self.world.history().begin(self.id, &memory, Operation::write(change.clone()));
        let ended = self.write(&memory, workload::create(&memory, &value)).await;
        let answer = self.learn(&memory, &ended);
        end(pending, change, answer);
        if answer == Some(Answer::Done) {
            self.world.publish(memory);
        }
        answer == Some(Answer::Done)
    }

    async fn replace(&mut self, memory: &str) {
        let Some(if_version) = self.versions.get(memory).copied() else {
            return self.read(memory, false).await;
        };
        let value = format!("记忆 {} of {}", self.chance.random::<u32>(), self.id);
        let change = Change::Replace { if_version, value: value.clone() };
        let pending = self.world.history().begin(self.id, memory, Operation::write(change.clone()));
        let ended = self.write(memory, workload::replace(memory, if_version, &value)).await;
        let answer = self.learn(memory, &ended);
        if answer == Some(Answer::Refused) {
            self.versions.remove(memory);
        }
        end(pending, change, answer);
    }

    async fn delete(&mut self, memory: &str) {
        self.world.observe(|invariants| {
            invariants.deleted.asks(memory);
            Ok(())
        });
        let pending = self.world.history().begin(self.id, memory, Operation::write(Change::Delete));
        let ended = self.write(memory, workload::delete(memory)).await;
        let answer = self.learn(memory, &ended);
        end(pending, Change::Delete, answer);
    }

    async fn adopt(&mut self, memory: &str) {
        let ended = self.write(memory, workload::adopt(memory)).await;
        self.learn(memory, &ended);
        self.world.observe(|invariants| {
            match ended {
                Ended::Answered(item) if item.status == ItemStatus::Recorded => {
                    invariants.once.acknowledged(memory);
                }
                Ended::Unknown => invariants.once.unknown(memory),
                Ended::Answered(_) | Ended::Refused(_) | Ended::NotDone => {}
            }
            Ok(())
        });
    }

    /// What a restore of an old backup does: it must change nothing.
    async fn import_deleted(&mut self) {
        let deleted: Vec<String> =
            self.world.observed(|invariants| invariants.deleted.memories().map(str::to_owned).collect());
        let Some(memory) = deleted.choose(&mut self.chance).cloned() else { return };
        let value = format!("记忆 {memory} again");
        // What comes of it is seen by the reads.
        let ended = self.write(&memory, workload::import(&memory, &value)).await;
        drop(ended);
    }

    /// Takes in what a write was answered; `None` if nothing was done.
    fn learn(&mut self, memory: &str, ended: &Ended<ItemOutcome>) -> Option<Answer> {
        let stage = match ended {
            Ended::Answered(item) => match item.status {
                ItemStatus::Created | ItemStatus::Updated => {
                    self.versions.insert(memory.to_owned(), item.version);
                    Stage::Version(item.version)
                }
                ItemStatus::Deleted => {
                    self.world.observe(|invariants| {
                        invariants.deleted.deleted(memory);
                        Ok(())
                    });
                    Stage::Deleted
                }
                _ => return Some(Answer::Done),
            },
            Ended::Refused(error) => {
                let expected = [ErrorCode::Conflict, ErrorCode::NotFound, ErrorCode::AlreadyExists];
                if !expected.contains(&error.code) {
                    self.world.fail(format!("a write of {memory} was refused: {error:?}"));
                }
                return Some(Answer::Refused);
            }
            Ended::NotDone => return None,
            Ended::Unknown => return Some(Answer::Unknown),
        };
        let session = self.id;
        self.world.observe(|invariants| {
            invariants.kept.acknowledged(memory, stage);
            invariants.floor.told(session, memory, stage);
            Ok(())
        });
        Some(Answer::Done)
    }

    async fn read(&mut self, memory: &str, is_linearizable: bool) {
        let space = workload::space_of(memory);
        let group = self.world.group_of(&space);
        let seen = self.seen(group);
        let was_deleted = self.world.observed(|invariants| invariants.deleted.is_deleted(memory));
        let recorded =
            is_linearizable.then(|| self.world.history().begin(self.id, memory, Operation::read()));
        let consistency = match is_linearizable {
            true => v1::Consistency::Linearizable,
            false => v1::Consistency::Session,
        };
        // A hedge, or a router whose view is old, asks a replica that does not lead.
        let first = self.chance.random_bool(0.4).then(|| self.any_node());
        let ended = self.call(group, false, first, async |mut node, deadline_ms, _| {
            let read = v1::Read {
                consistency: consistency.into(),
                at_least: seen.map(Into::into),
                deadline_ms,
                any_replica: !is_linearizable,
                ..v1::Read::default()
            };
            let space = Some((&space).into());
            node.get(v1::GetRequest { access: None, space, read: Some(read), id: memory.to_owned() }).await
        });
        let Ended::Answered(answer) = ended.await else {
            if let Some(pending) = recorded {
                pending.end_without_effect();
            }
            return;
        };
        let found = answer.memory.map(|found| Cell { version: found.version, value: found.content });
        let index = answer.seen.map_or(0, |seen| seen.index);
        self.observe_read(memory, found.as_ref(), seen, index);
        if let Some(pending) = recorded {
            self.world.observe(|invariants| invariants.deleted.read(memory, was_deleted, found.is_some()));
            pending.end(Operation::Read { found: Some(found) });
        }
        self.take_token(group, index);
    }

    fn observe_read(&mut self, memory: &str, found: Option<&Cell>, seen: Option<Seen>, index: u64) {
        let stage = match found {
            Some(cell) => {
                self.versions.insert(memory.to_owned(), cell.version);
                Stage::Version(cell.version)
            }
            None => {
                self.versions.remove(memory);
                Stage::Absent
            }
        };
        let session = self.id;
        self.world.trace(format_args!("client {session} finds {memory} at {stage:?}, index {index}"));
        self.world.observe(|invariants| {
            let stage = match stage {
                // Somebody else may have deleted it.
                Stage::Absent if invariants.deleted.was_asked(memory) => {
                    invariants.floor.missing(session, memory)
                }
                stage => stage,
            };
            invariants.floor.read(session, memory, stage, seen.map(|seen| seen.index), index)
        });
    }

    fn seen(&self, group: GroupId) -> Option<Seen> {
        let shard = u16::try_from(group).map(holdfast_core::space::Shard).ok()?;
        self.token.seen(shard)
    }

    fn take_token(&mut self, group: GroupId, index: u64) {
        if let Ok(shard) = u16::try_from(group) {
            let shard = holdfast_core::space::Shard(shard);
            self.token.observe(Seen { shard, incarnation: incarnation(CLUSTER), index });
        }
    }

    fn any_node(&mut self) -> NodeId {
        self.chance.random_range(1..=self.world.plan().nodes)
    }

    async fn write(&mut self, memory: &str, write: Write) -> Ended<ItemOutcome> {
        let group = self.world.group_of(&workload::space_of(memory));
        let key = (!self.world.plan().is(Sabotage::RepeatWithoutKey)).then(|| self.chance.random());
        let command = match workload::command(memory, write, key) {
            Ok(command) => command,
            Err(error) => {
                self.world.fail(format!("a command could not be encoded: {error}"));
                return Ended::NotDone;
            }
        };
        let ended = self.call(group, true, None, async |mut node, deadline_ms, _| {
            let command = command.clone();
            node.write(v1::WriteRequest { group, command, deadline_ms, ..v1::WriteRequest::default() }).await
        });
        match ended.await {
            Ended::Answered(v1::WriteResponse { outcome, seen }) => {
                self.take_token(group, seen.map_or(0, |seen| seen.index));
                self.outcome(&outcome)
            }
            Ended::Refused(error) => Ended::Refused(error),
            Ended::NotDone => Ended::NotDone,
            Ended::Unknown => Ended::Unknown,
        }
    }

    fn outcome(&self, outcome: &[u8]) -> Ended<ItemOutcome> {
        match Outcome::decode(outcome) {
            Ok(Outcome::Items { mut items, .. }) if items.len() == 1 => Ended::Answered(items.remove(0)),
            Ok(Outcome::Failed(error)) if error.code == ErrorCode::UnknownOutcome => Ended::Unknown,
            Ok(Outcome::Failed(error)) => Ended::Refused(error),
            other => {
                self.world.fail(format!("a write was answered {other:?}"));
                Ended::Unknown
            }
        }
    }

    fn node(&mut self, node: NodeId) -> NodeClient<Channel> {
        let connect = &self.connect;
        let made = self.nodes.entry(node).or_insert_with(|| {
            // As the router's, and as much quicker as the heartbeat is.
            let endpoint = Endpoint::from_shared(net::uri(node))
                .expect("a URI")
                .connect_timeout(ATTEMPT_MAX)
                .http2_keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(KEEP_ALIVE)
                .keep_alive_while_idle(true);
            NodeClient::new(connect(&endpoint))
        });
        made.clone()
    }

    /// Asks until it is answered, refused for good, or too late.
    async fn call<R>(
        &mut self,
        group: GroupId,
        is_write: bool,
        first: Option<NodeId>,
        ask: impl AsyncFn(NodeClient<Channel>, u32, u32) -> Result<Response<R>, Status>,
    ) -> Ended<R> {
        let deadline = Instant::now() + CALL_MAX;
        let (mut maybe_done, mut hint, mut failed) = (false, first, None);
        for attempt in 0u32.. {
            let left = deadline.saturating_duration_since(Instant::now()).min(ATTEMPT_MAX);
            if left.is_zero() {
                break;
            }
            let node = hint.take().or(self.leaders.get(&group).copied()).unwrap_or_else(|| match failed {
                Some(failed) => failed % self.world.plan().nodes + 1,
                None => 1,
            });
            let client = self.node(node);
            let left_ms = u32::try_from(left.as_millis()).unwrap_or(u32::MAX);
            let status = match tokio::time::timeout(left, ask(client, left_ms, attempt)).await {
                Ok(Ok(response)) => {
                    self.leaders.insert(group, node);
                    return Ended::Answered(response.into_inner());
                }
                Ok(Err(status)) => status,
                Err(_late) => Status::deadline_exceeded("no answer in time"),
            };
            let refused = refusal_of(&status, is_write);
            let answered = !status.details().is_empty();
            maybe_done |= is_write && refused.error.code == ErrorCode::UnknownOutcome;
            let late = refused.error.code == ErrorCode::DeadlineExceeded;
            if answered && !late && refused.route == v1::Route::None {
                return Ended::Refused(refused.error);
            }
            failed = Some(node);
            if self.leaders.get(&group) == Some(&node) {
                self.leaders.remove(&group);
            }
            hint = refused.leader.filter(|leader| *leader != node);
            let full = BACKOFF_FIRST.saturating_mul(1 << attempt.min(6)).min(BACKOFF_MAX);
            tokio::time::sleep(full.mul_f64(self.chance.random_range(0.5..1.0))).await;
        }
        if maybe_done { Ended::Unknown } else { Ended::NotDone }
    }
}

fn end(pending: holdfast_testkit::history::Pending, change: Change, answer: Option<Answer>) {
    match answer {
        Some(answer) => pending.end(Operation::Write { change, answer }),
        None => pending.end_without_effect(),
    }
}
