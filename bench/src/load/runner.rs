//! Runs a plan.
//!
//! In an open loop one thread sleeps until each intended start and puts it in a bounded queue;
//! free clients take the oldest. The latency counts from the intended start, so the time that an
//! operation waits because the server stalled is part of it (no coordinated omission: G. Tene,
//! "How NOT to Measure Latency", 2013). A thread, because tokio's timers tick in milliseconds.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::plan::Schedule;
use super::recorder::Recorder;
use super::{Arrivals, LoadResult, Machine, Plan};

/// Starts that may wait for a free client. More are counted as not sent: a server that far
/// behind does not sustain the rate.
const QUEUE_MAX: usize = 100_000;

/// How long the run goes on after its end, for the operations still in the queue or in flight.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// What one operation was and how it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The kind of operation, for example `recall`.
    pub kind: &'static str,
    /// An error code if it failed.
    pub result: Result<(), String>,
}

/// Something to put under load.
pub trait Workload: Send + Sync + 'static {
    /// Performs operation `number` (counted from 0 over all clients).
    fn perform(&self, number: u64) -> impl Future<Output = Outcome> + Send;
}

/// One run, seen by all its clients.
struct Run<W> {
    workload: W,
    plan: Plan,
    start: Instant,
    taken: AtomicU64,
    unfinished: AtomicU64,
}

/// Runs the plan against the workload.
///
/// # Errors
/// If the plan is out of bounds or a thread cannot be started. Failing operations are no error:
/// they are counted by code.
pub async fn run<W: Workload>(plan: Plan, workload: W) -> Result<LoadResult> {
    plan.check()?;
    let run = Arc::new(Run {
        workload,
        start: Instant::now(),
        taken: AtomicU64::new(0),
        unfinished: AtomicU64::new(0),
        plan,
    });
    let mut clients = JoinSet::new();
    let mut not_sent = 0;
    match run.plan.arrivals {
        Arrivals::Closed => {
            for _ in 0..run.plan.clients {
                clients.spawn(closed_client(run.clone()));
            }
        }
        Arrivals::Open { rate_per_s } => {
            let (sender, receiver) = mpsc::channel(QUEUE_MAX);
            let receiver = Arc::new(Mutex::new(receiver));
            for _ in 0..run.plan.clients {
                clients.spawn(open_client(run.clone(), receiver.clone()));
            }
            let dispatched = Arc::new(AtomicBool::new(false));
            let dispatcher =
                Dispatcher { plan: run.plan.clone(), start: run.start, sender, stop: dispatched.clone() };
            let guard = StopOnDrop(dispatched);
            let (done_sender, done) = tokio::sync::oneshot::channel();
            std::thread::Builder::new()
                .name("load-arrivals".to_owned())
                .spawn(move || {
                    let _gone_reader = done_sender.send(dispatcher.dispatch(rate_per_s));
                })
                .context("cannot start the arrivals thread")?;
            not_sent += done.await.context("the arrivals thread died")?;
            drop(guard);
            // What is still queued when the clients give up was never sent.
            let recorder = collect(&mut clients).await?;
            let mut queue = receiver.lock().await;
            while queue.try_recv().is_ok() {
                not_sent += 1;
            }
            return Ok(result(&run, &recorder, not_sent));
        }
    }
    let recorder = collect(&mut clients).await?;
    Ok(result(&run, &recorder, not_sent))
}

async fn collect(clients: &mut JoinSet<Result<Recorder>>) -> Result<Recorder> {
    let mut all = Recorder::default();
    while let Some(done) = clients.join_next().await {
        all.merge(done.context("a client died")??)?;
    }
    Ok(all)
}

fn result<W>(run: &Run<W>, recorder: &Recorder, not_sent: u64) -> LoadResult {
    let plan = &run.plan;
    // Longer than planned where the queue was drained afterwards: else a server that is too slow
    // would seem to reach the intended rate.
    let window = plan.duration.max(recorder.last_end.saturating_sub(plan.warm_up));
    let operations = recorder.results(window);
    LoadResult {
        achieved_per_s: operations.values().map(|o| o.achieved_per_s).sum(),
        intended_per_s: match plan.arrivals {
            Arrivals::Open { rate_per_s } => Some(rate_per_s),
            Arrivals::Closed => None,
        },
        not_sent,
        unfinished: run.unfinished.load(Ordering::Relaxed),
        operations,
        machine: Machine::this(),
        plan: plan.clone(),
    }
}

/// Ends the dispatching thread when the run is dropped half way.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Dispatcher {
    plan: Plan,
    start: Instant,
    sender: mpsc::Sender<Duration>,
    stop: Arc<AtomicBool>,
}

impl Dispatcher {
    /// Longest sleep at a time, so that a dropped run ends its thread soon.
    const NAP_MAX: Duration = Duration::from_millis(100);

    /// Sends every intended start at its time; returns how many found the queue full.
    fn dispatch(self, rate_per_s: f64) -> u64 {
        let mut not_sent = 0;
        let count = usize::try_from(self.plan.operations_max).unwrap_or(usize::MAX);
        for at in Schedule::new(rate_per_s, self.plan.seed).take(count) {
            if at >= self.plan.length() {
                break;
            }
            loop {
                if self.stop.load(Ordering::Relaxed) {
                    return not_sent;
                }
                let wait = (self.start + at).saturating_duration_since(Instant::now());
                if wait.is_zero() {
                    break;
                }
                std::thread::sleep(wait.min(Self::NAP_MAX));
            }
            match self.sender.try_send(at) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(_)) => not_sent += 1,
                Err(mpsc::error::TrySendError::Closed(_)) => return not_sent,
            }
        }
        not_sent
    }
}

async fn open_client<W: Workload>(
    run: Arc<Run<W>>,
    queue: Arc<Mutex<mpsc::Receiver<Duration>>>,
) -> Result<Recorder> {
    let mut recorder = Recorder::default();
    let end = run.plan.length() + DRAIN_MAX;
    loop {
        let next = async { queue.lock().await.recv().await };
        let left = end.saturating_sub(run.start.elapsed());
        let Ok(Some(intended)) = tokio::time::timeout(left, next).await else {
            return Ok(recorder);
        };
        run.one(intended, end, &mut recorder).await?;
    }
}

async fn closed_client<W: Workload>(run: Arc<Run<W>>) -> Result<Recorder> {
    let mut recorder = Recorder::default();
    let end = run.plan.length() + DRAIN_MAX;
    loop {
        let now = run.start.elapsed();
        if now >= run.plan.length() || run.taken.load(Ordering::Relaxed) >= run.plan.operations_max {
            return Ok(recorder);
        }
        run.one(now, end, &mut recorder).await?;
    }
}

impl<W: Workload> Run<W> {
    /// Performs one operation and counts it if its intended start lies in the measurement.
    async fn one(&self, intended: Duration, end: Duration, recorder: &mut Recorder) -> Result<()> {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        if number >= self.plan.operations_max {
            return Ok(());
        }
        let left = end.saturating_sub(self.start.elapsed());
        let counted = intended >= self.plan.warm_up;
        let Ok(outcome) = tokio::time::timeout(left, self.workload.perform(number)).await else {
            if counted {
                self.unfinished.fetch_add(1, Ordering::Relaxed);
            }
            return Ok(());
        };
        if counted {
            let now = self.start.elapsed();
            recorder.last_end = now;
            recorder.record(outcome.kind, now.saturating_sub(intended), outcome.result)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn plan(arrivals: Arrivals, clients: usize, ms: u64) -> Plan {
        Plan {
            arrivals,
            clients,
            warm_up: Duration::ZERO,
            duration: Duration::from_millis(ms),
            operations_max: 1_000_000,
            seed: 3,
        }
    }

    /// Takes 1 ms, but stands still for 400 ms once.
    struct Stalls {
        at: u64,
    }

    impl Workload for Stalls {
        async fn perform(&self, number: u64) -> Outcome {
            let ms = if number == self.at { 400 } else { 1 };
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Outcome { kind: "x", result: Ok(()) }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_stall_is_seen_by_all_who_would_have_come_meanwhile() {
        let open = Arrivals::Open { rate_per_s: 200.0 };
        let result = run(plan(open, 1, 1000), Stalls { at: 60 }).await.unwrap();
        let x = &result.operations["x"];
        assert!((150..=260).contains(&x.completed), "{}", x.completed);
        // 80 of 200 arrive during the stall: a tenth waits far longer than an operation takes.
        assert!(x.latency_us.p90 > 100_000, "{:?}", x.latency_us);
        assert_eq!((result.not_sent, result.unfinished), (0, 0));
        assert_eq!(result.intended_per_s, Some(200.0));

        // The closed loop sees the same stall once.
        let result = run(plan(Arrivals::Closed, 1, 1000), Stalls { at: 60 }).await.unwrap();
        let x = &result.operations["x"];
        assert!(x.latency_us.p90 < 100_000 && x.latency_us.max > 390_000, "{x:?}");
    }

    struct Counts;

    impl Workload for Counts {
        async fn perform(&self, number: u64) -> Outcome {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let result = if number.is_multiple_of(4) { Err("overloaded".to_owned()) } else { Ok(()) };
            let kind = if number.is_multiple_of(2) { "even" } else { "odd" };
            Outcome { kind, result }
        }
    }

    #[tokio::test]
    async fn the_number_of_operations_is_a_bound_and_errors_are_counted_by_code() {
        for arrivals in [Arrivals::Closed, Arrivals::Open { rate_per_s: 2000.0 }] {
            let mut plan = plan(arrivals, 3, 5000);
            plan.operations_max = 100;
            let started = Instant::now();
            let result = run(plan, Counts).await.unwrap();
            assert!(started.elapsed() < Duration::from_secs(3));
            let (even, odd) = (&result.operations["even"], &result.operations["odd"]);
            assert_eq!((even.completed, even.failed), (25, 25));
            assert_eq!((odd.completed, odd.failed), (50, 0));
            assert_eq!(even.errors["overloaded"], 25);
        }
    }

    #[tokio::test]
    async fn the_warm_up_is_not_counted() {
        let mut plan = plan(Arrivals::Closed, 1, 300);
        plan.warm_up = Duration::from_millis(300);
        let result = run(plan, Stalls { at: 0 }).await.unwrap();
        assert!(result.operations["x"].latency_us.max < 300_000);
    }

    #[tokio::test]
    async fn too_high_a_rate_shows_in_the_achieved_one() {
        // One client of about 1-2 ms serves at most 1,000 a second; 3,000 are asked for.
        let open = Arrivals::Open { rate_per_s: 3000.0 };
        let result = run(plan(open, 1, 300), Stalls { at: u64::MAX }).await.unwrap();
        assert!(result.achieved_per_s < 1100.0, "{}", result.achieved_per_s);
        assert!(result.operations["x"].latency_us.p99 > 300_000);
    }
}
