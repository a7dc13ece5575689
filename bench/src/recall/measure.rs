//! One cluster under questions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};

use super::result::{Arm, Closed, Latency, Open};
use super::sets::{Mode, Question, SHARES, Set, TOP_K};
use crate::client::{AddRequest, AddStatus, Client, RecallAnswer};
use crate::cluster::Cluster;
use crate::load::{Arrivals, LoadResult, Outcome, Percentiles, Plan, Workload, run};

/// Memories in one write.
const BATCH: usize = 100;
/// Writes and single questions under way at once.
const AT_ONCE: usize = 8;
/// Clients of the two closed loops; the last one's rate is halved for the open loop.
const CLIENTS: [usize; 2] = [1, 16];
/// Questions whose answers are compared with the truth.
const JUDGED: usize = 100;
/// Differences of scores that are no difference.
const TIE: f64 = 1e-6;
/// Bound of a run; the time ends it before.
const OPERATIONS_MAX: u64 = 100_000_000;

/// Stores the whole set. Returns memories a second.
pub(super) async fn store(client: &Client, set: &Set) -> Result<f64> {
    let begin = Instant::now();
    let batches = set.spaces.iter().enumerate().flat_map(|(space, rows)| {
        rows.clone().step_by(BATCH).map(move |start| (space, start..(start + BATCH).min(rows.end)))
    });
    stream::iter(batches)
        .map(|(space, rows)| async move {
            let key = format!("{space}-{}", rows.start);
            let memories: Vec<_> = rows.map(|row| set.memory(row)).collect();
            let request = AddRequest { memories, infer: Some("none".to_owned()), ..AddRequest::default() };
            let answer = client.add_memories(&Set::user(space), &request, &key).await?;
            let stored =
                |status| matches!(status, AddStatus::Created | AddStatus::Duplicate | AddStatus::Merged);
            ensure!(answer.results.iter().all(|result| stored(result.status)), "a memory was not stored");
            Ok(())
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(set.memories() as f64 / begin.elapsed().as_secs_f64().max(1e-6))
}

/// Asks each question once, `at_once` at a time. Returns the answers and how long they took.
pub(super) async fn ask(
    client: &Client,
    questions: &[Question],
    mode: Mode,
    at_once: usize,
) -> Result<(Vec<RecallAnswer>, Latency)> {
    let asked: Vec<(RecallAnswer, Duration)> = stream::iter(questions)
        .map(|question| async move {
            let (user, request) = (Set::user(question.space), question.request(mode, TOP_K, SHARES));
            let begin = Instant::now();
            let answer = client.recall(&user, &request).await?;
            anyhow::Ok((answer, begin.elapsed()))
        })
        .buffered(at_once)
        .try_collect()
        .await?;
    let mut times: Vec<u64> = asked.iter().map(|(_, took)| us(*took)).collect();
    times.sort_unstable();
    let at = |quantile: f64| {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let index = (quantile * times.len() as f64).ceil() as usize;
        times.get(index.saturating_sub(1)).copied().unwrap_or(0)
    };
    let latency = Latency { count: times.len() as u64, p50_us: at(0.5), p99_us: at(0.99), max_us: at(1.0) };
    Ok((asked.into_iter().map(|(answer, _)| answer).collect(), latency))
}

/// How questions are asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) mode: Mode,
    pub(super) top_k: usize,
    /// Memories in 1,000 that pass the filter.
    pub(super) per_mille: usize,
}

impl Asked {
    pub(super) fn new(mode: Mode) -> Self {
        Self { mode, top_k: TOP_K, per_mille: SHARES }
    }
}

/// Questions as a load.
struct Recalls {
    client: Client,
    questions: Arc<Vec<Question>>,
    asked: Asked,
}

impl Workload for Recalls {
    async fn perform(&self, number: u64) -> Outcome {
        let at = usize::try_from(number).unwrap_or_default() % self.questions.len();
        let (question, Asked { mode, top_k, per_mille }) = (&self.questions[at], self.asked);
        let request = question.request(mode, top_k, per_mille);
        let answer = self.client.recall(&Set::user(question.space), &request).await;
        Outcome { kind: "recall", result: answer.map(drop).map_err(|error| error.code().to_owned()) }
    }
}

/// Measures one kind of recall, warm. The composite recall is left to [`composite_recall`].
pub(super) async fn arm(
    cluster: &Cluster,
    set: &Set,
    questions: &Arc<Vec<Question>>,
    mode: Mode,
    time: Duration,
) -> Result<(Arm, Vec<RecallAnswer>)> {
    let client = cluster.rest_client()?;
    let judged = &questions[..JUDGED.min(questions.len())];
    let (answers, _) = ask(&client, judged, mode, AT_ONCE).await?;
    let recall_at_10 = match mode {
        Mode::Vector => Some(mean(judged.iter().zip(&answers).map(|(question, answer)| {
            let found: Vec<String> = answer.results.iter().map(|hit| hit.memory.id.clone()).collect();
            set.recall(question, &found)
        }))),
        Mode::Composite => None,
    };
    let mut closed = Vec::new();
    for clients in CLIENTS {
        closed.push(one_closed(cluster, questions, Asked::new(mode), clients, time).await?);
    }
    let reached = closed.last().map_or(0.0, |closed| closed.per_s);
    let share = |of: fn(&RecallAnswer) -> Option<bool>| {
        mean(answers.iter().map(|answer| f64::from(u8::from(of(answer) == Some(true)))))
    };
    let arm = Arm {
        mode,
        indices: answers
            .iter()
            .filter_map(|answer| answer.index.clone())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
        exact: share(|answer| answer.exact),
        bound_met: share(|answer| answer.bound_met),
        recall_at_10,
        scored: mean(answers.iter().map(|answer| answer.scored.unwrap_or(0) as f64)),
        open: open(cluster, questions, Asked::new(mode), (reached / 2.0).max(1.0), time).await?,
        closed,
    };
    Ok((arm, answers))
}

/// The part of the exact best that answers have, where a tie with the last of them counts.
pub(super) fn composite_recall(answers: &[RecallAnswer], exact: &[RecallAnswer]) -> f64 {
    mean(answers.iter().zip(exact).map(|(answer, exact)| {
        let wanted = TOP_K.min(exact.results.len());
        let Some(last) = exact.results.last() else { return 1.0 };
        let right = answer.results.iter().filter(|hit| hit.score >= last.score - TIE).count();
        right.min(wanted) as f64 / wanted as f64
    }))
}

/// So many clients, each of which asks when its last question is answered.
pub(super) async fn one_closed(
    cluster: &Cluster,
    questions: &Arc<Vec<Question>>,
    asked: Asked,
    clients: usize,
    time: Duration,
) -> Result<Closed> {
    let before = cluster.cpu_by_role()?;
    let begin = Instant::now();
    let result = go(cluster, questions, asked, Arrivals::Closed, clients, time).await?;
    let after = cluster.cpu_by_role()?;
    let (answered, failed, latency) = figures(&result)?;
    // All questions of the time, so that what was answered at its edges counts on both sides.
    let each = |spent: Duration| spent.as_secs_f64() * 1e6 / (answered + failed).max(1) as f64;
    Ok(Closed {
        clients,
        per_s: answered as f64 / begin.elapsed().as_secs_f64(),
        failed,
        latency,
        router_us: each(after.router.saturating_sub(before.router)),
        nodes_us: each(after.nodes.saturating_sub(before.nodes)),
    })
}

async fn open(
    cluster: &Cluster,
    questions: &Arc<Vec<Question>>,
    asked: Asked,
    rate_per_s: f64,
    time: Duration,
) -> Result<Open> {
    let clients = CLIENTS.last().copied().unwrap_or(1) * 4;
    let result = go(cluster, questions, asked, Arrivals::Open { rate_per_s }, clients, time).await?;
    let (_, failed, latency) = figures(&result)?;
    Ok(Open { per_s: rate_per_s, failed, not_sent: result.not_sent + result.unfinished, latency })
}

async fn go(
    cluster: &Cluster,
    questions: &Arc<Vec<Question>>,
    asked: Asked,
    arrivals: Arrivals,
    clients: usize,
    time: Duration,
) -> Result<LoadResult> {
    let plan = Plan {
        arrivals,
        clients,
        warm_up: Duration::ZERO,
        duration: time,
        operations_max: OPERATIONS_MAX,
        seed: 1,
    };
    run(plan, Recalls { client: cluster.rest_client()?, questions: Arc::clone(questions), asked }).await
}

/// Answered, failed, latencies.
fn figures(result: &LoadResult) -> Result<(u64, u64, Latency)> {
    let recall = result.operations.get("recall").context("no question was answered")?;
    ensure!(recall.completed > 0, "every question failed: {:?}", recall.errors);
    let Percentiles { p50, p99, max, .. } = recall.latency_us;
    let latency = Latency { count: recall.completed, p50_us: p50, p99_us: p99, max_us: max };
    Ok((recall.completed, recall.failed, latency))
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}
