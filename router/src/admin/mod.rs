//! The operators' listener: metrics, tenants, keys, nodes, comparison of replicas.

mod fact_rules;
mod keys;
mod nodes;
mod scoring;
mod tenant_erasure;
mod tenants;
mod verify;

use crate::health;
use crate::http::problem::{Answer, Problem};
use crate::http::{answer, layers};
use crate::shared::Shared;
use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use holdfast_core::ErrorCode;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::Arc;

/// The routes of the listener. Those that stop and start nodes exist only where this process can.
pub(crate) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    let router = Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics))
        .route("/admin/v1/tenants", post(tenants::create).get(tenants::list))
        .route("/admin/v1/tenants/{id}", get(tenant_erasure::get).delete(tenant_erasure::erase))
        .route("/admin/v1/tenants/{id}/fact-rules", get(fact_rules::get).put(fact_rules::put))
        .route("/admin/v1/tenants/{id}/scoring", get(scoring::get).put(scoring::put))
        .route("/admin/v1/keys", post(keys::create).get(keys::list))
        .route("/admin/v1/keys/{id}", axum::routing::delete(keys::revoke))
        .route("/admin/v1/nodes", get(nodes::list))
        .route("/admin/v1/cluster", get(nodes::cluster))
        .route("/admin/v1/verify", get(verify::verify))
        .route("/admin/v1/drain", post(drain));
    let router = match shared.config.dev {
        Some(_) => router.route("/admin/v1/nodes/{id}", post(nodes::control)),
        None => router,
    };
    router.fallback(layers::no_such_path).method_not_allowed_fallback(layers::no_such_method)
}

/// `POST /admin/v1/drain`: takes this router out of service and answers when it is. It needs no key,
/// since a supervisor has none, so it is taken from this machine alone.
async fn drain(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
) -> Answer<Response> {
    if !peer.ip().to_canonical().is_loopback() {
        let detail = "a drain is asked for on the router's own machine: run `holdfast ctl drain` there";
        return Err(Problem::new(ErrorCode::PermissionDenied, detail));
    }
    shared.drain.run().await;
    answer(StatusCode::OK, &Drained { draining: true, drained: true })
}

#[derive(Serialize)]
struct Drained {
    draining: bool,
    drained: bool,
}

/// `GET /metrics`, in the text format of Prometheus. It needs no key, as scrapers expect: labels
/// name routes and codes, never tenants or users. Keep the listener off the public network.
async fn metrics(State(shared): State<Arc<Shared>>) -> Answer<Response> {
    let render = move || shared.metrics.render(&shared.config.registries);
    // Collectors may ask the file system.
    let text = tokio::task::spawn_blocking(render)
        .await
        .map_err(|error| Problem::new(ErrorCode::Internal, format!("metrics: {error}")))?;
    let text = text.map_err(|error| Problem::new(ErrorCode::Internal, format!("metrics: {error}")))?;
    Ok(([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response())
}
