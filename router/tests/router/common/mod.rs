//! A router in front of nodes that are small but honest: they run the real state machine of
//! `holdfast-core` on a map in memory, behind the real gRPC service, and can be told to misbehave.

pub mod api;
pub mod node;
pub mod reads;
pub mod tiers;

use holdfast_core::access::Rights;
use holdfast_models::{EmbedError, Embedder, ModelProfile};
use holdfast_router::{Router, RouterConfig, new_api_key};
use node::{Cluster, Fault};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub use api::Api;

/// The tenant of the first key.
pub const TENANT: &str = "acme";

/// A router with its nodes; both end when it is dropped.
pub struct World {
    pub cluster: Arc<Cluster>,
    pub http: SocketAddr,
    pub admin: SocketAddr,
    /// The first key, with all rights.
    pub key: String,
    /// Stops the router alone, as SIGTERM does.
    pub stop_router: CancellationToken,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What differs from one test to the next.
pub struct Options {
    pub nodes: u64,
    pub embedder: Option<Arc<dyn Embedder>>,
    pub change: fn(&mut RouterConfig),
}

impl Default for Options {
    fn default() -> Self {
        Self { nodes: 3, embedder: None, change: |_| {} }
    }
}

impl World {
    pub async fn start() -> Self {
        Self::with(Options::default()).await
    }

    pub async fn with(options: Options) -> Self {
        let stop = CancellationToken::new();
        let (key, row) = new_api_key(TENANT, None, Rights::ALL, "first", None);
        let cluster = Cluster::start(options.nodes, row, &stop).await;
        let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut config = RouterConfig::new(free, free, cluster.addresses());
        config.topology_interval = Duration::from_millis(200);
        config.attempt_timeout = Duration::from_millis(500);
        config.write_timeout = Duration::from_secs(3);
        config.read_timeout = Duration::from_secs(3);
        (options.change)(&mut config);
        let router = Router::bind(config, options.embedder).await.unwrap();
        let (http, admin) = (router.http_addr(), router.admin_addr());
        let stop_router = stop.child_token();
        let until = stop_router.clone();
        tokio::spawn(async move { router.serve(until.cancelled_owned()).await.unwrap() });
        Self { cluster, http, admin, key, stop_router, stop }
    }

    /// The client API with the first key, as user `ann`.
    pub fn api(&self) -> Api {
        Api::new(self.http, &self.key)
    }

    /// The operators' API with the first key.
    pub fn operator(&self) -> Api {
        Api::new(self.admin, &self.key)
    }

    /// Waits until the router knows the cluster.
    pub async fn is_ready(&self) {
        for _ in 0..500 {
            if self.api().get("/readyz").await.body["status"] == "ready" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the router does not get ready");
    }

    pub fn fault(&self, node: u64, fault: Fault) {
        self.cluster.node(node).set(fault);
    }
}

/// A model for tests that says what it is: letters counted, no meaning.
pub struct Letters;

impl Embedder for Letters {
    fn model_id(&self) -> &str {
        "letters-for-tests"
    }
    fn dims(&self) -> usize {
        26
    }
    fn profile(&self) -> ModelProfile {
        ModelProfile::CLIENT
    }
    fn accepts(&self, text: &str) -> bool {
        text.bytes().any(|b| b.is_ascii_alphabetic())
    }
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let each = texts.iter();
        each.map(|text| {
            let mut counts = vec![0f32; 26];
            for letter in text.bytes().filter(u8::is_ascii_alphabetic) {
                counts[usize::from(letter.to_ascii_lowercase() - b'a')] += 1.0;
            }
            let norm = counts.iter().map(|c| c * c).sum::<f32>().sqrt();
            Ok(counts.into_iter().map(|c| c / norm).collect())
        })
        .collect()
    }
}

/// [`Letters`] that fails, while it is told to, on every text with `moody` in it.
#[derive(Default)]
pub struct Moody {
    pub fails: AtomicBool,
}

impl Embedder for Moody {
    fn model_id(&self) -> &str {
        Letters.model_id()
    }
    fn dims(&self) -> usize {
        Letters.dims()
    }
    fn profile(&self) -> ModelProfile {
        Letters.profile()
    }
    fn accepts(&self, text: &str) -> bool {
        Letters.accepts(text)
    }
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let fails = self.fails.load(Ordering::SeqCst);
        match texts.iter().position(|text| fails && text.contains("moody")) {
            Some(index) => Err(EmbedError::NotAVector { index }),
            None => Letters.embed(texts),
        }
    }
}
