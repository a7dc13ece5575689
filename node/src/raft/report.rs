//! What the nodes of a cluster tell each other about their replicas, so that each can see whether its
//! own are the ones that are wrong.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::apply::STATE_VERSION;
use holdfast_proto::v1::RaftKind;
use serde::{Deserialize, Serialize};

use super::network::Peers;
use super::record::{self, DecodeError, FORMAT};
use super::service::Registry;
use super::types::{GroupId, NodeId};
use crate::erasing::Forgotten;

/// Points that a report names, of each group: the newest.
const POINTS_MAX: usize = 8;
/// How long one node may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// What one replica holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaReport {
    /// Whether it knows itself to be wrong.
    pub quarantined: bool,
    /// How far it has applied its log; `None` for an empty state.
    pub visible: Option<u64>,
    /// Up to where what was erased has left its copies.
    pub forgotten: Forgotten,
    /// Log indices that rise, each with the hash over the rows there; the last one may be `visible`.
    pub points: Vec<(u64, u128)>,
}

/// What one node holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    format: u8,
    /// The version of its state machine.
    pub state_version: u32,
    /// Its replicas.
    pub groups: Vec<(GroupId, ReplicaReport)>,
}

impl ReplicaReport {
    /// Keeps the newest points.
    fn trimmed(mut self) -> Self {
        let surplus = self.points.len().saturating_sub(POINTS_MAX);
        self.points.drain(..surplus);
        self
    }
}

impl NodeReport {
    pub(super) fn of(registry: &Registry) -> Self {
        let groups = registry
            .appliers()
            .into_iter()
            .filter_map(|(group, applier)| Some((group, applier.report()?.trimmed())))
            .collect();
        Self { format: FORMAT, state_version: STATE_VERSION, groups }
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, DecodeError> {
        record::encode(self)
    }

    /// What is said of one group.
    pub fn group(&self, group: GroupId) -> Option<&ReplicaReport> {
        self.groups.iter().find(|(id, _)| *id == group).map(|(_, report)| report)
    }
}

/// Asks another node. A version that knows no reports refuses, as one that is down does not answer.
pub(super) async fn ask(peers: &Arc<Peers>, node: NodeId) -> Result<NodeReport, String> {
    let call = peers.call(0, node, RaftKind::Report, record::encode(&(FORMAT,)).map_err(text)?);
    let answer = tokio::time::timeout(ANSWER_TIME, call).await.map_err(text)?;
    record::decode(&answer.map_err(text)?).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn reports_survive_the_round_trip_and_keep_the_newest_points() {
        let points = (0..20).map(|index| (index, u128::MAX - u128::from(index))).collect();
        let replica =
            ReplicaReport { quarantined: true, visible: Some(19), points, forgotten: Forgotten::default() }
                .trimmed();
        assert_eq!(replica.points.len(), POINTS_MAX);
        assert_eq!(replica.points.last(), Some(&(19, u128::MAX - 19)));
        let groups = vec![(0, ReplicaReport::default()), (7, replica.clone())];
        let report = NodeReport { format: FORMAT, state_version: 1, groups };
        let back: NodeReport = record::decode(&report.encode().unwrap()).unwrap();
        assert_eq!(back, report);
        assert_eq!((back.group(7), back.group(8)), (Some(&replica), None));
        assert!(record::decode::<NodeReport>(b"\x09nothing").is_err(), "of a later format");
    }
}
