//! `POST …/memories`.

use super::ItemResult;
use super::batch::{Batch, check_size};
use crate::auth::InSpace;
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, now_us};
use crate::http::write::{WriteHead, WriteIdentity};
use crate::http::{Body, answer};
use crate::shared::Shared;
use crate::tokens;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use holdfast_core::access::{Access, Rights};
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, SpaceCommand, Write};
use holdfast_core::outcome::ItemOutcome;
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Seen;
use holdfast_core::{Error, ErrorCode};
use serde::Serialize;
use std::ops::Range;
use std::sync::Arc;

/// Bodies up to this many bytes are read and analysed where they arrive: that takes well below a
/// tenth of a millisecond.
const INLINE_BYTES: usize = 2 * 1024;

#[derive(Serialize)]
struct Added {
    results: Vec<ItemResult>,
    token: String,
}

pub(crate) async fn add(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::WRITE)?;
    let identity = head.identity(&body)?;
    let mut call = Call { shared: &shared, access: &access, space: &space, identity: &identity, seen: None };
    let results = call.add(body).await.map_err(|problem| problem.with_idempotency_key(&identity.key))?;
    let added = Added { results, token: tokens::text(&access.tenant, call.seen)? };
    let mut response = answer(StatusCode::CREATED, &added)?;
    if let Ok(key) = identity.key.parse() {
        response.headers_mut().insert("idempotency-key", key);
    }
    Ok(response)
}

struct Call<'a> {
    shared: &'a Shared,
    access: &'a Access,
    space: &'a SpaceKey,
    identity: &'a WriteIdentity,
    seen: Option<Seen>,
}

impl Call<'_> {
    async fn add(&mut self, body: Bytes) -> Answer<Vec<ItemResult>> {
        let deadline = Deadline::after(self.shared.config.write_timeout);
        let now_us = now_us();
        let mut batch = if body.len() <= INLINE_BYTES {
            Batch::read(&body, now_us)?
        } else {
            self.shared.work.run(deadline, move || Batch::read(&body, now_us)).await??
        };
        batch.embed(self.shared.embedding.as_ref(), deadline).await?;
        if !batch.partial {
            let whole = 0..batch.items.len();
            let items = self.store(&batch, &whole, 0, deadline).await?;
            return Ok(items.into_iter().map(ItemResult::from).collect());
        }
        let mut results = Vec::with_capacity(batch.items.len());
        let (mut stored, mut first_problem) = (false, None);
        for (number, part) in batch.parts().into_iter().enumerate() {
            match self.store(&batch, &part, number, deadline).await {
                Ok(items) => {
                    stored = true;
                    results.extend(merge(&batch, &part, items));
                }
                Err(problem) => {
                    results.extend(fail(&batch, &part, &problem.error));
                    first_problem.get_or_insert(problem);
                }
            }
        }
        // A fault that hit everything is the answer to the request, not to each of its items.
        match first_problem {
            Some(problem) if !stored => Err(problem),
            _ => Ok(results),
        }
    }

    /// Stores one part: all of its items are acknowledged together.
    async fn store(
        &mut self,
        batch: &Batch,
        part: &Range<usize>,
        number: usize,
        deadline: Deadline,
    ) -> Answer<Vec<ItemOutcome>> {
        let Some(add) = batch.add(part) else { return Ok(Vec::new()) };
        let expected = add.items.len();
        let identity = if batch.partial { self.identity.part(number) } else { self.identity.whole() };
        let command = Command::Space(Box::new(SpaceCommand {
            space: self.space.clone(),
            idempotency: Some(identity),
            write: Write::Add(add),
        }));
        let bytes = command.encode().map_err(|error| Error::new(ErrorCode::Internal, error.to_string()))?;
        check_size(bytes.len())?;
        let written = self.shared.nodes.write(self.access, self.space, &command, deadline).await?;
        self.seen = written.seen.or(self.seen);
        if written.items.len() == expected {
            return Ok(written.items);
        }
        let detail = "the write was answered for another number of memories than it has";
        Err(Problem::new(ErrorCode::Internal, detail))
    }
}

/// The outcomes of a part in the order of the request, those that were rejected here among them.
fn merge(batch: &Batch, part: &Range<usize>, items: Vec<ItemOutcome>) -> Vec<ItemResult> {
    let mut items = items.into_iter();
    let of = |item: &super::batch::Item| match item {
        Ok(_) => items.next().map(ItemResult::from),
        Err((id, error)) => Some(ItemResult::rejected(id.clone(), error)),
    };
    batch.items[part.clone()].iter().filter_map(of).collect()
}

/// The outcomes of a part that could not be stored.
fn fail(batch: &Batch, part: &Range<usize>, problem: &Error) -> Vec<ItemResult> {
    let of = |item: &super::batch::Item| match item {
        Ok(prepared) => {
            let memory = &prepared.memory;
            ItemResult::rejected(memory.id_chosen.then(|| memory.index.id.clone()), problem)
        }
        Err((id, error)) => ItemResult::rejected(id.clone(), error),
    };
    batch.items[part.clone()].iter().map(of).collect()
}
