//! From texts to memories as commands bring them: all that depends on a library or a model.

use super::{Failure, JobEmbedder};
use holdfast_core::command::{Add, NewMemory, Origin};
use holdfast_core::facts::extract::{Extracted, PatternError, Rules, Saying, extract};
use holdfast_core::facts::registry::Registry;
use holdfast_core::keys::text_hash;
use holdfast_core::memory::{IndexRow, Kind, ModelTag};
use holdfast_core::text::{self, ANALYZER_VERSION};
use holdfast_core::vector::Vector;
use std::sync::LazyLock;
use uuid::Uuid;

static RULES: LazyLock<Result<Rules, PatternError>> = LazyLock::new(|| Rules::with(Vec::new()));
static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::default);

/// What a memory is to be made of.
pub(super) struct Text {
    /// The turns that it is from.
    pub(super) reference: String,
    pub(super) session: String,
    pub(super) kind: Kind,
    pub(super) role: Option<String>,
    pub(super) importance: f32,
    pub(super) event_us: i64,
    pub(super) entities: Vec<String>,
    /// Whether facts are looked for in it.
    pub(super) states: bool,
    /// Tokens of `content`; 0 where they were not counted.
    pub(super) tokens: u32,
    pub(super) content: String,
}

/// Makes memories.
pub(super) struct Made;

impl Made {
    /// The memories of texts, with vectors where there is a model: `None` if there are no texts. On a
    /// thread of its own, since a vector takes a millisecond.
    pub(super) async fn of(texts: Vec<Text>, embedder: &JobEmbedder) -> Result<Option<Add>, Failure> {
        if texts.is_empty() {
            return Ok(None);
        }
        let embedder = embedder.clone();
        let made = tokio::task::spawn_blocking(move || {
            let mut items: Vec<NewMemory> = texts.into_iter().map(memory).collect();
            let model = embed(&mut items, &embedder)?;
            let (origin, vectors_given, partial) = (Origin::Job, false, true);
            Ok::<_, Failure>(Add { origin, model, vectors_given, partial, items })
        });
        Ok(Some(made.await??))
    }
}

fn embed(items: &mut [NewMemory], embedder: &JobEmbedder) -> Result<Option<ModelTag>, Failure> {
    let Some(embedder) = embedder.get() else { return Ok(None) };
    let mut some = false;
    for item in items {
        let text = text::embed_text(item.index.speaker.as_deref(), &item.content);
        if !embedder.accepts(&text) {
            continue;
        }
        let vector = embedder.embed(&[&text])?.pop().ok_or("the model answered no vector")?;
        item.index.vector = Some(Vector::quantise(&vector)?);
        some = true;
    }
    let dims = u16::try_from(embedder.dims())?;
    Ok(some.then(|| ModelTag { id: embedder.model_id().to_owned(), dims }))
}

fn memory(text: Text) -> NewMemory {
    let speaker = text.role.as_deref();
    let terms = text::analyze(&text::index_text(text.event_us, speaker, &text.content, None));
    let said = said(&text);
    let index = IndexRow {
        id: Uuid::now_v7().to_string(),
        kind: text.kind,
        importance: text.importance,
        event_us: text.event_us,
        question: text::is_short_question(&text.content),
        speaker: text.role.clone(),
        session: Some(text.session),
        entities: text.entities,
        analyzer: ANALYZER_VERSION,
        terms: terms.terms,
        terms_len: terms.len,
        role: text.role.clone(),
        ..IndexRow::default()
    };
    NewMemory {
        id_chosen: false,
        tokens: text.tokens,
        text_hash: text_hash::hash(&text::normalize(&text.content), speaker),
        confidence: 1.0,
        statements: said.statements,
        whole: said.whole,
        conflicts: Vec::new(),
        source: None,
        derived_from: vec![text.reference],
        chunks: Vec::new(),
        index,
        event_given: true,
        content: text.content,
    }
}

/// What the user states; what the other side says of "I" is not said of the user.
fn said(text: &Text) -> Extracted {
    match (&*RULES, text.role.as_deref()) {
        (Ok(rules), who @ Some("user")) if text.states => {
            extract(&text.content, Saying { who, event_us: text.event_us }, rules, &REGISTRY)
        }
        _ => Extracted::default(),
    }
}
