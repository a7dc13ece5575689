//! `/healthz` and `/readyz`, on both listeners and without a credential.

use crate::http::answer;
use crate::http::problem::Answer;
use crate::shared::Shared;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

#[derive(Serialize)]
struct Readiness {
    status: &'static str,
    draining: bool,
    nodes: usize,
    nodes_reachable: usize,
    groups: usize,
    groups_without_leader: Vec<u16>,
    embedder: String,
}

/// The process runs and answers.
pub(crate) async fn healthz() -> Answer<Response> {
    answer(StatusCode::OK, &Health { status: "ok" })
}

/// Whether requests should be sent here: some Raft group has a leader that this router can reach, and
/// it is not being stopped.
///
/// One group without a leader is told (`degraded`) and does not make a router unready: all routers see
/// the same, and all of them out of service would end what the other groups still serve.
pub(crate) async fn readyz(State(shared): State<Arc<Shared>>) -> Answer<Response> {
    let (nodes, groups) = (shared.nodes.nodes(), shared.nodes.groups());
    let leaderless: Vec<u16> =
        groups.iter().filter(|group| group.leader.is_none()).map(|group| group.group.0).collect();
    let draining = shared.drain.has_begun();
    let ready = !draining && leaderless.len() < groups.len();
    let embedder = match &shared.embedding {
        Some(embedding) => embedding.embedder().model_id().to_owned(),
        None => "absent: keyword search only; run make setup to fetch the embedding model".to_owned(),
    };
    let readiness = Readiness {
        status: match ready {
            true if leaderless.is_empty() => "ready",
            true => "degraded",
            false => "not ready",
        },
        draining,
        nodes: nodes.len(),
        nodes_reachable: nodes.iter().filter(|node| node.reachable).count(),
        groups: groups.len(),
        groups_without_leader: leaderless,
        embedder,
    };
    answer(if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &readiness)
}
