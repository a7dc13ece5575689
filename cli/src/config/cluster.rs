//! `[cluster]`: what every process of the cluster must agree on.

use super::checks::Checks;
use holdfast_node::founding::Moves;
use holdfast_transport::HostPort;
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
    /// Nodes that are reached at another address than when the cluster was founded, each as
    /// `old host:port=new host:port`. The same for every process; `cluster.seeds` and `node.advertise` name
    /// the new address, and so does the node's certificate.
    #[schemars(extend("format" = "moved", "x-range" = "`host:port=host:port`"))]
    pub(crate) moved: Vec<String>,
}

/// The addresses that are some, each with its spelling.
pub(super) fn addresses(seeds: &[String]) -> impl Iterator<Item = (&String, HostPort)> {
    seeds.iter().filter_map(|seed| Some((seed, seed.parse().ok()?)))
}

impl Default for ClusterSection {
    fn default() -> Self {
        Self { seeds: Vec::new(), shards: 64, moved: Vec::new() }
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
        for (seed, address) in addresses(&self.seeds) {
            if !seen.insert(address.clone()) {
                let other = addresses(&self.seeds).find(|(_, other)| *other == address);
                let other = other.map(|(other, _)| other).filter(|other| *other != seed);
                let as_what = other.map(|other| format!(", as {other:?}")).unwrap_or_default();
                checks
                    .fail(&["cluster.seeds"], format!("{seed:?} stands twice{as_what}; list each node once"));
            }
        }
        self.check_moved(&seen, checks);
    }

    fn check_moved(&self, seeds: &BTreeSet<HostPort>, checks: &mut Checks<'_>) {
        let (mut before, mut after) = (BTreeSet::new(), BTreeSet::new());
        for (old, new) in self.moved.iter().filter_map(|pair| pair.split_once('=')) {
            let (Ok(from), Ok(to)) = (old.parse::<HostPort>(), new.parse::<HostPort>()) else { continue };
            let problem = if !seeds.is_empty() && !seeds.contains(&to) {
                format!("{new:?} is not one of cluster.seeds, which name the nodes where they are now")
            } else if seeds.contains(&from) {
                format!("{old:?} has moved and is one of cluster.seeds; name there where it is now")
            } else if !before.insert(from) || !after.insert(to) {
                format!("\"{old}={new}\": one node moves to one address, from where it was founded")
            } else {
                continue;
            };
            checks.fail(&["cluster.moved", "cluster.seeds"], problem);
        }
    }

    /// The nodes that are elsewhere since the cluster was founded.
    pub(crate) fn moves(&self) -> Moves {
        let pairs = self.moved.iter().filter_map(|pair| pair.split_once('='));
        Moves::new(pairs.filter_map(|(old, new)| Some((old.parse().ok()?, new.to_owned()))))
    }
}
