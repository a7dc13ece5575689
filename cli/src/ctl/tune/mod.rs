//! `holdfast ctl tune`: weights of the score that suit a tenant's own questions.

mod search;

use crate::client::{ServerArgs, print};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use holdfast_bench::client::{Client, RecallAnswer, RecallRequest, Situation};
use holdfast_bench::import::{json_lines, utf8};
use holdfast_core::score::{Profile, Weights};
use search::{Found, Judged, best, quality};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashSet;
use std::path::PathBuf;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Memories of each answer: the most that a recall gives.
const TOP_K: u32 = 1_000;
/// Questions that each part must have at least.
const QUESTIONS_MIN: usize = 5;

/// Arguments of `holdfast ctl tune`.
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// JSON Lines file of questions: {"space": "user:ann", "query": "…", "relevant": ["memory id", …]}, with
    /// "now" (RFC 3339) where recency is to be measured from another time than now
    #[arg(value_name = "FILE")]
    questions: PathBuf,
    /// Scoring profile whose weights are tuned: ebbinghaus, generative, adaptive or spaced
    #[arg(long, default_value = "ebbinghaus", value_parser = parse_profile)]
    profile: Profile,
    /// Places that count: the measure is nDCG at so many
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    top_k: u32,
    /// Weights that are tried
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    trials: u32,
    /// Percentage of the questions that are held out, to measure what was found
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(10..=90))]
    held_out: u32,
    /// Another seed holds out other questions and tries other weights
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the weights to this file, for `holdfast recall --weights` and for your clients, if they are better on
    /// the questions held out. Without it nothing is written
    #[arg(long, value_name = "FILE")]
    apply: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
}

/// A line of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    space: String,
    query: String,
    relevant: Vec<String>,
    #[serde(default)]
    now: Option<String>,
}

fn parse_profile(name: &str) -> Result<Profile, String> {
    match Profile::from_name(name) {
        Some(Profile::Relevance) => Err("relevance alone has no weights to tune".to_owned()),
        Some(profile) => Ok(profile),
        None => Err("one of ebbinghaus, generative, adaptive and spaced".to_owned()),
    }
}

/// Asks all questions, looks for weights, and prints how good they are.
pub(super) async fn run(args: TuneArgs) -> Result<()> {
    let questions = read(&args)?;
    let client = args.server.client()?;
    let (mut train, mut held, mut missing) = (Vec::new(), Vec::new(), 0);
    for (at, question) in questions.iter().enumerate() {
        let judged = ask(&client, question, args.profile)
            .await
            .with_context(|| format!("question {} of {}", at + 1, args.questions.display()))?;
        missing += judged.relevant - judged.found.iter().filter(|found| found.is_relevant).count();
        if is_held_out(&args, question) { &mut held } else { &mut train }.push(judged);
    }
    ensure!(
        train.len() >= QUESTIONS_MIN && held.len() >= QUESTIONS_MIN,
        "{} questions to tune with and {} held out are too few: at least {QUESTIONS_MIN} of each",
        train.len(),
        held.len()
    );
    let k = args.top_k as usize;
    let before = args.profile.weights();
    let parts: Vec<&Judged> = train.iter().collect();
    let tuned = rounded(best(&parts, before, k, args.trials as usize, args.seed)?);
    let of = |weights: &Weights| (quality(&train, weights, k), quality(&held, weights, k));
    print(&table(&args, (train.len(), held.len()), &[(before, of(&before)), (tuned, of(&tuned))], missing))?;
    let is_better = of(&tuned).1 > of(&before).1;
    let weights =
        json!({"relevance": tuned.s, "recency": tuned.r, "importance": tuned.i, "frequency": tuned.f});
    if !is_better {
        print("On the questions held out they are no better: the weights stay as they are.\n")?;
        return if args.apply.is_some() { bail!("nothing was written") } else { Ok(()) };
    }
    print(&format!("Recalls take them as \"weights\": {weights}\n"))?;
    if let Some(path) = &args.apply {
        let text = format!("{weights}\n");
        holdfast_node::durable::replace_file(path, text.as_bytes(), 0o644)
            .with_context(|| format!("cannot write {}", path.display()))?;
        print(&format!("written to {}\n", path.display()))?;
    }
    Ok(())
}

fn read(args: &TuneArgs) -> Result<Vec<Question>> {
    let name = args.questions.display();
    let bytes = std::fs::read(&args.questions).with_context(|| format!("cannot read {name}"))?;
    let lines =
        utf8(&bytes).and_then(json_lines::<Question>).with_context(|| format!("cannot use {name}"))?;
    let questions: Vec<Question> = lines.into_iter().map(|(_, question)| question).collect();
    for (at, question) in questions.iter().enumerate() {
        ensure!(!question.relevant.is_empty(), "question {} of {name} has no relevant memory", at + 1);
        user(&question.space).with_context(|| format!("question {} of {name}", at + 1))?;
    }
    Ok(questions)
}

/// The user whose space it is.
fn user(space: &str) -> Result<&str> {
    space
        .strip_prefix("user:")
        .filter(|user| !user.is_empty())
        .with_context(|| format!("the space {space:?} is not of the form user:<id>"))
}

/// By a hash of the question, so that it does not depend on the order of the file.
fn is_held_out(args: &TuneArgs, question: &Question) -> bool {
    let whole = format!("{}\0{}", question.space, question.query);
    xxh3_64_with_seed(whole.as_bytes(), args.seed) % 100 < u64::from(args.held_out)
}

async fn ask(client: &Client, question: &Question, profile: Profile) -> Result<Judged> {
    let request = RecallRequest {
        query: question.query.clone(),
        top_k: TOP_K,
        profile: Some(profile.name().to_owned()),
        situation: question.now.clone().map(|now| Situation { now: Some(now) }),
        ..RecallRequest::default()
    };
    let answer = client.recall(user(&question.space)?, &request).await?;
    ensure!(!answer.partial, "some shards did not answer; try again when all do");
    Ok(judge(&answer, question))
}

fn judge(answer: &RecallAnswer, question: &Question) -> Judged {
    let relevant: HashSet<&str> = question.relevant.iter().map(String::as_str).collect();
    let part = |value: Option<f64>| value.unwrap_or(0.0);
    let found = answer.results.iter().map(|hit| Found {
        relevance: part(hit.parts.relevance),
        recency: part(hit.parts.recency),
        importance: part(hit.parts.importance),
        frequency: part(hit.parts.frequency),
        boost: part(hit.parts.boost),
        is_relevant: relevant.contains(hit.memory.id.as_str()),
    });
    Judged { found: found.collect(), relevant: relevant.len() }
}

/// With three digits, as one would write them; what that misses of 1 goes to the relevance.
fn rounded(weights: Weights) -> Weights {
    let digits = |value: f64| (value * 1e3).round() / 1e3;
    let (r, i, f) = (digits(weights.r), digits(weights.i), digits(weights.f));
    Weights { s: digits((1.0 - r - i - f).max(0.0)), r, i, f }
}

type Row = (Weights, (f64, f64));

fn table(args: &TuneArgs, (train, held): (usize, usize), rows: &[Row; 2], missing: usize) -> String {
    let k = args.top_k;
    let mut text = format!("nDCG@{k} over {train} questions, and {held} held out\n\n");
    text.push_str("             relevance  recency  importance  frequency    tuned  held out\n");
    for (name, (weights, (tuned, held))) in [args.profile.name(), "tuned"].into_iter().zip(rows) {
        let Weights { s, r, i, f } = weights;
        text.push_str(&format!(
            "{name:<12} {s:>9.3}  {r:>7.3}  {i:>10.3}  {f:>9.3}  {tuned:>7.4}  {held:>8.4}\n"
        ));
    }
    if missing > 0 {
        text.push_str(&format!(
            "\n{missing} relevant memories were not among the first {TOP_K} of any recall\n"
        ));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        tune: TuneArgs,
    }

    fn parse(words: &[&str]) -> Result<TuneArgs, clap::Error> {
        Line::try_parse_from([&["x"], words].concat()).map(|line| line.tune)
    }

    #[test]
    fn arguments_and_files_are_checked_before_anything_is_asked() {
        assert!(parse(&[]).is_err());
        assert!(parse(&["f", "--profile", "relevance"]).is_err());
        assert!(parse(&["f", "--held-out", "5"]).is_err());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("questions");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&parse(&[path.to_str().unwrap()]).unwrap()).map_err(|error| format!("{error:#}"))
        };
        let line =
            |space: &str| format!("{{\"space\": \"{space}\", \"query\": \"谁?\", \"relevant\": [\"a\"]}}\n");
        assert_eq!(read(&line("user:小明")).unwrap().len(), 1);
        assert!(read(&line("shared:docs")).unwrap_err().contains("user:<id>"));
        assert!(
            read("{\"space\": \"user:a\", \"query\": \"x\", \"relevant\": []}")
                .unwrap_err()
                .contains("question 1")
        );
        assert!(read("{\"space\": \"user:a\"}").is_err());
        assert!(read("nonsense").is_err());
    }

    #[test]
    fn rounded_weights_are_weights() {
        for (s, r, i) in [(1.0, 1.0, 1.0), (0.0, 1.0, 0.0), (5.0, 0.1, 0.004), (0.0004, 0.3, 0.2)] {
            let sum = s + r + i + 0.2;
            let Weights { s, r, i, f } =
                rounded(Weights { s: s / sum, r: r / sum, i: i / sum, f: 0.2 / sum });
            Weights::new(s, r, i, f).unwrap();
        }
    }

    #[test]
    fn what_is_held_out_does_not_depend_on_the_order() {
        let args = parse(&["f"]).unwrap();
        let question = |n: usize| Question {
            space: "user:a".into(),
            query: format!("question {n}"),
            relevant: vec!["m".into()],
            now: None,
        };
        let held = (0..1_000).filter(|n| is_held_out(&args, &question(*n))).count();
        assert!((250..350).contains(&held), "{held}");
    }
}
