//! `GET /admin/v1/nodes`, `GET /admin/v1/cluster`, and in development
//! `POST /admin/v1/nodes/{id}:stop` and `:start`.

use crate::auth::{Caller, PathId};
use crate::http::answer;
use crate::http::problem::{Answer, Problem};
use crate::http::query::NoParams;
use crate::nodes::NodeView;
use crate::shared::Shared;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::ErrorCode;
use holdfast_core::access::Rights;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
struct NodeRow {
    id: u64,
    address: String,
    reachable: bool,
    /// Groups that it leads, as far as this router knows.
    leads: Vec<u16>,
    /// Whether it has lost what it had acknowledged, as it or the others say.
    reverted: bool,
}

#[derive(Serialize)]
struct NodeRows {
    nodes: Vec<NodeRow>,
}

#[derive(Serialize)]
struct GroupRow {
    group: u16,
    leader: Option<u64>,
    term: u64,
}

#[derive(Serialize)]
struct Cluster {
    groups: Vec<GroupRow>,
    /// What an operator must see to.
    alarms: Vec<Alarm>,
}

#[derive(Serialize)]
struct Alarm {
    alarm: &'static str,
    node: u64,
    /// The nodes that say so.
    witnesses: Vec<u64>,
    detail: String,
}

/// Nodes that lost what they had acknowledged.
fn reverted(nodes: &[NodeView]) -> Vec<Alarm> {
    let alarm = |node: &NodeView| {
        let witnesses: Vec<u64> =
            nodes.iter().filter(|other| other.refused.contains(&node.id)).map(|other| other.id).collect();
        if node.reverted.is_none() && witnesses.is_empty() {
            return None;
        }
        let detail = node.reverted.clone().unwrap_or_else(|| {
            "this node has lost log entries or votes that it had promised to keep, and is refused; stop it, and \
             bring back its newest disk or remove its data"
                .to_owned()
        });
        Some(Alarm { alarm: "node_reverted", node: node.id, witnesses, detail })
    };
    nodes.iter().filter_map(alarm).collect()
}

#[derive(Serialize)]
struct Controlled {
    id: u64,
    status: &'static str,
}

pub(super) async fn list(State(shared): State<Arc<Shared>>, caller: Caller, _: NoParams) -> Answer<Response> {
    caller.require(Rights::CLUSTER)?;
    let groups = shared.nodes.groups();
    let leads =
        |id: u64| groups.iter().filter(|group| group.leader == Some(id)).map(|group| group.group.0).collect();
    let nodes = shared.nodes.nodes();
    let alarms = reverted(&nodes);
    let row = |node: NodeView| NodeRow {
        leads: leads(node.id),
        reverted: alarms.iter().any(|alarm| alarm.node == node.id),
        id: node.id,
        address: node.address,
        reachable: node.reachable,
    };
    answer(StatusCode::OK, &NodeRows { nodes: nodes.into_iter().map(row).collect() })
}

pub(super) async fn cluster(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    _: NoParams,
) -> Answer<Response> {
    caller.require(Rights::CLUSTER)?;
    let groups = shared.nodes.groups().into_iter();
    let groups =
        groups.map(|group| GroupRow { group: group.group.0, leader: group.leader, term: group.term });
    answer(StatusCode::OK, &Cluster { groups: groups.collect(), alarms: reverted(&shared.nodes.nodes()) })
}

/// `{id}:stop` or `{id}:start`.
pub(super) async fn control(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    PathId(segment): PathId,
) -> Answer<Response> {
    caller.require(Rights::CLUSTER)?;
    let unknown = || {
        Problem::new(ErrorCode::NotFound, "there is no such path; use /admin/v1/nodes/{id}:stop or :start")
    };
    let (id, verb) = segment.split_once(':').ok_or_else(unknown)?;
    let id: u64 = id.parse().map_err(|_| Problem::invalid("id", "the id of a node is a number"))?;
    let control = shared.config.dev.as_ref().ok_or_else(unknown)?;
    if !shared.nodes.nodes().iter().any(|node| node.id == id) {
        return Err(Problem::new(ErrorCode::NotFound, "there is no node with this id"));
    }
    let (doing, status) = match verb {
        "stop" => (control.stop(id), "stopped"),
        "start" => (control.start(id), "started"),
        _ => return Err(unknown()),
    };
    let limit = shared.config.write_timeout;
    let late = |_| Problem::new(ErrorCode::DeadlineExceeded, "the node did not get there in time");
    tokio::time::timeout(limit, doing).await.map_err(late)??;
    answer(StatusCode::OK, &Controlled { id, status })
}
