//! Giving up leadership before this node stops, so that nobody waits for an election timeout.
//!
//! openraft 0.9 has no leader transfer. The leader stops proposing, waits until a follower has every
//! entry, and asks it to start an election. With three voters that one is elected at once: by itself
//! and by the old leader, which is no follower and so bound by no lease. With five or more a majority
//! needs others, who turn candidates away while they have heard their leader recently; so the leader
//! stops its heartbeats and waits until enough of those leases are over.
//!
//! Invariants:
//! 1. *Nothing is lost or answered wrongly*: an election is only asked for when nothing is in flight.
//!    Commands that come meanwhile wait, and are sent to the new leader by their callers.
//! 2. *A failed hand-over changes nothing for good*: the leader proposes and sends heartbeats again.
//! 3. *Nobody is asked whose election would fail*: a lost candidature costs the group its leader for a
//!    whole election timeout. So the old leader waits until its own vote may be given away, and asks
//!    only a follower that has matched its last entry.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use holdfast_proto::v1::RaftKind;

use super::group::Group;
use super::network::{CallError, Peers};
use super::status::Metrics;
use super::types::{GroupId, NodeId};
use super::wire::{self, HandOver};

/// Groups that are handed over at the same time.
const AT_ONCE: usize = 64;
/// How long one follower may take to catch up, and then to be elected.
const ATTEMPT_MAX: Duration = Duration::from_secs(2);
/// The pause before all followers are tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// Why a group's leadership could not be handed over.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// There is nobody to take over.
    #[error("this replica is the only voter")]
    Alone,
    /// No follower took over in time.
    #[error("no other replica took over in time: {0}")]
    Late(String),
    /// The group does not run.
    #[error("the group does not run: {0}")]
    NotRunning(String),
}

/// Hands over all of `groups` that are led here. Returns those that still are, with the reason.
pub(crate) async fn hand_over_all(
    groups: Vec<Group>,
    peers: Arc<Peers>,
    deadline: Instant,
) -> Vec<(GroupId, HandOverError)> {
    let handed = groups.into_iter().map(|group| {
        let peers = Arc::clone(&peers);
        async move {
            let result = hand_over(&group, &peers, deadline).await;
            result.err().map(|error| (group.id(), error))
        }
    });
    let failed: Vec<_> = futures::stream::iter(handed).buffered(AT_ONCE).collect().await;
    failed.into_iter().flatten().collect()
}

async fn hand_over(group: &Group, peers: &Arc<Peers>, deadline: Instant) -> Result<(), HandOverError> {
    if !group.watch().is_leader() {
        return Ok(());
    }
    if group.others().is_empty() {
        return Err(HandOverError::Alone);
    }
    let _held = group.hold();
    let late = |what: &str| HandOverError::Late(what.to_owned());
    if tokio::time::timeout_at(deadline.into(), group.quiet()).await.is_err() {
        return Err(late("writes in flight did not end"));
    }
    let free_at = group.vote_free_at();
    if free_at > deadline {
        return Err(late("this leader was elected only just now"));
    }
    tokio::time::sleep_until(free_at.into()).await;
    let mut why = "no follower has all entries".to_owned();
    while group.watch().is_leader() {
        // Without a majority nobody can be elected, however long this waits.
        if Instant::now() + PAUSE > deadline || group.status().lost_quorum {
            return Err(HandOverError::Late(why));
        }
        for target in targets(group) {
            match ask(group, peers, target, deadline).await {
                Ok(()) => return led_elsewhere(group, deadline).await,
                Err(reason) => why = format!("node {target}: {reason}"),
            }
            if !group.watch().is_leader() {
                break;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    led_elsewhere(group, deadline).await
}

/// Waits until the new leader is known here, so that callers can be told.
async fn led_elsewhere(group: &Group, deadline: Instant) -> Result<(), HandOverError> {
    let mut watch = group.watch();
    while watch.is_leader() || watch.leader().is_none() {
        match tokio::time::timeout_at(deadline.into(), watch.changed()).await {
            Ok(true) => {}
            Ok(false) => return Err(HandOverError::NotRunning("it stopped meanwhile".to_owned())),
            Err(_) => return Err(HandOverError::Late("the new leader is not known yet".to_owned())),
        }
    }
    Ok(())
}

/// The other voters, those with most entries first, and of equals the one with the shortest lease:
/// while heartbeats are stopped it would be a candidate before all others, who then do not disturb it.
fn targets(group: &Group) -> Vec<NodeId> {
    let metrics = group.raft().metrics();
    let metrics = metrics.borrow();
    let mut others = group.leases();
    others.retain(|(node, _)| *node != group.node());
    others.sort_by_key(|(node, lease)| (std::cmp::Reverse(matched(&metrics, *node)), *lease));
    others.into_iter().map(|(node, _)| node).collect()
}

/// The index after the last entry that a follower is known to have.
fn matched(metrics: &Metrics, node: NodeId) -> u64 {
    let replication = metrics.replication.as_ref();
    replication.and_then(|all| all.get(&node)?.map(|log_id| log_id.index + 1)).unwrap_or(0)
}

/// Has one follower elected; an error says why it was not.
async fn ask(group: &Group, peers: &Arc<Peers>, target: NodeId, deadline: Instant) -> Result<(), String> {
    let limit = deadline.min(Instant::now() + ATTEMPT_MAX);
    let mut metrics = group.raft().metrics();
    let has_all = |metrics: &Metrics| {
        let end = metrics.last_log_index.map_or(0, |last| last + 1);
        metrics.current_leader != Some(group.node()) || matched(metrics, target) >= end
    };
    match tokio::time::timeout_at(limit.into(), metrics.wait_for(has_all)).await {
        Ok(Ok(_)) => {}
        Ok(Err(_)) => return Err("the group stopped".to_owned()),
        Err(_) => return Err("it does not have all entries".to_owned()),
    }
    if !group.watch().is_leader() {
        return Err("another replica was elected".to_owned());
    }
    let _silence = silence(group, target).await;
    let offer = {
        let metrics = group.raft().metrics();
        let metrics = metrics.borrow();
        HandOver { vote: metrics.vote, last_index: metrics.last_log_index }
    };
    let payload = wire::encode_hand_over(&offer).map_err(|error| error.to_string())?;
    let asked = peers.call(group.id(), target, RaftKind::HandOver, payload);
    let answer = match tokio::time::timeout_at(limit.into(), asked).await {
        Ok(answer) => answer.map_err(|error: CallError| error.to_string())?,
        Err(_) => return Err("it did not answer in time".to_owned()),
    };
    if !wire::decode_hand_over_reply(&answer).map_err(|error| error.to_string())? {
        return Err("it cannot take over now".to_owned());
    }
    let mut watch = group.watch();
    while watch.is_leader() {
        match tokio::time::timeout_at(limit.into(), watch.changed()).await {
            Ok(true) => {}
            Ok(false) => return Err("the group stopped".to_owned()),
            Err(_) => return Err("it was not elected in time".to_owned()),
        }
    }
    Ok(())
}

/// Heartbeats go on when this is dropped.
struct Silence<'a>(&'a Group);

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        self.0.raft().runtime_config().heartbeat(true);
    }
}

/// Stops the heartbeats and waits until enough other voters may grant a candidate their vote. With up
/// to three voters the target and this leader are a majority: there is nothing to wait for.
async fn silence<'a>(group: &'a Group, target: NodeId) -> Option<Silence<'a>> {
    let wait = leases_over(&group.leases(), group.node(), target)?;
    group.raft().runtime_config().heartbeat(false);
    let silence = Silence(group);
    tokio::time::sleep(wait).await;
    Some(silence)
}

/// How long after the last heartbeat the target finds a majority; `None` if it has one at once.
/// `leases` are those of all voters.
fn leases_over(leases: &[(NodeId, Duration)], this: NodeId, target: NodeId) -> Option<Duration> {
    let majority = leases.len() / 2 + 1;
    let needed = majority.checked_sub(3)?;
    let mut others: Vec<Duration> =
        leases.iter().filter(|(node, _)| *node != this && *node != target).map(|(_, lease)| *lease).collect();
    others.sort_unstable();
    let lease = others.get(needed)?;
    // A heartbeat may be on its way.
    Some(*lease + *lease / 8)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_more_than_three_voters_must_wait_for_leases() {
        let leases = |count: u64| -> Vec<(NodeId, Duration)> {
            (1..=count).map(|node| (node, Duration::from_millis(100 * (node + 1)))).collect()
        };
        let wait = |count, this, target| leases_over(&leases(count), this, target);
        assert_eq!(wait(2, 1, 2), None);
        assert_eq!(wait(3, 1, 2), None);
        // A third of five: the shortest lease of those that are neither.
        assert_eq!(wait(5, 5, 4), Some(Duration::from_micros(225_000)));
        assert_eq!(wait(5, 1, 2), Some(Duration::from_micros(450_000)));
        // Four of seven: two of the others.
        assert_eq!(wait(7, 1, 2), Some(Duration::from_micros(562_500)));
    }
}
