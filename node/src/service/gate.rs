//! Whether a replica may answer a read, and when.

use super::{deadline, refusals, shard};
use crate::raft::{Group, GroupId, GroupStatus};
use crate::shard::ShardState;
use holdfast_core::sabotage::{Fault, is};
use holdfast_core::token::Seen;
use holdfast_proto::Refused;
use holdfast_proto::v1::{self, Consistency};
use std::time::{Duration, Instant};
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

/// What a read asks for, once the positions that mean nothing here are told apart.
struct Wish {
    consistency: Consistency,
    /// The visible index that the answer must have reached.
    at_least: Option<u64>,
    /// Whether it names a position of another life of the shard: that says nothing here, and only a
    /// quorum can answer it.
    foreign: bool,
    max_staleness: Duration,
    any_replica: bool,
    deadline: Instant,
}

impl<S: Visible> Asked<'_, S> {
    /// Waits until this replica may answer: not older than what was seen, and as fresh as the read
    /// asks. A follower never waits: it answers at once or refuses at once, so that another replica
    /// can be asked.
    pub(crate) async fn ready(&self, read: Option<v1::Read>) -> Result<Instant, Refused> {
        // Here, and in `Group::withdraw` for writes, is what keeps a wrong replica from being believed.
        if !self.state.may_be_believed() {
            return Err(refusals::in_quarantine());
        }
        let wish = self.wish(&read.unwrap_or_default())?;
        let status = self.group.status();
        if let Some(why) = &status.failure {
            return Err(refusals::stopped(why));
        }
        let may_follow = wish.any_replica && wish.consistency != Consistency::Linearizable;
        if status.is_leader || !may_follow {
            self.as_leader(&status, &wish).await?;
        } else {
            self.as_follower(&wish)?;
        }
        Ok(wish.deadline)
    }

    fn wish(&self, read: &v1::Read) -> Result<Wish, Refused> {
        let at_least = read.at_least.map(Seen::try_from).transpose()?;
        let at_least = at_least.filter(|_| !is(Fault::TokenIgnored));
        // A position of another shard says nothing about this one.
        let at_least = at_least.filter(|seen| shard(self.id).is_ok_and(|shard| seen.shard == shard));
        let foreign = at_least.is_some_and(|seen| seen.incarnation != self.incarnation);
        Ok(Wish {
            consistency: read.consistency(),
            at_least: at_least.filter(|_| !foreign).map(|seen| seen.index),
            foreign,
            max_staleness: Duration::from_millis(read.max_staleness_ms.into()),
            any_replica: read.any_replica,
            deadline: deadline(read.deadline_ms),
        })
    }

    /// A follower proves by itself what it can: a position, or a bound.
    fn as_follower(&self, wish: &Wish) -> Result<(), Refused> {
        let visible = self.visible();
        if wish.foreign || visible < wish.at_least {
            return Err(refusals::behind(
                "this replica has not applied what was seen elsewhere; ask another one",
            ));
        }
        let proved = match wish.consistency {
            Consistency::Session => wish.at_least.is_some(),
            Consistency::Bounded => self.is_fresh(visible, wish.max_staleness),
            Consistency::Linearizable => false,
        };
        if proved {
            return Ok(());
        }
        Err(refusals::behind("this replica cannot prove that it is as fresh as asked; ask another one"))
    }

    async fn as_leader(&self, status: &GroupStatus, wish: &Wish) -> Result<(), Refused> {
        // A leader's log holds every index that a true token can name.
        let beyond = wish.at_least.is_some_and(|index| index > status.last_log.unwrap_or(0));
        let is_fresh =
            wish.consistency == Consistency::Bounded && self.is_fresh(self.visible(), wish.max_staleness);
        let needs_quorum = wish.foreign || beyond || wish.consistency != Consistency::Session;
        if is_fresh && !wish.foreign && !beyond {
            // It has proved what was asked, be it that it has lost its majority since.
        } else if needs_quorum {
            let point = self.group.linearizable(wish.deadline).await;
            let point = point.map_err(|error| refusals::of_read(&error))?;
            self.wait_visible(point, wish.deadline).await?;
        } else {
            let session = self.group.can_serve_session_read();
            session.map_err(|refused| refusals::of_session_read(&refused))?;
        }
        match wish.at_least.filter(|_| !beyond) {
            Some(index) => self.wait_visible(index, wish.deadline).await,
            None => Ok(()),
        }
    }

    fn visible(&self) -> Option<u64> {
        *self.state.watch_visible().borrow()
    }

    /// Whether the state is proved to hold all that was acknowledged until `max_staleness` ago.
    fn is_fresh(&self, visible: Option<u64>, max_staleness: Duration) -> bool {
        self.group.fresh_until(visible).is_some_and(|moment| moment.elapsed() <= max_staleness)
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
