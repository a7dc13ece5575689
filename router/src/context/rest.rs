//! What is left of a text when facts in it hold no longer: the sentences that say nothing else go, and of the others it
//! is told which facts those are. A text that nothing is left of has fallen as a whole.

use super::item::Item;
use holdfast_core::facts::extract::{Extracted, Rules, Saying, TEXT_BYTES_MAX, extract};
use holdfast_core::facts::registry::Registry;
use holdfast_core::memory::Statement;
use holdfast_core::text::sentences;
use holdfast_proto::v1;
use std::sync::LazyLock;

/// Sentences of a text that are read; what comes behind them stays as it is.
const SENTENCES_MAX: usize = 64;

/// The built-in rules. A fact that was given, or found by a rule of the tenant, is told of behind the text.
static RULES: LazyLock<Option<Rules>> = LazyLock::new(|| Rules::with(Vec::new()).ok());

/// What is left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rest {
    /// The text without the sentences that went; `None` if it is all there.
    pub(super) text: Option<String>,
    /// The facts that hold no longer, and are told in what is left, in words.
    pub(super) over: Vec<String>,
}

impl Rest {
    /// Whether nothing is left.
    pub(super) fn is_nothing(&self) -> bool {
        self.text.as_ref().is_some_and(String::is_empty)
    }

    /// What is left of a memory. Of one whose facts are all that it says, all: it falls with them.
    pub(super) fn of(scored: &v1::Scored, content: &str) -> Self {
        let mut over: Vec<&v1::Stated> = scored.stated.iter().filter(|stated| !stated.current).collect();
        if over.is_empty() || scored.whole {
            return Self::default();
        }
        let memory = scored.memory.as_ref();
        let who = memory.and_then(|memory| memory.speaker.as_deref());
        let saying = Saying { who, event_us: memory.map_or(0, |memory| memory.event_us) };
        let (mut text, mut at, mut is_cut) = (String::new(), 0, false);
        for (number, sentence) in sentences(content).into_iter().enumerate() {
            let Some(start) = content[at..].find(sentence).map(|found| at + found) else { continue };
            let gap = &content[at..start];
            at = start + sentence.len();
            let gone = if number < SENTENCES_MAX { gone(sentence, saying, &over) } else { Vec::new() };
            if gone.is_empty() {
                text.push_str(if text.is_empty() { "" } else { gap });
                text.push_str(sentence);
                continue;
            }
            is_cut = true;
            over.retain(|stated| !gone.contains(&stated.ordinal));
        }
        Self { text: is_cut.then_some(text), over: over.into_iter().filter_map(Item::words_of).collect() }
    }
}

/// The numbers of the facts that a sentence states, if these are all that it says and none of them holds.
fn gone(sentence: &str, saying: Saying<'_>, over: &[&v1::Stated]) -> Vec<u32> {
    let Some(rules) = RULES.as_ref().filter(|_| sentence.len() <= TEXT_BYTES_MAX) else { return Vec::new() };
    let Extracted { statements, whole, .. } = extract(sentence, saying, rules, &Registry::default());
    let number = |statement: &Statement| {
        let same = over.iter().find(|stated| {
            (&stated.subject, &stated.predicate, &stated.about, &stated.value)
                == (&statement.subject, &statement.predicate, &statement.about, &statement.value)
        });
        same.map(|stated| stated.ordinal)
    };
    let numbers: Option<Vec<u32>> = statements.iter().map(number).collect();
    numbers.filter(|_| whole).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// What is left of a text of whose facts these hold no longer, by their values.
    fn rest(content: &str, fallen: &[&str]) -> Rest {
        let saying = Saying { who: None, event_us: 0 };
        let rules = RULES.as_ref().unwrap();
        let found = extract(content, saying, rules, &Registry::default());
        let stated = found.statements.into_iter().zip(0u32..).map(|(statement, ordinal)| {
            let Statement { fact, subject, predicate, about, value, .. } = statement;
            let current = !fallen.contains(&fact.object.as_str());
            let fact = v1::Fact { predicate: fact.predicate, object: fact.object, ..v1::Fact::default() };
            v1::Stated {
                fact: Some(fact),
                ordinal,
                subject,
                predicate,
                about,
                value,
                current,
                ..v1::Stated::default()
            }
        });
        let stated: Vec<_> = stated.collect();
        assert!(!stated.is_empty(), "{content}");
        let memory = Some(v1::Memory { content: content.into(), ..v1::Memory::default() });
        Rest::of(&v1::Scored { memory, stated, whole: found.whole, ..v1::Scored::default() }, content)
    }

    #[test]
    fn sentences_that_say_what_fell_go_and_the_others_stay() {
        for (content, fallen, left) in [
            (
                "I live in Berlin. What a lovely day!\nBring an umbrella.",
                "Berlin",
                "What a lovely day!\nBring an umbrella.",
            ),
            ("The tickets are at the desk. I live in Berlin.", "Berlin", "The tickets are at the desk."),
            ("我住在北京。周五的音乐会门票在前台。", "北京", "周五的音乐会门票在前台。"),
            ("I like tea. I live in Berlin. The tram is late.", "Berlin", "I like tea. The tram is late."),
        ] {
            let rest = rest(content, &[fallen]);
            assert_eq!((rest.text.as_deref(), rest.over.len()), (Some(left), 0), "{content}");
        }
    }

    #[test]
    fn what_is_said_in_one_sentence_with_more_is_told_of() {
        let moved = rest("I moved to Berlin because the rent was too high", &["Berlin"]);
        assert_eq!((moved.text, moved.over.len()), (None, 1), "the reason stays");
        let dose = rest("我每天服用5毫克华法林。", &["华法林"]);
        assert_eq!((dose.text, dose.over.len()), (None, 1));
    }

    #[test]
    fn of_what_holds_or_says_nothing_else_nothing_is_taken() {
        assert_eq!(rest("I live in Berlin. The tram is late.", &[]), Rest::default());
        assert_eq!(rest("I live in Berlin.", &["Berlin"]), Rest::default(), "it falls as a whole");
        let both = rest("I live in Berlin and work at Acme. The tram is late.", &["Berlin"]);
        assert_eq!((both.text, both.over.len()), (None, 1), "one of two holds");
        assert!(Rest { text: Some(String::new()), ..Rest::default() }.is_nothing());
    }
}
