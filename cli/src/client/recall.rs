//! `holdfast recall`: asks questions and shows what came back and why.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use holdfast_bench::client::{Client, ClientError, RecallAnswer, RecallRequest, Situation, TookUs};
use holdfast_bench::import::{json_lines, utf8};
use holdfast_bench::locomo::AskedQuestion;
use serde_json::Value;

use super::{ServerArgs, print, table};

/// Arguments of `holdfast recall`.
#[derive(Debug, Args)]
pub struct RecallArgs {
    /// The question
    #[arg(required_unless_present = "questions", conflicts_with = "questions")]
    question: Option<String>,
    /// Ask every question of this JSON Lines file: {"question": "…", "gold": ["memory id", …]}
    #[arg(long, value_name = "FILE")]
    questions: Option<PathBuf>,
    /// Whose memories to search
    #[arg(long)]
    user: String,
    /// How many memories to answer
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    top_k: u32,
    /// Scoring profile: ebbinghaus, generative, adaptive, spaced or relevance
    #[arg(long)]
    profile: Option<String>,
    /// Weights of the score, in place of the profile's: a file that `holdfast ctl tune --apply` has written
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Filter as JSON, for example '{"kind":{"$eq":"semantic"}}'
    #[arg(long, value_name = "JSON", value_parser = parse_filter)]
    filter: Option<Value>,
    /// Measure recency from this time (RFC 3339) instead of the server's clock
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    now: Option<String>,
    /// Mark these memories with *
    #[arg(long, value_name = "ID,…", value_delimiter = ',', conflicts_with = "questions")]
    gold: Vec<String>,
    /// Print the server's answers as JSON, one a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub(super) fn parse_filter(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(filter @ Value::Object(_)) => Ok(filter),
        Ok(_) => Err("a filter is a JSON object".to_owned()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

pub(super) fn parse_time(text: &str) -> Result<String, String> {
    text.parse::<jiff::Timestamp>()
        .map(|time| time.to_string())
        .map_err(|error| format!("not a time like 2026-03-01T09:00:00Z: {error}"))
}

/// Asks the question or the file of questions and prints the answers.
///
/// # Errors
/// Whatever the server refuses, or that it cannot be reached; a malformed questions file.
pub async fn run(args: RecallArgs) -> Result<()> {
    let client = args.server.client()?;
    let questions = questions(&args)?;
    let weights = args.weights.as_deref().map(weights).transpose()?;
    let mut gold_found = (0, 0);
    for question in &questions {
        let request = RecallRequest {
            query: question.question.clone(),
            top_k: args.top_k,
            profile: args.profile.clone(),
            weights: weights.clone(),
            filter: args.filter.clone(),
            situation: args.now.clone().map(|now| Situation { now: Some(now) }),
            token: None,
            ..RecallRequest::default()
        };
        if args.json {
            let answer = client.recall_json(&args.user, &request).await?;
            print(&format!("{answer}\n"))?;
            continue;
        }
        let (found, wanted) = ask(&client, &args.user, question, &request).await?;
        gold_found = (gold_found.0 + found, gold_found.1 + wanted);
    }
    if !args.json && questions.len() > 1 && gold_found.1 > 0 {
        print(&format!("{} of {} marked memories were recalled\n", gold_found.0, gold_found.1))?;
    }
    Ok(())
}

fn weights(path: &Path) -> Result<Value> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    serde_json::from_str(&text).with_context(|| format!("{name} is not JSON"))
}

fn questions(args: &RecallArgs) -> Result<Vec<AskedQuestion>> {
    let Some(path) = &args.questions else {
        return Ok(vec![AskedQuestion {
            question: args.question.clone().unwrap_or_default(),
            gold: args.gold.clone(),
        }]);
    };
    let name = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
    let lines =
        utf8(&bytes).and_then(json_lines::<AskedQuestion>).with_context(|| format!("cannot use {name}"))?;
    ensure!(!lines.is_empty(), "{name} holds no question");
    Ok(lines.into_iter().map(|(_, question)| question).collect())
}

/// Asks one question and prints the answer; returns how much of the gold was found.
async fn ask(
    client: &Client,
    user: &str,
    question: &AskedQuestion,
    request: &RecallRequest,
) -> Result<(usize, usize), anyhow::Error> {
    let started = Instant::now();
    let answer: RecallAnswer =
        client.recall(user, request).await.map_err(|error: ClientError| anyhow::Error::new(error))?;
    let seen = started.elapsed();
    let found =
        question.gold.iter().filter(|id| answer.results.iter().any(|hit| hit.memory.id == **id)).count();
    let mut text = format!("? {}\n", table::printable(&question.question));
    if answer.results.is_empty() {
        text.push_str("nothing recalled\n");
    } else {
        text.push_str(&table::render(&answer.results, &question.gold, table::width()));
        text.push('\n');
    }
    text.push_str(&footer(&answer, seen));
    if !question.gold.is_empty() {
        text.push_str(&format!(", gold {found} of {}", question.gold.len()));
    }
    print(&format!("{text}\n\n"))?;
    Ok((found, question.gold.len()))
}

/// Where the time went, and what kind of answer it is.
fn footer(answer: &RecallAnswer, seen: Duration) -> String {
    let TookUs { embed, search, merge, total } = answer.took_us;
    let part = |name: &str, us: Option<u64>| us.map(|us| format!("{name} {}", ms(us)));
    let parts: Vec<String> =
        [part("embed", embed), part("search", search), part("merge", merge)].into_iter().flatten().collect();
    let mut line = String::from("took ");
    match total {
        Some(total) => line.push_str(&format!("{} ms", ms(total))),
        None => line.push_str("an untold time"),
    }
    if !parts.is_empty() {
        line.push_str(&format!(" ({})", parts.join(", ")));
    }
    line.push_str(&format!(", {} ms as seen here", ms(seen.as_micros() as u64)));
    if let Some(scored) = answer.scored {
        line.push_str(&format!(", {scored} scored"));
    }
    if answer.exact == Some(true) {
        line.push_str(", exact");
    }
    if answer.partial {
        line.push_str(&format!(", PARTIAL: {} shards did not answer", answer.missing.len()));
    }
    line
}

fn ms(us: u64) -> String {
    format!("{:.2}", us as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        recall: RecallArgs,
    }

    fn parse(words: &[&str]) -> Result<RecallArgs, clap::Error> {
        Line::try_parse_from([&["x", "--user", "u"], words].concat()).map(|line| line.recall)
    }

    #[test]
    fn arguments_are_checked_before_anything_is_sent() {
        let args = parse(&["who?", "--gold", "a,b", "--now", "2026-03-01T09:00:00+08:00"]).unwrap();
        assert_eq!(args.gold, ["a", "b"]);
        assert_eq!(args.now.as_deref(), Some("2026-03-01T01:00:00Z"));
        assert!(parse(&[]).is_err(), "a question is needed");
        assert!(parse(&["q", "--questions", "f"]).is_err());
        assert!(parse(&["q", "--top-k", "0"]).is_err());
        assert!(parse(&["q", "--top-k", "1001"]).is_err());
        assert!(parse(&["q", "--filter", "{"]).is_err());
        assert!(parse(&["q", "--filter", "[1]"]).is_err());
        assert!(parse(&["q", "--now", "2026-03-01 09:00"]).is_err(), "no zone");
    }

    #[test]
    fn the_footer_tells_time_and_gaps() {
        let answer: RecallAnswer = serde_json::from_str(
            r#"{"results":[],"exact":true,"scored":120,"partial":true,"missing":[3],
                "took_us":{"embed":1500,"search":700,"total":2345}}"#,
        )
        .unwrap();
        let line = footer(&answer, Duration::from_micros(3010));
        assert_eq!(
            line,
            "took 2.35 ms (embed 1.50, search 0.70), 3.01 ms as seen here, 120 scored, exact, \
             PARTIAL: 1 shards did not answer"
        );
        let bare: RecallAnswer = serde_json::from_str(r#"{"results":[]}"#).unwrap();
        assert!(footer(&bare, Duration::ZERO).starts_with("took an untold time, 0.00 ms"));
    }
}
