//! `POST …/memories`.

use super::batch::{Batch, check_size};
use super::{ItemResult, hints};
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
use holdfast_core::command::{Add, Command, SpaceCommand, Write};
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
    let stored = store(&shared, &access, &space, &identity, body).await;
    added(&access, &identity, stored)
}

/// The answer to a write of new memories.
pub(crate) fn added(
    access: &Access,
    identity: &WriteIdentity,
    stored: Answer<AddedItems>,
) -> Answer<Response> {
    let (results, seen) = stored.map_err(|problem| problem.with_idempotency_key(&identity.key))?;
    let added = Added { results, token: tokens::text(&access.tenant, seen)? };
    let mut response = answer(StatusCode::CREATED, &added)?;
    if let Ok(key) = identity.key.parse() {
        response.headers_mut().insert("idempotency-key", key);
    }
    Ok(response)
}

/// What became of each memory of a write, and what the writer has seen.
pub(crate) type AddedItems = (Vec<ItemResult>, Option<Seen>);

/// Stores the memories of a body. Answers what became of each, and what the writer has seen.
pub(crate) async fn store(
    shared: &Shared,
    access: &Access,
    space: &SpaceKey,
    identity: &WriteIdentity,
    body: Bytes,
) -> Answer<AddedItems> {
    let mut call = Call { shared, access, space, identity, seen: None };
    let results = call.add(body).await?;
    Ok((results, call.seen))
}

/// The memories of a body in the form of a command, for a write that stores them with something else.
pub(crate) async fn derived(
    shared: &Shared,
    access: &Access,
    body: Bytes,
    deadline: Deadline,
) -> Answer<Add> {
    let now_us = now_us();
    let (by, chunk_tokens) =
        (shared.fact_rules.of(&shared.nodes, &access.tenant, deadline).await?, shared.config.chunk_tokens);
    let mut batch =
        shared.work.run(deadline, move || Batch::read(&body, chunk_tokens, now_us, &by)).await??;
    batch.embed(shared.embedding.as_ref(), deadline).await?;
    let all = 0..batch.items.len();
    batch.add(&all).ok_or_else(|| Problem::new(ErrorCode::Internal, "nothing is left of a memory"))
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
        let (now_us, chunk_tokens) = (now_us(), self.shared.config.chunk_tokens);
        let by = self.shared.fact_rules.of(&self.shared.nodes, &self.access.tenant, deadline).await?;
        let mut batch = if body.len() <= INLINE_BYTES {
            Batch::read(&body, chunk_tokens, now_us, &by)?
        } else {
            self.shared.work.run(deadline, move || Batch::read(&body, chunk_tokens, now_us, &by)).await??
        };
        batch.embed(self.shared.embedding.as_ref(), deadline).await?;
        hints::look_up(self.shared, self.access, self.space, &mut batch, deadline).await;
        if !batch.partial {
            let whole = 0..batch.items.len();
            let items = self.store(&batch, &whole, 0, deadline).await?;
            return Ok(merge(&batch, &whole, items));
        }
        self.store_parts(&batch, deadline).await
    }

    /// Stores a partial write part by part.
    ///
    /// # Errors
    /// What is open for one part is open for the request: an answer per item would call memories
    /// rejected that may be stored. The caller repeats it all, which is safe because every part has
    /// an idempotency key of its own, made of the request's.
    async fn store_parts(&mut self, batch: &Batch, deadline: Deadline) -> Answer<Vec<ItemResult>> {
        let mut results: Vec<ItemResult> = Vec::with_capacity(batch.items.len());
        let (mut answered, mut first_problem) = (false, None);
        for (number, part) in batch.parts().into_iter().enumerate() {
            match self.store(batch, &part, number, deadline).await {
                Ok(items) => {
                    answered = true;
                    results.extend(merge(batch, &part, items));
                }
                Err(problem) if is_refusal(problem.error.code) => {
                    results.extend(fail(batch, &part, &problem.error));
                    first_problem.get_or_insert(problem);
                }
                Err(problem) => {
                    let some_stored = results.iter().any(|result| result.version.is_some());
                    return Err(open(problem, &part, some_stored));
                }
            }
        }
        // A refusal that hit everything is the answer to the request, not to each of its items.
        match first_problem {
            Some(problem) if !answered => Err(problem),
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

/// Whether a part is refused for good. Any other fault leaves open what became of its memories: they
/// may be stored by this request, or by an earlier one that this one repeats.
fn is_refusal(code: ErrorCode) -> bool {
    match code {
        ErrorCode::InvalidArgument
        | ErrorCode::Unauthenticated
        | ErrorCode::PermissionDenied
        | ErrorCode::NotFound
        | ErrorCode::Conflict
        | ErrorCode::AlreadyExists
        | ErrorCode::TooLarge
        | ErrorCode::QuotaExceeded => true,
        ErrorCode::RateLimited
        | ErrorCode::Overloaded
        | ErrorCode::Unavailable
        | ErrorCode::DeadlineExceeded
        | ErrorCode::UnknownOutcome
        | ErrorCode::Corrupted
        | ErrorCode::Internal => false,
    }
}

/// The answer to a request that ended at a part whose outcome is open.
fn open(mut problem: Problem, part: &Range<usize>, some_stored: bool) -> Problem {
    let error = &mut problem.error;
    match error.code {
        ErrorCode::UnknownOutcome | ErrorCode::Corrupted | ErrorCode::Internal => {}
        _ if !some_stored => return problem,
        // These codes promise that nothing was done, which holds for this part alone.
        _ => error.code = ErrorCode::UnknownOutcome,
    }
    error.detail = format!(
        "memories[{}] to memories[{}]: {} (those before them are dealt with, those after them were not tried; \
         repeating the request with the same Idempotency-Key and body stores nothing twice and tells every \
         outcome)",
        part.start,
        part.end.saturating_sub(1),
        error.detail,
    );
    problem
}

/// The outcomes of a part in the order of the request, those that were rejected here among them.
fn merge(batch: &Batch, part: &Range<usize>, items: Vec<ItemOutcome>) -> Vec<ItemResult> {
    let mut items = items.into_iter();
    let of = |item: &super::batch::Item| match item {
        Ok(prepared) => items.next().map(|outcome| {
            let mut result = ItemResult::from(outcome);
            // An id that was made for something that is not stored names nothing, and the
            // repetition of the request makes another.
            if result.version.is_none() && !prepared.memory.id_chosen {
                result.id = None;
            }
            result
        }),
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
