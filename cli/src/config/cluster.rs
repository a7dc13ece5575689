//! `[cluster]`: what every process of the cluster must agree on.

use super::checks::Checks;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What every node and router of the cluster must agree on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ClusterSection {
    /// Every node of the cluster, as `host:port` with the port of the node's `listen`. The host is a
    /// DNS name or an IP address (IPv6 in brackets) that all nodes and routers can reach. 1, 3, 5 or
    /// 7 nodes, each once. In the environment a list may also be written with commas:
    /// `a:7800,b:7800,c:7800`.
    #[schemars(extend("format" = "host-port", "x-range" = "1, 3, 5 or 7 of `host:port`"))]
    #[schemars(extend("x-required" = ["node", "router"]))]
    pub(crate) seeds: Vec<String>,
    /// Number of shards. Read when the cluster is founded and fixed from then on: later values are
    /// ignored.
    #[schemars(range(min = 1, max = 256))]
    pub(crate) shards: u16,
}

impl Default for ClusterSection {
    fn default() -> Self {
        Self { seeds: Vec::new(), shards: 64 }
    }
}

impl ClusterSection {
    pub(super) fn check(&self, checks: &mut Checks<'_>) {
        let count = self.seeds.len();
        if count > 0 && !matches!(count, 1 | 3 | 5 | 7) {
            checks.fail(
                &["cluster.seeds"],
                format!("has {count} nodes; a cluster has 1, 3, 5 or 7, so that a majority is always clear"),
            );
        }
        let mut seen = BTreeSet::new();
        for seed in &self.seeds {
            // DNS names differ by more than the case of their letters.
            if !seen.insert(seed.to_lowercase()) {
                checks.fail(&["cluster.seeds"], format!("{seed:?} stands twice; list each node once"));
            }
        }
    }
}
