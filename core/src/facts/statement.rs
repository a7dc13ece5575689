//! From a fact in words to a [`Statement`] in the form that apply compares.

use super::normal;
use super::registry::{Arity, Predicate, Registry, file};
use crate::memory::{Cardinality, Fact, Mode, Statement};

/// A fact as it was said, by a caller or as a rule found it.
#[derive(Debug, Clone, Default)]
pub struct Claim {
    /// In words.
    pub fact: Fact,
    /// The normal form of the object, where it is not simply that of its words.
    pub form: Option<String>,
    /// How many objects the predicate holds, where the caller declares it.
    pub arity: Option<Arity>,
    /// What it does to the others; a negated predicate makes an end of a plain statement.
    pub mode: Mode,
    /// From when it holds.
    pub valid_from_us: Option<i64>,
    /// Until when, exclusive.
    pub valid_to_us: Option<i64>,
    /// Version of the rules that found it; 0 for a caller.
    pub rules: u16,
}

/// The statement that `who` makes by a claim. `None` if a part of it has no normal form, such as a
/// subject of punctuation alone.
pub fn statement(claim: Claim, who: Option<&str>, registry: &Registry) -> Option<Statement> {
    let Claim { fact, form, arity, mode, valid_from_us, valid_to_us, rules } = claim;
    let subject = normal::subject(&fact.subject, who);
    let found = registry.find(&fact.predicate);
    let predicate = Predicate { arity: arity.unwrap_or(found.arity), ..found };
    let object = form.unwrap_or_else(|| normal::name(&fact.object));
    if subject.is_empty() || predicate.name.is_empty() || object.is_empty() {
        return None;
    }
    let ends = predicate.negated && matches!(predicate.arity, Arity::One | Arity::Unknown);
    let cardinality =
        if predicate.arity == Arity::Unknown { Cardinality::Unknown } else { Cardinality::Single };
    let (predicate, mut about, value) = file(predicate, object);
    if !fact.qualifiers.is_empty() {
        // What narrows a fact makes it another one: tea on Mondays says nothing of Tuesdays.
        about.push('\u{1}');
        about.push_str(&fact.qualifiers);
    }
    Some(Statement {
        fact,
        subject,
        predicate,
        about,
        value,
        cardinality,
        mode: if ends && mode == Mode::State { Mode::End } else { mode },
        valid_from_us,
        valid_to_us,
        rules,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn said(subject: &str, predicate: &str, object: &str) -> Statement {
        let fact = Fact {
            subject: subject.into(),
            predicate: predicate.into(),
            object: object.into(),
            ..Fact::default()
        };
        statement(Claim { fact, ..Claim::default() }, None, &Registry::default()).unwrap()
    }

    fn group(statement: &Statement) -> (&str, &str, &str) {
        (&statement.subject, &statement.predicate, &statement.about)
    }

    #[test]
    fn one_at_a_time_is_one_group_and_many_are_many() {
        let (berlin, paris) = (said("I", "lives in", "Berlin"), said("用户", "搬到", "Paris."));
        assert_eq!(group(&berlin), group(&paris));
        assert_ne!(berlin.value, paris.value);
        let (tea, coffee) = (said("I", "likes", "tea"), said("I", "likes", "coffee"));
        assert_ne!(group(&tea), group(&coffee));
        let (love, hate) = (said("me", "loves", "Chinese food"), said("I", "hates", "the chinese food"));
        assert_eq!(group(&love), group(&hate));
        assert_eq!((love.value.as_str(), hate.value.as_str()), ("loves", "hates"));
        let (like, dislike) = (said("我", "喜欢", "邓紫棋的歌"), said("我", "不喜欢", "邓紫棋的歌"));
        assert_eq!(group(&like), group(&dislike));
    }

    #[test]
    fn unknown_predicates_exclude_nothing() {
        let orbits = said("Moon", "orbits", "Earth");
        assert_eq!((orbits.cardinality, orbits.value.as_str()), (Cardinality::Unknown, "earth"));
    }

    #[test]
    fn a_negation_ends_or_turns_round() {
        assert_eq!(said("I", "no longer works at", "Acme").mode, Mode::End);
        let no = said("I", "does not eat", "meat");
        assert_eq!((no.mode, no.about.as_str(), no.value.as_str()), (Mode::State, "meat", "no"));
        assert_eq!(group(&said("I", "eat", "meat")), group(&said("我", "不吃", "meat")));
    }

    #[test]
    fn qualifiers_narrow() {
        let fact = |qualifiers: &str| {
            let fact = Fact {
                subject: "I".into(),
                predicate: "works at".into(),
                object: "Acme".into(),
                qualifiers: qualifiers.into(),
                confidence: None,
            };
            statement(Claim { fact, ..Claim::default() }, None, &Registry::default()).unwrap()
        };
        assert_ne!(group(&fact("")), group(&fact(r#"{"day":"monday"}"#)));
    }

    #[test]
    fn what_has_no_normal_form_is_no_statement() {
        let fact =
            Fact { subject: "...".into(), predicate: "p".into(), object: "o".into(), ..Fact::default() };
        assert!(statement(Claim { fact, ..Claim::default() }, None, &Registry::default()).is_none());
    }

    #[test]
    fn a_caller_declares_the_cardinality() {
        let fact =
            Fact { subject: "X".into(), predicate: "badge".into(), object: "7".into(), ..Fact::default() };
        let one = Claim { fact: fact.clone(), arity: Some(Arity::One), ..Claim::default() };
        let one = statement(one, None, &Registry::default()).unwrap();
        assert_eq!((one.cardinality, one.about.as_str()), (Cardinality::Single, ""));
        let many = Claim { fact, arity: Some(Arity::Many), ..Claim::default() };
        assert_eq!(statement(many, None, &Registry::default()).unwrap().about, "7");
    }
}
