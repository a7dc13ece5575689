//! A made-up workload: users whose memories and questions are put together from templates in
//! English and Chinese, always the same for the same seed.

use anyhow::{Result, ensure};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::{Mode, Outcome, Workload};
use crate::client::{AddRequest, AddStatus, Client, ContextRequest, NewMemory, RecallRequest};
use crate::import::{BATCH_MAX, Item, import};

/// Budget of the contexts that are asked for.
const CONTEXT_TOKENS: usize = 2_000;

const PEOPLE: [&str; 10] = ["Anna", "Bao", "陈静", "Diego", "Elif", "方华", "Goran", "何敏", "Ines", "Jun"];
const THINGS: [&str; 16] = [
    "green tea",
    "the night train",
    "a blue bicycle",
    "rock climbing",
    "piano lessons",
    "the tax form",
    "oat milk",
    "a standing desk",
    "龙井茶",
    "羽毛球",
    "高铁票",
    "体检报告",
    "川菜",
    "摄影课",
    "猫粮",
    "电子书",
];
const PLACES: [&str; 8] =
    ["Lisbon", "Hangzhou", "the office", "her sister's flat", "杭州", "成都", "公司", "图书馆"];
const STATEMENTS: [&str; 8] = [
    "{person} said that {thing} is the best thing about {place}.",
    "Remind {person} to order {thing} before the trip to {place} on day {n}.",
    "I paid {n} euros for {thing} in {place}, order CN-A{n}.",
    "{person} no longer wants {thing}; ask again in {n} weeks.",
    "{person}说在{place}最喜欢的是{thing}。",
    "提醒{person}第{n}天之前订好{thing}，要送到{place}。",
    "我在{place}买{thing}花了{n}块钱，订单号CN-A{n}。",
    "{person}现在不想要{thing}了，过{n}周再问。",
];
const QUESTIONS: [&str; 6] = [
    "What did {person} say about {thing}?",
    "How much was {thing} in {place}?",
    "What happened with order CN-A{n}?",
    "{person}最喜欢{place}的什么？",
    "{thing}花了多少钱？",
    "要提醒{person}什么事？",
];

/// Users, memories and questions for a load test.
#[derive(Debug)]
pub struct Synthetic {
    client: Client,
    mode: Mode,
    users: u32,
    seed: u64,
    /// Distinguishes the ids written by this run from those of earlier runs.
    run: u64,
}

impl Synthetic {
    /// A workload for `users` users. The client should never retry: see
    /// [`RetryPolicy::never`](crate::client::RetryPolicy::never).
    pub fn new(client: Client, mode: Mode, users: u32, seed: u64) -> Self {
        Self { client, mode, users: users.max(1), seed, run: rand::random() }
    }

    /// Name of one user.
    pub fn user(&self, number: u32) -> String {
        format!("load-{}-{number}", self.seed)
    }

    /// Stores `memories_per_user` memories for every user; a second time changes nothing.
    ///
    /// # Errors
    /// What the server refuses.
    pub async fn prepare(&self, client: &Client, memories_per_user: u32) -> Result<()> {
        for number in 0..self.users {
            let items: Vec<Item> = (0..memories_per_user)
                .map(|n| Item {
                    memory: self.memory(u64::from(number), u64::from(n)),
                    origin: format!("memory {n}"),
                })
                .collect();
            let summary = import(client, &self.user(number), &items, BATCH_MAX, |_| ()).await?;
            ensure!(summary.rejected.is_empty(), "the server rejected {:?}", summary.rejected.first());
        }
        Ok(())
    }

    fn memory(&self, stream: u64, number: u64) -> NewMemory {
        let mut rng = rng(&[self.seed, 1, stream, number]);
        NewMemory {
            id: Some(format!("m-{stream}-{number}")),
            content: fill(&STATEMENTS, &mut rng),
            session: Some(format!("s-{}", number / 20)),
            speaker: pick(&PEOPLE, &mut rng).map(str::to_owned),
            ..NewMemory::default()
        }
    }

    async fn recall(&self, user: &str, rng: &mut StdRng) -> Result<(), String> {
        let request = RecallRequest { query: fill(&QUESTIONS, rng), top_k: 10, ..RecallRequest::default() };
        match self.client.recall(user, &request).await {
            Ok(answer) if answer.partial => Err("partial".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.code().to_owned()),
        }
    }

    async fn context(&self, user: &str, rng: &mut StdRng) -> Result<(), String> {
        let request = ContextRequest {
            query: Some(fill(&QUESTIONS, rng)),
            budget_tokens: CONTEXT_TOKENS,
            ..ContextRequest::default()
        };
        match self.client.context(user, &request).await {
            Ok(answer) if answer.partial => Err("partial".to_owned()),
            Ok(answer) if answer.tokens > CONTEXT_TOKENS => Err("above_budget".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.code().to_owned()),
        }
    }

    async fn write(&self, user: &str, number: u64) -> Result<(), String> {
        let mut memory = self.memory(self.run, number);
        // An equal text would be merged: a cheaper operation than the one to be measured.
        memory.content.push_str(&format!(" ({number})"));
        let request = AddRequest { memories: vec![memory], ..AddRequest::default() };
        let key = format!("load-{:016x}-{number}", self.run);
        match self.client.add_memories(user, &request, &key).await {
            Ok(answer) if answer.results.iter().all(|r| r.status == AddStatus::Created) => Ok(()),
            Ok(_) => Err("not_created".to_owned()),
            Err(error) => Err(error.code().to_owned()),
        }
    }
}

impl Workload for Synthetic {
    async fn perform(&self, number: u64) -> Outcome {
        let mut rng = rng(&[self.seed, 2, number]);
        let user = self.user(rng.random_range(0..self.users));
        let writes = match self.mode {
            Mode::Recall | Mode::Context => false,
            Mode::Write => true,
            // One write to four recalls: an agent asks before each answer and stores the turn
            // now and then.
            Mode::Mixed => rng.random_ratio(1, 5),
        };
        if writes {
            Outcome { kind: "write", result: self.write(&user, number).await }
        } else if self.mode == Mode::Context {
            Outcome { kind: "context", result: self.context(&user, &mut rng).await }
        } else {
            Outcome { kind: "recall", result: self.recall(&user, &mut rng).await }
        }
    }
}

/// A generator that depends on the given numbers only.
fn rng(parts: &[u64]) -> StdRng {
    let mut seed = [0_u8; 32];
    for (chunk, part) in seed.chunks_exact_mut(8).zip(parts) {
        chunk.copy_from_slice(&part.to_le_bytes());
    }
    StdRng::from_seed(seed)
}

/// A made-up statement, English or Chinese.
pub fn statement(rng: &mut StdRng) -> String {
    fill(&STATEMENTS, rng)
}

fn pick(from: &[&'static str], rng: &mut StdRng) -> Option<&'static str> {
    from.choose(rng).copied()
}

fn fill(templates: &[&'static str], rng: &mut StdRng) -> String {
    let template = pick(templates, rng).unwrap_or_default();
    let number: u32 = rng.random_range(1..10_000);
    template
        .replace("{person}", pick(&PEOPLE, rng).unwrap_or_default())
        .replace("{thing}", pick(&THINGS, rng).unwrap_or_default())
        .replace("{place}", pick(&PLACES, rng).unwrap_or_default())
        .replace("{n}", &number.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::client::{ClientOptions, RetryPolicy};
    use crate::fake::FakeServer;

    fn workload(url: &str, mode: Mode) -> Synthetic {
        let mut options = ClientOptions::new(url, "k");
        options.retry = RetryPolicy::never();
        Synthetic::new(Client::new(&options).unwrap(), mode, 3, 42)
    }

    #[test]
    fn the_same_seed_gives_the_same_texts_and_no_placeholder_is_left() {
        let (one, two) =
            (workload("http://127.0.0.1:9", Mode::Recall), workload("http://127.0.0.1:9", Mode::Recall));
        let mut chinese = 0;
        for n in 0..200 {
            let text = one.memory(1, n).content;
            assert_eq!(text, two.memory(1, n).content);
            assert!(!text.contains('{') && !text.contains('}'), "{text}");
            chinese += usize::from(text.contains('。'));
        }
        assert!((60..140).contains(&chinese), "{chinese} of 200 are Chinese");
        assert_ne!(one.memory(1, 1).content, one.memory(2, 1).content);
    }

    #[tokio::test]
    async fn every_mode_does_what_it_says() {
        let server = FakeServer::start().await;
        let seeded = workload(&server.url, Mode::Mixed);
        seeded.prepare(&seeded.client, 30).await.unwrap();
        seeded.prepare(&seeded.client, 30).await.unwrap();
        let before: usize = (0..3).map(|n| server.memories(&seeded.user(n))).sum();
        assert!((80..=90).contains(&before), "{before}");
        let mut writes = 0;
        for n in 0..100 {
            let outcome = seeded.perform(n).await;
            assert_eq!(outcome.result, Ok(()), "{outcome:?}");
            writes += usize::from(outcome.kind == "write");
        }
        assert!((8..35).contains(&writes), "{writes}");
        let after: usize = (0..3).map(|n| server.memories(&seeded.user(n))).sum();
        assert_eq!(after - before, writes);
        let recall = workload(&server.url, Mode::Recall).perform(1).await;
        assert_eq!(recall.kind, "recall");
        let write = workload(&server.url, Mode::Write).perform(1).await;
        assert_eq!(write.kind, "write");
        let context = workload(&server.url, Mode::Context).perform(1).await;
        assert_eq!((context.kind, context.result), ("context", Ok(())));
    }

    #[tokio::test]
    async fn an_unreachable_server_is_a_code_and_not_a_crash() {
        let outcome = workload("http://127.0.0.1:9", Mode::Write).perform(0).await;
        assert_eq!(outcome.result, Err("unreachable".to_owned()));
    }
}
