//! `holdfast bench precisionmem`: stores the beliefs, asks the cases, and counts.

use super::asked::Asking;
use super::dataset::{Belief, Dataset};
use super::measured::{Counts, Report};
use crate::client::{Client, ClientOptions, NewMemory};
use crate::import::{BATCH_MAX, Item, import};
use crate::target::{self, TargetArgs};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Arguments of `holdfast bench precisionmem`.
#[derive(Debug, Args)]
pub struct PrecisionMemArgs {
    /// The folder with beliefs.seed.json and retrieval.cases.json
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    /// Write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    target: TargetArgs,
    /// Most beliefs of one answer
    #[arg(long, default_value_t = 5)]
    top_k: u32,
    /// Relevance from which on a belief is an answer
    #[arg(long, default_value_t = 0.5, value_name = "SCORE")]
    min_score: f64,
    /// Prefix of the users; fresh on a server that is kept
    #[arg(long, default_value = "precision")]
    user: String,
}

/// Runs the benchmark.
///
/// # Errors
/// If a file cannot be read, the server cannot be started or refuses something, or an answer holds what is another
/// user's or of another scope.
pub async fn run(args: &PrecisionMemArgs) -> Result<()> {
    let read = |name: &str| target::read(&args.data.join(name));
    let data = Dataset::parse(&read("beliefs.seed.json")?, &read("retrieval.cases.json")?)?;
    let report = args.target.measure(async |url, key| measure(args, &data, url, key).await).await?;
    print(&report);
    target::write_json(args.json.as_deref(), &report)?;
    ensure!(report.leaked == 0, "{} answers hold what is another user's or of another scope", report.leaked);
    Ok(())
}

fn print(report: &Report) {
    let Report { latency, .. } = report;
    println!("{} beliefs, {} cases, {} passed", report.beliefs, report.cases, report.passed);
    println!(
        "precision {:.3}, recall {:.3} over {} cases with an answer, {} of them exact; {} of {} without one empty",
        report.precision,
        report.recall,
        report.active,
        report.active_passed,
        report.empty_passed,
        report.empty
    );
    println!("leakage: {}", report.leaked);
    println!(
        "supersession: {} of {} right; superseded beliefs in answers: {}",
        report.superseded_right, report.superseded, report.stale
    );
    println!(
        "latency of {} recalls: p50 {:.2} ms, p95 {:.2} ms, max {:.2} ms",
        latency.count, latency.p50_ms, latency.p95_ms, latency.max_ms
    );
    for (category, (passed, asked)) in &report.categories {
        println!("  {category}: {passed} of {asked}");
    }
}

async fn measure(args: &PrecisionMemArgs, data: &Dataset, url: &str, key: &str) -> Result<Report> {
    let client = Client::new(&ClientOptions::new(url, key))?;
    let name = |user: &str| format!("{}-{user}", args.user);
    let mut asking =
        Asking { client: &client, token: None, top_k: args.top_k, min_score: Some(args.min_score) };
    let mut by_user: BTreeMap<&str, Vec<&Belief>> = BTreeMap::new();
    for belief in &data.beliefs {
        by_user.entry(&belief.user_id).or_default().push(belief);
    }
    for (user, beliefs) in &by_user {
        let token = store(&client, &name(user), beliefs).await?;
        // Tokens of several spaces need not be one; that of whom most is asked of goes with the recalls.
        if *user == data.user() {
            asking.token = token;
        }
    }
    let mut counts = Counts::default();
    for case in &data.cases {
        let user = case.user_id.as_deref().unwrap_or_else(|| data.user());
        let answered = asking.case(&name(user), case).await.with_context(|| case.case_id.clone())?;
        counts.case(data, case, &answered);
    }
    for belief in data.beliefs.iter().filter(|belief| belief.superseded_by.is_some()) {
        let last = data.last_of(belief).unwrap_or(belief);
        let came = asking.probe(&name(&belief.user_id), &belief.scope, &belief.content).await?;
        counts.superseded(data, &belief.user_id, &belief.scope, &last.id, &came);
    }
    Ok(counts.report(data.beliefs.len()))
}

/// Stores the beliefs of a user, the oldest first, and says which took whose place.
async fn store(client: &Client, user: &str, beliefs: &[&Belief]) -> Result<Option<String>> {
    let mut ordered = beliefs.to_vec();
    ordered.sort_by(|one, other| one.created_at.cmp(&other.created_at));
    let items: Vec<Item> = ordered.iter().map(|belief| item(belief)).collect();
    let summary = import(client, user, &items, BATCH_MAX, |_| ()).await?;
    ensure!(summary.rejected.is_empty(), "{} beliefs were rejected", summary.rejected.len());
    let mut token = summary.token;
    for belief in ordered {
        if let Some(by) = &belief.superseded_by {
            let answer = client.resolve(user, by, &[belief.id.as_str()]).await;
            let answer = answer.with_context(|| format!("{by} supersedes {}", belief.id))?;
            token = answer["token"].as_str().map(str::to_owned).or(token);
        }
    }
    Ok(token)
}

fn item(belief: &Belief) -> Item {
    let mut names = vec![belief.canonical_name.replace('_', " ")];
    names.extend(belief.aliases.iter().cloned());
    let mut metadata = Map::new();
    metadata.insert("scope".to_owned(), json!(belief.scope));
    metadata.insert("type".to_owned(), json!(belief.kind));
    metadata.insert("resolved".to_owned(), Value::Bool(belief.resolved_at.is_some()));
    Item {
        origin: belief.id.clone(),
        memory: NewMemory {
            id: Some(belief.id.clone()),
            content: format!("{}: {}", names.join(", "), belief.content),
            event_time: belief.created_at.clone(),
            pinned: Some(belief.pinned),
            metadata: Some(metadata),
            ..NewMemory::default()
        },
    }
}

#[cfg(test)]
mod tests;
