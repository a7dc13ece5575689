//! `[node]`: one node.

use super::Role;
use super::address;
use super::checks::Checks;
use super::cluster::addresses;
use holdfast_transport::HostPort;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// One node: where it keeps its data, how it is reached, and what memory it may take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NodeSection {
    /// Folder of the node's data; made if it is missing. One node a folder, on a disk that keeps what
    /// it has synced.
    #[schemars(with = "String", length(min = 1))]
    pub(crate) data: PathBuf,
    /// Address to listen on for routers and the other nodes (gRPC). An IP address, not a name; port 0
    /// takes a free one.
    #[schemars(with = "String", extend("format" = "ip-port"))]
    pub(crate) listen: SocketAddr,
    /// How routers and the other nodes reach this node: exactly one of `cluster.seeds`.
    #[schemars(extend("format" = "host-port"))]
    #[schemars(extend("x-required" = ["node"], "x-range" = "one of `cluster.seeds`"))]
    pub(crate) advertise: String,
    /// Address to listen on for operators: metrics, probes and drain (HTTP). An IP address, not a
    /// name; port 0 takes a free one.
    #[schemars(with = "String", extend("format" = "ip-port"))]
    pub(crate) admin: SocketAddr,
    /// Time between two heartbeats of a leader. An election starts after several that did not come,
    /// so that smaller values find a failed node sooner and larger ones bear a slower network.
    #[schemars(range(min = 50, max = 5_000))]
    pub(crate) heartbeat_ms: u64,
    /// Memory for the page caches of all shards together.
    #[schemars(range(min = 16_777_216u64, max = 1_099_511_627_776u64))]
    pub(crate) state_cache_bytes: u64,
    /// Memory for the images of active spaces. The spaces that were not used for the longest time
    /// leave first.
    #[schemars(range(min = 16_777_216u64, max = 1_099_511_627_776u64))]
    pub(crate) spaces_bytes: u64,
    /// A space with at least so many vectors of one model gets a graph of them (HNSW) beside its image,
    /// which takes twice the memory and finds the nearest in less time than a scan. The graph is saved in the
    /// node's folder. 0: none gets one; with `node.ivf_from_vectors` 0 too, every answer is exact.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub(crate) graph_from_vectors: usize,
    /// A space with at least so many vectors of one model has them in a file in the node's folder, in inverted lists
    /// (IVF), and not in memory: that takes some twenty bytes a vector in place of two a dimension, and recalls
    /// that read from the disk. So has one whose vectors would take more than half of `node.spaces_bytes`. 0: none
    /// has; then a space that does not fit into the memory cannot be recalled.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub(crate) ivf_from_vectors: usize,
    /// A shard writes a snapshot file, and lets go of the log before it, once so much log has come
    /// since the last file. Smaller values shorten a start after a power cut and write more.
    #[schemars(range(min = 16_384u64, max = 1_099_511_627_776u64))]
    pub(crate) snapshot_log_bytes: u64,
    /// Log files are removed once all of them together are larger, as soon as snapshot files allow it.
    /// The disk needs room for twice as much.
    #[schemars(range(min = 2_097_152u64, max = 1_099_511_627_776u64))]
    pub(crate) log_keep_bytes: u64,
    /// How long after the rows of an erasure went a shard writes a new snapshot file and lets go of the log
    /// before it. Erasures of that time share one turn; copies are gone within twice the time.
    #[schemars(range(min = 0, max = 86_400_000))]
    pub(crate) erase_log_after_ms: u64,
    /// The same for the directory of a shard's database, which is made anew. It follows the log.
    #[schemars(range(min = 0, max = 604_800_000))]
    pub(crate) erase_database_after_ms: u64,
    /// Whether a memory that says what an older one says, in the same words, is merged into it: the older one is
    /// counted, and the other is found by its id. With `false` nothing is merged from then on. Turned on, it goes
    /// through what is there already.
    pub(crate) merge_near_duplicates: bool,
    /// Threads that search. 0: one a core.
    #[schemars(range(min = 0, max = 1_024))]
    pub(crate) search_threads: usize,
    /// Time between two comparisons of the replicas of a shard with each other. A shard without new
    /// entries is not compared again.
    #[schemars(range(min = 100, max = 3_600_000))]
    pub(crate) compare_every_ms: u64,
    /// How fast the rows of the shards are read to be compared with the hash that was kept over them,
    /// in bytes a second. Faster where once a day could not be kept otherwise.
    #[schemars(range(min = 65_536, max = 10_737_418_240u64))]
    pub(crate) scrub_bytes_per_second: u64,
    /// The same, while an operator waits for it (`holdfast ctl verify`).
    #[schemars(range(min = 65_536, max = 10_737_418_240u64))]
    pub(crate) verify_bytes_per_second: u64,
}

impl Default for NodeSection {
    fn default() -> Self {
        Self {
            data: PathBuf::from("data/node"),
            listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 7800)),
            advertise: String::new(),
            admin: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 7801)),
            heartbeat_ms: 250,
            state_cache_bytes: 128 << 20,
            spaces_bytes: 512 << 20,
            graph_from_vectors: 20_000,
            ivf_from_vectors: 500_000,
            snapshot_log_bytes: 64 << 20,
            log_keep_bytes: 2 << 30,
            erase_log_after_ms: 1_800_000,
            erase_database_after_ms: 43_200_000,
            merge_near_duplicates: false,
            search_threads: 0,
            compare_every_ms: 60_000,
            scrub_bytes_per_second: 8 << 20,
            verify_bytes_per_second: 64 << 20,
        }
    }
}

impl NodeSection {
    pub(super) fn check(&self, checks: &mut Checks<'_>) {
        if address::clash(self.listen, self.admin) {
            let message =
                format!("{} is also node.listen ({}); give them two ports", self.admin, self.listen);
            checks.fail(&["node.admin", "node.listen"], message);
        }
        // Routers do not use it: in a file that several processes share it may be another node's.
        let seeds = &checks.config.cluster.seeds;
        let is_set = !self.advertise.is_empty() && !seeds.is_empty();
        if checks.is_for(Role::Node) && is_set && !seeds.contains(&self.advertise) {
            let this = self.advertise.parse::<HostPort>().ok();
            let near = addresses(seeds).find(|(_, seed)| Some(seed) == this.as_ref()).map(|(seed, _)| seed);
            let hint = match near {
                Some(seed) => format!("write it exactly as there: {seed:?}"),
                None => format!("the seeds are {}", seeds.join(", ")),
            };
            let message = format!("{:?} is not one of cluster.seeds; {hint}", self.advertise);
            checks.fail(&["node.advertise", "cluster.seeds"], message);
        }
    }
}
