//! `POST …/memories`.

use super::batch::{Batch, tag};
use super::homes::Writing;
use super::{ItemResult, hints};
use crate::auth::{InSpace, Place};
use crate::collections::placing::without_found_facts;
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
use futures::stream::{self, StreamExt};
use holdfast_core::access::{Access, Rights};
use holdfast_core::apply::CLAIMED_FIELD;
use holdfast_core::command::Add;
use holdfast_core::outcome::ItemOutcome;
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Seen;
use holdfast_core::{Error, ErrorCode};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Partitions that one write is stored in at once.
const SPACES_AT_ONCE: usize = 16;

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
    let (access, place) = caller.require_place(Rights::WRITE)?;
    let identity = head.identity(&body)?;
    let stored = store(&shared, &access, &place, &identity, body).await;
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
pub(crate) type AddedItems = (Vec<ItemResult>, Vec<Seen>);

/// Stores the memories of a body. Answers what became of each, and what the writer has seen.
pub(crate) async fn store(
    shared: &Shared,
    access: &Access,
    place: &Place,
    identity: &WriteIdentity,
    body: Bytes,
) -> Answer<AddedItems> {
    Call { shared, access, place, identity }.add(body).await
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
    let all: Vec<usize> = (0..batch.items.len()).collect();
    batch.add(&all).ok_or_else(|| Problem::new(ErrorCode::Internal, "nothing is left of a memory"))
}

#[derive(Clone, Copy)]
struct Call<'a> {
    shared: &'a Shared,
    access: &'a Access,
    place: &'a Place,
    identity: &'a WriteIdentity,
}

/// What becomes one command: items of one partition, by their places in the request.
struct Part {
    space: SpaceKey,
    items: Vec<usize>,
    /// The command, and how many of the items are in it; `None` if none of them can be stored.
    command: Option<(Answer<Vec<u8>>, usize)>,
}

/// What became of a part: its items, and what the writer has seen.
type Ended = Answer<(Vec<ItemOutcome>, Option<Seen>)>;

impl Call<'_> {
    async fn add(self, body: Bytes) -> Answer<AddedItems> {
        let deadline = Deadline::after(self.shared.config.write_timeout);
        let (now_us, chunk_tokens) = (now_us(), self.shared.config.chunk_tokens);
        let by = self.shared.fact_rules.of(&self.shared.nodes, &self.access.tenant, deadline).await?;
        let mut batch = match Batch::read_here(&body, chunk_tokens, now_us, &by)? {
            Some(batch) => batch,
            None => {
                self.shared
                    .work
                    .run(deadline, move || Batch::read(&body, chunk_tokens, now_us, &by))
                    .await??
            }
        };
        let mut embedding = self.shared.embedding.as_ref();
        if let Some(collection) = self.place.collection() {
            batch.check_model(collection.model.as_ref())?;
            embedding = embedding.filter(|built_in| {
                let embedder = built_in.embedder();
                collection.model == Some(tag(embedder.model_id(), embedder.dims()))
            });
        }
        let Self { shared, access, place, identity } = self;
        let writing = Writing { shared, access, place, identity, deadline };
        let mut homes = writing.homes(&batch, false).await?;
        self.settle(&mut batch, &homes, now_us);
        batch.embed(embedding, deadline).await?;
        hints::look_up(self.shared, self.access, &homes, &mut batch, deadline).await;
        match self.store_all(&mut batch, &homes, deadline).await {
            // It has stored nothing: another write is taking one of the ids elsewhere.
            Err(problem) if is_claimed(&problem, &homes) => {
                homes = writing.homes(&batch, true).await?;
                self.settle(&mut batch, &homes, now_us);
                let end = self.store_all(&mut batch, &homes, deadline).await;
                end.map_err(without_claim)
            }
            end => end.map_err(without_claim),
        }
    }

    /// Makes memories what they are where they go: without facts where none are, which rules found in the texts of other
    /// partitions than the first; and for as long as the collection keeps those for which no end is given.
    fn settle(self, batch: &mut Batch, homes: &[SpaceKey], now_us: i64) {
        let until_us = self.place.retention_us().map(|retention_us| now_us.saturating_add(retention_us));
        for (memory, home) in batch.memories_mut(homes) {
            if memory.index.expires_us.is_none() && !memory.index.pinned {
                memory.index.expires_us = until_us;
                memory.chunks.iter_mut().for_each(|chunk| chunk.index.expires_us = until_us);
            }
            if self.place.collection().is_some() && home.partition() > 0 {
                without_found_facts(memory);
            }
        }
    }

    async fn store_all(
        self,
        batch: &mut Batch,
        homes: &[SpaceKey],
        deadline: Deadline,
    ) -> Answer<AddedItems> {
        match <[Part; 1]>::try_from(self.parts(batch, homes)) {
            Ok([part]) if !batch.partial => {
                let (items, seen) = self.store(&part.space, part.command, deadline).await?;
                let mut results = Results::new(batch);
                results.merge(batch, &part.items, items);
                Ok((results.in_order(), seen.into_iter().collect()))
            }
            Ok([part]) => self.store_parts(batch, vec![part], deadline).await,
            Err(parts) => self.store_parts(batch, parts, deadline).await,
        }
    }

    /// The commands of a batch: what goes to one partition is written together, and cut only where the
    /// request allows it.
    fn parts(self, batch: &mut Batch, homes: &[SpaceKey]) -> Vec<Part> {
        let mut by_space: BTreeMap<&SpaceKey, Vec<usize>> = BTreeMap::new();
        for (at, home) in homes.iter().enumerate() {
            by_space.entry(home).or_default().push(at);
        }
        let mut parts = Vec::new();
        for (space, items) in by_space {
            for (number, items) in batch.parts(items).into_iter().enumerate() {
                let identity = if batch.partial { self.identity.part(number) } else { self.identity.whole() };
                let command = batch.command(&items, space, identity);
                parts.push(Part { space: space.clone(), items, command });
            }
        }
        parts
    }

    /// Stores a write part by part, those of several partitions at once.
    ///
    /// # Errors
    /// What is open for one part is open for the request: an answer per item would call memories
    /// rejected that may be stored. The caller repeats it all, which is safe because every part has
    /// an idempotency key of its own, made of the request's.
    async fn store_parts(self, batch: &Batch, parts: Vec<Part>, deadline: Deadline) -> Answer<AddedItems> {
        let (mut results, mut seen) = (Results::new(batch), Vec::new());
        let (mut answered, mut first_problem) = (false, None);
        // What goes to one partition is written in its order; those behind one whose outcome is open are not
        // tried.
        let mut by_space: BTreeMap<SpaceKey, Vec<Part>> = BTreeMap::new();
        for part in parts {
            by_space.entry(part.space.clone()).or_default().push(part);
        }
        let several = by_space.len() > 1;
        let in_order = |parts: Vec<Part>| async move {
            let mut all = Vec::with_capacity(parts.len());
            for Part { space, items, command } in parts {
                let ended = self.store(&space, command, deadline).await;
                let is_open = ended.as_ref().is_err_and(|problem| !is_refusal(problem.error.code));
                all.push((items, ended));
                if is_open {
                    break;
                }
            }
            all
        };
        let mut storing = stream::iter(by_space.into_values()).map(in_order).buffered(SPACES_AT_ONCE);
        while let Some(all) = storing.next().await {
            for (part, ended) in all {
                match ended {
                    Ok((items, at)) => {
                        answered = true;
                        seen.extend(at);
                        results.merge(batch, &part, items);
                    }
                    Err(problem) if is_refusal(problem.error.code) => {
                        results.fail(batch, &part, &problem.error);
                        first_problem.get_or_insert(problem);
                    }
                    Err(problem) => {
                        return Err(open(problem, &part, several || results.some_stored()));
                    }
                }
            }
        }
        // A refusal that hit everything is the answer to the request, not to each of its items.
        match first_problem {
            Some(problem) if !answered => Err(problem),
            _ => Ok((results.in_order(), seen)),
        }
    }

    /// Stores one part: all of its items are acknowledged together.
    async fn store(
        self,
        space: &SpaceKey,
        command: Option<(Answer<Vec<u8>>, usize)>,
        deadline: Deadline,
    ) -> Ended {
        let Some((command, expected)) = command else { return Ok((Vec::new(), None)) };
        let written = self.shared.nodes.write_encoded(self.access, space, &command?, deadline).await?;
        if written.items.len() == expected {
            return Ok((written.items, written.seen));
        }
        let detail = "the write was answered for another number of memories than it has";
        Err(Problem::new(ErrorCode::Internal, detail))
    }
}

/// Whether a write was refused as a whole because another one takes an id of it elsewhere.
fn is_claimed(problem: &Problem, homes: &[SpaceKey]) -> bool {
    let error = &problem.error;
    let is_one = homes.windows(2).all(|pair| pair[0] == pair[1]);
    is_one && error.code == ErrorCode::Unavailable && error.field.as_deref() == Some(CLAIMED_FIELD)
}

/// Callers know of no claims.
fn without_claim(mut problem: Problem) -> Problem {
    problem.error.field = problem.error.field.filter(|field| field != CLAIMED_FIELD);
    problem
}

/// What became of each item of a request, by its place.
struct Results(Vec<Option<ItemResult>>);

impl Results {
    fn new(batch: &Batch) -> Self {
        Self(batch.items.iter().map(|_| None).collect())
    }

    fn set(&mut self, at: usize, result: ItemResult) {
        if let Some(place) = self.0.get_mut(at) {
            *place = Some(result);
        }
    }

    /// Takes the outcomes of a part, those that were rejected here among them.
    fn merge(&mut self, batch: &Batch, part: &[usize], items: Vec<ItemOutcome>) {
        let mut items = items.into_iter();
        for at in part {
            match batch.items.get(*at) {
                Some(Ok(prepared)) => {
                    let Some(outcome) = items.next() else { continue };
                    let mut result = ItemResult::from(outcome);
                    // An id that was made for something that is not stored names nothing, and the
                    // repetition of the request makes another.
                    if result.version.is_none() && !prepared.memory.id_chosen {
                        result.id = None;
                    }
                    self.set(*at, result);
                }
                Some(Err((id, error))) => self.set(*at, ItemResult::rejected(id.clone(), error)),
                None => {}
            }
        }
    }

    /// Takes the outcomes of a part that could not be stored.
    fn fail(&mut self, batch: &Batch, part: &[usize], problem: &Error) {
        for at in part {
            let result = match batch.items.get(*at) {
                Some(Ok(prepared)) => {
                    let memory = &prepared.memory;
                    ItemResult::rejected(memory.id_chosen.then(|| memory.index.id.clone()), problem)
                }
                Some(Err((id, error))) => ItemResult::rejected(id.clone(), error),
                None => continue,
            };
            self.set(*at, result);
        }
    }

    fn some_stored(&self) -> bool {
        self.0.iter().flatten().any(|result| result.version.is_some())
    }

    /// Those of all parts, in the order of the request.
    fn in_order(self) -> Vec<ItemResult> {
        self.0.into_iter().flatten().collect()
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
fn open(mut problem: Problem, part: &[usize], some_stored: bool) -> Problem {
    let error = &mut problem.error;
    match error.code {
        ErrorCode::UnknownOutcome | ErrorCode::Corrupted | ErrorCode::Internal => {}
        _ if !some_stored => return problem,
        // These codes promise that nothing was done, which holds for this part alone.
        _ => error.code = ErrorCode::UnknownOutcome,
    }
    let (first, last) = (part.first().copied().unwrap_or(0), part.last().copied().unwrap_or(0));
    error.detail = format!(
        "memories[{first}] to memories[{last}]: {} (what became of the others is not told; repeating the request \
         with the same Idempotency-Key and body stores nothing twice and tells every outcome)",
        error.detail,
    );
    problem
}
