//! The router as a whole: its two listeners, their routes and layers.

use crate::auth::KeyCache;
use crate::collections::cache::CollectionCache;
use crate::config::RouterConfig;
use crate::drain::Drain;
use crate::fact_rules::FactRulesCache;
use crate::http::layers;
use crate::http::slot::BODY_PIECE_BYTES;
use crate::metrics::Metrics;
use crate::nodes::Nodes;
use crate::scoring::ScoringCache;
use crate::shared::Shared;
use crate::tokenizer::Tokenizer;
use crate::work::{Embedding, WorkPool};
use crate::{
    admin, blocks, collections, context, error_pages, facts, feedback, graph, health, lifecycle, memories,
    procedures, recall, sessions, tasks, transfer,
};
use axum::Router as Routes;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{delete, get, post, put};
use axum::serve::ListenerExt;
use holdfast_models::Embedder;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tower_http::catch_panic::CatchPanicLayer;

/// The last part of the grace time at a stop, in which what is still open is answered.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// Exports and imports at once.
const STREAMS_MAX: usize = 16;

/// Calls of an embedding service at a time. Each holds a thread that does nothing but wait.
const EMBEDDINGS_WAITING_MAX: usize = 16;

/// Why a router could not be started or ended badly.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// An address could not be taken.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The address of a node is no `host:port`.
    #[error("the address of a node cannot be used: {0}")]
    Node(#[from] holdfast_transport::DialError),
    /// Two metrics have one name.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// A listener failed while it served.
    #[error("a listener failed: {0}")]
    Serve(#[from] io::Error),
}

/// A router that has taken its addresses and waits to serve.
pub struct Router {
    shared: Arc<Shared>,
    http: TcpListener,
    admin: TcpListener,
    http_addr: SocketAddr,
    admin_addr: SocketAddr,
}

/// Tells whether a router can serve requests.
#[derive(Clone)]
pub struct Readiness(Arc<Shared>);

impl Readiness {
    /// Whether every group has a leader that the router can reach, and it is not being stopped.
    pub fn is_ready(&self) -> bool {
        self.0.is_ready()
    }
}

impl Router {
    /// Takes both addresses. Without an embedder texts are found by their words alone.
    ///
    /// # Errors
    /// [`RouterError`] if an address is taken or a node's address cannot be used.
    pub async fn bind(
        config: RouterConfig,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Result<Self, RouterError> {
        let (http, http_addr) = listen(config.http).await?;
        let (admin, admin_addr) = listen(config.admin).await?;
        let metrics = Arc::new(Metrics::new()?);
        let work = Arc::new(WorkPool::new(config.work_threads, config.work_queue_max));
        let embedding = embedder.map(|embedder| {
            // Who waits for a service must not take the places of those who work.
            let own = || Arc::new(WorkPool::new(EMBEDDINGS_WAITING_MAX, config.work_queue_max));
            let pool = if embedder.waits() { own() } else { work.clone() };
            Embedding::new(embedder, pool, metrics.clone())
        });
        let (security, attempt) = (config.security.clone(), config.attempt_timeout);
        let collections = Arc::new(CollectionCache::new());
        let nodes = Nodes::new(
            &config.nodes,
            &config.seeds,
            security,
            attempt,
            metrics.clone(),
            Arc::clone(&collections),
        )?;
        let shared = Arc::new(Shared {
            nodes,
            drain: Drain::new(config.drain_delay),
            keys: KeyCache::new(),
            fact_rules: FactRulesCache::new(),
            scoring: ScoringCache::new(),
            collections,
            work,
            embedding,
            metrics,
            in_flight: Arc::new(Semaphore::new(config.in_flight_max)),
            bodies: Arc::new(Semaphore::new(config.body_bytes_max / BODY_PIECE_BYTES)),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            config,
        });
        Ok(Self { shared, http, admin, http_addr, admin_addr })
    }

    /// Where clients connect.
    pub fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    /// Where operators connect.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// What `/readyz` will say once the router serves.
    pub fn readiness(&self) -> Readiness {
        Readiness(self.shared.clone())
    }

    /// Serves until `shutdown` ends; then shows for the drain delay that it is not ready, takes no
    /// more connections, and lets open requests end within the grace time.
    ///
    /// # Errors
    /// [`RouterError::Serve`] if a listener fails.
    pub async fn serve(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), RouterError> {
        let Self { shared, http, admin, .. } = self;
        // Ends by itself; whoever counts before waits for it.
        drop(tokio::task::spawn_blocking(|| {
            if let Err(error) = Tokenizer::default().warm() {
                tracing::error!(%error, "tokens cannot be counted");
            }
        }));
        let (stop, stopping) = watch::channel(false);
        let until = |mut stopping: watch::Receiver<bool>| async move {
            // An error means that the sender is gone, which is a stop too.
            let _ = stopping.wait_for(|stop| *stop).await;
        };
        let clients = axum::serve(http.tap_io(without_delay), client_routes(&shared))
            .with_graceful_shutdown(until(stopping.clone()));
        let admin_service = admin_routes(&shared).into_make_service_with_connect_info::<SocketAddr>();
        let operators =
            axum::serve(admin.tap_io(without_delay), admin_service).with_graceful_shutdown(until(stopping));
        let serving = async { tokio::try_join!(async { clients.await }, async { operators.await }) };
        tokio::pin!(serving);
        let watching = shared.nodes.watch(shared.config.topology_interval);
        let drained = async {
            shutdown.await;
            shared.drain.run().await;
        };
        let ended = tokio::select! {
            ended = &mut serving => Some(ended),
            () = watching => None,
            () = drained => None,
        };
        if let Some(ended) = ended {
            ended?;
            return Ok(());
        }
        // Nobody listens only if both servers ended by themselves.
        let _ = stop.send(true);
        let grace = shared.config.shutdown_grace;
        // Calls that are still open then are answered, each by what is known of it: a caller whose
        // connection is cut knows nothing, not even that the write may be repeated.
        let to_answer = ANSWER_TIME.min(grace / 2);
        if let Ok(ended) = tokio::time::timeout(grace - to_answer, &mut serving).await {
            ended?;
            return Ok(());
        }
        shared.nodes.cut_off();
        match tokio::time::timeout(to_answer, serving).await {
            Ok(ended) => {
                ended?;
            }
            Err(_) => tracing::warn!("open requests were cut off: they did not end within the grace time"),
        }
        Ok(())
    }
}

/// Answers are small: none may wait for the acknowledgement of the one before.
fn without_delay(connection: &mut TcpStream) {
    if let Err(error) = connection.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps Nagle's algorithm");
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), RouterError> {
    let failed = |source| RouterError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// What exists below every space, of a user and shared.
fn common_routes() -> Routes<Arc<Shared>> {
    Routes::new()
        .route("/memories", post(memories::add::add).get(memories::list::list))
        .route(
            "/memories/{id}",
            get(memories::get::get).patch(memories::patch::patch).delete(memories::delete::delete),
        )
        .route("/memories/{id}/history", get(memories::history::history))
        .route("/recall", post(recall::recall))
        .route("/recall:batch", post(recall::batch::batch))
        .route("/recall:why-not", post(recall::why_not::why_not))
        .route("/feedback", post(feedback::feedback))
        .route("/stats", get(lifecycle::stats::stats))
        .route("/facts", post(facts::add::add).get(facts::list::list))
        .route("/facts/{id}", post(facts::decide::retract))
        .route("/facts:resolve", post(facts::decide::resolve))
        .route("/graph/entities/{id}", get(graph::read::entity))
        .route("/graph:traverse", post(graph::read::traverse))
        .route("/graph:path", post(graph::read::path))
        .route("/graph:merge", post(graph::merge::merge))
        .route("/graph:split", post(graph::merge::split))
        .route("/erasures", post(lifecycle::erase::erase))
        .route("/export", get(transfer::export::export))
        .route("/import", post(transfer::import::import))
}

/// What exists below a shared collection.
fn collection_routes() -> Routes<Arc<Shared>> {
    Routes::new().merge(common_routes()).route("/erasures/{id}", get(collections::receipt::receipt))
}

/// What exists below the space of a user.
fn user_routes() -> Routes<Arc<Shared>> {
    Routes::new()
        .merge(common_routes())
        .route("/context", post(context::context))
        .route("/blocks", get(blocks::list))
        .route("/blocks/{id}", get(blocks::get).put(blocks::put).delete(blocks::delete).post(blocks::edit))
        .route("/blocks/{id}/history", get(blocks::history))
        .route("/tasks", get(tasks::list))
        .route("/tasks/{id}", get(tasks::get).put(tasks::put).delete(tasks::end))
        .route("/tasks/{id}/steps", post(tasks::steps))
        .route("/tasks/{id}/variables", put(tasks::variables))
        .route("/procedures", get(procedures::list))
        .route(
            "/procedures/{id}",
            get(procedures::get).put(procedures::put).delete(procedures::delete).post(procedures::act),
        )
        .route("/sessions", get(sessions::read::list))
        .route(
            "/sessions/{id}",
            get(sessions::read::get)
                .patch(sessions::change::patch)
                .post(sessions::change::act)
                .delete(sessions::delete::delete),
        )
        .route("/sessions/{id}/turns", post(sessions::append::append).get(sessions::read::turns))
        .route("/erasures/{id}", get(lifecycle::receipt::receipt))
}

fn client_routes(shared: &Arc<Shared>) -> Routes {
    let data = Routes::new()
        .route("/v1/users/{user}", delete(lifecycle::erase::erase_all))
        .route("/v1/me", delete(lifecycle::erase::erase_all))
        .route("/v1/collections", get(collections::list::list))
        .route(
            "/v1/collections/{name}",
            get(collections::manage::get).put(collections::manage::put).delete(collections::manage::delete),
        )
        .nest("/v1/users/{user}", user_routes())
        .nest("/v1/me", user_routes())
        .nest("/v1/collections/{name}", collection_routes())
        .layer(from_fn_with_state(shared.clone(), layers::limit));
    let open = Routes::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/docs/errors/{id}", get(error_pages::page));
    let routes =
        data.merge(open).fallback(layers::no_such_path).method_not_allowed_fallback(layers::no_such_method);
    finish(routes, shared)
}

fn admin_routes(shared: &Arc<Shared>) -> Routes {
    finish(admin::routes(shared).layer(from_fn(layers::whole_address)), shared)
}

/// The layers of both listeners, the innermost first.
fn finish(routes: Routes<Arc<Shared>>, shared: &Arc<Shared>) -> Routes {
    routes
        // Bodies are read within our own limit, which has an answer of its own.
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(from_fn_with_state(shared.clone(), layers::observe))
        .with_state(shared.clone())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use axum::body::{Body, to_bytes};
    use axum::http::{Request, StatusCode};
    use tower::ServiceExt;

    async fn a_defect() -> &'static str {
        panic!("on purpose")
    }

    #[tokio::test]
    async fn a_panic_is_an_answer_and_not_the_end() {
        let free = "127.0.0.1:0".parse().unwrap();
        let router = Router::bind(RouterConfig::new(free, free, Vec::new()), None).await.unwrap();
        let routes = finish(Routes::new().route("/panic", get(a_defect)), &router.shared);
        for _ in 0..2 {
            let request = Request::get("/panic").body(Body::empty()).unwrap();
            let response = routes.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            let id = response.headers()["x-request-id"].clone();
            let body: serde_json::Value =
                serde_json::from_slice(&to_bytes(response.into_body(), 10_000).await.unwrap()).unwrap();
            assert_eq!(body["code"], "internal");
            assert_eq!(body["request_id"], id.to_str().unwrap());
            assert!(!body.to_string().contains("on purpose"), "the inside stays inside");
        }
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_named() {
        let free = "127.0.0.1:0".parse().unwrap();
        let first = Router::bind(RouterConfig::new(free, free, Vec::new()), None).await.unwrap();
        let taken = first.http_addr();
        let error = Router::bind(RouterConfig::new(taken, free, Vec::new()), None).await.err().unwrap();
        assert!(error.to_string().contains(&taken.to_string()), "{error}");
        let nodes = vec![(1, "not an address".to_owned())];
        assert!(matches!(
            Router::bind(RouterConfig::new(free, free, nodes), None).await,
            Err(RouterError::Node(_))
        ));
    }
}
