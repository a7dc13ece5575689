//! `holdfast bench factconsolidation`: stores the facts in order, asks, and counts.

use super::dataset::{Case, Dataset};
use crate::client::{Client, ClientOptions, NewMemory, RecallRequest};
use crate::dev_server::DevServer;
use crate::import::{BATCH_MAX, Item, import};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Memories asked for.
const TOP_K: u32 = 5;
/// How long a server that this command starts may take until it serves.
const START_MAX: Duration = Duration::from_secs(180);

/// Arguments of `holdfast bench factconsolidation`.
#[derive(Debug, Args)]
pub struct FactConsolidationArgs {
    /// The file (Conflict_Resolution.json)
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    /// Write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A running server; without it one is started and stopped again
    #[arg(long, env = "HOLDFAST_URL", requires = "key")]
    url: Option<String>,
    /// API key of the running server
    #[arg(long, env = "HOLDFAST_API_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Most facts of a case; longer cases are left out
    #[arg(long, default_value_t = 5_000)]
    facts: usize,
    /// Prefix of the users, one per case; fresh on a server that is kept
    #[arg(long, default_value = "facts")]
    user: String,
}

/// What was measured: fractions of the questions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Questions whose fact has an older version.
    pub questions: usize,
    /// Facts that were stored.
    pub facts: usize,
    /// The current fact comes first.
    pub current_first: f64,
    /// A stale fact is among the first five.
    pub stale_in_top_5: f64,
}

/// Runs the benchmark.
///
/// # Errors
/// If the file cannot be read, or the server cannot be started or refuses something.
pub async fn run(args: &FactConsolidationArgs) -> Result<()> {
    let text = std::fs::read_to_string(&args.data)
        .with_context(|| format!("cannot read {}", args.data.display()))?;
    let data = Dataset::parse(&text)?;
    let report = match (&args.url, &args.key) {
        (Some(url), Some(key)) => measure(args, &data, url, key).await?,
        _ => {
            let server = DevServer::start(START_MAX).await?;
            let report = measure(args, &data, &server.url, &server.key).await;
            if report.is_err() {
                eprintln!("{}", server.log());
            }
            server.stop().await;
            report?
        }
    };
    println!(
        "FactConsolidation, {} questions about facts that changed, {} facts\n\
         current fact first: {:.1} %\nstale fact in the first five: {:.1} %",
        report.questions,
        report.facts,
        100.0 * report.current_first,
        100.0 * report.stale_in_top_5
    );
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, json + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

async fn measure(args: &FactConsolidationArgs, data: &Dataset, url: &str, key: &str) -> Result<Report> {
    let client = Client::new(&ClientOptions::new(url, key))?;
    let (mut report, mut first, mut stale) = (Report::default(), 0u32, 0u32);
    for case in data.cases.iter().filter(|case| case.facts.len() <= args.facts) {
        let user = format!("{}-{}", args.user, case.name);
        eprintln!("storing {} ({} facts)", case.name, case.facts.len());
        let token = store(&client, &user, case).await?;
        report.facts += case.facts.len();
        for question in &case.questions {
            let request = RecallRequest {
                query: question.text.clone(),
                top_k: TOP_K,
                profile: Some("relevance".to_owned()),
                token: token.clone(),
                ..RecallRequest::default()
            };
            let answer = client.recall(&user, &request).await?;
            let found: Vec<&str> = answer.results.iter().map(|hit| hit.memory.content.as_str()).collect();
            report.questions += 1;
            first += u32::from(found.first() == Some(&case.facts[question.current].as_str()));
            stale += u32::from(found.iter().any(|text| question.stale.contains(*text)));
        }
    }
    ensure!(report.questions > 0, "no case has at most {} facts and a question about a change", args.facts);
    // Their number is far below 2^32.
    let questions = f64::from(u32::try_from(report.questions).unwrap_or(u32::MAX));
    (report.current_first, report.stale_in_top_5) =
        (f64::from(first) / questions, f64::from(stale) / questions);
    Ok(report)
}

/// Stores the facts as they were told, one after the other.
async fn store(client: &Client, user: &str, case: &Case) -> Result<Option<String>> {
    let items: Vec<Item> = case
        .facts
        .iter()
        .enumerate()
        .map(|(at, fact)| Item {
            origin: format!("fact {at}"),
            memory: NewMemory { content: fact.clone(), ..NewMemory::default() },
        })
        .collect();
    let summary = import(client, user, &items, BATCH_MAX, |_| ()).await?;
    ensure!(summary.rejected.is_empty(), "{} facts were rejected", summary.rejected.len());
    Ok(summary.token)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::fake::FakeServer;

    /// The fake server ranks by shared words and knows nothing of facts, so both versions come back.
    #[tokio::test]
    async fn a_run_stores_asks_and_counts() {
        let file = serde_json::json!([{
            "context": "Here is a list of facts:\n0. The capital of Ulm is Oldtown.\n1. The capital of Ulm is Newtown.",
            "questions": ["What is the capital of Ulm?"],
            "answers": [["Newtown"]],
            "metadata": {"qa_pair_ids": ["factconsolidation_sh_6k_no0"]},
        }]);
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("tiny.json");
        std::fs::write(&data, file.to_string()).unwrap();
        let server = FakeServer::start().await;
        let args = FactConsolidationArgs {
            data,
            json: Some(folder.path().join("out.json")),
            url: Some(server.url.clone()),
            key: Some("k".to_owned()),
            facts: 10,
            user: "t".to_owned(),
        };
        run(&args).await.unwrap();
        assert_eq!(server.memories("t-factconsolidation_sh_6k"), 2);
        let json = std::fs::read_to_string(args.json.unwrap()).unwrap();
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&report["questions"], &report["facts"]), (&serde_json::json!(1), &serde_json::json!(2)));
        assert_eq!(report["stale_in_top_5"], 1.0);
        assert!(report["current_first"].is_number());
    }
}
