//! What needs a library, a table or a clock, computed before the proposal: normal form and hash,
//! terms, the question bit, the id, the quantised vector.

use super::chunks::{self, Chunks};
use super::draft::Draft;
use super::infer::said;
use crate::fact_rules::FactRules;
use crate::tokenizer::Tokenizer;
use holdfast_core::command::NewMemory;
use holdfast_core::facts::extract::Extracted;
use holdfast_core::keys::text_hash;
use holdfast_core::memory::IndexRow;
use holdfast_core::text::{self, ANALYZER_VERSION, Terms};
use uuid::Uuid;

/// What is known of a text before its memory is made.
pub(super) struct Known {
    /// How many tokens it has.
    pub(super) tokens: usize,
    /// The hash by which a repetition is found.
    pub(super) hash: u128,
    /// What it states.
    pub(super) said: Extracted,
    /// Whether it is searched by its words, and not its parts in its place.
    pub(super) is_searched: bool,
}

/// The command's form of a memory, still without a vector. `event_us` is when it was said.
pub(super) fn memory_of(draft: &Draft, event_us: i64, known: Known) -> NewMemory {
    let Known { tokens, hash, said, is_searched } = known;
    let terms = if is_searched { terms_of(draft, event_us) } else { Terms::default() };
    let index = IndexRow {
        id: draft.id.clone().unwrap_or_else(|| Uuid::now_v7().to_string()),
        kind: draft.kind,
        status: draft.status,
        importance: if draft.importance_given {
            draft.importance
        } else {
            said.importance.unwrap_or(draft.importance)
        },
        event_us,
        expires_us: draft.expires_us,
        pinned: draft.pinned,
        question: text::is_short_question(&draft.content),
        role: draft.role.clone(),
        speaker: draft.speaker.clone(),
        session: draft.session.clone(),
        agent: draft.agent.clone(),
        sentiment: draft.sentiment.clone(),
        entities: draft.entities.clone(),
        metadata: draft.metadata.clone(),
        analyzer: ANALYZER_VERSION,
        terms: terms.terms,
        terms_len: terms.len,
        ..IndexRow::default()
    };
    NewMemory {
        id_chosen: draft.id.is_some(),
        content: draft.content.clone(),
        tokens: u32::try_from(tokens).unwrap_or(0),
        text_hash: hash,
        confidence: draft.confidence,
        statements: said.statements,
        whole: said.whole,
        conflicts: Vec::new(),
        source: draft.source.clone(),
        derived_from: draft.derived_from.clone(),
        chunks: Vec::new(),
        index,
        event_given: draft.event_us.is_some(),
    }
}

fn terms_of(draft: &Draft, event_us: i64) -> Terms {
    let (speaker, caption) = (draft.speaker.as_deref(), draft.caption.as_deref());
    text::analyze(&text::index_text(event_us, speaker, &draft.content, caption))
}

/// The memory of a draft, with the chunks of a content of more than `tokens_max` tokens, both still
/// without vectors. The whole of such a content states nothing and is not searched. `now_us` dates the text
/// of one that names no time of its own; facts are found `by` the rules of its tenant.
///
/// The whole is counted once, and analysed once: that is most of what a write costs.
pub(super) fn derive_whole(
    draft: &Draft,
    tokens_max: usize,
    now_us: i64,
    by: &FactRules,
) -> (NewMemory, Chunks) {
    let event_us = draft.event_us.unwrap_or(now_us);
    let tokens = Tokenizer::default().count_stored(&draft.content) as usize;
    let is_long = chunks::is_long(draft, tokens, tokens_max);
    let known = Known {
        tokens,
        hash: hash_of(&draft.content, draft.speaker.as_deref()),
        said: if is_long { Extracted::default() } else { said(draft, event_us, by) },
        is_searched: !is_long,
    };
    let memory = memory_of(draft, event_us, known);
    let chunks = match is_long {
        true => Chunks::of(draft, &memory, tokens, tokens_max, by),
        false => Chunks::default(),
    };
    (memory, chunks)
}

/// The hash by which an exact repetition is found.
pub(crate) fn hash_of(content: &str, speaker: Option<&str>) -> u128 {
    text_hash::hash(&text::normalize(content), speaker)
}

/// The text that is embedded.
pub(super) fn embedded_text(draft: &Draft) -> String {
    text::embed_text(draft.speaker.as_deref(), &text::captioned(&draft.content, draft.caption.as_deref()))
}

/// An upper bound of the bytes that a memory takes in a command. It depends on the request alone,
/// so that a repeated request is cut into the same commands whatever model a router has.
pub(super) fn cost(draft: &Draft) -> usize {
    /// Ids, names, times and the like.
    const FIXED: usize = 2 * 1024;
    /// Dimensions that the built-in model may have.
    const DIMS: usize = 1024;
    let dims = draft.given.as_ref().map_or(DIMS, |given| given.unit.len());
    let names: usize =
        [&draft.id, &draft.role, &draft.speaker, &draft.session, &draft.agent, &draft.sentiment]
            .into_iter()
            .flatten()
            .chain(&draft.entities)
            .map(|name| name.len() + 5)
            .sum();
    let source = draft
        .source
        .as_ref()
        .map_or(0, |source| source.uri.iter().chain(&source.message_ids).map(|id| id.len() + 5).sum());
    let fact = draft.fact.as_ref().map_or(0, |fact| {
        // As it is shown and in normal form; compatibility forms unfold to several characters.
        8 * (fact.subject.len() + fact.predicate.len() + fact.object.len()) + 2 * fact.qualifiers.len()
    });
    // Text once, and its terms: a bigram of two three-byte characters is 8 bytes a character.
    let text = draft.content.len() + draft.caption.as_ref().map_or(0, String::len);
    let fact = fact + super::infer::cost_max(draft);
    // Ids of possible conflicts.
    let hints = 3 * (holdfast_core::limits::ID_BYTES_MAX + 16);
    FIXED + hints + 5 * text + draft.metadata.len() + 3 * dims + names + source + fact
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::http::json;
    use holdfast_core::codec::Stored;
    use holdfast_core::command::{Add, Command, Origin, SpaceCommand, Write};
    use holdfast_core::memory::Cardinality;
    use holdfast_core::space::SpaceKey;
    use holdfast_core::vector::Vector;

    fn draft(body: &str) -> Draft {
        Draft::new(json::part(body, "").unwrap()).unwrap()
    }

    fn derive(draft: &Draft, now_us: i64, by: &FactRules) -> NewMemory {
        derive_whole(draft, usize::MAX, now_us, by).0
    }

    #[test]
    fn what_is_derived_follows_the_text_and_its_speaker() {
        let memory = derive(
            &draft(r#"{"content":"Where is  the ｃａｔ？","role":"user","metadata":{"caption":"a photo"}}"#),
            0,
            &FactRules::built_in(),
        );
        assert!(memory.index.question);
        assert_eq!(memory.index.speaker.as_deref(), Some("user"));
        assert!(memory.index.terms.iter().any(|(term, _)| term == "photo"));
        assert!(memory.index.terms.iter().any(|(term, _)| term == "1970"));
        assert!(!memory.event_given && !memory.id_chosen);
        assert_eq!(memory.index.id.len(), 36);
        let same =
            derive(&draft(r#"{"content":"Where is the cat?","role":"user"}"#), 7, &FactRules::built_in());
        assert_eq!(memory.text_hash, same.text_hash);
        let other =
            derive(&draft(r#"{"content":"Where is the cat?","speaker":"Ann"}"#), 7, &FactRules::built_in());
        assert_ne!(memory.text_hash, other.text_hash);
    }

    #[test]
    fn a_stated_fact_is_compared_in_its_normal_form() {
        let of = |json: &str| derive(&draft(json), 0, &FactRules::built_in()).statements.remove(0);
        let a = of(r#"{"content":"x","fact":{"subject":"Ann","predicate":"Lives In","object":"Ulm"}}"#);
        let b = of(r#"{"content":"y","fact":{"subject":"ann","predicate":"住在","object":7}}"#);
        let c = of(r#"{"content":"y","fact":{"subject":"annl","predicate":"ives in","object":"Ulm"}}"#);
        assert_eq!((&a.subject, &a.predicate, &a.about), (&b.subject, &b.predicate, &b.about));
        assert_ne!(a.subject, c.subject);
        assert_eq!((a.fact.object.as_str(), b.fact.object.as_str()), ("Ulm", "7"));
        let one = r#"{"content":"x","fact":{"subject":"X","predicate":"badge","object":"7","cardinality":"single"}}"#;
        assert_eq!(of(one).cardinality, Cardinality::Single);
    }

    /// The cut of a large write relies on it.
    #[test]
    fn the_cost_bounds_the_encoded_size() {
        let texts = [
            "一二三四五六七八九十".repeat(2000),
            "a b c ".repeat(9000),
            "🙂🎉".repeat(5000),
            "CN-A10293/x_9 ".repeat(4000),
        ];
        for text in texts {
            let draft =
                draft(&serde_json::json!({"content": text, "metadata": {"caption": "图片"}}).to_string());
            let mut memory = derive(&draft, 0, &FactRules::built_in());
            memory.index.vector = Some(Vector::quantise(&vec![0.1; 1024]).unwrap());
            let add = Add {
                origin: Origin::Caller,
                model: None,
                vectors_given: false,
                partial: true,
                items: vec![memory],
            };
            let space = SpaceKey::user("t", "u").unwrap();
            let command =
                Command::Space(Box::new(SpaceCommand { space, idempotency: None, write: Write::Add(add) }));
            let (bytes, bound) = (command.encode().unwrap().len(), cost(&draft));
            assert!(bytes <= bound, "{bytes} > {bound}");
        }
    }
}
