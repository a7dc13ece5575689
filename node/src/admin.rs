//! The listener for operators of one node: metrics, probes and the drain.
//!
//! The three probes tell apart what a supervisor must treat differently:
//! - `/startupz`: the data is open and the node serves, or it waits for its cluster to be founded.
//! - `/healthz`: 503 only when a group of this node has failed for good, which a restart may cure.
//! - `/readyz`: 503 also while some group has no leader. That is the cluster's trouble and not this
//!   node's: restarting it would make things worse. 503 too once the node has noticed that its disk is
//!   an older copy: no restart mends that either.

use crate::health::{Health, HealthReport};
use crate::node::{Drainer, Node};
use axum::Router as Routes;
use axum::extract::{ConnectInfo, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use parking_lot::RwLock;
use prometheus::{Encoder, Registry, TextEncoder};
use serde::Serialize;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::TcpListener;

/// Groups that an answer names at most; their number is told in full.
const NAMED_MAX: usize = 16;

/// What the probes of one node answer. Cheap to clone.
#[derive(Clone, Default)]
pub struct Probes(Arc<Inner>);

#[derive(Default)]
struct Inner {
    phase: RwLock<Phase>,
    draining: AtomicBool,
    /// What the process measures beside the node.
    of_process: Option<Registry>,
}

#[derive(Clone, Default)]
enum Phase {
    /// The data is being opened.
    #[default]
    Opening,
    /// The volume is empty: the cluster is not founded yet.
    Waiting,
    Running {
        health: Health,
        registry: Registry,
        drainer: Drainer,
    },
}

#[derive(Serialize)]
struct Answer {
    status: &'static str,
    phase: &'static str,
    draining: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<u64>,
    groups: usize,
    groups_failed: usize,
    groups_without_leader: usize,
    /// Some of those without a leader.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    without_leader: Vec<u32>,
    /// Some of those that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<Failed>,
    /// Why the node takes no part in any group, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    reverted: Option<String>,
}

/// What a drain came to.
#[derive(Serialize)]
struct Drained {
    draining: bool,
    /// Whether no group is led here any more.
    drained: bool,
    groups_still_led: usize,
    /// Some of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    still_led: Vec<Failed>,
}

#[derive(Serialize)]
struct Failed {
    group: u32,
    reason: String,
}

impl Probes {
    /// Probes that show these metrics of the process beside those of the node.
    pub fn new(of_process: Option<Registry>) -> Self {
        Self(Arc::new(Inner { of_process, ..Inner::default() }))
    }

    /// The node waits for the founding of its cluster.
    pub fn waiting(&self) {
        *self.0.phase.write() = Phase::Waiting;
    }

    /// The node opens its data.
    pub fn opening(&self) {
        *self.0.phase.write() = Phase::Opening;
    }

    /// The node runs.
    pub fn running(&self, node: &Node) {
        let (health, registry, drainer) = (node.health(), node.registry().clone(), node.drainer());
        *self.0.phase.write() = Phase::Running { health, registry, drainer };
    }

    /// The node is to be left alone: `/readyz` answers 503 from now on.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Release);
    }

    /// Whether the node is to be left alone.
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
    }

    /// Whether every group has a leader and none has failed here.
    pub fn is_ready(&self) -> bool {
        self.look().0 == StatusCode::OK
    }

    /// What `/readyz` answers.
    fn look(&self) -> (StatusCode, Answer) {
        let phase = self.0.phase.read().clone();
        let draining = self.is_draining();
        let (name, node, report) = match &phase {
            Phase::Opening => ("opening", None, HealthReport::default()),
            Phase::Waiting => ("waiting for the founding", None, HealthReport::default()),
            Phase::Running { health, .. } => ("running", Some(health.node()), health.report()),
        };
        let well = node.is_some()
            && report.reverted.is_none()
            && report.failed.is_empty()
            && report.leaderless.is_empty();
        let ready = well && !draining;
        let answer = Answer {
            status: if ready { "ready" } else { "not ready" },
            phase: name,
            draining,
            node,
            groups: report.groups,
            groups_failed: report.failed.len(),
            groups_without_leader: report.leaderless.len(),
            without_leader: report.leaderless.into_iter().take(NAMED_MAX).collect(),
            failed: report
                .failed
                .into_iter()
                .take(NAMED_MAX)
                .map(|(group, reason)| Failed { group, reason })
                .collect(),
            reverted: report.reverted,
        };
        (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, answer)
    }
}

/// Serves the probes until `stop` ends.
///
/// # Errors
/// What the listener reports.
pub async fn serve(
    listener: TcpListener,
    probes: Probes,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let routes = Routes::new()
        .route("/metrics", get(metrics))
        .route("/startupz", get(startupz))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/admin/v1/drain", post(drain))
        .with_state(probes);
    let service = routes.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).with_graceful_shutdown(stop).await
}

async fn startupz(State(probes): State<Probes>) -> Response {
    match *probes.0.phase.read() {
        Phase::Opening => (StatusCode::SERVICE_UNAVAILABLE, "the data is being opened\n").into_response(),
        Phase::Waiting | Phase::Running { .. } => "started\n".into_response(),
    }
}

async fn healthz(State(probes): State<Probes>) -> Response {
    let (_, answer) = probes.look();
    let status = if answer.groups_failed == 0 { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, axum::Json(answer)).into_response()
}

async fn readyz(State(probes): State<Probes>) -> Response {
    let (status, answer) = probes.look();
    (status, axum::Json(answer)).into_response()
}

/// Only from the machine itself: there is no key here, and a drain takes the node out of service.
async fn drain(State(probes): State<Probes>, ConnectInfo(peer): ConnectInfo<SocketAddr>) -> Response {
    if !peer.ip().to_canonical().is_loopback() {
        let detail = "a drain is asked for on the node's own machine: run `holdfast ctl drain` there\n";
        return (StatusCode::FORBIDDEN, detail).into_response();
    }
    probes.drain();
    let drainer = match &*probes.0.phase.read() {
        Phase::Running { drainer, .. } => Some(drainer.clone()),
        Phase::Opening | Phase::Waiting => None,
    };
    let kept = match drainer {
        Some(drainer) => drainer.drain().await,
        None => Vec::new(),
    };
    let answer = Drained {
        draining: true,
        drained: kept.is_empty(),
        groups_still_led: kept.len(),
        still_led: kept
            .into_iter()
            .take(NAMED_MAX)
            .map(|(group, error)| Failed { group, reason: error.to_string() })
            .collect(),
    };
    axum::Json(answer).into_response()
}

async fn metrics(State(probes): State<Probes>) -> Response {
    let phase = probes.0.phase.read().clone();
    let mut families = match &phase {
        Phase::Running { registry, .. } => registry.gather(),
        Phase::Opening | Phase::Waiting => Vec::new(),
    };
    families.extend(probes.0.of_process.iter().flat_map(Registry::gather));
    let encoder = TextEncoder::new();
    let mut text = Vec::new();
    match encoder.encode(&families, &mut text) {
        Ok(()) => ([(header::CONTENT_TYPE, encoder.format_type().to_owned())], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the metrics cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
