//! Which facts a question asks for: those about a subject that it names, and of these the ones whose
//! predicate it has in its words. A recall lifts them, since other memories that share words with the
//! question (the same relation of somebody else, the subject in another role) are as near to it.
//!
//! By normal forms and the registry of this version, at query time alone: nothing of it is stored.

use super::normal;
use super::registry::{Arity, Registry};
use crate::score::BOOST_MAX;
use crate::text::analyze_query;
use crate::text::chars::is_cjk;
use std::collections::BTreeSet;

/// Words, and Chinese characters, of a question that are looked at.
const UNITS_MAX: usize = 64;
/// Words of the longest subject that is found.
const NAME_WORDS_MAX: usize = 12;
/// Characters of the longest Chinese subject that is found.
const NAME_CHARS_MAX: usize = 10;
/// Words of the longest predicate that is looked for in the registry.
const PREDICATE_WORDS_MAX: usize = 4;

/// What a question has in its words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    names: BTreeSet<String>,
    predicates: BTreeSet<String>,
    terms: BTreeSet<String>,
}

impl Asked {
    /// Reads a question.
    pub fn new(question: &str) -> Self {
        let plain = normal::plain(question);
        let words: Vec<&str> = plain.split(' ').take(UNITS_MAX).collect();
        let mut asked =
            Self { terms: analyze_query(question).terms.into_iter().collect(), ..Self::default() };
        for start in 0..words.len() {
            let most = (words.len() - start).min(NAME_WORDS_MAX);
            for length in 1..=most {
                let run = words[start..start + length].join(" ");
                let bare = run.strip_suffix("'s").or_else(|| run.strip_suffix("'s?"));
                asked.take(bare.unwrap_or(&run), length <= PREDICATE_WORDS_MAX);
            }
        }
        let characters: Vec<char> = plain.chars().filter(|c| !c.is_whitespace()).take(UNITS_MAX).collect();
        if characters.iter().any(|c| is_cjk(*c)) {
            for start in 0..characters.len() {
                let most = (characters.len() - start).min(NAME_CHARS_MAX);
                for length in 2..=most {
                    let run: String = characters[start..start + length].iter().collect();
                    asked.take(&run, length <= PREDICATE_WORDS_MAX);
                }
                // One who speaks of themselves does so in one character.
                asked.take(&characters[start].to_string(), false);
            }
        }
        asked
    }

    fn take(&mut self, run: &str, may_be_predicate: bool) {
        let name = normal::subject(run, None);
        if may_be_predicate {
            let registry = Registry::default();
            if registry.find(run).arity != Arity::Unknown {
                self.predicates.insert(registry.filed_under(run));
            }
        }
        if !name.is_empty() {
            self.names.insert(name);
        }
    }

    /// What may be the subject of a fact, in normal form.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Whether the question names this subject.
    pub fn is_about(&self, subject: &str) -> bool {
        self.names.contains(subject)
    }

    /// How much of a predicate, in its normal form, the question asks for: 0..=1.
    pub fn share(&self, predicate: &str) -> f64 {
        if self.predicates.contains(predicate) {
            return 1.0;
        }
        let terms = analyze_query(predicate).terms;
        let asked = terms.iter().filter(|term| self.terms.contains(*term)).count();
        // A predicate has a handful of terms.
        if terms.is_empty() { 0.0 } else { asked as f64 / terms.len() as f64 }
    }
}

/// What a fact about a subject that the question names gains, by the [`Asked::share`] of its
/// predicate. `own`: the subject is who says it. Most of what people say is about themselves, so that
/// naming them alone asks for nothing in particular.
pub fn boost(share: f64, own: bool) -> f64 {
    match (own, share > 0.0) {
        (true, false) => 0.0,
        (true, true) => BOOST_MAX * share,
        (false, _) => BOOST_MAX * (0.5 + 0.5 * share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_found_in_any_dress() {
        for (question, subject) in [
            ("What is the capital of the Upper Hague?", "upper hague"),
            ("Where does Anna Schmidt work?", "anna schmidt"),
            ("What is Anna Schmidt's job?", "anna schmidt"),
            ("Who wrote 2040: A Memoir?", "2040: a memoir"),
            ("小明住在哪里？", "小明"),
            ("小明的妹妹做什么工作", "小明's 妹妹"),
            ("Where do I live?", "user"),
            ("我住在哪里", "user"),
            ("What does my wife do?", "user's wife"),
        ] {
            assert!(Asked::new(question).is_about(subject), "{question}: {:?}", Asked::new(question).names);
        }
        assert!(!Asked::new("Where does Annabel work?").is_about("anna"));
        assert_eq!(Asked::new("").names().count(), 0);
    }

    #[test]
    fn predicates_are_found_by_words_and_by_the_registry() {
        let share = |question: &str, predicate: &str| Asked::new(question).share(predicate);
        assert_eq!(share("Which sport is Anna associated with?", "associated with sport"), 1.0);
        assert_eq!(share("What is Anna's occupation?", "job"), 1.0);
        assert_eq!(share("小明的职业是什么", "job"), 1.0);
        assert_eq!(share("Who is the head coach of Ulm?", "head of state"), 0.5);
        assert_eq!(share("Who is it?", "born in"), 0.0);
    }

    #[test]
    fn boosts_are_bounded_and_grow_with_what_is_asked() {
        for own in [false, true] {
            for share in [0.0, 0.5, 1.0] {
                assert!((0.0..=BOOST_MAX).contains(&boost(share, own)));
            }
            assert!(boost(1.0, own) > boost(0.5, own));
        }
        assert_eq!(boost(0.0, true), 0.0);
    }

    #[test]
    fn long_questions_are_read_within_bounds() {
        let long = Asked::new(&"word 北京 ".repeat(5_000));
        assert!(long.names.len() <= UNITS_MAX * (NAME_WORDS_MAX + NAME_CHARS_MAX));
    }
}
