//! Proposes sweeps for the groups that this node leads, when something is due.

use crate::integrity::{Integrity, Versions};
use crate::metrics::SweepMetrics;
use crate::raft::{Clock, GroupId};
use crate::rechecker;
use crate::service::Replica;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, SWEEP_ROWS_MAX};
use holdfast_core::keys::due::{self, Due};
use holdfast_core::outcome::Outcome;
use holdfast_core::state::Reader;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Time between two looks at what is due.
const PERIOD: Duration = Duration::from_secs(1);
/// Time for one proposal.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Sweeps of one group in one turn; what is left waits for the next.
const SWEEPS_MAX: usize = 64;

/// Sweeps until `stop`.
pub(crate) fn start(
    replicas: &BTreeMap<GroupId, Replica>,
    clock: Arc<dyn Clock>,
    metrics: &SweepMetrics,
    integrity: &Integrity,
    stop: &CancellationToken,
) -> JoinHandle<()> {
    let versions = integrity.versions().clone();
    tokio::spawn(run(replicas.clone(), clock, metrics.clone(), versions, stop.clone()))
}

async fn run(
    replicas: BTreeMap<GroupId, Replica>,
    clock: Arc<dyn Clock>,
    metrics: SweepMetrics,
    versions: Versions,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        for (id, replica) in &replicas {
            if let Err(error) = sweep(replica, clock.as_ref(), &metrics, &versions).await {
                metrics.failed();
                tracing::warn!(group = id, %error, "what is due could not be swept; it is tried again");
            }
        }
    }
}

async fn sweep(
    replica: &Replica,
    clock: &dyn Clock,
    metrics: &SweepMetrics,
    versions: &Versions,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    if !replica.group.status().is_leader {
        return Ok(());
    }
    let now_us = i64::try_from(clock.now_us())?;
    if first_due(replica)?.is_none_or(|due_us| due_us > now_us) {
        return Ok(());
    }
    let command = Command::Sweep { limit: SWEEP_ROWS_MAX };
    // A replica of an older version would take other rows out.
    if let Err(why) = versions.none_is_older(command.known_since()) {
        tracing::debug!(why, "what is due waits");
        return Ok(());
    }
    if let Err(error) = rechecker::recheck(replica, now_us, versions).await {
        // It is tried again for a while; what else is due does not wait for it.
        metrics.failed();
        tracing::warn!(%error, "a possible conflict could not be looked for again");
    }
    let command = command.encode()?;
    for _ in 0..SWEEPS_MAX {
        let proposed = replica.propose(command.clone().into(), Instant::now() + TIMEOUT).await?;
        match Outcome::decode(&proposed.outcome)? {
            Outcome::Swept { done, more } => {
                metrics.swept(done);
                if !more {
                    break;
                }
            }
            _ => break,
        }
    }
    Ok(())
}

fn first_due(replica: &Replica) -> Result<Option<i64>, Box<dyn std::error::Error + Send + Sync>> {
    let rows = replica.state.reader().scan(&due::prefix(), None, 1)?;
    Ok(rows.first().and_then(|(key, _)| Due::parse(key)).map(|due| due.at_us))
}
