//! Proposes sweeps for the groups that this node leads, when something is due.

use crate::metrics::SweepMetrics;
use crate::raft::{Clock, GroupId};
use crate::service::Replica;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, SWEEP_ROWS_MAX};
use holdfast_core::keys::due::{self, Due};
use holdfast_core::outcome::Outcome;
use holdfast_core::state::Reader;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Time between two looks at what is due.
const PERIOD: Duration = Duration::from_secs(1);
/// Time for one proposal.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Sweeps of one group in one turn; what is left waits for the next.
const SWEEPS_MAX: usize = 64;

pub(crate) async fn run(
    replicas: BTreeMap<GroupId, Replica>,
    clock: Arc<dyn Clock>,
    metrics: SweepMetrics,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        for (id, replica) in &replicas {
            if let Err(error) = sweep(replica, clock.as_ref(), &metrics).await {
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
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    if !replica.group.status().is_leader {
        return Ok(());
    }
    let now_us = i64::try_from(clock.now_us())?;
    if first_due(replica)?.is_none_or(|due_us| due_us > now_us) {
        return Ok(());
    }
    let command = Command::Sweep { limit: SWEEP_ROWS_MAX }.encode()?;
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
