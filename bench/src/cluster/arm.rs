//! One measurement: so many clients, each with one write after the other, for so long.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::texts::Name;

/// Largest latency told apart, in microseconds; longer ones count as this.
const LATENCY_US_MAX: u64 = 60_000_000;
/// Distinct error codes kept; further ones count as `other`.
const CODES_MAX: usize = 32;

/// How long clients write before and while they are measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Times {
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
}

/// The figures of one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    /// Acknowledged writes in the measured time.
    pub(super) writes: u64,
    /// The measured time.
    pub(super) seconds: f64,
    pub(super) writes_per_s: f64,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
    pub(super) max_us: u64,
    /// Processor time of all server processes for one write.
    pub(super) cpu_ms_per_write: f64,
    /// Of it, that of the router; 0 where there is none.
    #[serde(default)]
    pub(super) router_cpu_ms_per_write: f64,
    /// Writes that were not acknowledged, by error code.
    pub(super) errors: BTreeMap<String, u64>,
}

/// Processor time of servers so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cpu {
    /// Of all of them.
    pub(super) all: Duration,
    /// Of the router among them.
    pub(super) router: Duration,
}

/// What one client did.
struct Done {
    latency_us: Histogram<u64>,
    acknowledged: Vec<Name>,
    errors: BTreeMap<String, u64>,
}

/// When the measured time begins and ends.
#[derive(Clone, Copy)]
struct Window {
    begin: Instant,
    end: Instant,
}

/// Runs `clients` until the measured time is over. `cpu` tells the processor time of the servers.
/// Returns the figures and every write that was acknowledged, those of the warm-up among them.
pub(super) async fn run<C, W>(
    arm: u32,
    times: Times,
    clients: Vec<C>,
    cpu: impl Fn() -> Result<Cpu>,
) -> Result<(Measured, Vec<Name>)>
where
    C: Fn(Name) -> W + Send + 'static,
    W: Future<Output = Result<(), String>> + Send + 'static,
{
    let begin = Instant::now() + times.warm_up;
    let window = Window { begin, end: begin + times.measured };
    let mut running = JoinSet::new();
    for (client, write) in (0..).zip(clients) {
        running.spawn(run_client(arm, client, window, write));
    }
    tokio::time::sleep_until(window.begin.into()).await;
    let (cpu_before, measured_from) = (cpu()?, Instant::now());
    tokio::time::sleep_until(window.end.into()).await;
    let (cpu_after, measured_until) = (cpu()?, Instant::now());

    let mut latency_us = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)?;
    let (mut acknowledged, mut errors) = (Vec::new(), BTreeMap::new());
    while let Some(done) = running.join_next().await {
        let done = done.context("a client died")??;
        latency_us.add(&done.latency_us)?;
        acknowledged.extend(done.acknowledged);
        for (code, count) in done.errors {
            *errors.entry(code).or_default() += count;
        }
    }
    let seconds = times.measured.as_secs_f64();
    let writes = latency_us.len();
    // The two looks at the clocks of the servers are a little later than the window's ends.
    let looked = measured_until.duration_since(measured_from).as_secs_f64().max(1e-9);
    let ms_per_write = |before: Duration, after: Duration| {
        after.saturating_sub(before).as_secs_f64() * 1e3 * seconds / looked / (writes as f64).max(1.0)
    };
    let measured = Measured {
        writes,
        seconds,
        writes_per_s: writes as f64 / seconds,
        p50_us: latency_us.value_at_quantile(0.5),
        p99_us: latency_us.value_at_quantile(0.99),
        max_us: latency_us.max(),
        cpu_ms_per_write: ms_per_write(cpu_before.all, cpu_after.all),
        router_cpu_ms_per_write: ms_per_write(cpu_before.router, cpu_after.router),
        errors,
    };
    Ok((measured, acknowledged))
}

async fn run_client<C, W>(arm: u32, client: u32, window: Window, write: C) -> Result<Done>
where
    C: Fn(Name) -> W,
    W: Future<Output = Result<(), String>>,
{
    let mut done = Done {
        latency_us: Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)?,
        acknowledged: Vec::new(),
        errors: BTreeMap::new(),
    };
    for number in 0.. {
        let name = Name { arm, client, number };
        let begin = Instant::now();
        if begin >= window.end {
            break;
        }
        let result = write(name).await;
        let now = Instant::now();
        match result {
            Ok(()) => {
                done.acknowledged.push(name);
                if now >= window.begin && now < window.end {
                    let us = u64::try_from((now - begin).as_micros()).unwrap_or(LATENCY_US_MAX);
                    done.latency_us.saturating_record(us.max(1));
                }
            }
            Err(code) => {
                let known = done.errors.contains_key(&code) || done.errors.len() < CODES_MAX;
                *done.errors.entry(if known { code } else { "other".to_owned() }).or_default() += 1;
            }
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[tokio::test]
    async fn what_is_acknowledged_is_counted_and_named() {
        let calls = Arc::new(AtomicU64::new(0));
        let client = |_| {
            let calls = calls.clone();
            move |name: Name| {
                let calls = calls.clone();
                async move {
                    calls.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    if name.number % 4 == 3 { Err("unavailable".to_owned()) } else { Ok(()) }
                }
            }
        };
        let times = Times { warm_up: Duration::from_millis(50), measured: Duration::from_millis(200) };
        let cpu = Arc::new(AtomicU64::new(0));
        let read = || {
            let all = Duration::from_secs(cpu.fetch_add(2, Ordering::Relaxed));
            Ok(Cpu { all, router: all / 2 })
        };
        let (measured, acknowledged) = run(9, times, (0..3).map(client).collect(), read).await.unwrap();
        assert!(measured.writes > 0 && measured.writes <= acknowledged.len() as u64);
        assert!(measured.p50_us >= 1_500 && measured.max_us >= measured.p99_us);
        let failed = measured.errors["unavailable"];
        assert_eq!(failed + acknowledged.len() as u64, calls.load(Ordering::Relaxed));
        assert!(acknowledged.iter().all(|name| name.arm == 9 && name.client < 3 && name.number % 4 != 3));
        let (all, router) = (measured.cpu_ms_per_write, measured.router_cpu_ms_per_write);
        assert!(all > 0.0 && (all - 2.0 * router).abs() < 1e-6, "{all} {router}");
    }
}
