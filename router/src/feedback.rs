//! `POST …/feedback`: what came of recalled memories.

use crate::auth::InSpace;
use crate::http::json::{self, Bounded};
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::write::WriteHead;
use crate::http::{Body, answer};
use crate::memories::ItemResult;
use crate::shared::Shared;
use crate::tokens;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::access::Rights;
use holdfast_core::command::{Command, FeedbackItem, SpaceCommand, Verdict, Write};
use holdfast_core::limits::{FEEDBACK_ITEMS_MAX, check_id};
use holdfast_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FeedbackBody {
    /// For logs and statistics alone; feedback works by the ids of memories.
    recall_id: Option<String>,
    items: Bounded<ItemBody, FEEDBACK_ITEMS_MAX>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemBody {
    id: String,
    outcome: String,
}

#[derive(Serialize)]
struct Recorded {
    results: Vec<ItemResult>,
    token: String,
}

pub(crate) async fn feedback(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::WRITE)?;
    let identity = head.identity(&body)?;
    let command = Command::Space(Box::new(SpaceCommand {
        space: space.clone(),
        idempotency: Some(identity.whole()),
        write: Write::Feedback { items: read(&body)? },
    }));
    let deadline = Deadline::after(shared.config.write_timeout);
    let written = shared.nodes.write(&access, &space, &command, deadline).await;
    let written = written.map_err(|problem: Problem| problem.with_idempotency_key(&identity.key))?;
    let results = written.items.into_iter().map(ItemResult::from).collect();
    let token = tokens::text(&access.tenant, written.seen)?;
    answer(StatusCode::OK, &Recorded { results, token })
}

fn read(body: &[u8]) -> Result<Vec<FeedbackItem>> {
    let body: FeedbackBody = json::body(body)?;
    if let Some(id) = &body.recall_id {
        check_id("recall_id", id)?;
    }
    if body.items.0.is_empty() {
        return Err(Error::invalid("items", "items is empty; give at least one"));
    }
    let each = body.items.0.into_iter().enumerate();
    each.map(|(at, item)| {
        check_id(&format!("items[{at}].id"), &item.id)?;
        let verdict = Verdict::from_wire(&item.outcome).ok_or_else(|| {
            Error::invalid(format!("items[{at}].outcome"), "outcome must be adopted, useless or harmful")
        })?;
        Ok(FeedbackItem { id: item.id, verdict })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn items_are_checked_and_named() {
        let field = |body: serde_json::Value| read(body.to_string().as_bytes()).unwrap_err().field.unwrap();
        let item = |id: &str, outcome: &str| json!({"id": id, "outcome": outcome});
        assert_eq!(field(json!({"items": []})), "items");
        assert_eq!(field(json!({"items": [item("a", "adopted"), item("", "adopted")]})), "items[1].id");
        assert_eq!(field(json!({"items": [item("a", "great")]})), "items[0].outcome");
        assert_eq!(field(json!({"items": vec![item("a", "useless"); 1001]})), "items");
        assert_eq!(field(json!({"items": [{"id": "a"}]})), "items[0].outcome");
        let good = json!({"recall_id": "r", "items": [item("记忆", "harmful")]});
        assert_eq!(read(good.to_string().as_bytes()).unwrap()[0].verdict, Verdict::Harmful);
    }
}
