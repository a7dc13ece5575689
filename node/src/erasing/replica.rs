//! What every node does for the erasures of its replicas, whoever leads: it lets go of the copies that were
//! made before the rows went. Images at once; log and snapshot files, and the directory of the database,
//! after a while, so that many erasures share one turn.

use super::walk::{Open, PART, Walk};
use super::{EraseSettings, tenants};
use crate::integrity;
use crate::raft::{Clock, GroupId, RaftNode};
use crate::service::Replica;
use crate::shard::ShardState;
use holdfast_core::erasure::Phase;
use holdfast_core::space::SpaceKey;
use holdfast_core::state::Reader;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Makes the node let go, until `stop`.
pub(crate) async fn run(
    raft: Arc<RaftNode>,
    replicas: BTreeMap<GroupId, Replica>,
    settings: EraseSettings,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) {
    let given_up = Arc::new(AtomicBool::new(false));
    let passes = BTreeMap::new();
    let mut forgetter =
        Forgetter { raft, replicas, settings, clock, given_up: Arc::clone(&given_up), passes };
    // What is under way ends by itself then: nothing may touch a state after the node has stopped.
    let stopping = stop.clone();
    let watch = tokio::spawn(async move {
        stopping.cancelled().await;
        given_up.store(true, Ordering::Relaxed);
    });
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(settings.look_every) => {}
        }
        forgetter.turn().await;
    }
    // It ends when the token is cancelled, which it is.
    let _ = watch.await;
}

struct Forgetter {
    raft: Arc<RaftNode>,
    replicas: BTreeMap<GroupId, Replica>,
    settings: EraseSettings,
    clock: Arc<dyn Clock>,
    given_up: Arc<AtomicBool>,
    passes: BTreeMap<GroupId, Pass>,
}

/// One look at all erasures of a group that are not done, over as many turns as it takes. What a place holds
/// is said of all erasures up to an index, so none of those may be missing.
#[derive(Default)]
struct Pass {
    walk: Walk,
    /// What was visible when it began: an erasure that took its last row out later may have been missed.
    began: u64,
    /// The last index up to which images, the log and the database are to be let go of, if they are.
    images: Option<u64>,
    /// Files of an index could not be removed.
    images_kept: bool,
    log: Option<u64>,
    database: Option<u64>,
}

impl Pass {
    /// Takes one erasure in.
    fn take(&mut self, state: &ShardState, open: &Open, settings: &EraseSettings, now_us: i64) {
        let row = &open.row;
        if let (Phase::Purging, Some(index), Some(removed_us)) =
            (row.phase, row.removed_index, row.removed_us)
        {
            self.take_removed(state, (index, removed_us), settings, now_us);
        }
    }

    /// Takes in what went at an index and a time. The images of its spaces are gone already.
    fn take_removed(
        &mut self,
        state: &ShardState,
        (index, removed_us): (u64, i64),
        settings: &EraseSettings,
        now_us: i64,
    ) {
        let is_due = |after: Duration| {
            let age = Duration::from_micros(now_us.saturating_sub(removed_us).try_into().unwrap_or(0));
            age >= after
        };
        let forgotten = state.forgotten();
        if forgotten.images < index {
            self.images = self.images.max(Some(index));
        }
        if forgotten.log < index && is_due(settings.log_after) {
            self.log = self.log.max(Some(index));
        }
        if forgotten.database < index && forgotten.log >= index && is_due(settings.database_after) {
            self.database = self.database.max(Some(index));
        }
    }
}

impl Forgetter {
    async fn turn(&mut self) {
        // The groups whose log has let go of entries that its files may still hold.
        let mut purged = Vec::new();
        for (id, replica) in &self.replicas {
            if self.given_up.load(Ordering::Relaxed) {
                return;
            }
            let pass = self.passes.entry(*id).or_default();
            let look = Look {
                replicas: &self.replicas,
                settings: &self.settings,
                clock: self.clock.as_ref(),
                given_up: &self.given_up,
            };
            match look.at(replica, pass).await {
                Ok(upto) => purged.extend(upto.map(|upto| (replica, upto))),
                Err(error) => {
                    tracing::warn!(group = id, %error, "a replica still keeps what was erased; it is tried again");
                }
            }
        }
        if purged.is_empty() {
            return;
        }
        match self.raft.renew_log_files().await {
            Ok(()) => purged.iter().for_each(|(replica, upto)| replica.state.forgot_log(*upto)),
            Err(error) => tracing::warn!(%error, "log files keep what was erased; it is tried again"),
        }
    }
}

/// Makes images go, with the files of their indices. False if one could not.
async fn let_go_of_images(state: &Arc<ShardState>, open: &[Open]) -> Result<bool, Failed> {
    let images = state.forgotten().images;
    let is_due = |open: &&Open| {
        open.row.phase == Phase::Purging && open.row.removed_index.is_some_and(|index| images < index)
    };
    let spaces: BTreeSet<SpaceKey> = open.iter().filter(is_due).map(|open| open.space.clone()).collect();
    if spaces.is_empty() {
        return Ok(true);
    }
    let state = Arc::clone(state);
    // One that fails holds up no other.
    let erase = move || {
        let erased = spaces.iter().map(|space| state.spaces().erase(space));
        erased.fold(Ok(()), Result::and)
    };
    let erased = tokio::task::spawn_blocking(erase).await?;
    if let Err(error) = &erased {
        tracing::warn!(%error, "files of an index keep what was erased; it is tried again");
    }
    Ok(erased.is_ok())
}

/// The same for all spaces of tenants, of which no row says any more which they were.
async fn let_go_of_tenants(
    state: &Arc<ShardState>,
    replicas: &BTreeMap<GroupId, Replica>,
    removed: &[(String, u64, i64)],
) -> Result<bool, Failed> {
    let gone = tenants::named(removed, state.forgotten().images);
    if gone.is_empty() {
        return Ok(true);
    }
    // The images of all groups are in one place.
    let all: Vec<Arc<ShardState>> = replicas.values().map(|replica| Arc::clone(&replica.state)).collect();
    let spaces = Arc::clone(state);
    let erase = move || {
        let readers: Vec<_> = all.iter().map(|state| state.reader()).collect();
        let readers: Vec<&dyn Reader> = readers.iter().map(|reader| reader as &dyn Reader).collect();
        spaces.spaces().erase_tenants(|tenant| gone.contains(tenant), &readers)
    };
    let erased = tokio::task::spawn_blocking(erase).await?;
    if let Err(error) = &erased {
        tracing::warn!(%error, "files of an index keep what a tenant had; it is tried again");
    }
    Ok(erased.is_ok())
}

/// What it takes to look at one replica.
struct Look<'a> {
    replicas: &'a BTreeMap<GroupId, Replica>,
    settings: &'a EraseSettings,
    clock: &'a dyn Clock,
    given_up: &'a Arc<AtomicBool>,
}

impl Look<'_> {
    /// Answers up to where the log of a group was purged for the sake of an erasure.
    async fn at(&self, replica: &Replica, pass: &mut Pass) -> Result<Option<u64>, Failed> {
        let state = &replica.state;
        // What a wrong replica needs to be made anew is its last file and the log behind it.
        if replica.group.status().failure.is_some() || state.quarantine().holds() {
            return Ok(None);
        }
        let now_us = i64::try_from(self.clock.now_us())?;
        if pass.walk.is_at_start() {
            // Whatever ends this turn here: nothing is said of images then.
            *pass = Pass { began: state.visible().unwrap_or(0), images_kept: true, ..Pass::default() };
            let removed = tenants::removed(state)?;
            pass.images_kept = !let_go_of_tenants(state, self.replicas, &removed).await?;
            for (_, index, removed_us) in removed {
                pass.take_removed(state, (index, removed_us), self.settings, now_us);
            }
        }
        let part = pass.walk.next(replica, PART).await?;
        // Whatever ends this turn here, the walk has moved on: then nothing is said of images.
        let kept_before = std::mem::replace(&mut pass.images_kept, true);
        pass.images_kept = kept_before | !let_go_of_images(state, &part.open).await?;
        part.open.iter().for_each(|open| pass.take(state, open, self.settings, now_us));
        if !part.ended {
            return Ok(None);
        }
        if let Some(index) = pass.images.filter(|_| !pass.images_kept) {
            state.forgot_images(index.min(pass.began));
        }
        let purged = match pass.log {
            Some(index) => self.let_go_of_log(replica, index).await?,
            None => None,
        };
        // Last: it takes longest, and one that fails must not hold up the log.
        if let Some(index) = pass.database {
            if let Some(purged) = purged {
                state.forgot_log(purged);
            }
            self.renew_database(replica, index).await?;
        }
        Ok(purged)
    }

    /// Wants a snapshot file and a log without what was there up to `index`. Up to where the log is gone, once
    /// it is, with the files that held as much.
    async fn let_go_of_log(&self, replica: &Replica, index: u64) -> Result<Option<u64>, Failed> {
        let state = &replica.state;
        state.want_snapshot(index);
        let has_file = state.snapshots().newest_index().is_some_and(|newest| newest >= index);
        let Some(purged) = replica.group.purged().filter(|purged| has_file && *purged >= index) else {
            return Ok(None);
        };
        let files = Arc::clone(state);
        tokio::task::spawn_blocking(move || files.let_go_of_files(purged)).await??;
        Ok(Some(purged))
    }

    async fn renew_database(&self, replica: &Replica, index: u64) -> Result<(), Failed> {
        let began = std::time::Instant::now();
        let state = Arc::clone(&replica.state);
        let group = replica.group.id();
        // One that was made anew since, for another reason, keeps only what was set aside then.
        if tokio::task::spawn_blocking(move || state.let_go_of_kept(index)).await?? {
            tracing::info!(group, index, "what was kept of an earlier database is removed for an erasure");
            return Ok(());
        }
        integrity::renew(replica, Arc::clone(self.given_up)).await?;
        tracing::info!(group, index, took = ?began.elapsed(), "database made anew after an erasure");
        Ok(())
    }
}
