//! `DELETE …/memories/{id}`.

use super::get::not_found;
use super::locate::locate_with_times;
use super::single;
use crate::auth::{InSpace, PathId, Place};
use crate::collections::agreed::keep;
use crate::http::problem::Answer;
use crate::http::time::Deadline;
use crate::http::write::{WriteHead, WriteIdentity};
use crate::http::{NoBody, answer};
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
    _: NoBody,
) -> Answer<Response> {
    let (access, place) = caller.require_place(Rights::WRITE)?;
    let identity = head.identity(&[])?;
    let deadline = Deadline::after(shared.config.write_timeout);
    let call = Call { shared: &shared, access: &access, id: &id, identity: &identity, deadline };
    let written = call.delete(&place).await;
    let mut written = written.map_err(|problem| problem.with_idempotency_key(&identity.key))?;
    let item = single(&mut written)?;
    let token = tokens::text(&access.tenant, written.seen)?;
    answer(StatusCode::OK, &Deleted { id: item.id, status: item.status.as_str(), token })
}

/// The time of a memory of which none is told.
const UNKNOWN: u64 = 0;

#[derive(Clone, Copy)]
struct Call<'a> {
    shared: &'a Shared,
    access: &'a Access,
    id: &'a str,
    identity: &'a WriteIdentity,
    deadline: Deadline,
}

impl Call<'_> {
    async fn delete(self, place: &Place) -> Answer<Written> {
        let spaces = place.partitions()?;
        let is_alone = place.collection().is_none() || !self.identity.is_given;
        if let ([space], true) = (spaces.as_slice(), is_alone) {
            return self.delete_in(space, self.identity.if_version).await;
        }
        let (there, buried) = self.there(&spaces).await?;
        let numbers = there.iter().flat_map(|(at, created)| [*at as u64, *created]).collect();
        let kept = keep(self.shared, self.access, place, self.identity, numbers, self.deadline).await?;
        let meant = kept.chunks_exact(2).map(|meant| {
            let (at, created) = (usize::try_from(meant[0]).unwrap_or(usize::MAX), meant[1]);
            (at, created == UNKNOWN || there.contains(&(at, created)))
        });
        // Where it was deleted, this very request may have done it with a key that was its router's then.
        let maybe = buried.into_iter().map(|at| (at, false));
        let mut first = None;
        for (at, is_it) in meant.chain(maybe) {
            let Some(space) = spaces.get(at) else { continue };
            // What lies there by now may have been added since, which is not meant: then only the answer of the first
            // time is asked for, by a version that there never is.
            let if_version = if is_it { self.identity.if_version } else { Some(0) };
            match self.delete_in(space, if_version).await {
                Err(problem) if problem.error.code == ErrorCode::NotFound => {}
                Err(problem) if !is_it && problem.error.code == ErrorCode::Conflict => {}
                end => {
                    let written = end?;
                    first.get_or_insert(written);
                }
            }
        }
        first.ok_or_else(not_found)
    }

    /// Where the id lies, each with the time at which it was recorded, and where it was deleted. It lies in more than one
    /// place only where it was added before partitions agreed on ids.
    async fn there(self, spaces: &[SpaceKey]) -> Answer<(Vec<(usize, u64)>, Vec<usize>)> {
        let wish = ReadWish { level: Level::Linearizable, token: Token::new(&self.access.tenant) };
        let places =
            locate_with_times(self.shared, self.access, spaces, self.id, &wish, self.deadline).await?;
        let created = |at| places.at_us(self.id, at).and_then(|us| u64::try_from(us).ok()).unwrap_or(UNKNOWN);
        let there = places.all_of(self.id).iter().map(|at| (*at, created(*at))).collect();
        Ok((there, places.buried(self.id).to_vec()))
    }

    async fn delete_in(self, space: &SpaceKey, if_version: Option<u64>) -> Answer<Written> {
        let command = Command::Space(Box::new(SpaceCommand {
            space: space.clone(),
            idempotency: Some(self.identity.whole()),
            write: Write::Delete { id: self.id.to_owned(), if_version },
        }));
        self.shared.nodes.write(self.access, space, &command, self.deadline).await
    }
}
