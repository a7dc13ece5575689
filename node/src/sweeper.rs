//! Proposes sweeps for the groups that this node leads, when something is due.

use crate::raft::{Clock, GroupId, SystemClock};
use crate::service::Replica;
use holdfast_core::apply::last_applied_us;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, SWEEP_ROWS_MAX};
use holdfast_core::keys::due::{self, Due};
use holdfast_core::outcome::Outcome;
use holdfast_core::state::Reader;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Time between two looks at what is due.
const PERIOD: Duration = Duration::from_secs(1);
/// Time for one proposal.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Sweeps of one group in one turn; what is left waits for the next.
const SWEEPS_MAX: usize = 64;
/// A clock that is further ahead of log time than this, beyond what has passed since the group was
/// last seen to apply, expires nothing: a wrong clock must not forget what it should keep.
const AHEAD_MAX_US: i64 = 5 * 60 * 1_000_000;

/// When a group last applied something new, by this process's own steady clock.
#[derive(Clone, Copy)]
struct Progress {
    log_us: i64,
    since: Instant,
    warned: bool,
}

pub(crate) async fn run(replicas: BTreeMap<GroupId, Replica>, stop: CancellationToken) {
    let mut progress: BTreeMap<GroupId, Progress> = BTreeMap::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        for (id, replica) in &replicas {
            if let Err(error) = sweep(*id, replica, &mut progress).await {
                tracing::warn!(group = id, %error, "what is due could not be swept; it is tried again");
            }
        }
    }
}

async fn sweep(
    id: GroupId,
    replica: &Replica,
    progress: &mut BTreeMap<GroupId, Progress>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let Some(log_us) = last_applied_us(&replica.state.reader())? else { return Ok(()) };
    let seen = progress.entry(id).or_insert(Progress { log_us, since: Instant::now(), warned: false });
    if seen.log_us != log_us {
        *seen = Progress { log_us, since: Instant::now(), warned: false };
    }
    if !replica.group.status().is_leader {
        return Ok(());
    }
    let clock_us = i64::try_from(SystemClock.now_us())?;
    let Some(due_us) = first_due(replica)?.filter(|due_us| *due_us <= clock_us) else { return Ok(()) };
    if !is_plausible(clock_us, *seen) {
        if !std::mem::replace(&mut seen.warned, true) {
            tracing::error!(
                group = id,
                clock_us,
                log_us,
                due_us,
                "this clock is far ahead of the log: nothing expires until a write has moved log time"
            );
        }
        return Ok(());
    }
    let command = Command::Sweep { limit: SWEEP_ROWS_MAX }.encode()?;
    for _ in 0..SWEEPS_MAX {
        let proposed = replica.group.propose(command.clone().into(), Instant::now() + TIMEOUT).await?;
        match Outcome::decode(&proposed.outcome)? {
            Outcome::Swept { more: true, .. } => {}
            _ => break,
        }
    }
    Ok(())
}

fn first_due(replica: &Replica) -> Result<Option<i64>, Box<dyn std::error::Error + Send + Sync>> {
    let rows = replica.state.reader().scan(&due::prefix(), None, 1)?;
    Ok(rows.first().and_then(|(key, _)| Due::parse(key)).map(|due| due.at_us))
}

fn is_plausible(clock_us: i64, progress: Progress) -> bool {
    let elapsed_us = i64::try_from(progress.since.elapsed().as_micros()).unwrap_or(i64::MAX);
    let expected_us = progress.log_us.saturating_add(elapsed_us);
    clock_us.saturating_sub(expected_us) <= AHEAD_MAX_US
}
