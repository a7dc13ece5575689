//! What probes ask: does this node work, and does its cluster?

use crate::raft::{Group, GroupId, NodeId};

/// Looks at the groups of a running node. Cheap to clone.
#[derive(Clone)]
pub struct Health {
    node: NodeId,
    groups: Vec<Group>,
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
}

impl Health {
    pub(crate) fn new(node: NodeId, groups: Vec<Group>) -> Self {
        Self { node, groups }
    }

    /// The node's id.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The present state of every group.
    pub fn report(&self) -> HealthReport {
        let mut report = HealthReport { groups: self.groups.len(), ..HealthReport::default() };
        for group in &self.groups {
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
