//! What the leader of a group does for its erasures.

use super::select::next_step;
use super::{EraseSettings, Forgotten, OPEN_MAX};
use crate::raft::{GroupId, NodeId, NodeReport, RaftNode};
use crate::service::Replica;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, SpaceCommand, Write};
use holdfast_core::erasure::{CONFIRMATIONS_MAX, Confirmation, EraseStep, ErasureRow, Phase, Place};
use holdfast_core::keys::erasure;
use holdfast_core::space::SpaceKey;
use holdfast_core::state::Reader;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Time for one proposal.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Steps of one erasure in one turn; what is left waits for the next, so that none holds up the others.
const STEPS_MAX: usize = 256;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Works off the erasures of the groups that this node leads, until `stop`.
pub(crate) async fn run(
    raft: Arc<RaftNode>,
    replicas: BTreeMap<GroupId, Replica>,
    settings: EraseSettings,
    stop: CancellationToken,
) {
    let leader = Leader { raft, stop: stop.clone() };
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(settings.look_every) => {}
        }
        // What other nodes said in this turn.
        let mut reports = BTreeMap::new();
        for (id, replica) in &replicas {
            if let Err(error) = leader.look_at(replica, &mut reports).await {
                tracing::warn!(group = id, %error, "an erasure could not go on; it is tried again");
            }
        }
    }
}

struct Leader {
    raft: Arc<RaftNode>,
    stop: CancellationToken,
}

impl Leader {
    async fn look_at(
        &self,
        replica: &Replica,
        reports: &mut BTreeMap<NodeId, Option<NodeReport>>,
    ) -> Result<(), Failed> {
        if !replica.group.status().is_leader {
            return Ok(());
        }
        for (space, id) in open(replica)? {
            for _ in 0..STEPS_MAX {
                let Some(row) = read(replica, &space, &id)? else { break };
                let step = match row.phase {
                    Phase::Removing => {
                        let (replica, space, id) = (replica.clone(), space.clone(), id.clone());
                        let work = move || next_step(&replica.state, &space, &id, &row);
                        Some(tokio::task::spawn_blocking(work).await??)
                    }
                    Phase::Purging => self.confirmations(replica, &id, &row, reports).await,
                    Phase::Done => None,
                };
                let Some(step) = step else { break };
                let waits = matches!(step, EraseStep::Confirm { .. });
                let write = Write::Erase(step);
                let command = SpaceCommand { space: space.clone(), idempotency: None, write };
                let bytes = Command::Space(Box::new(command)).encode()?;
                replica.propose(bytes.into(), Instant::now() + TIMEOUT).await?;
                if waits || self.stop.is_cancelled() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// What replicas have let go of since it was last written down.
    async fn confirmations(
        &self,
        replica: &Replica,
        id: &str,
        row: &ErasureRow,
        reports: &mut BTreeMap<NodeId, Option<NodeReport>>,
    ) -> Option<EraseStep> {
        let removed = row.removed_index?;
        let (mut confirmations, mut done) = (Vec::new(), true);
        for node in replica.group.voters() {
            let forgotten = self.forgotten(replica, node, reports).await;
            for place in Place::ALL {
                if row.is_confirmed(node, place) {
                    continue;
                }
                if forgotten.of(place) >= removed && confirmations.len() < CONFIRMATIONS_MAX {
                    confirmations.push(Confirmation { node, place, at_us: 0 });
                } else {
                    done = false;
                }
            }
        }
        (done || !confirmations.is_empty()).then(|| EraseStep::Confirm {
            id: id.to_owned(),
            confirmations,
            done,
        })
    }

    async fn forgotten(
        &self,
        replica: &Replica,
        node: NodeId,
        reports: &mut BTreeMap<NodeId, Option<NodeReport>>,
    ) -> Forgotten {
        if node == self.raft.node_id() {
            return replica.state.forgotten();
        }
        if let Entry::Vacant(unasked) = reports.entry(node) {
            let asked = self.raft.ask_report(node).await;
            let told = asked
                .inspect_err(|error| tracing::debug!(node, %error, "a node does not tell what it keeps"));
            unasked.insert(told.ok());
        }
        let report = reports.get(&node).and_then(Option::as_ref);
        report
            .and_then(|report| report.group(replica.group.id()))
            .map(|told| told.forgotten)
            .unwrap_or_default()
    }
}

/// The erasures of a group that are not done.
pub(super) fn open(replica: &Replica) -> Result<Vec<(SpaceKey, String)>, Failed> {
    let rows = replica.state.reader().scan(&erasure::open_prefix(), None, OPEN_MAX)?;
    Ok(rows.iter().filter_map(|(key, _)| erasure::parse_open(key)).collect())
}

/// An erasure; `None` if it is gone.
pub(super) fn read(replica: &Replica, space: &SpaceKey, id: &str) -> Result<Option<ErasureRow>, Failed> {
    let value = replica.state.reader().get(&erasure::key(space, id))?;
    Ok(value.map(|value| ErasureRow::decode(&value)).transpose()?)
}
