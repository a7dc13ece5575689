//! `POST …/feedback`: what came of recalled memories.

use crate::auth::{InSpace, Place};
use crate::collections::agreed::keep;
use crate::http::json::{self, Bounded};
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::write::{WriteHead, WriteIdentity};
use crate::http::{Body, answer};
use crate::memories::ItemResult;
use crate::memories::locate::locate;
use crate::nodes::{Level, ReadWish, Written};
use crate::shared::Shared;
use crate::tokens;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use futures::stream::{self, StreamExt};
use holdfast_core::access::{Access, Rights};
use holdfast_core::command::{Command, FeedbackItem, SpaceCommand, Verdict, Write};
use holdfast_core::limits::{FEEDBACK_ITEMS_MAX, check_id};
use holdfast_core::outcome::ItemOutcome;
use holdfast_core::space::SpaceKey;
use holdfast_core::token::{Seen, Token};
use holdfast_core::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Partitions that one call is recorded in at once.
const AT_ONCE: usize = 16;

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
    let (access, place) = caller.require_place(Rights::WRITE)?;
    let identity = head.identity(&body)?;
    let items = read(&body)?;
    let deadline = Deadline::after(shared.config.write_timeout);
    let call = Call { shared: &shared, access: &access, place: &place, identity: &identity, deadline };
    let recorded = call.record(items).await;
    let (items, seen) = recorded.map_err(|problem| problem.with_idempotency_key(&identity.key))?;
    let results = items.into_iter().map(ItemResult::from).collect();
    let token = tokens::text(&access.tenant, seen)?;
    answer(StatusCode::OK, &Recorded { results, token })
}

/// Stands for the partition of a memory that lies in none.
const NOWHERE: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct Call<'a> {
    shared: &'a Shared,
    access: &'a Access,
    place: &'a Place,
    identity: &'a WriteIdentity,
    deadline: Deadline,
}

impl Call<'_> {
    /// Records what came of memories, in whichever partitions they lie. Answers each in the order of the request.
    async fn record(self, items: Vec<FeedbackItem>) -> Answer<(Vec<ItemOutcome>, Vec<Seen>)> {
        let spaces = self.place.partitions()?;
        if let [space] = spaces.as_slice() {
            let written = self.record_in(space, items).await?;
            return Ok((written.items, written.seen.into_iter().collect()));
        }
        let homes = self.homes(&spaces, &items).await?;
        let mut by_home: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (at, home) in homes.iter().enumerate() {
            by_home.entry(*home).or_default().push(at);
        }
        let mut parts = Vec::with_capacity(by_home.len());
        for (home, places) in by_home {
            let Some(space) = usize::try_from(home).ok().and_then(|home| spaces.get(home)) else { continue };
            let given = places.iter().filter_map(|at| items.get(*at)).cloned().collect();
            parts.push(self.part(space.clone(), places, given));
        }
        let ended: Vec<_> = stream::iter(parts).buffered(AT_ONCE).collect().await;
        // What is open for one part is open for the request, whichever part's error is told.
        let is_done = |written: &Answer<Written>| match written {
            Ok(_) => true,
            Err(problem) => matches!(
                problem.error.code,
                ErrorCode::UnknownOutcome | ErrorCode::Corrupted | ErrorCode::Internal
            ),
        };
        let some_recorded = ended.iter().any(|(_, written)| is_done(written));
        // Those that no partition has heard of.
        let mut all: Vec<ItemOutcome> = items.iter().map(|item| unknown(&item.id)).collect();
        let mut seen = Vec::new();
        for (places, written) in ended {
            let written = written.map_err(|problem| if some_recorded { open(problem) } else { problem })?;
            seen.extend(written.seen);
            for (at, item) in places.iter().zip(written.items) {
                if let Some(place) = all.get_mut(*at) {
                    *place = item;
                }
            }
        }
        Ok((all, seen))
    }

    /// The partition of each memory, or [`NOWHERE`].
    async fn homes(self, spaces: &[SpaceKey], items: &[FeedbackItem]) -> Answer<Vec<u64>> {
        let Self { shared, access, place, identity, deadline } = self;
        let ids: Vec<String> = items.iter().map(|item| item.id.clone()).collect();
        let wish = ReadWish { level: Level::Linearizable, token: Token::new(&access.tenant) };
        let places = locate(shared, access, spaces, &ids, &wish, deadline).await?;
        let found = ids.iter().map(|id| places.of(id).map_or(NOWHERE, |at| at as u64)).collect();
        let kept = keep(shared, access, place, identity, found, deadline).await?;
        if kept.len() == items.len() {
            return Ok(kept);
        }
        let detail = "a request was answered for another number of memories than it has";
        Err(Problem::new(ErrorCode::Internal, detail))
    }

    /// What became of the memories of one partition, which stand at these places of the request.
    async fn part(
        self,
        space: SpaceKey,
        places: Vec<usize>,
        items: Vec<FeedbackItem>,
    ) -> (Vec<usize>, Answer<Written>) {
        let written = self.record_in(&space, items).await;
        (places, written)
    }

    async fn record_in(self, space: &SpaceKey, items: Vec<FeedbackItem>) -> Answer<Written> {
        let command = Command::Space(Box::new(SpaceCommand {
            space: space.clone(),
            idempotency: Some(self.identity.whole()),
            write: Write::Feedback { items },
        }));
        self.shared.nodes.write(self.access, space, &command, self.deadline).await
    }
}

/// As the one partition of a user's space answers it.
fn unknown(id: &str) -> ItemOutcome {
    let reason = Error::new(ErrorCode::NotFound, "there is no memory with this id in this space");
    ItemOutcome { reason: Some(reason), ..ItemOutcome::new(id.to_owned()) }
}

/// The answer where one partition failed and another one has recorded its part: that nothing was done holds for one
/// alone.
fn open(mut problem: Problem) -> Problem {
    let error = &mut problem.error;
    if !matches!(error.code, ErrorCode::Corrupted | ErrorCode::Internal) {
        error.code = ErrorCode::UnknownOutcome;
    }
    error.detail = format!(
        "{} (other memories of this request were told of it; repeat it with the same Idempotency-Key and body, which \
         records nothing twice)",
        error.detail
    );
    problem
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
