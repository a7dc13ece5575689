//! `holdfast bench factconsolidation`: stores the facts in order, asks, and counts.

use super::dataset::{Case, Dataset};
use crate::client::{Client, ClientOptions, NewMemory, RecallRequest};
use crate::import::{BATCH_MAX, Item, import};
use crate::target::{self, TargetArgs};
use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Memories asked for.
const TOP_K: u32 = 5;

/// Arguments of `holdfast bench factconsolidation`.
#[derive(Debug, Args)]
pub struct FactConsolidationArgs {
    /// The file (Conflict_Resolution.json)
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    /// Write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    target: TargetArgs,
    /// Most facts of a case; longer cases are left out
    #[arg(long, default_value_t = 20_000)]
    facts: usize,
    /// Prefix of the users, one per case; fresh on a server that is kept
    #[arg(long, default_value = "facts")]
    user: String,
}

/// What was measured: of all cases together, and of each.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Of all cases.
    #[serde(flatten)]
    pub all: Measured,
    /// By the name of the case.
    pub cases: BTreeMap<String, Measured>,
}

/// Fractions of the questions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Questions whose fact has an older version.
    pub questions: u32,
    /// Facts that were stored.
    pub facts: usize,
    /// The current fact comes first.
    pub current_first: f64,
    /// A stale fact is among the first five.
    pub stale_in_top_5: f64,
}

/// What is counted on the way.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    questions: u32,
    facts: usize,
    first: u32,
    stale: u32,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.questions += other.questions;
        self.facts += other.facts;
        self.first += other.first;
        self.stale += other.stale;
    }

    fn measured(self) -> Measured {
        let share = |n: u32| f64::from(n) / f64::from(self.questions.max(1));
        Measured {
            questions: self.questions,
            facts: self.facts,
            current_first: share(self.first),
            stale_in_top_5: share(self.stale),
        }
    }
}

/// Runs the benchmark.
///
/// # Errors
/// If the file cannot be read, or the server cannot be started or refuses something.
pub async fn run(args: &FactConsolidationArgs) -> Result<()> {
    let data = Dataset::parse(&target::read(&args.data)?)?;
    let report = args.target.measure(async |url, key| measure(args, &data, url, key).await).await?;
    for (name, measured) in report.cases.iter().chain([(&"all".to_owned(), &report.all)]) {
        println!(
            "{name}: {} questions about facts that changed, {} facts; current fact first: {:.1} %; \
             stale fact in the first five: {:.1} %",
            measured.questions,
            measured.facts,
            100.0 * measured.current_first,
            100.0 * measured.stale_in_top_5
        );
    }
    target::write_json(args.json.as_deref(), &report)
}

async fn measure(args: &FactConsolidationArgs, data: &Dataset, url: &str, key: &str) -> Result<Report> {
    let client = Client::new(&ClientOptions::new(url, key))?;
    let (mut report, mut all) = (Report::default(), Counts::default());
    for case in data.cases.iter().filter(|case| case.facts.len() <= args.facts) {
        let user = format!("{}-{}", args.user, case.name);
        eprintln!("storing {} ({} facts)", case.name, case.facts.len());
        let token = store(&client, &user, case).await?;
        let mut counts = Counts { facts: case.facts.len(), ..Counts::default() };
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
            counts.questions += 1;
            counts.first += u32::from(found.first() == Some(&case.facts[question.current].as_str()));
            counts.stale += u32::from(found.iter().any(|text| question.stale.contains(*text)));
        }
        report.cases.insert(case.name.clone(), counts.measured());
        all.add(counts);
    }
    ensure!(all.questions > 0, "no case has at most {} facts and a question about a change", args.facts);
    report.all = all.measured();
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
            target: TargetArgs { url: Some(server.url.clone()), key: Some("k".to_owned()) },
            facts: 10,
            user: "t".to_owned(),
        };
        run(&args).await.unwrap();
        assert_eq!(server.memories("t-factconsolidation_sh_6k"), 2);
        let json = std::fs::read_to_string(args.json.unwrap()).unwrap();
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&report["questions"], &report["facts"]), (&serde_json::json!(1), &serde_json::json!(2)));
        assert_eq!(report["stale_in_top_5"], 1.0);
        assert_eq!(report["cases"]["factconsolidation_sh_6k"]["stale_in_top_5"], 1.0);
        assert!(report["current_first"].is_number());
    }
}
