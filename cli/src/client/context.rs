//! `holdfast context`: a prompt within a token budget, on standard output.

use std::fmt::Write as _;

use anyhow::Result;
use clap::{Args, ValueEnum};
use holdfast_bench::client::{ContextAnswer, ContextRequest, ContextTookUs, Situation};
use serde_json::Value;

use super::recall::{parse_filter, parse_time};
use super::{ServerArgs, print, table};

/// The form of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One text
    Text,
    /// Messages of a chat, as JSON
    Messages,
    /// A text for each section
    Sections,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Messages => "messages",
            Self::Sections => "sections",
        }
    }
}

/// Arguments of `holdfast context`.
#[derive(Debug, Args)]
pub struct ContextArgs {
    /// What the context is for; without it the most important and newest is chosen
    query: Option<String>,
    /// Whose memories to use
    #[arg(long)]
    user: String,
    /// Most tokens of the prompt
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    budget: u32,
    /// Encoding by which tokens are counted, such as o200k_base or cl100k_base
    #[arg(long)]
    tokenizer: Option<String>,
    /// The conversation that is going on: its window, its summary and where it stands
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The task that the agent is busy with
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Sections of the prompt; all, if not given. Hard constraints are always there
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    sections: Vec<String>,
    /// Form of the prompt
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Scoring profile: ebbinghaus, generative, adaptive, spaced or relevance
    #[arg(long)]
    profile: Option<String>,
    /// Filter as JSON, for example '{"role":{"$eq":"user"}}'
    #[arg(long, value_name = "JSON", value_parser = parse_filter)]
    filter: Option<Value>,
    /// How much likeness to what is there already counts against a memory, 0 to 1
    #[arg(long, value_name = "SHARE")]
    diversity: Option<f64>,
    /// Measure recency from this time (RFC 3339) instead of the server's clock
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    now: Option<String>,
    /// Say on standard error what is in it, what is not and why
    #[arg(long)]
    explain: bool,
    /// Print the server's answer as JSON
    #[arg(long, conflicts_with = "explain")]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Asks for the context and prints it.
///
/// # Errors
/// Whatever the server refuses, or that it cannot be reached.
pub async fn run(args: ContextArgs) -> Result<()> {
    let client = args.server.client()?;
    let request = ContextRequest {
        query: args.query,
        budget_tokens: args.budget as usize,
        tokenizer: args.tokenizer,
        sections: (!args.sections.is_empty()).then_some(args.sections),
        format: Some(args.format.name().to_owned()),
        session: args.session,
        task: args.task,
        profile: args.profile,
        filter: args.filter,
        diversity: args.diversity,
        situation: args.now.map(|now| Situation { now: Some(now) }),
        token: None,
    };
    if args.json {
        let answer = client.context_json(&args.user, &request).await?;
        print(&format!("{answer}\n"))?;
        return Ok(());
    }
    let answer = client.context(&args.user, &request).await?;
    print(&shown(&answer))?;
    if args.explain {
        eprint!("{}", explained(&answer));
    }
    Ok(())
}

/// The prompt, as it may be handed to a model.
fn shown(answer: &ContextAnswer) -> String {
    if let Some(text) = &answer.text {
        return text.clone();
    }
    if let Some(messages) = &answer.messages {
        return format!("{}\n", Value::from(messages.clone()));
    }
    answer.sections.iter().filter_map(|section| section.text.as_deref()).collect()
}

fn explained(answer: &ContextAnswer) -> String {
    let mut text = String::new();
    for section in &answer.sections {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{}: {} tokens", section.name, section.tokens);
        for item in &section.items {
            let _ = writeln!(text, "  {:.3} {}", item.score, table::printable(&item.id));
        }
    }
    for left in &answer.left_out {
        let _ = writeln!(text, "left out: {} ({})", table::printable(&left.id), left.reason);
    }
    if answer.left_out_more > 0 {
        let _ = writeln!(text, "and {} more", answer.left_out_more);
    }
    let ContextTookUs { total, .. } = answer.took_us;
    let took = total.map_or_else(String::new, |us| format!(", {:.2} ms", us as f64 / 1000.0));
    let _ = writeln!(text, "{} of {} tokens{took}", answer.tokens, answer.budget_tokens);
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
        context: ContextArgs,
    }

    fn parse(words: &[&str]) -> Result<ContextArgs, clap::Error> {
        Line::try_parse_from([&["x", "--user", "u"], words].concat()).map(|line| line.context)
    }

    #[test]
    fn arguments_are_checked_before_anything_is_sent() {
        let args = parse(&["--sections", "facts,memories", "--format", "messages"]).unwrap();
        assert_eq!(args.sections, ["facts", "memories"]);
        assert_eq!((args.budget, args.format), (2000, Format::Messages));
        assert!(parse(&["q", "--budget", "0"]).is_err());
        assert!(parse(&["q", "--budget", "1000001"]).is_err());
        assert!(parse(&["q", "--format", "xml"]).is_err());
        assert!(parse(&["q", "--json", "--explain"]).is_err());
    }

    #[test]
    fn each_form_is_shown_as_it_is_used() {
        let read = |json: &str| serde_json::from_str::<ContextAnswer>(json).unwrap();
        let common =
            r#""tokens":9,"budget_tokens":10,"left_out":[{"id":"b","reason":"budget"}],"left_out_more":2"#;
        let item = r#"{"id":"a","score":0.5,"source":{"memory":"a"}}"#;
        let text = read(&format!(
            r#"{{"text":"x\n","sections":[{{"name":"memories","tokens":4,"items":[{item}]}}],{common}}}"#
        ));
        assert_eq!(shown(&text), "x\n");
        assert_eq!(
            explained(&text),
            "memories: 4 tokens\n  0.500 a\nleft out: b (budget)\nand 2 more\n9 of 10 tokens\n"
        );
        let messages =
            read(&format!(r#"{{"messages":[{{"role":"system","content":"x"}}],"sections":[],{common}}}"#));
        assert_eq!(shown(&messages), "[{\"content\":\"x\",\"role\":\"system\"}]\n");
        let sections = r#"[{"name":"facts","tokens":1,"text":"x\n","items":[]},{"name":"memories","tokens":1,"text":"y\n","items":[]}]"#;
        assert_eq!(shown(&read(&format!(r#"{{"sections":{sections},{common}}}"#))), "x\ny\n");
    }
}
