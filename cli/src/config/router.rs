//! `[router]`: one router.

use super::Config;
use super::address;
use super::checks::Checks;
use holdfast_router::RouterConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// One router: where clients reach it, how long it waits, and how much it takes on at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RouterSection {
    /// Address to listen on for clients (REST). An IP address, not a name; port 0 takes a free one.
    #[schemars(with = "String", extend("format" = "ip-port"))]
    pub(crate) http: SocketAddr,
    /// Address to listen on for operators: metrics, administration and drain (HTTP). An IP address,
    /// not a name; port 0 takes a free one.
    #[schemars(with = "String", extend("format" = "ip-port"))]
    pub(crate) admin: SocketAddr,
    /// Longest time for a read that names no deadline.
    #[schemars(range(min = 10, max = 300_000))]
    pub(crate) read_timeout_ms: u64,
    /// Longest time for a write, embedding included.
    #[schemars(range(min = 10, max = 300_000))]
    pub(crate) write_timeout_ms: u64,
    /// Longest time in which the body of a request must arrive.
    #[schemars(range(min = 10, max = 300_000))]
    pub(crate) body_timeout_ms: u64,
    /// Longest time for one attempt at one node; then another one is asked.
    #[schemars(range(min = 10, max = 60_000))]
    pub(crate) attempt_timeout_ms: u64,
    /// How often the nodes are asked for the topology while all is well.
    #[schemars(range(min = 10, max = 60_000))]
    pub(crate) topology_interval_ms: u64,
    /// Most requests of clients that are worked on at once; more are answered `overloaded`.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) in_flight_max: usize,
    /// Memory that the bodies of requests may take together; more are answered `overloaded`. A body
    /// of unknown length counts as the largest, 16 MiB.
    #[schemars(range(min = 16_777_216u64, max = 1_099_511_627_776u64))]
    pub(crate) body_bytes_max: u64,
    /// Contents of more tokens (o200k_base) are searched by chunks of at most so many, cut at the ends of
    /// sentences.
    #[schemars(range(min = 32, max = 65_536))]
    pub(crate) chunk_tokens: usize,
    /// Threads that analyse and embed texts. 0: one a core.
    #[schemars(range(min = 0, max = 1_024))]
    pub(crate) work_threads: usize,
    /// Most pieces of such work that wait; more are answered `overloaded`.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) work_queue_max: usize,
    /// How long open requests may take to end at shutdown.
    #[schemars(range(min = 0, max = 600_000))]
    pub(crate) shutdown_grace_ms: u64,
    /// How long `/readyz` answers 503 at shutdown before the listener closes, so that load balancers
    /// send no more requests here.
    #[schemars(range(min = 0, max = 60_000))]
    pub(crate) drain_delay_ms: u64,
}

impl Default for RouterSection {
    fn default() -> Self {
        // Its limits have one home; this only names them.
        let http = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 7700));
        let admin = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 7701));
        let limits = RouterConfig::new(http, admin, Vec::new());
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            http,
            admin,
            read_timeout_ms: ms(limits.read_timeout),
            write_timeout_ms: ms(limits.write_timeout),
            body_timeout_ms: ms(limits.body_timeout),
            attempt_timeout_ms: ms(limits.attempt_timeout),
            topology_interval_ms: ms(limits.topology_interval),
            in_flight_max: limits.in_flight_max,
            body_bytes_max: limits.body_bytes_max as u64,
            chunk_tokens: limits.chunk_tokens,
            work_threads: 0,
            work_queue_max: limits.work_queue_max,
            shutdown_grace_ms: ms(limits.shutdown_grace),
            drain_delay_ms: 0,
        }
    }
}

impl RouterSection {
    pub(super) fn check(&self, checks: &mut Checks<'_>) {
        if address::clash(self.http, self.admin) {
            let message = format!("{} is also router.http ({}); give them two ports", self.admin, self.http);
            checks.fail(&["router.admin", "router.http"], message);
        }
    }
}

impl Config {
    /// What the router is started with. `nodes`: the nodes to start from, by id and `host:port`.
    pub(crate) fn router_config(&self, nodes: Vec<(u64, String)>) -> RouterConfig {
        let section = &self.router;
        let mut config = RouterConfig::new(section.http, section.admin, nodes);
        config.read_timeout = Duration::from_millis(section.read_timeout_ms);
        config.write_timeout = Duration::from_millis(section.write_timeout_ms);
        config.body_timeout = Duration::from_millis(section.body_timeout_ms);
        config.attempt_timeout = Duration::from_millis(section.attempt_timeout_ms);
        config.topology_interval = Duration::from_millis(section.topology_interval_ms);
        config.in_flight_max = section.in_flight_max;
        config.body_bytes_max = usize::try_from(section.body_bytes_max).unwrap_or(usize::MAX);
        config.chunk_tokens = section.chunk_tokens;
        if section.work_threads > 0 {
            config.work_threads = section.work_threads;
        }
        config.work_queue_max = section.work_queue_max;
        config.shutdown_grace = Duration::from_millis(section.shutdown_grace_ms);
        config.drain_delay = Duration::from_millis(section.drain_delay_ms);
        config
    }
}
