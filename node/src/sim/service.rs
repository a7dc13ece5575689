//! What clients ask of a node: the writes and reads of `crate::service` over a state that is no
//! shard, through the same gate, commands, tokens and refusals.

use super::node::CLUSTER;
use super::plan::Sabotage;
use super::state::SimState;
use super::world::World;
use crate::raft::{Group, GroupId, NodeId};
use crate::service::gate::Asked;
use crate::service::{deadline, incarnation, refusals};
use bytes::Bytes;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, SpaceCommand, Write};
use holdfast_core::outcome::{ItemOutcome, ItemStatus, Outcome};
use holdfast_core::space::SpaceKey;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::{Refused, View, memory_from_rows, v1};
use std::collections::BTreeMap;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// The service of one node.
pub(super) struct SimService {
    world: Arc<World>,
    node: NodeId,
    groups: BTreeMap<GroupId, (Group, Arc<SimState>)>,
}

impl SimService {
    pub(super) fn new(
        world: Arc<World>,
        node: NodeId,
        groups: BTreeMap<GroupId, (Group, Arc<SimState>)>,
    ) -> Self {
        SimService { world, node, groups }
    }

    fn replica(&self, group: GroupId) -> Result<&(Group, Arc<SimState>), Refused> {
        self.groups.get(&group).ok_or_else(|| refusals::no_such_group(group))
    }

    async fn propose(&self, request: v1::WriteRequest) -> Result<v1::WriteResponse, Refused> {
        let command = Command::decode(&request.command)
            .map_err(|error| Error::new(ErrorCode::InvalidArgument, error.to_string()))?;
        command.check()?;
        let (group, _) = self.replica(request.group)?;
        let deadline = deadline(request.deadline_ms);
        if self.world.plan().is(Sabotage::AckBeforeQuorum)
            && let Command::Space(command) = &command
        {
            let (group, bytes) = (group.clone(), Bytes::from(request.command));
            return self.answer_at_once(group, request.group, bytes, command);
        }
        let proposed = group.propose(request.command.into(), deadline).await;
        let proposed = proposed.map_err(|error| refusals::of_proposal(&error))?;
        let seen = self.seen(request.group, proposed.position.index);
        Ok(v1::WriteResponse { outcome: proposed.outcome.into(), seen: Some(seen) })
    }

    /// The sabotage of a write: it is proposed, and answered as if that were enough.
    fn answer_at_once(
        &self,
        group: Group,
        id: GroupId,
        bytes: Bytes,
        command: &SpaceCommand,
    ) -> Result<v1::WriteResponse, Refused> {
        let status = group.status();
        if !status.is_leader {
            return Err(refusals::not_leader(status.leader));
        }
        let index = status.last_log.map_or(0, |last| last + 1);
        let deadline = deadline(60_000);
        tokio::spawn(async move { group.propose(bytes, deadline).await });
        let item =
            |id: &str, version, status| ItemOutcome { version, status, ..ItemOutcome::new(id.to_owned()) };
        let items = match &command.write {
            Write::Add(add) => {
                add.items.iter().map(|new| item(&new.index.id, 1, ItemStatus::Created)).collect()
            }
            Write::Update(update) => {
                vec![item(&update.memory.index.id, update.if_version + 1, ItemStatus::Updated)]
            }
            Write::Delete { id, .. } => vec![item(id, 0, ItemStatus::Deleted)],
            Write::Feedback { items } => {
                items.iter().map(|what| item(&what.id, 0, ItemStatus::Recorded)).collect()
            }
            Write::Retract { .. }
            | Write::Resolve { .. }
            | Write::MergeEntities { .. }
            | Write::Relink { .. }
            | Write::SplitEntities { .. }
            | Write::Block(_)
            | Write::Task(_)
            | Write::Procedure(_)
            | Write::Turns(_)
            | Write::Dialogue(_)
            | Write::EndSession { .. }
            | Write::DeleteSession { .. }
            | Write::Digest(_)
            | Write::Erase(_)
            | Write::Import(_)
            | Write::Upkeep(_)
            | Write::Claim(_)
            | Write::Keep { .. } => Vec::new(),
        };
        let outcome = Outcome::Items { items, log_index: index, replayed: false };
        let outcome = outcome.encode().map_err(|error| refusals::internal(&error))?;
        Ok(v1::WriteResponse { outcome, seen: Some(self.seen(id, index)) })
    }

    async fn read(&self, request: v1::GetRequest) -> Result<v1::GetResponse, Refused> {
        let space = request.space.ok_or_else(|| Error::invalid("space", "the call names no space"))?;
        let space = SpaceKey::try_from(space)?;
        let id = self.world.group_of(&space);
        let (group, state) = self.replica(id)?;
        let is_linearizable =
            request.read.as_ref().is_some_and(|read| read.consistency() == v1::Consistency::Linearizable);
        let skips_gate = match is_linearizable {
            true => self.world.plan().is(Sabotage::ReadWithoutQuorum) && group.status().is_leader,
            false => self.world.plan().is(Sabotage::IgnoreToken),
        };
        if !skips_gate {
            let asked = Asked { id, group, state: state.as_ref(), incarnation: incarnation(CLUSTER) };
            asked.ready(request.read).await?;
        }
        let seen = Some(self.seen(id, state.visible().unwrap_or(0)));
        let found = state.memory(&space, &request.id).map_err(|error| refusals::corrupted(&error))?;
        let memory = found.map(|(memory, index)| {
            memory_from_rows(View {
                space: &space,
                memory: &memory,
                index: &index,
                embedding_model: None,
                merged: Vec::new(),
                merged_into: None,
            })
        });
        self.world.trace(format_args!("node {} answers a read of {}", self.node, request.id));
        Ok(v1::GetResponse { memory, seen })
    }

    fn seen(&self, group: GroupId, index: u64) -> v1::Seen {
        v1::Seen { shard: group, incarnation: incarnation(CLUSTER), index }
    }
}

/// The simulated clients do not ask for it.
fn unasked<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("no simulated client asks for this"))
}

#[tonic::async_trait]
impl v1::node_server::Node for SimService {
    async fn write(&self, request: Request<v1::WriteRequest>) -> Result<Response<v1::WriteResponse>, Status> {
        self.propose(request.into_inner()).await.map(Response::new).map_err(Status::from)
    }

    async fn get(&self, request: Request<v1::GetRequest>) -> Result<Response<v1::GetResponse>, Status> {
        self.read(request.into_inner()).await.map(Response::new).map_err(Status::from)
    }

    async fn list(&self, _: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        unasked()
    }

    async fn history(&self, _: Request<v1::HistoryRequest>) -> Result<Response<v1::HistoryResponse>, Status> {
        unasked()
    }

    async fn recall(&self, _: Request<v1::RecallRequest>) -> Result<Response<v1::RecallResponse>, Status> {
        unasked()
    }

    async fn recall_stats(
        &self,
        _: Request<v1::RecallStatsRequest>,
    ) -> Result<Response<v1::RecallStatsResponse>, Status> {
        unasked()
    }

    async fn list_facts(
        &self,
        _: Request<v1::ListFactsRequest>,
    ) -> Result<Response<v1::ListFactsResponse>, Status> {
        unasked()
    }

    async fn read_tier(
        &self,
        _: Request<v1::ReadTierRequest>,
    ) -> Result<Response<v1::ReadTierResponse>, Status> {
        unasked()
    }

    async fn graph(&self, _: Request<v1::GraphRequest>) -> Result<Response<v1::GraphResponse>, Status> {
        unasked()
    }

    async fn get_session(
        &self,
        _: Request<v1::GetSessionRequest>,
    ) -> Result<Response<v1::GetSessionResponse>, Status> {
        unasked()
    }

    async fn list_sessions(
        &self,
        _: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        unasked()
    }

    async fn list_turns(
        &self,
        _: Request<v1::ListTurnsRequest>,
    ) -> Result<Response<v1::ListTurnsResponse>, Status> {
        unasked()
    }

    async fn read_meta(
        &self,
        _: Request<v1::ReadMetaRequest>,
    ) -> Result<Response<v1::ReadMetaResponse>, Status> {
        unasked()
    }

    async fn topology(
        &self,
        _: Request<v1::TopologyRequest>,
    ) -> Result<Response<v1::TopologyResponse>, Status> {
        unasked()
    }

    async fn hash_point(
        &self,
        _: Request<v1::HashPointRequest>,
    ) -> Result<Response<v1::HashPointResponse>, Status> {
        unasked()
    }

    async fn verify(&self, _: Request<v1::VerifyRequest>) -> Result<Response<v1::VerifyResponse>, Status> {
        unasked()
    }

    async fn export(&self, _: Request<v1::ExportRequest>) -> Result<Response<v1::ExportResponse>, Status> {
        unasked()
    }

    async fn space_stats(
        &self,
        _: Request<v1::SpaceStatsRequest>,
    ) -> Result<Response<v1::SpaceStatsResponse>, Status> {
        unasked()
    }

    async fn locate(&self, _: Request<v1::LocateRequest>) -> Result<Response<v1::LocateResponse>, Status> {
        unasked()
    }

    async fn get_erasure(
        &self,
        _: Request<v1::GetErasureRequest>,
    ) -> Result<Response<v1::GetErasureResponse>, Status> {
        unasked()
    }

    async fn get_tenant_erasure(
        &self,
        _: Request<v1::GetTenantErasureRequest>,
    ) -> Result<Response<v1::GetTenantErasureResponse>, Status> {
        unasked()
    }
}
