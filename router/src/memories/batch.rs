//! From the body of an add to commands: every item checked and derived, vectors made, and the
//! whole cut into atomic parts.
//!
//! Which items a part has, and in which order, follows from the body alone: an answer that is
//! repeated from an idempotency row is matched to the items by their places. So an item is left out
//! only for what the body says; a model that fails fails the request.

use super::derive::{cost, derive_whole, embedded_text};
use super::draft::{Draft, Given};
use super::infer::tells_of_change;
use super::parse::{AddBody, MemoryBody};
use crate::fact_rules::FactRules;
use crate::http::json;
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::nodes::encoded;
use crate::work::{Embedding, embedding_failed, not_embedded};
use holdfast_core::command::{Add, Command, Idempotency, NewMemory, Origin, SpaceCommand, Write};
use holdfast_core::limits::{ATOMIC_BYTES_MAX, ATOMIC_ITEMS_MAX};
use holdfast_core::memory::ModelTag;
use holdfast_core::space::SpaceKey;
use holdfast_core::vector::Vector;
use holdfast_core::{Error, Result};
use holdfast_proto::v1;

/// Bodies up to this many bytes are read and analysed where they arrive: that takes about a tenth of a
/// millisecond, and another thread would take a fifth of it to wake up.
const INLINE_BYTES: usize = 2 * 1024;

/// The same where no facts are looked for, which takes longer than everything else together.
const INLINE_BYTES_PLAIN: usize = 4 * 1024;

/// One item: a memory on its way to a command, or the reason why it is not.
pub(super) type Item = std::result::Result<Box<Prepared>, (Option<String>, Error)>;

pub(super) struct Prepared {
    pub(super) memory: NewMemory,
    /// The texts that still want a vector: that of the memory, or those of its chunks.
    texts: Vec<String>,
    /// Whether it tells of a change and states no fact.
    changes: bool,
    cost: usize,
}

/// All items of a request, in its order.
pub(super) struct Batch {
    pub(super) partial: bool,
    /// Contents of more tokens become chunks.
    chunk_tokens: usize,
    pub(super) items: Vec<Item>,
    /// The model of the vectors that the caller brought, if any.
    given: Option<ModelTag>,
    /// The model of the vectors in the items.
    model: Option<ModelTag>,
}

/// Where the field of an item stands in the request.
pub(super) fn within(at: usize, error: Error) -> Error {
    let field = match &error.field {
        Some(field) if field.starts_with("memories[") => field.clone(),
        Some(field) => format!("memories[{at}].{field}"),
        None => format!("memories[{at}]"),
    };
    error.at(field)
}

impl Batch {
    /// Reads, checks and derives. Computes in proportion to the body: not for a thread that serves
    /// connections, if the body is large.
    pub(super) fn read(bytes: &[u8], chunk_tokens: usize, now_us: i64, by: &FactRules) -> Result<Self> {
        Self::of(json::body(bytes)?, chunk_tokens, now_us, by)
    }

    /// As [`Batch::read`], for a thread that serves connections: `None` for a body that is too large for it, which
    /// is not even taken apart then.
    pub(super) fn read_here(
        bytes: &[u8],
        chunk_tokens: usize,
        now_us: i64,
        by: &FactRules,
    ) -> Result<Option<Self>> {
        if bytes.len() > INLINE_BYTES_PLAIN {
            return Ok(None);
        }
        let body: AddBody<'_> = json::body(bytes)?;
        let is_small = bytes.len() <= INLINE_BYTES || body.infer.as_deref() == Some("none");
        is_small.then(|| Self::of(body, chunk_tokens, now_us, by)).transpose()
    }

    /// As [`Batch::read`], for a body that was taken apart.
    fn of(body: AddBody<'_>, chunk_tokens: usize, now_us: i64, by: &FactRules) -> Result<Self> {
        let infer = infers(body.infer.as_deref())?;
        let partial = body.partial.unwrap_or(false);
        let sensory = body.sensory;
        sensory.check()?;
        let raw = body.memories.0;
        if raw.is_empty() {
            return Err(Error::invalid("memories", "memories is empty; give at least one"));
        }
        if raw.len() > ATOMIC_ITEMS_MAX && !partial {
            let detail = format!(
                "{} memories are more than the {ATOMIC_ITEMS_MAX} that one atomic write may have; send fewer, or \
                 set partial to true for an outcome per item",
                raw.len()
            );
            return Err(Error::too_large("memories", detail));
        }
        let items = Vec::with_capacity(raw.len());
        let mut batch = Self { partial, chunk_tokens, items, given: None, model: None };
        for (at, raw) in raw.iter().enumerate() {
            let body: Result<MemoryBody> = json::part(raw.get(), &format!("memories[{at}]"));
            let (id, read) = match body {
                Ok(body) => {
                    let content = sensory.cap(body.content);
                    (body.id.clone(), Draft::new(MemoryBody { content, ..body }))
                }
                Err(error) => (None, Err(error)),
            };
            let prepared = read.and_then(|draft| {
                let infer = draft.infer && infer;
                batch.prepare(&Draft { infer, ..draft }, now_us, by)
            });
            let importance = prepared.as_ref().map_or(1.0, |prepared| prepared.memory.index.importance);
            match prepared {
                // Left out as the caller asked: that is no failure of the others.
                Ok(_) if sensory.admit(importance).is_err() => {
                    let why = sensory.admit(importance).err();
                    batch.items.extend(why.map(|why| Err((id, within(at, why)))));
                }
                Ok(prepared) => batch.items.push(Ok(Box::new(prepared))),
                Err(error) if partial => batch.items.push(Err((id, within(at, error)))),
                Err(error) => return Err(within(at, error)),
            }
        }
        Ok(batch)
    }

    fn prepare(&mut self, draft: &Draft, now_us: i64, by: &FactRules) -> Result<Prepared> {
        let vector = draft.given.as_ref().map(|given| self.place(given)).transpose()?;
        let (mut memory, chunks) = derive_whole(draft, self.chunk_tokens, now_us, by);
        let texts = match vector {
            Some(_) => Vec::new(),
            None if chunks.memories.is_empty() => vec![embedded_text(draft)],
            None => chunks.texts,
        };
        memory.index.vector = vector;
        let changes = memory.statements.is_empty() && chunks.memories.is_empty() && tells_of_change(draft);
        memory.chunks = chunks.memories;
        Ok(Prepared { memory, texts, changes, cost: cost(draft) + chunks.cost })
    }

    /// Quantises a vector of the caller's. All of one request are of one model.
    fn place(&mut self, given: &Given) -> Result<Vector> {
        let tag = tag(&given.model, given.unit.len());
        match &self.given {
            Some(first) if first.id != tag.id => {
                let detail = format!(
                    "this is a vector of {}, others of this request are of {}; use one model",
                    tag.id, first.id
                );
                Err(Error::invalid("embedding_model", detail))
            }
            Some(first) if first.dims != tag.dims => {
                let detail = format!(
                    "this vector has {} dimensions, others of this request have {}",
                    tag.dims, first.dims
                );
                Err(Error::invalid("embedding", detail))
            }
            _ => {
                let vector = Vector::quantise(&given.unit)?;
                self.given = Some(tag);
                Ok(vector)
            }
        }
    }

    /// Gives a vector to every text that has none, by the built-in model. Beside vectors of another
    /// model the built-in one would have no place: such texts are found by their words.
    ///
    /// # Errors
    /// [`ErrorCode::Unavailable`] with the item's path if the model fails on a text.
    pub(super) async fn embed(&mut self, embedding: Option<&Embedding>, deadline: Deadline) -> Answer<()> {
        self.model = self.given.clone();
        let Some(embedding) = embedding else { return Ok(()) };
        let builtin = tag(embedding.embedder().model_id(), embedding.embedder().dims());
        if self.given.as_ref().is_some_and(|given| *given != builtin) {
            return Ok(());
        }
        let mut texts = Vec::new();
        let mut wanting = Vec::new();
        for (at, item) in self.items.iter_mut().enumerate() {
            if let Ok(prepared) = item {
                for (number, text) in std::mem::take(&mut prepared.texts).into_iter().enumerate() {
                    texts.push(text);
                    wanting.push((at, number));
                }
            }
        }
        let vectors = embedding.embed(texts, deadline).await?;
        for ((at, number), vector) in wanting.into_iter().zip(vectors) {
            let is_chunk = self.items[at].as_ref().is_ok_and(|prepared| !prepared.memory.chunks.is_empty());
            let what = if is_chunk { "a chunk of the text" } else { "the text" };
            let failed = |error: Error| match is_chunk {
                true => within(at, error.at(format!("chunks[{number}]"))),
                false => within(at, error),
            };
            let vector = vector.map_err(|error| failed(embedding_failed(what, &error)))?;
            let vector = vector.map(|vector| Vector::quantise(&vector)).transpose();
            let vector = vector.map_err(|error| failed(not_embedded(what, &error.detail)))?;
            if let Ok(prepared) = &mut self.items[at] {
                let memory = &mut prepared.memory;
                match memory.chunks.get_mut(number) {
                    Some(chunk) => chunk.index.vector = vector,
                    None => memory.index.vector = vector,
                }
            }
        }
        self.model = Some(builtin);
        Ok(())
    }

    /// Refuses vectors of another model than that of the collection, whose partitions would else have one each.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`](holdfast_core::ErrorCode::InvalidArgument) that names the two.
    pub(super) fn check_model(&self, collection: Option<&ModelTag>) -> Result<()> {
        match &self.given {
            Some(given) if Some(given) != collection => Err(other_model(given, collection)),
            _ => Ok(()),
        }
    }

    /// The memories that can be stored, to be changed once more, each with its own of what goes with the items.
    pub(super) fn memories_mut<'a, T>(
        &'a mut self,
        with: &'a [T],
    ) -> impl Iterator<Item = (&'a mut NewMemory, &'a T)> {
        let each = self.items.iter_mut().zip(with);
        each.filter_map(|(item, with)| Some((&mut item.as_mut().ok()?.memory, with)))
    }

    /// The model of the vectors in the items, as nodes name it.
    pub(super) fn model(&self) -> Option<v1::Model> {
        self.model.as_ref().map(|tag| v1::Model { id: tag.id.clone(), dims: tag.dims.into() })
    }

    /// The memories that state no fact and tell of a change, where facts are looked for at all; as
    /// [`Batch::memories_mut`].
    pub(super) fn telling_of_change<'a, T>(
        &'a mut self,
        with: &'a [T],
    ) -> impl Iterator<Item = (&'a mut NewMemory, &'a T)> {
        let each = self.items.iter_mut().zip(with);
        let prepared = each.filter_map(|(item, with)| Some((item.as_mut().ok()?, with)));
        prepared.filter(|(item, _)| item.changes).map(|(item, with)| (&mut item.memory, with))
    }

    /// Cuts items of one partition, named by their places, into what makes one atomic command each: by
    /// number, and by an upper bound of their size that depends on the request alone.
    pub(super) fn parts(&self, items: Vec<usize>) -> Vec<Vec<usize>> {
        if !self.partial {
            return vec![items];
        }
        let mut parts: Vec<Vec<usize>> = vec![Vec::new()];
        let mut bytes = 0;
        for at in items {
            let cost = self.items.get(at).map_or(0, |item| item.as_ref().map_or(0, |prepared| prepared.cost));
            match parts.last_mut() {
                Some(part)
                    if part.is_empty()
                        || (part.len() < ATOMIC_ITEMS_MAX && bytes + cost <= ATOMIC_BYTES_MAX) =>
                {
                    part.push(at);
                    bytes += cost;
                }
                _ => {
                    parts.push(vec![at]);
                    bytes = cost;
                }
            }
        }
        parts
    }

    /// The write of some items, named by their places, which it takes out; `None` if none of them can be
    /// stored.
    pub(super) fn add(&mut self, part: &[usize]) -> Option<Add> {
        let mut items = Vec::with_capacity(part.len());
        for at in part {
            if let Some(Ok(prepared)) = self.items.get_mut(*at) {
                items.push(std::mem::take(&mut prepared.memory));
            }
        }
        let is_vector = |item: &NewMemory| item.index.vector.is_some();
        let has_vector = items.iter().any(|item| is_vector(item) || item.chunks.iter().any(is_vector));
        (!items.is_empty()).then(|| Add {
            origin: Origin::Caller,
            model: self.model.clone().filter(|_| has_vector),
            vectors_given: self.given.is_some(),
            partial: self.partial,
            items,
        })
    }

    /// The command that writes some items, named by their places, in its encoded form, with the number of
    /// those that can be stored; `None` if none of them can.
    pub(super) fn command(
        &mut self,
        part: &[usize],
        space: &SpaceKey,
        idempotency: Idempotency,
    ) -> Option<(Answer<Vec<u8>>, usize)> {
        let write = Write::Add(self.add(part)?);
        let command = SpaceCommand { space: space.clone(), idempotency: Some(idempotency), write };
        let command = Command::Space(Box::new(command));
        let bytes = encoded(&command).and_then(|bytes| check_size(bytes.len()).map(|()| bytes));
        // They go back, for the answer names them.
        let Command::Space(command) = command else { return None };
        let Write::Add(add) = command.write else { return None };
        let count = add.items.len();
        let places = part.iter().filter(|at| matches!(self.items.get(**at), Some(Ok(_))));
        for (at, memory) in places.copied().collect::<Vec<_>>().into_iter().zip(add.items) {
            if let Some(Ok(prepared)) = self.items.get_mut(at) {
                prepared.memory = memory;
            }
        }
        Some((bytes, count))
    }
}

/// The name and length of a model's vectors; both are within bounds by now.
pub(super) fn tag(model: &str, dims: usize) -> ModelTag {
    ModelTag { id: model.to_owned(), dims: u16::try_from(dims).unwrap_or(u16::MAX) }
}

/// The answer to a vector of another model than a collection has.
pub(crate) fn other_model(given: &ModelTag, collection: Option<&ModelTag>) -> Error {
    let Some(held) = collection else {
        let detail = "this collection holds no vectors; send the text alone";
        return Error::invalid("embedding", detail);
    };
    let detail = format!(
        "this collection holds vectors of {} with {} dimensions, and this is one of {} with {}; send a matching one, \
         or the text alone",
        held.id, held.dims, given.id, given.dims
    );
    Error::invalid(if held.id == given.id { "embedding" } else { "embedding_model" }, detail)
}

/// Whether facts are looked for in the texts, which is done by rules.
fn infers(infer: Option<&str>) -> Result<bool> {
    match infer {
        None | Some("rules") => Ok(true),
        Some("none") => Ok(false),
        Some("model") => {
            let detail = "no language model is configured here; use rules or none";
            Err(Error::invalid("infer", detail))
        }
        Some(_) => Err(Error::invalid("infer", "infer must be rules, model or none")),
    }
}

/// Refuses a command that would not fit into one atomic write.
fn check_size(bytes: usize) -> Answer<()> {
    if bytes <= ATOMIC_BYTES_MAX {
        return Ok(());
    }
    let detail = format!(
        "the write has {bytes} bytes once its terms and vectors are made; the limit of an atomic one is \
         {ATOMIC_BYTES_MAX}; send fewer or shorter memories at once, or set partial to true"
    );
    Err(Problem::from(Error::too_large("memories", detail)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn read(body: Value) -> Result<Batch> {
        Batch::read(body.to_string().as_bytes(), 512, 0, &FactRules::built_in())
    }

    #[test]
    fn one_bad_item_fails_the_whole_or_itself() {
        let items = json!([{"content": "a"}, {"content": ""}, {"content": 7}, {"content": "b", "x": 1}]);
        let error = read(json!({"memories": items})).err().unwrap();
        assert_eq!(error.field.as_deref(), Some("memories[1].content"));
        let mut batch = read(json!({"memories": items, "partial": true})).unwrap();
        let fields: Vec<_> = batch
            .items
            .iter()
            .map(|item| item.as_ref().err().map(|(_, e)| e.field.clone().unwrap()))
            .collect();
        let named = |at: &str| Some(at.to_owned());
        assert_eq!(
            fields,
            [None, named("memories[1].content"), named("memories[2].content"), named("memories[3].x")]
        );
        assert_eq!(batch.add(&[0, 1, 2, 3]).unwrap().items.len(), 1);
        assert!(batch.add(&[1, 2, 3]).is_none());
    }

    #[test]
    fn small_bodies_are_read_where_they_arrive_and_larger_ones_if_they_ask_for_no_facts() {
        let is_read = |bytes: usize, infer: &str| {
            let body =
                |content: String| json!({"memories": [{"content": content}], "infer": infer}).to_string();
            let body = body("字".repeat((bytes - body(String::new()).len()) / 3));
            assert!((bytes - 2..=bytes).contains(&body.len()));
            let read = Batch::read_here(body.as_bytes(), usize::MAX, 0, &FactRules::built_in()).unwrap();
            read.inspect(|batch| assert_eq!(batch.items.len(), 1)).is_some()
        };
        assert!(is_read(INLINE_BYTES, "rules") && is_read(INLINE_BYTES, "none"));
        assert!(!is_read(INLINE_BYTES + 3, "rules") && is_read(INLINE_BYTES + 3, "none"));
        assert!(is_read(INLINE_BYTES_PLAIN, "none") && !is_read(INLINE_BYTES_PLAIN + 3, "none"));
        let here = |body: &[u8]| Batch::read_here(body, 512, 0, &FactRules::built_in());
        for wrong in [&b"{"[..], b"", b"[]", br#"{"memories":[{"content":7}]}"#, br#"{"memories":[],"x":1}"#]
        {
            let read = Batch::read(wrong, 512, 0, &FactRules::built_in()).err();
            assert!(read.is_some());
            assert_eq!(here(wrong).err(), read);
        }
        // It is wrong from its first byte, and nobody looks.
        assert!(here(&vec![b'x'; 1 << 20]).unwrap().is_none());
    }

    #[test]
    fn numbers_and_modes_are_checked() {
        let many = |n: usize| vec![json!({"content": "x"}); n];
        for (body, field) in [
            (json!({"memories": []}), "memories"),
            (json!({"memories": many(101)}), "memories"),
            (json!({"memories": many(1001), "partial": true}), "memories"),
            (json!({"memories": many(1), "infer": "model"}), "infer"),
            (json!({"memories": many(1), "infer": "magic"}), "infer"),
            (json!({"memories": many(1), "user_id": "bob"}), "user_id"),
            (json!({"memories": {"content": "x"}}), "memories"),
        ] {
            assert_eq!(read(body).err().unwrap().field.as_deref(), Some(field));
        }
        let all: Vec<usize> = (0..100).collect();
        assert_eq!(read(json!({"memories": many(100)})).unwrap().parts(all.clone()), vec![all]);
    }

    #[test]
    fn a_large_write_is_cut_by_number_and_by_size() {
        let small = vec![json!({"content": "x"}); 250];
        let batch = read(json!({"memories": small, "partial": true})).unwrap();
        let lengths: Vec<usize> = batch.parts((0..250).collect()).iter().map(Vec::len).collect();
        assert_eq!(lengths, [100, 100, 50]);
        assert_eq!(batch.parts(vec![3, 249]), [[3, 249]]);
        let large = vec![json!({"content": "字".repeat(20_000)}); 9];
        let parts = read(json!({"memories": large, "partial": true})).unwrap().parts((0..9).collect());
        assert!(parts.len() >= 3, "{parts:?}");
        assert_eq!(parts.concat(), (0..9).collect::<Vec<_>>());
    }

    #[test]
    fn vectors_of_one_request_are_of_one_model() {
        let item = |model: &str, dims: usize| json!({"content": "x", "embedding": vec![1; dims], "embedding_model": model});
        let fields =
            |items: Vec<Value>| read(json!({"memories": items})).err().map(|error| error.field.unwrap());
        assert_eq!(fields(vec![item("m", 3), json!({"content": "y"}), item("m", 3)]), None);
        assert_eq!(fields(vec![item("m", 3), item("n", 3)]).as_deref(), Some("memories[1].embedding_model"));
        assert_eq!(fields(vec![item("m", 3), item("m", 4)]).as_deref(), Some("memories[1].embedding"));
    }
}
