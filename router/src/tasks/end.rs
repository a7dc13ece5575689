//! `DELETE …/tasks/{id}`: ends a task; with an outcome it becomes an episode, in one step.

use super::episode::EndBody;
use super::fetch;
use crate::auth::{InSpace, PathId, own_reads};
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, now_us};
use crate::http::write::{WriteHead, WriteIdentity};
use crate::http::{Body, answer, json};
use crate::memories::ItemResult;
use crate::memories::add::derived;
use crate::nodes::{Level, ReadWish, Written};
use crate::shared::Shared;
use crate::tiers::{self, lost_the_race};
use crate::tokens;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::access::{Access, Rights};
use holdfast_core::command::{Add, Write};
use holdfast_core::space::SpaceKey;
use holdfast_core::tiers::task::{TaskChange, TaskWrite};
use holdfast_core::token::Token;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// How often an end without `If-Match` is made again when a step came in between.
const ATTEMPTS_MAX: u32 = 64;

#[derive(Serialize)]
struct Ended {
    id: String,
    version: u64,
    status: &'static str,
    /// The memory that tells of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    episode: Option<ItemResult>,
    token: String,
}

pub(crate) async fn end(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(id): PathId,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::WRITE)?;
    let end: EndBody =
        if body.iter().all(u8::is_ascii_whitespace) { EndBody::default() } else { json::body(&body)? };
    let has_outcome = end.has_outcome()?;
    let identity = head.identity(&body)?;
    let deadline = Deadline::after(shared.config.write_timeout);
    let call =
        Call { shared: &shared, access: &access, space: &space, id: &id, identity: &identity, deadline };
    let written = match has_outcome {
        true => call.with_episode(&end).await?,
        false => call.write(None, identity.if_version).await?,
    };
    let task = tiers::first(&written)?;
    let ended = Ended {
        id: task.id.clone(),
        version: task.version,
        status: task.status.as_str(),
        token: tokens::text(&access.tenant, written.seen)?,
        episode: written.items.into_iter().nth(1).map(ItemResult::from),
    };
    answer(StatusCode::OK, &ended)
}

struct Call<'a> {
    shared: &'a Shared,
    access: &'a Access,
    space: &'a SpaceKey,
    id: &'a str,
    identity: &'a WriteIdentity,
    deadline: Deadline,
}

impl Call<'_> {
    async fn write(&self, episode: Option<Box<Add>>, if_version: Option<u64>) -> Answer<Written> {
        let change = TaskChange::End { episode };
        let write = Write::Task(Box::new(TaskWrite { id: self.id.to_owned(), if_version, change }));
        tiers::write(self.shared, self.access, self.space, self.identity, write, self.deadline).await
    }

    /// Reads the task, makes the memory of what it is, and ends it if it is still that.
    async fn with_episode(&self, end: &EndBody) -> Answer<Written> {
        let wish = ReadWish { level: Level::Linearizable, token: Token::new(&self.access.tenant) };
        let reading = own_reads(self.access);
        let mut attempt = 0;
        loop {
            let (task, _) = fetch(self.shared, &reading, self.space, self.id, &wish, self.deadline).await?;
            let (episode, if_version) = match task {
                Some(task) => {
                    let body = end.episode(&task, now_us()).to_string();
                    let body = body.into_bytes().into();
                    let add = derived(self.shared, self.access, body, self.deadline).await?;
                    (Some(Box::new(add)), self.identity.if_version.or(Some(task.row.version)))
                }
                // No task has this version: what is answered is that there is none, or, if this repeats an
                // end that was done, what was answered then.
                None => (None, Some(0)),
            };
            match self.write(episode, if_version).await {
                Err(problem) if self.may_repeat(&problem) && attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    let pause = Duration::from_millis(4 * u64::from(attempt)).mul_f64(rand::random());
                    tokio::time::sleep(pause.min(self.deadline.left())).await;
                }
                end => return end,
            }
        }
    }

    fn may_repeat(&self, problem: &Problem) -> bool {
        lost_the_race(self.identity, &problem.error) && !self.deadline.left().is_zero()
    }
}
