//! `holdfast bench locomo`: imports every conversation, asks every question, prints the table.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use tokio::task::JoinSet;

use super::metric::{Answered, CUTOFFS, Measure, TUNED_ON, groups};
use super::{Conversation, Counts, Dataset, Report};
use crate::client::{Client, ClientOptions, RecallRequest};
use crate::import::{BATCH_MAX, Item, import};
use crate::target::{self, TargetArgs};

/// Memories asked for: the largest cut-off.
const TOP_K: u32 = CUTOFFS[CUTOFFS.len() - 1] as u32;

/// Arguments of `holdfast bench locomo`.
#[derive(Debug, Args)]
pub struct LocomoArgs {
    /// The LoCoMo file (locomo10.json)
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    /// Write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    target: TargetArgs,
    /// Scoring profile of every recall
    #[arg(long, default_value = "relevance")]
    profile: String,
    /// Questions in flight at a time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: u16,
    /// Prefix of the users, one per conversation; fresh on a server that is kept
    #[arg(long, default_value = "locomo")]
    user: String,
}

/// Runs the benchmark.
///
/// # Errors
/// If the file cannot be read, the server cannot be started or refuses something, or a memory is
/// rejected: then the result would be of another set than the published one.
pub async fn run(args: &LocomoArgs) -> Result<()> {
    let data = Dataset::parse(&target::read(&args.data)?)?;
    let report = args.target.measure(async |url, key| measure(args, data, url, key).await).await?;
    print!("{}", render(&report));
    target::write_json(args.json.as_deref(), &report)
}

async fn measure(args: &LocomoArgs, data: Dataset, url: &str, key: &str) -> Result<Report> {
    let client = Client::new(&ClientOptions::new(url, key))?;
    let mut counts = Counts { conversations: data.conversations.len(), ..Counts::default() };
    let started = Instant::now();
    let mut stored = Vec::new();
    for conversation in &data.conversations {
        let user = format!("{}-{}", args.user, conversation.id);
        eprintln!("importing {} ({} turns)", conversation.id, conversation.memories.len());
        stored.push(store(&client, &user, conversation, &mut counts).await?);
    }
    let import_s = started.elapsed().as_secs_f64();

    let started = Instant::now();
    let mut answers = Vec::new();
    for (position, conversation) in data.conversations.iter().enumerate() {
        let asker = Asker {
            client: client.clone(),
            user: format!("{}-{}", args.user, conversation.id),
            profile: args.profile.clone(),
            token: stored[position].token.clone(),
        };
        eprintln!("asking {} ({} questions)", conversation.id, conversation.questions.len());
        let mut questions = Vec::new();
        for question in &conversation.questions {
            counts.evidence_unresolved += question.unresolved.len();
            if question.gold.is_empty() {
                counts.questions_without_evidence += 1;
                continue;
            }
            questions.push((
                question.text.clone(),
                Answered {
                    conversation: position,
                    category: question.category,
                    gold: stored[position].found_by(&question.gold),
                    recalled: Vec::new(),
                },
            ));
        }
        answers.extend(ask_all(Arc::new(asker), questions, usize::from(args.clients)).await?);
    }
    Ok(Report {
        profile: args.profile.clone(),
        top_k: TOP_K,
        groups: groups(&answers),
        counts,
        import_s,
        questions_s: started.elapsed().as_secs_f64(),
    })
}

/// What the server answered to the import of one conversation.
struct Stored {
    /// Id of the turn -> id it is found by, where a turn's text was merged into another's.
    merged: HashMap<String, String>,
    token: Option<String>,
}

impl Stored {
    /// The ids under which evidence turns are found, each once.
    fn found_by(&self, gold: &[String]) -> Vec<String> {
        let mut ids: Vec<String> = Vec::with_capacity(gold.len());
        for id in gold {
            let id = self.merged.get(id).unwrap_or(id);
            if !ids.contains(id) {
                ids.push(id.clone());
            }
        }
        ids
    }
}

async fn store(
    client: &Client,
    user: &str,
    conversation: &Conversation,
    counts: &mut Counts,
) -> Result<Stored> {
    let items: Vec<Item> = conversation
        .memories
        .iter()
        .map(|memory| Item { origin: memory.id.clone().unwrap_or_default(), memory: memory.clone() })
        .collect();
    let summary = import(client, user, &items, BATCH_MAX, |_| ()).await?;
    if let Some(first) = summary.rejected.first() {
        anyhow::bail!(
            "{} memories rejected, first {}: {}",
            summary.rejected.len(),
            first.origin,
            first.reason
        );
    }
    let merged: HashMap<String, String> = items
        .into_iter()
        .zip(summary.ids)
        .filter_map(|(item, found)| Some((item.memory.id?, found?)))
        .filter(|(own, found)| own != found)
        .collect();
    counts.memories += conversation.memories.len();
    counts.memories_merged += merged.len();
    Ok(Stored { merged, token: summary.token })
}

struct Asker {
    client: Client,
    user: String,
    profile: String,
    token: Option<String>,
}

impl Asker {
    async fn ask(&self, query: String, mut answered: Answered) -> Result<Answered> {
        let request = RecallRequest {
            top_k: TOP_K,
            profile: Some(self.profile.clone()),
            token: self.token.clone(),
            query,
            ..RecallRequest::default()
        };
        let answer = self
            .client
            .recall(&self.user, &request)
            .await
            .with_context(|| format!("question {:?}", request.query))?;
        ensure!(!answer.partial, "a shard did not answer {:?}", request.query);
        answered.recalled = answer.results.into_iter().map(|hit| hit.memory.id).collect();
        Ok(answered)
    }
}

/// Asks with at most `clients` questions in flight.
async fn ask_all(
    asker: Arc<Asker>,
    questions: Vec<(String, Answered)>,
    clients: usize,
) -> Result<Vec<Answered>> {
    let mut answers = Vec::with_capacity(questions.len());
    let mut running = JoinSet::new();
    for (query, answered) in questions {
        if running.len() >= clients
            && let Some(done) = running.join_next().await
        {
            answers.push(done??);
        }
        let asker = asker.clone();
        running.spawn(async move { asker.ask(query, answered).await });
    }
    while let Some(done) = running.join_next().await {
        answers.push(done??);
    }
    Ok(answers)
}

/// The table for people.
fn render(report: &Report) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["group", "questions", "recall@5", "recall@10", "recall@20"]);
    let names = [
        ("category_1", "category 1 (several turns)".to_owned()),
        ("category_2", "category 2 (time)".to_owned()),
        ("category_3", "category 3 (inference)".to_owned()),
        ("category_4", "category 4 (one turn)".to_owned()),
        ("all_1_4", "all of 1-4".to_owned()),
        ("tuned_on", format!("1-4, conversations 1-{TUNED_ON}")),
        ("held_out", format!("1-4, conversations {}- (held out)", TUNED_ON + 1)),
        ("category_5", "category 5 (adversarial, apart)".to_owned()),
    ];
    for (key, name) in names {
        let measure = report.groups.get(key).copied().unwrap_or_default();
        table.add_row(row(&name, measure));
    }
    for column in 1..5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let counts = report.counts;
    format!(
        "LoCoMo evidence recall in percent, profile {}\n{table}\n\
         {} conversations, {} memories ({} merged) imported in {:.1} s; questions took {:.1} s\n\
         left out: {} questions without valid evidence; {} evidence strings name no turn\n",
        report.profile,
        counts.conversations,
        counts.memories,
        counts.memories_merged,
        report.import_s,
        report.questions_s,
        counts.questions_without_evidence,
        counts.evidence_unresolved,
    )
}

fn row(name: &str, measure: Measure) -> [String; 5] {
    let percent = |value: f64| {
        if measure.questions == 0 { "-".to_owned() } else { format!("{value:.1}") }
    };
    [
        name.to_owned(),
        measure.questions.to_string(),
        percent(measure.recall_at_5),
        percent(measure.recall_at_10),
        percent(measure.recall_at_20),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::fake::FakeServer;

    #[tokio::test]
    async fn the_whole_run_measures_what_the_server_finds() {
        let turn = |id: &str, text: &str| serde_json::json!({"speaker": "Ann", "dia_id": id, "text": text});
        let ask = |question: &str, evidence: &[&str], category: u8| serde_json::json!({"question": question, "evidence": evidence, "category": category});
        let file = serde_json::json!([{
            "sample_id": "c-1",
            "conversation": {
                "session_1_date_time": "1:00 pm on 8 May, 2023",
                "session_1": [turn("D1:1", "red kite"), turn("D1:2", "thanks"),
                              turn("D1:3", "thanks"), turn("D1:4", "blue boat")],
            },
            "qa": [ask("kite?", &["D1:1"], 4), ask("who said thanks", &["D1:3; D9"], 1),
                   ask("nothing", &["D7:7"], 2), ask("boat", &["D1:4"], 5)],
        }]);
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("tiny.json");
        std::fs::write(&data, file.to_string()).unwrap();
        let server = FakeServer::start().await;
        let args = LocomoArgs {
            data,
            json: Some(folder.path().join("out.json")),
            target: TargetArgs { url: Some(server.url.clone()), key: Some("k".to_owned()) },
            profile: "relevance".to_owned(),
            clients: 2,
            user: "t".to_owned(),
        };
        run(&args).await.unwrap();
        assert_eq!(server.memories("t-c-1"), 3);
        let json = std::fs::read_to_string(args.json.unwrap()).unwrap();
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(report["all_1_4"]["questions"], 2);
        assert_eq!(report["all_1_4"]["recall_at_5"], 100.0);
        assert_eq!(report["category_5"]["questions"], 1);
        assert_eq!(report["counts"]["memories_merged"], 1);
        assert_eq!(report["counts"]["questions_without_evidence"], 1);
        assert_eq!(report["counts"]["evidence_unresolved"], 2);
    }
}
