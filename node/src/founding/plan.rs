use crate::raft::NodeId;
use holdfast_core::space::SHARDS_MAX;
use holdfast_proto::v1;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Most nodes of a plan: the members of every Raft group.
const MEMBERS_MAX: usize = 7;
/// Longest address, in bytes: a DNS name has 253 at most.
const ADDRESS_BYTES_MAX: usize = 300;

/// What the nodes of a new cluster agree on. Never changes once a node has stored it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// 32 hexadecimal digits.
    pub cluster_id: String,
    /// Number of shards, 1 to 256.
    pub shards: u16,
    /// Every node, by ascending id, which are 1 to n.
    pub members: Vec<PlanMember>,
}

/// One node of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanMember {
    /// The id that the node gets, for ever.
    pub id: NodeId,
    /// Where the others reach it, as `host:port`.
    pub address: String,
    /// The instance id of its volume: 32 hexadecimal digits.
    pub instance: String,
}

/// Why a plan cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(String);

impl Plan {
    /// Checks everything that can be checked without the nodes.
    ///
    /// # Errors
    /// [`PlanError`] says what is wrong.
    pub fn check(&self) -> Result<(), PlanError> {
        let refuse = |detail: String| Err(PlanError(detail));
        if !is_id(&self.cluster_id) {
            return refuse(format!("{:?} is no cluster id: it has 32 hexadecimal digits", self.cluster_id));
        }
        if self.shards == 0 || self.shards > SHARDS_MAX {
            return refuse(format!("a cluster has 1 to {SHARDS_MAX} shards, not {}", self.shards));
        }
        let count = self.members.len();
        if count == 0 || count > MEMBERS_MAX || count.is_multiple_of(2) {
            return refuse(format!("a cluster is founded by 1, 3, 5 or 7 nodes, not by {count}"));
        }
        for (member, id) in self.members.iter().zip(1..) {
            if member.id != id {
                return refuse(format!("the nodes of a plan are numbered from 1; found {}", member.id));
            }
            if !is_id(&member.instance) {
                return refuse(format!("{:?} is no instance id", member.instance));
            }
            if member.address.is_empty() || member.address.len() > ADDRESS_BYTES_MAX {
                return refuse(format!("node {id} has no usable address"));
            }
        }
        let distinct =
            |of: fn(&PlanMember) -> &str| self.members.iter().map(of).collect::<BTreeSet<_>>().len();
        if distinct(|member| &member.address) < count {
            return refuse("two nodes of the plan have one address".into());
        }
        if distinct(|member| &member.instance) < count {
            return refuse("two addresses of the plan lead to one node".into());
        }
        Ok(())
    }

    /// The node with this instance id.
    pub fn member(&self, instance: &str) -> Option<&PlanMember> {
        self.members.iter().find(|member| member.instance == instance)
    }

    /// Id and address of every node.
    pub fn addresses(&self) -> Vec<(NodeId, String)> {
        self.members.iter().map(|member| (member.id, member.address.clone())).collect()
    }
}

/// Cluster and instance ids: 128 bits as the program writes them.
fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl From<&Plan> for v1::Plan {
    fn from(plan: &Plan) -> Self {
        let member = |member: &PlanMember| v1::PlanMember {
            id: member.id,
            address: member.address.clone(),
            instance: member.instance.clone(),
        };
        Self {
            cluster_id: plan.cluster_id.clone(),
            shards: u32::from(plan.shards),
            members: plan.members.iter().map(member).collect(),
        }
    }
}

impl TryFrom<v1::Plan> for Plan {
    type Error = PlanError;

    fn try_from(plan: v1::Plan) -> Result<Self, PlanError> {
        let member = |member: v1::PlanMember| PlanMember {
            id: member.id,
            address: member.address,
            instance: member.instance,
        };
        let plan = Self {
            cluster_id: plan.cluster_id,
            // One that does not fit is as wrong as 0.
            shards: u16::try_from(plan.shards).unwrap_or(0),
            members: plan.members.into_iter().map(member).collect(),
        };
        plan.check()?;
        Ok(plan)
    }
}
