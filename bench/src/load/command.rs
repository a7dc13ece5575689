//! `holdfast bench load`: load on a running server.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{Arrivals, LoadResult, Plan, Synthetic, run as run_plan};
use crate::client::{Client, ClientOptions, RetryPolicy};

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Only questions
    Recall,
    /// Only single new memories
    Write,
    /// Four questions to one new memory
    Mixed,
    /// Only contexts, of 2,000 tokens
    Context,
}

/// Arguments of `holdfast bench load`.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Base URL of the server
    #[arg(long, env = "HOLDFAST_URL", default_value = "http://127.0.0.1:7700")]
    url: String,
    /// API key
    #[arg(long, env = "HOLDFAST_API_KEY", hide_env_values = true)]
    key: String,
    /// What the clients do
    #[arg(long, value_enum, default_value = "mixed")]
    mode: Mode,
    /// Operations per second, Poisson arrivals; without it each client sends when the last
    /// answer is there
    #[arg(long)]
    rate: Option<f64>,
    /// Operations in flight at most
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Length of the measurement
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Load before the measurement
    #[arg(long, default_value_t = 5)]
    warm_up_seconds: u32,
    /// End after this many operations
    #[arg(long, default_value_t = 10_000_000)]
    operations_max: u64,
    /// Users, made before the run
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    users: u32,
    /// Memories of each user, made before the run
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    memories_per_user: u32,
    /// Seed of users, texts and arrivals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Longest wait for one answer
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    timeout_ms: u64,
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Prepares the users, applies the load, prints the result.
///
/// # Errors
/// A value out of range, a server that refuses the preparation, or a run in which no operation
/// was answered.
pub async fn run(args: &LoadArgs) -> Result<()> {
    let plan = Plan {
        arrivals: match args.rate {
            Some(rate_per_s) => Arrivals::Open { rate_per_s },
            None => Arrivals::Closed,
        },
        clients: args.clients,
        warm_up: Duration::from_secs(args.warm_up_seconds.into()),
        duration: Duration::from_secs(args.seconds.into()),
        operations_max: args.operations_max,
        seed: args.seed,
    };
    plan.check()?;
    let patient = ClientOptions::new(&args.url, &args.key);
    let measuring = ClientOptions {
        timeout: Duration::from_millis(args.timeout_ms),
        retry: RetryPolicy::never(),
        ..patient.clone()
    };
    let workload = Synthetic::new(Client::new(&measuring)?, args.mode, args.users, args.seed);
    eprintln!("storing {} memories for each of {} users", args.memories_per_user, args.users);
    workload
        .prepare(&Client::new(&patient)?, args.memories_per_user)
        .await
        .context("cannot prepare the users")?;
    eprintln!("running for {:.0} s", plan.length().as_secs_f64());
    let result = run_plan(plan, workload).await?;
    print!("{}", render(&result));
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&result)?;
        std::fs::write(path, json + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    ensure!(result.operations.values().any(|o| o.completed > 0), "no operation was answered");
    Ok(())
}

/// The result for people.
fn render(result: &LoadResult) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write!(text, "{:.1} operations/s", result.achieved_per_s);
    if let Some(intended) = result.intended_per_s {
        let _ = write!(text, " of {intended:.1} intended");
    }
    let _ = writeln!(text, ", {} not sent, {} unfinished", result.not_sent, result.unfinished);
    for (kind, operation) in &result.operations {
        let latency = operation.latency_us;
        let _ = writeln!(
            text,
            "{kind}: {} done, {} failed, {:.1}/s; us: mean {:.0}, p50 {}, p90 {}, p99 {}, \
             p99.9 {}, max {}",
            operation.completed,
            operation.failed,
            operation.achieved_per_s,
            latency.mean,
            latency.p50,
            latency.p90,
            latency.p99,
            latency.p999,
            latency.max
        );
        for (code, count) in &operation.errors {
            let _ = writeln!(text, "  {count} x {code}");
        }
    }
    if result.machine.debug_build {
        text.push_str("built with debug assertions: not for comparison\n");
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::fake::FakeServer;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        load: LoadArgs,
    }

    #[tokio::test]
    async fn a_short_run_writes_its_result() {
        let server = FakeServer::start().await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("load.json");
        let words = format!(
            "x --url {} --key k --rate 200 --clients 4 --seconds 1 --warm-up-seconds 0 \
             --users 3 --memories-per-user 5 --json {}",
            server.url,
            path.display()
        );
        let line = Line::try_parse_from(words.split_whitespace()).unwrap();
        run(&line.load).await.unwrap();
        assert_eq!(server.users(), 3);
        let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(json["intended_per_s"], 200.0);
        assert_eq!(json["plan"]["arrivals"]["kind"], "open");
        assert_eq!(json["plan"]["duration"], 1.0);
        assert!(json["operations"]["recall"]["latency_us"]["p99"].as_u64().unwrap() > 0);
        assert!(json["operations"]["write"]["completed"].as_u64().unwrap() > 0);
        assert!(json["machine"]["cores"].as_u64().unwrap() >= 1);
    }

    #[tokio::test]
    async fn nonsense_is_refused_before_anything_is_sent() {
        for words in ["--rate 0", "--rate nan", "--clients 0", "--seconds 0"] {
            let all = format!("x --url http://127.0.0.1:9 --key k {words}");
            let line = Line::try_parse_from(all.split_whitespace()).unwrap();
            let told = run(&line.load).await.unwrap_err().to_string();
            assert!(told.contains("must"), "{words}: {told}");
        }
    }
}
