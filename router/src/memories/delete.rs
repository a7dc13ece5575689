//! `DELETE …/memories/{id}`.

use super::get::not_found;
use super::locate::locate_with_times;
use super::single;
use crate::auth::{InSpace, PathId};
use crate::http::answer;
use crate::http::problem::Answer;
use crate::http::time::Deadline;
use crate::http::write::{WriteHead, WriteIdentity};
use crate::nodes::{Level, ReadWish, Written};
use crate::shared::Shared;
use crate::tokens;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::ErrorCode;
use holdfast_core::access::{Access, Rights};
use holdfast_core::command::{Command, SpaceCommand, Write};
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Token;
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
struct Deleted {
    id: String,
    status: &'static str,
    token: String,
}

pub(crate) async fn delete(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(id): PathId,
    head: WriteHead,
) -> Answer<Response> {
    let (access, place) = caller.require_place(Rights::WRITE)?;
    let identity = head.identity(&[])?;
    let deadline = Deadline::after(shared.config.write_timeout);
    let call = Call { shared: &shared, access: &access, id: &id, identity: &identity, deadline };
    let written = call.delete(&place.partitions()?).await;
    let mut written = written.map_err(|problem| problem.with_idempotency_key(&identity.key))?;
    let item = single(&mut written)?;
    let token = tokens::text(&access.tenant, written.seen)?;
    answer(StatusCode::OK, &Deleted { id: item.id, status: item.status.as_str(), token })
}

#[derive(Clone, Copy)]
struct Call<'a> {
    shared: &'a Shared,
    access: &'a Access,
    id: &'a str,
    identity: &'a WriteIdentity,
    deadline: Deadline,
}

impl Call<'_> {
    async fn delete(self, spaces: &[SpaceKey]) -> Answer<Written> {
        if let [space] = spaces {
            return self.delete_in(space).await;
        }
        let wish = ReadWish { level: Level::Linearizable, token: Token::new(&self.access.tenant) };
        let places =
            locate_with_times(self.shared, self.access, spaces, self.id, &wish, self.deadline).await?;
        // Where it was deleted this very request may have done it: its key is known there. It may have been cut off
        // before it came to another partition, but what was added since is not meant.
        let (mut first, mut done_us) = (None, None);
        for at in places.buried(self.id) {
            let Some(space) = spaces.get(*at) else { continue };
            match self.delete_in(space).await {
                Err(problem) if problem.error.code == ErrorCode::NotFound => {}
                end => {
                    let written = end?;
                    first.get_or_insert(written);
                    done_us = done_us.max(Some(places.at_us(self.id, *at).unwrap_or(i64::MIN)));
                }
            }
        }
        let is_meant = |at: usize| match (done_us, places.at_us(self.id, at)) {
            (Some(done_us), Some(created_us)) => created_us <= done_us,
            // A node that tells no times, beside one that was done with: it is left, as it always was.
            (Some(_), None) => false,
            (None, _) => true,
        };
        for at in places.all_of(self.id).iter().filter(|at| is_meant(**at)) {
            let Some(space) = spaces.get(*at) else { continue };
            let written = self.delete_in(space).await?;
            first.get_or_insert(written);
        }
        first.ok_or_else(not_found)
    }

    async fn delete_in(self, space: &SpaceKey) -> Answer<Written> {
        let command = Command::Space(Box::new(SpaceCommand {
            space: space.clone(),
            idempotency: Some(self.identity.whole()),
            write: Write::Delete { id: self.id.to_owned(), if_version: self.identity.if_version },
        }));
        self.shared.nodes.write(self.access, space, &command, self.deadline).await
    }
}
