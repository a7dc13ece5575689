//! The guard of one node's replicas: compares them with those of the other nodes, takes out of service
//! what is wrong, and makes it anew where it is clear what is right.

use super::checks::Checks;
use super::judge::{self, Reports, Verdict};
use super::rebuild::{Rebuild, rebuild};
use super::settings::IntegritySettings;
use super::versions::Versions;
use crate::metrics::{IntegrityMetrics, Mismatch};
use crate::raft::{Applier, Clock, GroupId, NodeId, NodeReport, RaftNode, ReplicaReport};
use crate::service::Replica;
use crate::shard::{Reason, Suspicion};
use futures::future::join_all;
use holdfast_core::apply::STATE_VERSION;
use holdfast_core::codec::Stored;
use holdfast_core::command::Command;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Time for one proposal.
const PROPOSE_TIME: Duration = Duration::from_secs(5);
/// The pause after an attempt to make a replica anew that failed; it doubles.
const RETRY_MIN: Duration = Duration::from_secs(10);
const RETRY_MAX: Duration = Duration::from_hours(1);
/// Groups that get a point at the same time.
const PROPOSING_MAX: usize = 16;
const DAY_US: i64 = 24 * 3600 * 1_000_000;

/// What the guard works with.
pub(super) struct Guard {
    pub(super) raft: Arc<RaftNode>,
    pub(super) replicas: BTreeMap<GroupId, Replica>,
    pub(super) checks: Arc<Checks>,
    pub(super) versions: Versions,
    pub(super) settings: IntegritySettings,
    pub(super) metrics: IntegrityMetrics,
    pub(super) clock: Arc<dyn Clock>,
    /// A replica was found to be wrong by somebody else.
    pub(super) found: Arc<Notify>,
}

/// What the guard remembers between two rounds.
#[derive(Default)]
struct Memory {
    /// The last verdict that was told, so that each is told once.
    told: HashMap<GroupId, Verdict>,
    /// Why a rebuild was not begun, told once as well.
    refused: HashMap<GroupId, String>,
    /// Attempts that failed, and when the next may be made.
    failed: HashMap<GroupId, (u32, Instant)>,
    /// Replicas whose rows cannot be read, each told once.
    unreadable: BTreeSet<GroupId>,
    /// Groups that another replica cannot be compared in: it has forgotten the last point.
    forgotten: BTreeSet<GroupId>,
    rebuilding: Option<(GroupId, JoinHandle<Rebuild>)>,
}

impl Guard {
    /// Runs until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut memory = Memory::default();
        let giving_up = Arc::new(AtomicBool::new(false));
        loop {
            self.withdraw();
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.found.notified() => {}
                () = tokio::time::sleep(self.settings.compare_every) => {}
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.round(&mut memory, &giving_up) => {}
            }
        }
        giving_up.store(true, Ordering::Relaxed);
        if let Some((group, task)) = memory.rebuilding
            && let Err(error) = task.await
        {
            tracing::error!(group, %error, "a rebuild ended badly");
        }
    }

    async fn round(&self, memory: &mut Memory, giving_up: &Arc<AtomicBool>) {
        self.finish_rebuild(memory).await;
        let nodes: BTreeSet<NodeId> =
            self.replicas.values().flat_map(|replica| replica.group.voters()).collect();
        let reports = self.versions.ask(&nodes).await;
        memory.forgotten.clear();
        for (id, replica) in &self.replicas {
            let Some(own) = replica.state.report() else { continue };
            let voters = replica.group.voters();
            let said = gather(self.raft.node_id(), *id, &own, &reports);
            self.judge(memory, *id, replica, &voters, &said);
            if has_forgotten(self.raft.node_id(), &own, &said) {
                memory.forgotten.insert(*id);
            }
            let suspicion = replica.state.quarantine().suspicion();
            if suspicion.is_some_and(|suspicion| suspicion.reason == Reason::Unreadable)
                && memory.unreadable.insert(*id)
            {
                self.metrics.mismatch(Mismatch::Unreadable);
            }
            if replica.state.quarantine().holds() {
                self.try_rebuild(memory, *id, replica, &said, &reports, giving_up);
            }
        }
        self.withdraw();
        self.propose_points(memory).await;
    }

    /// Nobody must follow a replica that is in quarantine.
    fn withdraw(&self) {
        let mut count = 0;
        for replica in self.replicas.values() {
            if replica.state.quarantine().holds() {
                count += 1;
                replica.group.withdraw();
            }
        }
        self.metrics.quarantined.set(count);
        // Here, and not where rows are read: a thread that hangs must not look young.
        self.metrics.scrub_age.set(i64::try_from(self.checks.oldest().as_secs()).unwrap_or(i64::MAX));
    }

    fn judge(
        &self,
        memory: &mut Memory,
        id: GroupId,
        replica: &Replica,
        voters: &BTreeSet<NodeId>,
        said: &Reports<'_>,
    ) {
        let me = self.raft.node_id();
        let verdict = judge::compare(voters, said);
        if memory.told.get(&id).is_some_and(|told| is_same(told, &verdict)) {
            return;
        }
        match &verdict {
            Verdict::Unknown | Verdict::Equal { .. } => {}
            Verdict::Outvoted { index, hash, by } => {
                tracing::error!(group = id, index, ?by, majority = %format_args!("{hash:032x}"),
                    "replicas do not hold what a majority holds");
                if by.contains(&me) && !replica.state.quarantine().holds() {
                    self.metrics.mismatch(Mismatch::Outvoted);
                    let detail = format!("a majority holds hash {hash:032x} at log index {index}");
                    self.quarantine(id, replica, Reason::Outvoted, detail, *index);
                }
                if by.iter().any(|node| *node != me) {
                    self.metrics.mismatch(Mismatch::Other);
                }
            }
            Verdict::Undecided { index } => {
                tracing::error!(
                    group = id,
                    index,
                    "replicas differ, and no majority agrees: nothing is done; see the runbook HoldfastStateHashMismatch"
                );
                self.metrics.mismatch(Mismatch::Undecided);
            }
        }
        memory.told.insert(id, verdict);
    }

    fn quarantine(&self, id: GroupId, replica: &Replica, reason: Reason, detail: String, index: u64) {
        let since_us = self.now_us();
        quarantine(id, replica, Suspicion { reason, detail, index, since_us });
    }

    fn now_us(&self) -> i64 {
        i64::try_from(self.clock.now_us()).unwrap_or(i64::MAX)
    }

    /// Begins to make a replica anew, if it is clear what is right, and not too often.
    fn try_rebuild(
        &self,
        memory: &mut Memory,
        id: GroupId,
        replica: &Replica,
        said: &Reports<'_>,
        reports: &BTreeMap<NodeId, NodeReport>,
        giving_up: &Arc<AtomicBool>,
    ) {
        if memory.rebuilding.is_some()
            || memory.failed.get(&id).is_some_and(|(_, again)| Instant::now() < *again)
        {
            return;
        }
        let me = self.raft.node_id();
        let mut versions: BTreeMap<NodeId, u32> =
            reports.iter().map(|(node, report)| (*node, report.state_version)).collect();
        versions.insert(me, STATE_VERSION);
        let quarantine = replica.state.quarantine();
        let permit = match quarantine.rebuilds_since(self.now_us().saturating_sub(DAY_US)) {
            done if done >= self.settings.rebuilds_per_day_max => {
                Err(format!("it was made anew {done} times within a day"))
            }
            _ => judge::permit(me, &replica.group.voters(), said, &versions),
        };
        let permit = match permit {
            Ok(permit) => permit,
            Err(why) => {
                if memory.refused.get(&id) != Some(&why) {
                    self.metrics.rebuilt("refused");
                    tracing::error!(group = id, %why, "a replica in quarantine is not made anew; see the runbook HoldfastReplicaQuarantined");
                    memory.refused.insert(id, why);
                }
                return;
            }
        };
        memory.refused.remove(&id);
        tracing::warn!(group = id, ?permit, "a replica in quarantine is made anew");
        let (raft, replica) = (Arc::clone(&self.raft), replica.clone());
        let giving_up = Arc::clone(giving_up);
        memory.rebuilding = Some((id, tokio::spawn(rebuild(raft, replica, permit, giving_up))));
    }

    /// Takes the result of a rebuild that has ended.
    async fn finish_rebuild(&self, memory: &mut Memory) {
        let Some((id, task)) = memory.rebuilding.take_if(|(_, task)| task.is_finished()) else { return };
        let Some(replica) = self.replicas.get(&id) else { return };
        let ended = task.await.unwrap_or_else(|error| Err(error.to_string()));
        let ended = ended.and_then(|kept| {
            let end = replica.state.quarantine().end(self.now_us());
            end.map(|()| kept).map_err(|error| format!("the mark of the quarantine: {error}"))
        });
        match ended {
            Ok(kept) => {
                replica.group.rejoin();
                self.metrics.rebuilt("done");
                memory.failed.remove(&id);
                tracing::warn!(group = id, old = %kept.display(), hash = %format_args!("{:032x}", replica.state.hash().hash.0),
                    "the replica was made anew and serves again; its old state is kept until the next one");
            }
            Err(error) => {
                self.metrics.rebuilt("failed");
                let times = memory.failed.get(&id).map_or(0, |(times, _)| *times);
                let pause = RETRY_MIN
                    .saturating_mul(1 << times.min(16))
                    .min(RETRY_MAX)
                    .min(self.settings.compare_every * 64);
                memory.failed.insert(id, (times + 1, Instant::now() + pause));
                tracing::error!(group = id, %error, "the replica could not be made anew; it stays in quarantine");
            }
        }
    }

    /// Proposes a point in every group that this node leads, but for those that are at rest and were
    /// compared: a group without new entries costs nothing.
    async fn propose_points(&self, memory: &Memory) {
        let Ok(command) = Command::HashPoint.encode() else { return };
        let is_due = |(id, replica): &(&GroupId, &Replica)| {
            let visible = replica.state.visible();
            let last = replica.state.points().last().map(|point| point.index);
            // A point is kept a moment before it is visible.
            let is_at_rest = last.is_some() && last >= visible && !memory.forgotten.contains(*id);
            !is_at_rest && replica.group.status().is_leader && !replica.group.is_withdrawn()
        };
        let due = self.replicas.iter().filter(is_due).map(|(id, replica)| (*id, replica.clone()));
        let mut due = due.collect::<Vec<(GroupId, Replica)>>().into_iter();
        loop {
            let some: Vec<_> = due.by_ref().take(PROPOSING_MAX).collect();
            if some.is_empty() {
                break;
            }
            let proposals =
                some.into_iter().map(|(id, replica)| self.propose_point(id, replica, command.clone()));
            join_all(proposals).await;
        }
    }

    async fn propose_point(&self, id: GroupId, replica: Replica, command: Vec<u8>) {
        if let Err(why) = self.versions.know_points(&replica.group.voters()) {
            tracing::debug!(group = id, %why, "no point is proposed");
            return;
        }
        let deadline = Instant::now() + PROPOSE_TIME;
        if let Err(error) = replica.propose(command.into(), deadline).await {
            tracing::debug!(group = id, %error, "a point was not proposed");
        }
    }
}

/// Whether a verdict says what was said before, at whichever point.
fn is_same(one: &Verdict, other: &Verdict) -> bool {
    match (one, other) {
        (Verdict::Outvoted { by: one, .. }, Verdict::Outvoted { by: other, .. }) => one == other,
        (Verdict::Undecided { .. }, Verdict::Undecided { .. }) => true,
        _ => one == other,
    }
}

/// Takes a replica out of service. What follows is the guard's.
pub(super) fn quarantine(id: GroupId, replica: &Replica, suspicion: Suspicion) {
    tracing::error!(group = id, reason = suspicion.reason.as_str(), detail = %suspicion.detail,
        "a replica is wrong: it answers no reads until it is made anew");
    // Before the mark is on disk, which may take a while.
    replica.group.withdraw();
    if let Err(error) = replica.state.quarantine().begin(suspicion) {
        tracing::error!(group = id, %error, "the mark of a quarantine could not be written: a restart would forget it");
    }
}

fn gather<'a>(
    me: NodeId,
    id: GroupId,
    own: &'a ReplicaReport,
    reports: &'a BTreeMap<NodeId, NodeReport>,
) -> Reports<'a> {
    let others = reports.iter().filter_map(|(node, report)| Some((*node, report.group(id)?)));
    others.chain([(me, own)]).collect()
}

/// Whether another replica is as far as this one's last point and does not know its hash there: it was
/// restarted or replaced since, and only a new point makes it comparable.
fn has_forgotten(me: NodeId, own: &ReplicaReport, said: &Reports<'_>) -> bool {
    let Some((last, _)) = own.points.last() else { return false };
    let knows = |report: &&ReplicaReport| report.points.iter().any(|(index, _)| index == last);
    said.iter()
        .any(|(node, report)| *node != me && report.visible.is_some_and(|at| at >= *last) && !knows(report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_forgotten_a_point_is_told_from_who_is_behind() {
        let report = |visible: u64, points: &[u64]| ReplicaReport {
            quarantined: false,
            visible: Some(visible),
            points: points.iter().map(|index| (*index, 1)).collect(),
            ..ReplicaReport::default()
        };
        let own = report(9, &[5, 9]);
        let forgot = |other: ReplicaReport| has_forgotten(1, &own, &Reports::from([(1, &own), (2, &other)]));
        assert!(!forgot(report(9, &[9])));
        assert!(forgot(report(10, &[5])));
        assert!(!forgot(report(8, &[5])), "it is behind and will get there");
        assert!(!forgot(ReplicaReport::default()));
    }
}
