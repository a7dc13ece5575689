//! How long writes stand still when the node that leads most groups is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::holdfast::{Cluster, Writer};
use super::texts::{Name, Texts, user};

/// Clients that write meanwhile, each for one user: together they reach most shards.
pub(super) const CLIENTS: u32 = 64;
/// How long they write before the kill.
const BEFORE: Duration = Duration::from_millis(1_500);
/// How long after it they are watched.
const AFTER: Duration = Duration::from_secs(8);
/// How long a killed node may take to be back with all rows.
const BACK_MAX: Duration = Duration::from_secs(120);

/// The standstills of all rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Failover {
    /// Of each round the longest time that any client waited for an acknowledgement from the kill on.
    pub(super) seconds: Vec<f64>,
    pub(super) median_s: f64,
    pub(super) worst_s: f64,
    /// Writes that were answered with an error in all rounds.
    pub(super) errors: u64,
}

/// The acknowledgements of one client.
struct Seen {
    acknowledged: Vec<(Name, Instant)>,
    errors: u64,
}

/// Kills and restarts a node `rounds` times under load. Returns the figures and every acknowledged
/// write with its user. `arm` is the number of the first round's writes.
pub(super) async fn run(
    cluster: &mut Cluster,
    texts: &Arc<Texts>,
    arm: u32,
    rounds: u32,
) -> Result<(Failover, Vec<Name>)> {
    let mut seconds = Vec::new();
    let (mut acknowledged, mut errors) = (Vec::new(), 0);
    for round in 0..rounds {
        let (stood_still, seen) = one_round(cluster, texts, arm + round).await?;
        seconds.push(stood_still.as_secs_f64());
        for seen in seen {
            errors += seen.errors;
            acknowledged.extend(seen.acknowledged.into_iter().map(|(name, _)| name));
        }
        eprintln!("failover {} of {rounds}: {:.2} s", round + 1, stood_still.as_secs_f64());
    }
    let mut sorted = seconds.clone();
    sorted.sort_by(f64::total_cmp);
    let median_s = median(&sorted);
    let worst_s = sorted.last().copied().unwrap_or_default();
    Ok((Failover { seconds, median_s, worst_s, errors }, acknowledged))
}

/// The median of sorted numbers.
pub(super) fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

async fn one_round(cluster: &mut Cluster, texts: &Arc<Texts>, arm: u32) -> Result<(Duration, Vec<Seen>)> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for client in 0..CLIENTS {
        let writer = cluster.client()?;
        writers.spawn(write(writer, Arc::clone(texts), arm, client, Arc::clone(&stop)));
    }
    tokio::time::sleep(BEFORE).await;
    let nodes = cluster.nodes().await?;
    let leading = nodes.iter().max_by_key(|node| node.leads.len()).context("there are no nodes")?;
    ensure!(!leading.leads.is_empty(), "no node leads anything");
    let index = leading.index().context("a node without a place")?;
    let killed = Instant::now();
    cluster.kill_node(index).await?;
    tokio::time::sleep(AFTER).await;
    stop.store(true, Ordering::Relaxed);
    let mut all = Vec::new();
    while let Some(seen) = writers.join_next().await {
        all.push(seen.context("a client died")?);
    }
    let stood_still =
        all.iter().map(|seen| longest_wait(killed, &seen.acknowledged)).max().unwrap_or_default();
    cluster.start_node(index).await?;
    cluster.wait_equal(BACK_MAX).await?;
    Ok((stood_still, all))
}

/// The longest time without an acknowledgement from `killed` on. A client that got none at all
/// waited until now.
fn longest_wait(killed: Instant, acknowledged: &[(Name, Instant)]) -> Duration {
    let mut last = killed;
    let mut longest = Duration::ZERO;
    for (_, at) in acknowledged.iter().filter(|(_, at)| *at > killed) {
        longest = longest.max(*at - last);
        last = *at;
    }
    if last == killed { killed.elapsed() } else { longest }
}

async fn write(writer: Writer, texts: Arc<Texts>, arm: u32, client: u32, stop: Arc<AtomicBool>) -> Seen {
    let mut seen = Seen { acknowledged: Vec::new(), errors: 0 };
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let name = Name { arm, client, number };
        match writer.write(&user_of(name), &name.id(), texts.content(name)).await {
            Ok(()) => seen.acknowledged.push((name, Instant::now())),
            Err(_) => seen.errors += 1,
        }
    }
    seen
}

/// The user of a client in these rounds: always the same one, so that it feels its shard's leader go.
pub(super) fn user_of(name: Name) -> String {
    user(u64::from(name.client) * 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_begins_with_the_kill() {
        let start = Instant::now() - Duration::from_secs(30);
        let at = |ms: u64| start + Duration::from_millis(ms);
        let name = |number| Name { arm: 0, client: 0, number };
        let acknowledged: Vec<(Name, Instant)> =
            [100, 900, 1_050, 2_600, 2_610].into_iter().zip(0..).map(|(ms, n)| (name(n), at(ms))).collect();
        // What came between the kill and the standstill does not hide it.
        assert_eq!(longest_wait(at(1_000), &acknowledged), Duration::from_millis(1_550));
        assert!(longest_wait(at(3_000), &acknowledged) > Duration::from_secs(20), "nothing came any more");
        assert_eq!((median(&[1.0, 2.0, 4.0]), median(&[1.0, 2.0]), median(&[])), (2.0, 1.5, 0.0));
    }
}
