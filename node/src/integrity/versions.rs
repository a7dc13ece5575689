//! Which state machines the other nodes run, as they said last. A command that one of them does not
//! know would stop it: so points are proposed only to those who have shown that they know them.

use crate::raft::{NodeId, NodeReport, RaftNode};
use futures::future::join_all;
use holdfast_core::apply::STATE_VERSION;
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The first version that knows points.
const POINTS_SINCE: u32 = 1;

/// What is known of the other nodes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Versions {
    raft: Arc<RaftNode>,
    known: Arc<RwLock<BTreeMap<NodeId, u32>>>,
}

impl Versions {
    pub(crate) fn new(raft: Arc<RaftNode>) -> Self {
        let known = BTreeMap::from([(raft.node_id(), STATE_VERSION)]);
        Self { raft, known: Arc::new(RwLock::new(known)) }
    }

    /// Asks nodes what their replicas hold; those that do not answer are missing in the answer.
    pub(super) async fn ask(&self, nodes: &BTreeSet<NodeId>) -> BTreeMap<NodeId, NodeReport> {
        let others = nodes.iter().copied().filter(|node| *node != self.raft.node_id());
        let asked =
            join_all(others.map(|node| async move { (node, self.raft.ask_report(node).await) })).await;
        let mut reports = BTreeMap::new();
        for (node, answer) in asked {
            match answer {
                Ok(report) => {
                    self.known.write().insert(node, report.state_version);
                    reports.insert(node, report);
                }
                Err(error) => tracing::debug!(node, %error, "a node does not tell what its replicas hold"),
            }
        }
        reports
    }

    /// Whether all of these nodes are known to know points; those of which nothing is known are asked.
    ///
    /// # Errors
    /// Names a node that does not, or of which it is not known.
    pub(crate) async fn all_know_points(&self, nodes: &BTreeSet<NodeId>) -> Result<(), String> {
        let unknown: BTreeSet<NodeId> = {
            let known = self.known.read();
            nodes.iter().copied().filter(|node| !known.contains_key(node)).collect()
        };
        if !unknown.is_empty() {
            self.ask(&unknown).await;
        }
        self.know_points(nodes)
    }

    /// Whether no node is known to run an older state machine than this. One that has told nothing, since
    /// it does not run or this node has just started, holds nobody up: it would stop at the command that
    /// it does not know, and go on after its upgrade.
    ///
    /// # Errors
    /// Names a node that runs an older one.
    pub(crate) fn none_is_older(&self, than: u32) -> Result<(), String> {
        match older(&self.known.read(), than) {
            Some((node, version)) => {
                Err(format!("node {node} runs state machine {version}, which does not know this call"))
            }
            None => Ok(()),
        }
    }

    /// The same, by what is known already.
    ///
    /// # Errors
    /// As [`Versions::all_know_points`].
    pub(super) fn know_points(&self, nodes: &BTreeSet<NodeId>) -> Result<(), String> {
        let known = self.known.read();
        for node in nodes {
            match known.get(node) {
                Some(version) if *version >= POINTS_SINCE => {}
                Some(version) => {
                    return Err(format!("node {node} runs state machine {version}, which knows no points"));
                }
                None => return Err(format!("node {node} has not told its version since this node started")),
            }
        }
        Ok(())
    }
}

/// A node that runs an older state machine than this, with its version.
fn older(known: &BTreeMap<NodeId, u32>, than: u32) -> Option<(NodeId, u32)> {
    known.iter().find(|(_, version)| **version < than).map(|(node, version)| (*node, *version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_node_holds_new_commands_up_and_a_silent_one_does_not() {
        let known = BTreeMap::from([(1, STATE_VERSION), (3, STATE_VERSION - 1)]);
        assert_eq!(older(&known, STATE_VERSION), Some((3, STATE_VERSION - 1)));
        assert_eq!(older(&known, STATE_VERSION - 1), None);
        assert_eq!(older(&BTreeMap::from([(1, STATE_VERSION)]), STATE_VERSION), None);
    }
}
