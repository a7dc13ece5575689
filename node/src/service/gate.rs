//! Whether a replica may answer a read, and when.

use super::{deadline, refusals, shard};
use crate::raft::{Group, GroupId};
use crate::shard::ShardState;
use holdfast_core::token::Seen;
use holdfast_proto::{Refused, v1};
use std::time::Instant;
use tokio::sync::watch;

/// A state whose entries readers see up to an index.
pub(crate) trait Visible {
    /// Follows the log index up to which readers see everything, `None` before the first entry.
    fn watch_visible(&self) -> watch::Receiver<Option<u64>>;

    /// Whether the rows are not known to be wrong.
    fn may_be_believed(&self) -> bool {
        true
    }
}

impl Visible for ShardState {
    fn watch_visible(&self) -> watch::Receiver<Option<u64>> {
        ShardState::watch_visible(self)
    }

    fn may_be_believed(&self) -> bool {
        !self.quarantine().holds()
    }
}

/// A replica that is asked.
pub(crate) struct Asked<'a, S> {
    pub(crate) id: GroupId,
    pub(crate) group: &'a Group,
    pub(crate) state: &'a S,
    /// The life of the shard.
    pub(crate) incarnation: u32,
}

impl<S: Visible> Asked<'_, S> {
    /// Waits until this replica may answer: as its leader, and not older than what was seen.
    pub(crate) async fn ready(&self, read: Option<v1::Read>) -> Result<Instant, Refused> {
        // Here, and in `Group::withdraw` for writes, is what keeps a wrong replica from being believed.
        if !self.state.may_be_believed() {
            return Err(refusals::in_quarantine());
        }
        let read = read.unwrap_or_default();
        let deadline = deadline(read.deadline_ms);
        let at_least = read.at_least.map(Seen::try_from).transpose()?;
        let at_least = at_least.filter(|seen| shard(self.id).is_ok_and(|shard| seen.shard == shard));
        // A position of another life of the shard, or one that its log does not reach, says nothing
        // here; only a quorum can. A leader's log holds every index that a true token can name.
        let last_log = self.group.status().last_log.unwrap_or(0);
        let foreign =
            at_least.is_some_and(|seen| seen.incarnation != self.incarnation || seen.index > last_log);
        if read.consistency() == v1::Consistency::Linearizable || foreign {
            let point = self.group.linearizable(deadline).await;
            self.wait_visible(point.map_err(|error| refusals::of_read(&error))?, deadline).await?;
        } else {
            let session = self.group.can_serve_session_read();
            session.map_err(|refused| refusals::of_session_read(&refused))?;
        }
        if let Some(seen) = at_least.filter(|_| !foreign) {
            self.wait_visible(seen.index, deadline).await?;
        }
        Ok(deadline)
    }

    /// Waits until readers see the entry at `index` here.
    pub(crate) async fn wait_visible(&self, index: u64, deadline: Instant) -> Result<(), Refused> {
        let mut visible = self.state.watch_visible();
        let wait = visible.wait_for(|visible| visible.is_some_and(|visible| visible >= index));
        match tokio::time::timeout_at(deadline.into(), wait).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(refusals::behind("this replica has not applied what the token has seen; ask again")),
        }
    }
}
