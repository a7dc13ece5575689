//! `PATCH …/memories/{id}`: reads the memory, changes what the body names, and writes the whole as
//! a new version by compare-and-set.
//!
//! The vector follows the text: where text and speaker stay, the stored vector stays; where they
//! change, the built-in model makes a new one, and a vector that the caller had brought is dropped
//! unless the patch brings another.

use super::batch::{other_model, tag};
use super::derive::{derive_whole, embedded_text, hash_of};
use super::draft::Draft;
use super::embedding::CLIENT_MODEL;
use super::get::{Fetched, fetch, set_headers};
use super::parse::PatchBody;
use super::single;
use crate::auth::{InSpace, PathId, Place, own_reads};
use crate::collections::agreed::keep;
use crate::http::json::Change;
use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, now_us};
use crate::http::write::{WriteHead, WriteIdentity};
use crate::http::{Body, answer, json};
use crate::nodes::{Level, ReadWish, Written};
use crate::shared::Shared;
use crate::tokens;
use crate::work::{Embedding, embedding_failed};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::ErrorCode;
use holdfast_core::access::{Access, Rights};
use holdfast_core::collection::CollectionRow;
use holdfast_core::command::{Command, NewMemory, SpaceCommand, Update, Write};
use holdfast_core::memory::ModelTag;
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Token;
use holdfast_core::vector::Vector;
use holdfast_proto::v1;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// How often a patch without `If-Match` is made again when another writer was faster.
const ATTEMPTS_MAX: u32 = 64;

#[derive(Serialize)]
struct Patched {
    id: String,
    version: u64,
    status: &'static str,
    token: String,
}

pub(crate) async fn patch(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    PathId(id): PathId,
    head: WriteHead,
    Body(body): Body,
) -> Answer<Response> {
    let (access, place) = caller.require_place(Rights::WRITE)?;
    let identity = head.identity(&body)?;
    let call = Call { shared: &shared, access: &access, place: &place, id: &id, identity: &identity };
    let written = call.patch(&body).await;
    let mut written = written.map_err(|problem| problem.with_idempotency_key(&identity.key))?;
    let item = single(&mut written)?;
    let token = tokens::text(&access.tenant, written.seen)?;
    let patched = Patched { id: item.id, version: item.version, status: item.status.as_str(), token };
    let mut response = answer(StatusCode::OK, &patched)?;
    set_headers(&mut response, Some(item.version), &access, written.seen)?;
    Ok(response)
}

struct Call<'a> {
    shared: &'a Shared,
    access: &'a Access,
    place: &'a Place,
    id: &'a str,
    identity: &'a WriteIdentity,
}

/// The vector of a new version, its model, and whether the caller brought it.
type Vectors = (Option<Vector>, Option<ModelTag>, bool);

impl Call<'_> {
    async fn patch(&self, body: &[u8]) -> Answer<Written> {
        let deadline = Deadline::after(self.shared.config.write_timeout);
        let wish = ReadWish { level: Level::Linearizable, token: Token::new(&self.access.tenant) };
        let spaces = self.place.partitions()?;
        let reading = own_reads(self.access);
        let (mut attempt, mut first_home) = (0, None);
        loop {
            // Read again for each attempt: it is checked against a fresh state of the memory.
            let patch: PatchBody = json::body(body)?;
            if patch.is_empty() {
                let detail = "the patch names no field to change; give at least one";
                return Err(Problem::new(ErrorCode::InvalidArgument, detail));
            }
            let fetched = fetch(self.shared, &reading, &spaces, self.id, &wish, deadline).await?;
            let Fetched { memory, mut space, .. } = fetched;
            check_stays(&space, spaces.len(), &patch)?;
            if spaces.len() > 1 {
                // Where it lay when this request was made first is where it is known whether it was done.
                let home = match first_home {
                    Some(home) => home,
                    None => self.home(&space, deadline).await?,
                };
                first_home = Some(home);
                space = spaces.get(home).cloned().unwrap_or(space);
            }
            let command = self.update(memory, &space, patch, deadline).await?;
            match self.shared.nodes.write(self.access, &space, &command, deadline).await {
                Err(problem) if self.lost_the_race(&problem) && attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    // Wider with every lost race: of n that compete one wins each time.
                    let pause = Duration::from_millis(4 * u64::from(attempt)).mul_f64(rand::random());
                    tokio::time::sleep(pause.min(deadline.left())).await;
                }
                end => return end,
            }
        }
    }

    /// The partition that the request concerned first.
    async fn home(&self, found: &SpaceKey, deadline: Deadline) -> Answer<usize> {
        let found = vec![u64::from(found.partition())];
        let kept = keep(self.shared, self.access, self.place, self.identity, found, deadline).await?;
        let home = kept.first().and_then(|home| usize::try_from(*home).ok());
        home.ok_or_else(|| Problem::new(ErrorCode::Internal, "a request was kept without its partition"))
    }

    fn lost_the_race(&self, problem: &Problem) -> bool {
        let error = &problem.error;
        self.identity.if_version.is_none()
            && error.code == ErrorCode::Conflict
            && error.field.as_deref() == Some("version")
    }

    /// The new version as a command. `If-Match` is compared by apply, which also knows whether this
    /// very request was done before.
    async fn update(
        &self,
        memory: v1::Memory,
        space: &SpaceKey,
        patch: PatchBody,
        deadline: Deadline,
    ) -> Answer<Command> {
        let if_version = self.identity.if_version.unwrap_or(memory.version);
        let stored_model = memory.embedding_model.clone();
        let stated = memory.fact.as_ref().is_some_and(|fact| fact.rules == 0);
        let keeps_fact = matches!(patch.fact, Change::Keep);
        let mut draft = Draft::of_stored(memory)?;
        let before = (hash_of(&draft.content, draft.speaker.as_deref()), draft.caption.clone());
        draft.apply(patch)?;
        // Facts are in the first partition: elsewhere none is looked for in the text.
        draft.infer &= space.partition() == 0;
        let after = (hash_of(&draft.content, draft.speaker.as_deref()), draft.caption.clone());
        let by = self.shared.fact_rules.of(&self.shared.nodes, &self.access.tenant, deadline).await?;
        let (mut memory, chunks) = derive_whole(&draft, self.shared.config.chunk_tokens, now_us(), &by);
        let (model, vectors_given) = if chunks.memories.is_empty() {
            let (vector, model, given) =
                self.vectors(&draft, before == after, stored_model.as_deref(), deadline).await?;
            memory.index.vector = vector;
            (model, given)
        } else {
            memory.chunks = chunks.memories;
            (self.embed_chunks(&mut memory, chunks.texts, deadline).await?, false)
        };
        // What the caller stated stays whatever the words; what was found in them goes with them.
        let keep_statements = keeps_fact && (stated || before == after);
        let update = Update { if_version, model, vectors_given, keep_statements, memory };
        Ok(Command::Space(Box::new(SpaceCommand {
            space: space.clone(),
            idempotency: Some(self.identity.whole()),
            write: Write::Update(Box::new(update)),
        })))
    }

    /// Gives the chunks of a new version their vectors; in a space of another model they are found by
    /// their words.
    async fn embed_chunks(
        &self,
        memory: &mut NewMemory,
        texts: Vec<String>,
        deadline: Deadline,
    ) -> Answer<Option<ModelTag>> {
        let Some(embedding) = self.embedding() else { return Ok(None) };
        let embedded = embedding.embed(texts, deadline).await?;
        for (number, (chunk, vector)) in memory.chunks.iter_mut().zip(embedded).enumerate() {
            let vector = vector.map_err(|error| {
                embedding_failed("a chunk of the text", &error).at(format!("chunks[{number}]"))
            })?;
            chunk.index.vector = vector.map(|vector| Vector::quantise(&vector)).transpose()?;
        }
        let some = memory.chunks.iter().any(|chunk| chunk.index.vector.is_some());
        Ok(some.then(|| tag(embedding.embedder().model_id(), embedding.embedder().dims())))
    }

    async fn vectors(
        &self,
        draft: &Draft,
        unchanged: bool,
        stored_model: Option<&str>,
        deadline: Deadline,
    ) -> Answer<Vectors> {
        if let Some(given) = &draft.given {
            let given = tag(&given.model, given.unit.len());
            if let Some(row) = self.place.collection().filter(|row| row.model.as_ref() != Some(&given)) {
                return Err(other_model(&given, row.model.as_ref()).into());
            }
        }
        if let Some(given) = &draft.given {
            let vector = Vector::quantise(&given.unit)?;
            return Ok((Some(vector), Some(tag(&given.model, given.unit.len())), true));
        }
        // Without a vector in the command apply keeps the stored one as long as the text stays.
        let Some(embedding) = self.embedding().filter(|_| !unchanged) else {
            return Ok((None, None, false));
        };
        let builtin = embedding.embedder().model_id();
        if stored_model.is_some_and(|model| model != builtin || model == CLIENT_MODEL) {
            return Ok((None, None, false));
        }
        let embedded = embedding.embed(vec![embedded_text(draft)], deadline).await?;
        match embedded.into_iter().next() {
            Some(Ok(Some(vector))) => {
                let model = tag(builtin, vector.len());
                Ok((Some(Vector::quantise(&vector)?), Some(model), false))
            }
            Some(Ok(None)) | None => Ok((None, None, false)),
            Some(Err(error)) => Err(embedding_failed("the text", &error).at("content").into()),
        }
    }

    /// The built-in model, where vectors of it have a place.
    fn embedding(&self) -> Option<&Embedding> {
        let embedding = self.shared.embedding.as_ref()?;
        let builtin = tag(embedding.embedder().model_id(), embedding.embedder().dims());
        let other = |row: &CollectionRow| row.model.as_ref() != Some(&builtin);
        (!self.place.collection().is_some_and(other)).then_some(embedding)
    }
}

/// Refuses what would put a memory into another partition than it lies in.
fn check_stays(space: &SpaceKey, partitions: usize, patch: &PatchBody) -> Answer<()> {
    let gains = |named: bool| named && space.partition() > 0;
    let moved = [
        ("session", partitions > 1 && !matches!(patch.session, Change::Keep)),
        ("fact", gains(matches!(patch.fact, Change::Set(_)))),
        ("entities", gains(matches!(patch.entities, Change::Set(_)))),
    ];
    match moved.into_iter().find(|(_, moves)| *moves) {
        None => Ok(()),
        Some((field, _)) => {
            let detail = format!(
                "{field} decides in which partition of a collection a memory lies, and memories do not move: delete \
                 this one and add it again"
            );
            Err(Problem::invalid(field, detail))
        }
    }
}
