//! What the server answers to a case.

use super::dataset::{Case, OPEN_QUESTION, UNIVERSAL};
use crate::client::{Client, ContextRequest, RecallRequest};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Room for every belief of a user, in tokens: what is read beside the query is not cut.
const ROOM_TOKENS: usize = 100_000;

/// How relevant beliefs are asked for.
#[derive(Debug, Clone)]
pub(super) struct Asking<'a> {
    pub(super) client: &'a Client,
    pub(super) token: Option<String>,
    pub(super) top_k: u32,
    pub(super) min_score: Option<f64>,
}

/// Ids of each part, and how long the recall of the relevant ones took; none where there is no query.
#[derive(Debug, Clone, Default)]
pub(super) struct Answered {
    pub(super) persona: Vec<String>,
    pub(super) persona_text: String,
    pub(super) pinned: Vec<String>,
    pub(super) relevant: Vec<String>,
    pub(super) questions: Vec<String>,
    pub(super) took: Option<Duration>,
}

impl Asking<'_> {
    /// All parts of the answer to a case.
    pub(super) async fn case(&self, user: &str, case: &Case) -> Result<Answered> {
        let scope = in_scope(&case.scope);
        let pinned = json!({"pinned": true});
        let question = json!({"metadata.type": OPEN_QUESTION});
        let open = json!({"not": [{"metadata.resolved": true}]});
        let not = |what: &Value| json!({"not": [what]});
        let (persona, persona_text) = self.beside(user, &in_scope(&[UNIVERSAL.to_owned()])).await?;
        let facts = json!({"and": [scope, pinned, open, not(&question)]});
        let (pinned_ids, _) = self.beside(user, &facts).await?;
        let asks = json!({"and": [scope, pinned, open, question]});
        let (questions, _) = self.beside(user, &asks).await?;
        let mut answered =
            Answered { persona, persona_text, pinned: pinned_ids, questions, ..Answered::default() };
        // What is pinned takes its places first.
        let room = case.budget.and_then(|budget| budget.max_beliefs);
        let room = room.map_or(usize::MAX, |most| most.saturating_sub(answered.pinned.len()));
        let top_k = self.top_k.min(u32::try_from(room).unwrap_or(u32::MAX));
        if top_k > 0 && !case.query.trim().is_empty() {
            let filter = json!({"and": [scope, not(&pinned), not(&question), open]});
            let begin = Instant::now();
            answered.relevant = self.recall(user, &case.query, filter, top_k, self.min_score).await?;
            answered.took = Some(begin.elapsed());
        }
        Ok(answered)
    }

    /// What is recalled by a text within scopes, whatever its kind.
    pub(super) async fn probe(&self, user: &str, scope: &[String], query: &str) -> Result<Vec<String>> {
        self.recall(user, query, in_scope(scope), self.top_k, None).await
    }

    async fn recall(
        &self,
        user: &str,
        query: &str,
        filter: Value,
        top_k: u32,
        min_score: Option<f64>,
    ) -> Result<Vec<String>> {
        let request = RecallRequest {
            query: query.to_owned(),
            top_k,
            min_score,
            profile: Some("relevance".to_owned()),
            filter: Some(filter),
            token: self.token.clone(),
            ..RecallRequest::default()
        };
        let answer = self.client.recall(user, &request).await?;
        ensure!(!answer.partial, "a shard did not answer {query:?}");
        Ok(answer.results.into_iter().map(|hit| hit.memory.id).collect())
    }

    /// All that a filter lets through, with its text.
    async fn beside(&self, user: &str, filter: &Value) -> Result<(Vec<String>, String)> {
        let request = ContextRequest {
            budget_tokens: ROOM_TOKENS,
            sections: Some(vec!["memories".to_owned()]),
            filter: Some(filter.clone()),
            token: self.token.clone(),
            ..ContextRequest::default()
        };
        let answer = self.client.context(user, &request).await?;
        ensure!(!answer.partial, "a shard did not answer");
        let memories = answer.sections.into_iter().filter(|section| section.name == "memories");
        let ids = memories.flat_map(|section| section.items).map(|item| item.id).collect();
        Ok((ids, answer.text.unwrap_or_default()))
    }
}

fn in_scope(scopes: &[String]) -> Value {
    let each: Vec<Value> =
        scopes.iter().map(|scope| json!({"metadata.scope": {"$contains": scope}})).collect();
    json!({ "or": each })
}
