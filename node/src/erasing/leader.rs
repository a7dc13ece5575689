//! What the leader of a group does for its erasures.

use super::select::next_step;
use super::tenants::{self, Looks};
use super::walk::{Open, PART, Walk};
use super::{EraseSettings, Forgotten};
use crate::integrity::Versions;
use crate::raft::{GroupId, NodeId, NodeReport, RaftNode};
use crate::service::Replica;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, MEMORIES_KNOWN_SINCE, SpaceCommand, Write};
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
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);
/// Steps that the erasures of a group take in one turn, all of them together.
const STEPS_MAX: usize = 256;

pub(super) type Failed = Box<dyn std::error::Error + Send + Sync>;

/// What other nodes said in this turn; `None` of one that does not answer.
pub(super) type Reports = BTreeMap<NodeId, Option<NodeReport>>;

/// Works off the erasures of the groups that this node leads, until `stop`.
pub(crate) async fn run(
    raft: Arc<RaftNode>,
    replicas: BTreeMap<GroupId, Replica>,
    settings: EraseSettings,
    versions: Versions,
    stop: CancellationToken,
) {
    let leader = Leader { raft, stop: stop.clone() };
    let mut walks: BTreeMap<GroupId, Walk> = BTreeMap::new();
    let mut looks = Looks::default();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(settings.look_every) => {}
        }
        // A replica of an older version would take other rows out.
        if let Err(why) = versions.none_is_older(MEMORIES_KNOWN_SINCE) {
            tracing::debug!(why, "erasures wait");
            continue;
        }
        let mut reports = Reports::new();
        for (id, replica) in &replicas {
            if let Err(error) = leader.look_at(replica, walks.entry(*id).or_default(), &mut reports).await {
                tracing::warn!(group = id, %error, "erasures could not go on; they are tried again");
            }
            if let Err(error) = looks.look_at(&leader, &replicas, *id, &mut reports).await {
                tracing::warn!(group = id, %error, "the erasure of a tenant could not go on; it is tried again");
            }
        }
    }
}

/// The node, as far as it leads.
pub(super) struct Leader {
    raft: Arc<RaftNode>,
    stop: CancellationToken,
}

impl Leader {
    /// Whether the node stops.
    pub(super) fn stops(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Lets the erasures of a group go on, in turn: those that are taking rows out share the steps, so that
    /// none waits for another one to end.
    async fn look_at(&self, replica: &Replica, walk: &mut Walk, reports: &mut Reports) -> Result<(), Failed> {
        if !replica.group.status().is_leader {
            return Ok(());
        }
        let part = walk.next(replica, PART).await?;
        // What a tenant has that goes as a whole goes with it, and takes no step of its own.
        let gone = tenants::going(&replica.state)?;
        let goes_alone = |open: &&Open| !gone.contains_key(open.space.tenant());
        let removing =
            part.open.iter().filter(goes_alone).filter(|open| open.row.phase == Phase::Removing).count();
        let share = (STEPS_MAX / removing.max(1)).max(1);
        let mut left = STEPS_MAX;
        for open in &part.open {
            if left == 0 || self.stop.is_cancelled() {
                break;
            }
            // Where its proposal fails, the others may do better, or the next turn.
            walk.go_on_behind(open);
            if !goes_alone(&open) {
                continue;
            }
            left -= match open.row.phase {
                Phase::Removing => self.remove(replica, open, share.min(left)).await?,
                Phase::Purging => self.confirm(replica, open, reports).await?,
                Phase::Done => 0,
            };
        }
        if left > 0 && part.ended {
            *walk = Walk::default();
        }
        Ok(())
    }

    /// Takes rows out, in at most so many steps. Answers how many it took.
    async fn remove(&self, replica: &Replica, open: &Open, most: usize) -> Result<usize, Failed> {
        for taken in 0..most {
            let Some(row) = read(replica, &open.space, &open.id)? else { return Ok(taken) };
            if row.phase != Phase::Removing || self.stop.is_cancelled() {
                return Ok(taken);
            }
            let (of, space, id) = (replica.clone(), open.space.clone(), open.id.clone());
            let work = move || next_step(&of.state, &space, &id, &row);
            match tokio::task::spawn_blocking(work).await? {
                Ok(step) => propose(replica, &open.space, step).await?,
                Err(error) => {
                    // What is wrong with this one is no reason for others to wait.
                    tracing::error!(space = %open.space, id = open.id, %error, "an erasure cannot go on");
                    return Ok(taken + 1);
                }
            }
        }
        Ok(most)
    }

    /// Writes down what replicas have let go of. Answers how many steps that took.
    async fn confirm(&self, replica: &Replica, open: &Open, reports: &mut Reports) -> Result<usize, Failed> {
        let (id, row) = (open.id.clone(), &open.row);
        let Some(removed) = row.removed_index else { return Ok(0) };
        let is_confirmed = |node, place| row.is_confirmed(node, place);
        let (confirmations, done) = self.confirmations(replica, removed, is_confirmed, reports).await;
        if !done && confirmations.is_empty() {
            return Ok(0);
        }
        propose(replica, &open.space, EraseStep::Confirm { id, confirmations, done }).await?;
        Ok(1)
    }

    /// What replicas have let go of that went at `removed`, since it was last written down; and whether that is all.
    pub(super) async fn confirmations(
        &self,
        replica: &Replica,
        removed: u64,
        is_confirmed: impl Fn(NodeId, Place) -> bool,
        reports: &mut Reports,
    ) -> (Vec<Confirmation>, bool) {
        let (mut confirmations, mut done) = (Vec::new(), true);
        for node in replica.group.voters() {
            let forgotten = self.forgotten(replica, node, reports).await;
            for place in Place::ALL {
                if is_confirmed(node, place) {
                    continue;
                }
                if forgotten.of(place) >= removed && confirmations.len() < CONFIRMATIONS_MAX {
                    confirmations.push(Confirmation { node, place, at_us: 0 });
                } else {
                    done = false;
                }
            }
        }
        (confirmations, done)
    }

    async fn forgotten(&self, replica: &Replica, node: NodeId, reports: &mut Reports) -> Forgotten {
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

async fn propose(replica: &Replica, space: &SpaceKey, step: EraseStep) -> Result<(), Failed> {
    let command = SpaceCommand { space: space.clone(), idempotency: None, write: Write::Erase(step) };
    let bytes = Command::Space(Box::new(command)).encode()?;
    replica.propose(bytes.into(), Instant::now() + TIMEOUT).await?;
    Ok(())
}

/// An erasure; `None` if it is gone.
fn read(replica: &Replica, space: &SpaceKey, id: &str) -> Result<Option<ErasureRow>, Failed> {
    let value = replica.state.reader().get(&erasure::key(space, id))?;
    Ok(value.map(|value| ErasureRow::decode(&value)).transpose()?)
}
