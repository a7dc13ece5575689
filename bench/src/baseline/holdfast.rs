//! The holdfast arm: a real cluster behind its router. Turns are written at the end of each session
//! as an agent would write them, and each question is one call for a context within the token budget.
//!
//! The agent gets a [`Dialogue`] and nothing else: the labels meet only what it has answered.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

use super::score::{Tally, foreign, judge};
use super::tokens::{Counter, TOKENIZER};
use super::workload::{Dialogue, Role, Session, Workload};
use crate::client::{
    AddRequest, AddStatus, Client, ContextAnswer, ContextRequest, NewMemory, RecallRequest, Situation,
};
use crate::import::BATCH_MAX;

/// How the arm uses the system.
#[derive(Debug, Clone)]
pub struct Options {
    /// Scoring profile of the recalls.
    pub profile: String,
    /// Most tokens of a context.
    pub budget: usize,
    /// Budgets of the curve.
    pub budgets: Vec<usize>,
    /// Prefix of the users: fresh on a server that is kept.
    pub prefix: String,
}

/// What the holdfast arm did.
#[derive(Debug, Clone, Default)]
pub struct HoldfastRun {
    /// The published comparison.
    pub tally: Tally,
    /// Seconds until all writes were acknowledged.
    pub ingest_s: f64,
    /// The same questions with other budgets.
    pub within_budget: Vec<(usize, Tally)>,
}

/// Runs the arm over the whole workload, one request at a time.
///
/// # Errors
/// The server refuses something, does not embed, or has stored this workload before.
pub async fn run(workload: &Workload, client: &Client, options: &Options) -> Result<HoldfastRun> {
    let mut run = HoldfastRun {
        within_budget: options.budgets.iter().map(|budget| (*budget, Tally::default())).collect(),
        ..HoldfastRun::default()
    };
    for (dialogue, labels) in workload.dialogues.iter().zip(&workload.labels) {
        let mut agent = Agent::new(client, options, dialogue);
        for (number, session) in dialogue.sessions.iter().enumerate() {
            for (question, gold) in session.questions.iter().zip(&labels.gold[number]) {
                let started = Instant::now();
                let context = agent.context(session, &question.text, options.budget).await?;
                run.tally.took(started.elapsed().as_secs_f64() * 1e3);
                let tokens = agent.check(&context, options.budget)?;
                let counts = judge(labels, gold, agent.turns_in(&context));
                run.tally.add(counts, session.language, gold.scope, tokens);
                let text = context.text.as_deref().unwrap_or_default();
                run.tally.leaks += foreign(dialogue, memories_in(&context), text);
            }
            // Apart from the timed ones, so that they do not warm each other's caches.
            if !options.budgets.is_empty() {
                for (question, gold) in session.questions.iter().zip(&labels.gold[number]) {
                    for (budget, tally) in &mut run.within_budget {
                        let context = agent.context(session, &question.text, *budget).await?;
                        let tokens = agent.check(&context, *budget)?;
                        let counts = judge(labels, gold, agent.turns_in(&context));
                        tally.add(counts, session.language, gold.scope, tokens);
                    }
                }
            }
            let started = Instant::now();
            agent.write(session).await?;
            run.ingest_s += started.elapsed().as_secs_f64();
            if number == 0 {
                agent.finds_by_vector(session).await?;
            }
        }
    }
    Ok(run)
}

/// An agent that talks to one user.
struct Agent<'a> {
    client: &'a Client,
    options: &'a Options,
    user: String,
    counter: Counter,
    token: Option<String>,
    /// Memory -> the turns that it stands for: the same text said twice is one memory.
    turns: HashMap<String, Vec<String>>,
}

impl<'a> Agent<'a> {
    fn new(client: &'a Client, options: &'a Options, dialogue: &Dialogue) -> Self {
        Self {
            client,
            options,
            user: format!("{}-{}", options.prefix, dialogue.user),
            counter: Counter::new(),
            token: None,
            turns: HashMap::new(),
        }
    }

    /// Stores the turns of a session that has ended.
    async fn write(&mut self, session: &Session) -> Result<()> {
        for (number, turns) in session.turns.chunks(BATCH_MAX).enumerate() {
            let memories = turns
                .iter()
                .map(|turn| NewMemory {
                    id: Some(turn.id.clone()),
                    content: turn.text.clone(),
                    role: Some(turn.role.name().to_owned()),
                    event_time: Some(turn.time.clone()),
                    session: Some(session.id.clone()),
                    // The workload has outputs of tools, and every arm is given every turn.
                    raw_json: Some(true),
                    ..NewMemory::default()
                })
                .collect();
            let request = AddRequest { memories, ..AddRequest::default() };
            let key = format!("{}-{}-{number}", self.user, session.id);
            let answer = self
                .client
                .add_memories(&self.user, &request, &key)
                .await
                .with_context(|| format!("storing session {} of {}", session.id, self.user))?;
            ensure!(answer.results.len() == turns.len(), "an outcome per memory is missing");
            for (turn, result) in turns.iter().zip(answer.results) {
                match result.status {
                    AddStatus::Created | AddStatus::Merged => {}
                    AddStatus::Duplicate => bail!(
                        "the server holds {} already, so later sessions would be seen too early; \
                         give another --user",
                        self.user
                    ),
                    AddStatus::Rejected => {
                        bail!("turn {} was rejected: {}", turn.id, result.reason.unwrap_or_default())
                    }
                }
                let memory = result.id.unwrap_or_else(|| turn.id.clone());
                self.turns.entry(memory).or_default().push(turn.id.clone());
            }
            self.token = answer.token.or(self.token.take());
        }
        Ok(())
    }

    async fn context(&self, session: &Session, question: &str, budget: usize) -> Result<ContextAnswer> {
        let request = ContextRequest {
            query: Some(question.to_owned()),
            budget_tokens: budget,
            tokenizer: Some(TOKENIZER.to_owned()),
            profile: Some(self.options.profile.clone()),
            // The agent asks what the user said, not what it answered or what a tool printed.
            filter: Some(json!({ "role": { "$eq": Role::User.name() } })),
            situation: Some(Situation { now: Some(session.start.clone()) }),
            token: self.token.clone(),
            ..ContextRequest::default()
        };
        let answer = self
            .client
            .context(&self.user, &request)
            .await
            .with_context(|| format!("question {question:?} of {}", self.user))?;
        ensure!(!answer.partial, "a shard did not answer {question:?}");
        Ok(answer)
    }

    /// Sees that the server embeds: the comparison is not one of words alone.
    async fn finds_by_vector(&self, session: &Session) -> Result<()> {
        let Some(turn) = session.turns.first() else { return Ok(()) };
        let request = RecallRequest {
            query: turn.text.clone(),
            top_k: 1,
            token: self.token.clone(),
            ..RecallRequest::default()
        };
        let answer = self.client.recall(&self.user, &request).await?;
        ensure!(
            answer.results.iter().any(|hit| hit.parts.cosine.is_some()),
            "the server answers without vectors; it must run with the built-in embedder"
        );
        Ok(())
    }

    /// Counts the tokens again, by the counter of both arms.
    fn check(&self, answer: &ContextAnswer, budget: usize) -> Result<usize> {
        let text = answer.text.as_deref().unwrap_or_default();
        let tokens = self.counter.count(text);
        ensure!(
            tokens == answer.tokens && tokens <= budget,
            "a context of {tokens} tokens within a budget of {budget} says that it has {}",
            answer.tokens
        );
        Ok(tokens)
    }

    /// The turns that the items of a context stand for.
    fn turns_in<'b>(&'b self, answer: &'b ContextAnswer) -> impl Iterator<Item = &'b str> {
        memories_in(answer).filter_map(|id| self.turns.get(id)).flatten().map(String::as_str)
    }
}

/// The memories that the items of a context are, or are stated by.
fn memories_in(answer: &ContextAnswer) -> impl Iterator<Item = &str> {
    let items = answer.sections.iter().flat_map(|section| &section.items);
    items.filter_map(|item| item.source.memory.as_deref())
}
