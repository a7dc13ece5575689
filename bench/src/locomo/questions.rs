//! `holdfast bench locomo-questions`: a few questions with their evidence, as JSON Lines for
//! `holdfast recall --questions`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::{Conversation, Dataset};

/// Arguments of `holdfast bench locomo-questions`.
#[derive(Debug, Args)]
pub struct QuestionsArgs {
    /// The LoCoMo file
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    /// The conversation to take questions from
    #[arg(long, default_value = "conv-26")]
    conversation: String,
    /// How many
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=2000))]
    count: u16,
}

/// One line of a questions file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedQuestion {
    /// The text.
    pub question: String,
    /// Ids of the memories that answer it.
    #[serde(default)]
    pub gold: Vec<String>,
}

impl QuestionsArgs {
    /// Prints the questions, one JSON object a line.
    ///
    /// # Errors
    /// If the file cannot be read or has no such conversation.
    pub fn run(&self) -> Result<()> {
        let text = std::fs::read_to_string(&self.data)
            .with_context(|| format!("cannot read {}", self.data.display()))?;
        let data = Dataset::parse(&text)?;
        let conversation = data.conversation(&self.conversation)?;
        for question in pick(conversation, usize::from(self.count)) {
            println!("{}", serde_json::to_string(&question)?);
        }
        Ok(())
    }
}

/// Questions of categories 1-4 with evidence: the first of each category in turn, then the
/// second of each, and so on, so that a short list is varied and always the same.
pub fn pick(conversation: &Conversation, count: usize) -> Vec<AskedQuestion> {
    let mut ranked: Vec<(usize, u8, &super::Question)> = Vec::new();
    for category in 1..=4 {
        let of_category =
            conversation.questions.iter().filter(|q| q.category == category && !q.gold.is_empty());
        ranked.extend(of_category.enumerate().map(|(n, q)| (n, category, q)));
    }
    ranked.sort_by_key(|(n, category, _)| (*n, *category));
    ranked
        .into_iter()
        .take(count)
        .map(|(_, _, q)| AskedQuestion { question: q.text.clone(), gold: q.gold.clone() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locomo::Question;

    #[test]
    fn categories_take_turns_and_questions_without_gold_are_left_out() {
        let question = |text: &str, category, gold: &[&str]| Question {
            text: text.to_owned(),
            category,
            gold: gold.iter().map(|g| (*g).to_owned()).collect(),
            unresolved: Vec::new(),
        };
        let conversation = Conversation {
            id: "c".to_owned(),
            memories: Vec::new(),
            questions: vec![
                question("4a", 4, &["x"]),
                question("4b", 4, &["x"]),
                question("5a", 5, &["x"]),
                question("1-", 1, &[]),
                question("1a", 1, &["x", "y"]),
            ],
        };
        let picked = pick(&conversation, 5);
        let texts: Vec<_> = picked.iter().map(|q| q.question.as_str()).collect();
        assert_eq!(texts, ["1a", "4a", "4b"]);
        assert_eq!(picked[0].gold, ["x", "y"]);
    }
}
