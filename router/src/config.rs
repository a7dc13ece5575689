//! What a router is told at start.

use crate::registries::Registries;
use futures::future::BoxFuture;
use holdfast_transport::Security;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Starts and stops nodes that run in the same process. Only `holdfast dev` has one: without it the
/// routes `POST /admin/v1/nodes/{id}:stop` and `:start` do not exist.
pub trait NodeControl: Send + Sync {
    /// Stops a node as a crash would. Stopping one that is stopped is no error.
    fn stop(&self, id: u64) -> BoxFuture<'_, holdfast_core::Result<()>>;
    /// Starts a stopped node again. Starting one that runs is no error.
    fn start(&self, id: u64) -> BoxFuture<'_, holdfast_core::Result<()>>;
}

/// The settings of one router. [`RouterConfig::new`] fills in the documented defaults.
#[derive(Clone)]
pub struct RouterConfig {
    /// Where clients connect. Port 0 takes a free one.
    pub http: SocketAddr,
    /// Where operators connect: metrics and administration. Port 0 takes a free one.
    pub admin: SocketAddr,
    /// The nodes to start from, by id and `host:port`; the others are learned from them.
    pub nodes: Vec<(u64, String)>,
    /// Addresses of nodes whose ids are not known, as `host:port`. They are asked while no node is
    /// known that answers.
    pub seeds: Vec<String>,
    /// How the nodes are talked to. Default: without TLS.
    pub security: Security,
    /// Control over the nodes of the same process, for development.
    pub dev: Option<Arc<dyn NodeControl>>,
    /// Further metrics to show under `/metrics`, such as those of nodes in the same process.
    pub registries: Registries,
    /// Longest time for a read that names no deadline. Default 5 s.
    pub read_timeout: Duration,
    /// Longest time for a write, embedding included. Default 15 s.
    pub write_timeout: Duration,
    /// Longest time in which the body of a request must arrive. Default 30 s.
    pub body_timeout: Duration,
    /// Longest time for one attempt at one node; then another one is asked. Default 2 s.
    pub attempt_timeout: Duration,
    /// How often the nodes are asked for the topology while all is well. Default 1 s.
    pub topology_interval: Duration,
    /// Most requests of clients that are worked on at once; more are answered `overloaded`.
    /// Default 1,024.
    pub in_flight_max: usize,
    /// Memory that the bodies of requests may take together, in bytes; more are answered
    /// `overloaded`. A body of unknown length counts as the largest, 16 MiB. Default 512 MiB.
    pub body_bytes_max: usize,
    /// Contents of more tokens are searched by chunks of at most so many. Default 512.
    pub chunk_tokens: usize,
    /// Threads that analyse and embed texts. Default: the number of cores.
    pub work_threads: usize,
    /// Most pieces of such work that wait; more are answered `overloaded`. Default 256.
    pub work_queue_max: usize,
    /// How long open requests may take to end at shutdown. Default 10 s.
    pub shutdown_grace: Duration,
    /// How long `/readyz` answers 503 before connections are refused, so that balancers have turned
    /// away by then. Default 0.
    pub drain_delay: Duration,
}

impl RouterConfig {
    /// The defaults, for the given addresses and nodes.
    pub fn new(http: SocketAddr, admin: SocketAddr, nodes: Vec<(u64, String)>) -> Self {
        Self {
            http,
            admin,
            nodes,
            seeds: Vec::new(),
            security: Security::plain(),
            dev: None,
            registries: Registries::default(),
            read_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(30),
            attempt_timeout: Duration::from_secs(2),
            topology_interval: Duration::from_secs(1),
            in_flight_max: 1024,
            body_bytes_max: 512 << 20,
            chunk_tokens: 512,
            work_threads: std::thread::available_parallelism().map_or(2, usize::from),
            work_queue_max: 256,
            shutdown_grace: Duration::from_secs(10),
            drain_delay: Duration::ZERO,
        }
    }
}
