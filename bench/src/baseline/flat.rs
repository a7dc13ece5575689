//! The flat arm: every turn is kept, the whole history is the prompt, and what a question finds in
//! it is the plain cosine's top k.
//!
//! It runs inside this program: turns and vectors lie in memory in f32, a question is embedded and
//! compared with every vector. There is no network, no disk and no replica, so its time is a lower
//! bound of what a flat *system* takes; it is printed as measured.

use std::time::Instant;

use anyhow::{Context as _, Result};
use holdfast_models::Embedder;

use super::score::{Tally, judge, leaks};
use super::tokens::{Candidate, Counter, assemble, history};
use super::workload::{Dialogue, Labels, Role, Turn, Workload};

/// What the flat arm did.
#[derive(Debug, Clone, Default)]
pub struct FlatRun {
    /// The published comparison.
    pub tally: Tally,
    /// Seconds to embed and keep all turns.
    pub ingest_s: f64,
    /// For reference: the turns that the plain cosine ranks first, within each budget, instead of the
    /// history.
    pub within_budget: Vec<(usize, Tally)>,
    /// The same of the user's own turns alone, which is what the holdfast arm asks for.
    pub users_turns_within_budget: Vec<(usize, Tally)>,
}

/// Runs the arm over the whole workload. Computes on the calling thread.
///
/// # Errors
/// A text cannot be embedded.
pub fn run(workload: &Workload, embedder: &dyn Embedder, k: usize, budgets: &[usize]) -> Result<FlatRun> {
    let curve: Vec<(usize, Tally)> = budgets.iter().map(|budget| (*budget, Tally::default())).collect();
    let mut run =
        FlatRun { within_budget: curve.clone(), users_turns_within_budget: curve, ..FlatRun::default() };
    let counter = Counter::new();
    for (dialogue, labels) in workload.dialogues.iter().zip(&workload.labels) {
        let mut store = Store { embedder, turns: Vec::new(), vectors: Vec::new(), candidates: Vec::new() };
        for (number, session) in dialogue.sessions.iter().enumerate() {
            let questions = !session.questions.is_empty();
            let prompt = if questions { counter.count(&history(dialogue, number)) } else { 0 };
            for place in 0..session.questions.len() {
                run.ask(&store, dialogue, labels, (number, place), prompt, k)?;
            }
            let started = Instant::now();
            store.keep(&session.turns)?;
            run.ingest_s += started.elapsed().as_secs_f64();
            // For the reference curves only, so outside the time.
            store.candidates.extend(session.turns.iter().map(|turn| Candidate::of(counter, turn)));
        }
    }
    Ok(run)
}

impl FlatRun {
    fn ask(
        &mut self,
        store: &Store<'_>,
        dialogue: &Dialogue,
        labels: &Labels,
        (number, place): (usize, usize),
        prompt: usize,
        k: usize,
    ) -> Result<()> {
        let session = &dialogue.sessions[number];
        let gold = &labels.gold[number][place];
        let started = Instant::now();
        let ranked = store.rank(&session.questions[place].text)?;
        let found: Vec<&Turn> = ranked.iter().take(k).map(|place| store.turns[*place]).collect();
        self.tally.took(started.elapsed().as_secs_f64() * 1e3);
        let counts = judge(labels, gold, found.iter().map(|turn| turn.id.as_str()));
        self.tally.leaks += leaks(dialogue, found.iter().map(|turn| (turn.id.as_str(), turn.text.as_str())));
        self.tally.add(counts, session.language, gold.scope, prompt);

        let all: Vec<&Candidate> = ranked.iter().map(|place| &store.candidates[*place]).collect();
        let of_user: Vec<&Candidate> = ranked
            .iter()
            .filter(|place| store.turns[**place].role == Role::User)
            .map(|place| &store.candidates[*place])
            .collect();
        for (candidates, curve) in
            [(all, &mut self.within_budget), (of_user, &mut self.users_turns_within_budget)]
        {
            for (budget, tally) in curve {
                let context = assemble(Counter::new(), candidates.iter().copied(), *budget);
                let counts = judge(labels, gold, context.ids.iter().map(String::as_str));
                tally.add(counts, session.language, gold.scope, context.tokens);
            }
        }
        Ok(())
    }
}

/// One user's turns and their vectors.
struct Store<'a> {
    embedder: &'a dyn Embedder,
    turns: Vec<&'a Turn>,
    vectors: Vec<Vec<f32>>,
    candidates: Vec<Candidate>,
}

impl<'a> Store<'a> {
    fn keep(&mut self, turns: &'a [Turn]) -> Result<()> {
        let texts: Vec<&str> = turns.iter().map(|turn| turn.text.as_str()).collect();
        self.vectors.extend(self.embedder.embed(&texts).context("embedding a session")?);
        self.turns.extend(turns);
        Ok(())
    }

    /// The places of all turns, nearest first; equal ones in the order in which they were said.
    fn rank(&self, question: &str) -> Result<Vec<usize>> {
        let question = self.embedder.embed(&[question]).context("embedding a question")?;
        let mut scored: Vec<(f32, usize)> =
            self.vectors.iter().map(|vector| cosine(&question[0], vector)).zip(0..).collect();
        scored.sort_by(|one, other| other.0.total_cmp(&one.0));
        Ok(scored.into_iter().map(|(_, place)| place).collect())
    }
}

/// Of unit vectors: their inner product.
fn cosine(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}
