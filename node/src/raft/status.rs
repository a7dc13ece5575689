//! What a replica knows about its group.

use std::time::Instant;

use openraft::metrics::RaftServerMetrics;
use openraft::{RaftMetrics, ServerState};
use tokio::sync::watch;

use super::types::{GroupId, LogPosition, NodeId};

pub(crate) type Metrics = RaftMetrics<NodeId, ()>;

/// One replica's view of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// The group.
    pub group: GroupId,
    /// The leader that this replica knows of.
    pub leader: Option<NodeId>,
    /// Whether this replica believes to lead.
    pub is_leader: bool,
    /// The current term.
    pub term: u64,
    /// The index of the last entry in the log.
    pub last_log: Option<u64>,
    /// The last position that this replica knows to be committed.
    pub committed: Option<LogPosition>,
    /// The last applied position: readers see the state up to here.
    pub applied: Option<LogPosition>,
    /// Whether this replica leads and has applied an entry that it wrote in its own term: all that
    /// earlier leaders committed is then visible here.
    pub leader_applied_own_term: bool,
    /// The send time of the newest request by which a majority confirmed this leadership.
    pub last_quorum_ack: Option<Instant>,
    /// Milliseconds since then.
    pub millis_since_quorum_ack: Option<u64>,
    /// Whether this replica leads without a majority that still answers, or that ever did in this run:
    /// openraft lets it go on, but it can commit nothing.
    pub lost_quorum: bool,
    /// The voters; those of the old and of the new membership while it changes.
    pub voters: Vec<NodeId>,
    /// Why the group does not run on this node, if it does not.
    pub failure: Option<String>,
}

impl GroupStatus {
    pub(crate) fn of(
        group: GroupId,
        metrics: &Metrics,
        committed: Option<LogPosition>,
        last_quorum_ack: Option<Instant>,
        now: Instant,
    ) -> Self {
        let is_leader = metrics.state == ServerState::Leader;
        let applied: Option<LogPosition> = metrics.last_applied.map(Into::into);
        let age = last_quorum_ack.map(|ack| now.saturating_duration_since(ack));
        GroupStatus {
            group,
            leader: metrics.current_leader,
            is_leader,
            term: metrics.current_term,
            last_log: metrics.last_log_index,
            committed,
            applied,
            // The node too: openraft's leaders are pairs of term and node, so that a term may have had
            // another leader before, whose entries say nothing about what this one must show.
            leader_applied_own_term: is_leader
                && applied.is_some_and(|applied| {
                    (applied.term, applied.node) == (metrics.current_term, metrics.id)
                }),
            last_quorum_ack,
            millis_since_quorum_ack: age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            lost_quorum: false,
            voters: metrics.membership_config.voter_ids().collect(),
            failure: metrics.running_state.as_ref().err().map(ToString::to_string),
        }
    }
}

/// Follows who leads a group.
#[derive(Clone)]
pub struct LeadershipWatch {
    this_node: NodeId,
    metrics: watch::Receiver<RaftServerMetrics<NodeId, ()>>,
    seen_term: u64,
}

impl LeadershipWatch {
    pub(crate) fn new(this_node: NodeId, metrics: watch::Receiver<RaftServerMetrics<NodeId, ()>>) -> Self {
        LeadershipWatch { this_node, metrics, seen_term: 0 }
    }

    /// Whether this replica leads.
    pub fn is_leader(&self) -> bool {
        self.metrics.borrow().state == ServerState::Leader
    }

    /// The leader that this replica knows of.
    pub fn leader(&self) -> Option<NodeId> {
        self.metrics.borrow().current_leader
    }

    /// The current term.
    pub fn term(&self) -> u64 {
        self.metrics.borrow().vote.leader_id.term
    }

    /// Waits for a change of leader, term or membership. False once the group has stopped for good.
    pub async fn changed(&mut self) -> bool {
        self.metrics.changed().await.is_ok()
    }

    /// From here on `moved` compares with the present term.
    pub(crate) fn mark_seen(&mut self) {
        self.metrics.mark_unchanged();
        self.seen_term = self.term();
    }

    /// Whether the leadership that `mark_seen` saw has ended.
    pub(crate) fn moved(&self) -> bool {
        let metrics = self.metrics.borrow();
        metrics.state != ServerState::Leader
            || metrics.vote.leader_id.term != self.seen_term
            || metrics.current_leader != Some(self.this_node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_an_earlier_leader_of_the_same_term_is_not_its_own() {
        let mut metrics = Metrics::new_initial(2);
        (metrics.state, metrics.current_term) = (ServerState::Leader, 21);
        let mut applied = |term, node| {
            metrics.last_applied = Some(LogPosition { term, node, index: 7 }.into());
            GroupStatus::of(1, &metrics, None, None, Instant::now()).leader_applied_own_term
        };
        assert!(!applied(20, 2));
        assert!(!applied(21, 1), "it led the same term before");
        assert!(applied(21, 2));
    }
}
