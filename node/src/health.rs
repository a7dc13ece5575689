//! What probes ask: does this node work, and does its cluster?

use crate::raft::{GroupId, NodeId, RaftNode};
use std::sync::Arc;

/// Looks at the groups of a running node. Cheap to clone.
#[derive(Clone)]
pub struct Health {
    raft: Arc<RaftNode>,
}

/// What it sees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HealthReport {
    /// Groups that have failed on this node and come back only with a restart, each with the reason.
    pub failed: Vec<(GroupId, String)>,
    /// Groups of which this node knows no leader, or leads them itself without a majority: too few
    /// replicas talk to each other.
    pub leaderless: Vec<GroupId>,
    /// Groups of this node.
    pub groups: usize,
    /// Why this node takes no part in any group: its disk is an older copy. No restart mends that.
    pub reverted: Option<String>,
}

impl Health {
    pub(crate) fn new(raft: Arc<RaftNode>) -> Self {
        Self { raft }
    }

    /// The node's id.
    pub fn node(&self) -> NodeId {
        self.raft.node_id()
    }

    /// The present state of every group.
    pub fn report(&self) -> HealthReport {
        let mut report = HealthReport { groups: self.raft.groups().count(), ..HealthReport::default() };
        if let Some(proof) = self.raft.reverted() {
            return HealthReport { reverted: Some(proof.to_string()), ..report };
        }
        for group in self.raft.groups() {
            let status = group.status();
            match (status.failure, status.leader.filter(|_| !status.lost_quorum)) {
                (Some(why), _) => report.failed.push((status.group, why)),
                (None, None) => report.leaderless.push(status.group),
                (None, Some(_)) => {}
            }
        }
        report
    }
}
