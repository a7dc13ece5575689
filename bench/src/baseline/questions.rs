//! The questions at the start of a session, with their gold labels.

use super::params::Parameters;
use super::plan::{Key, Truth};
use super::random::Random;
use super::texts::{Kind, Language, Texts};
use super::workload::{Gold, Question, Scope};

/// Questions about what is true now. Only what has an answer is asked, so that recall is defined.
pub fn ask(
    random: &mut Random,
    texts: &Texts,
    parameters: &Parameters,
    language: Language,
    truth: &Truth,
) -> (Vec<Question>, Vec<Gold>) {
    let wording = &texts.of(language).wording;
    let (domains, slots, general) = parameters.questions;
    let (mut questions, mut gold) = (Vec::new(), Vec::new());
    let mut add = |scope, text: Option<&String>, wanted: &dyn Fn(&Key) -> bool| {
        let wanted = truth.current.iter().copied().filter(wanted).collect();
        if let Some(text) = text {
            questions.push(Question { text: text.clone() });
            gold.push(Gold { scope, wanted, current: truth.current.clone(), stale: truth.stale.clone() });
        }
    };
    let mut open: Vec<usize> = (0..texts.domains.len())
        .filter(|domain| truth.current.iter().any(|key| texts.domains[*domain].1.contains(&key.slot)))
        .collect();
    random.shuffle(&mut open);
    for domain in open.into_iter().take(domains) {
        let (name, of_domain) = &texts.domains[domain];
        let text = wording.domains.get(name).and_then(|texts| random.pick(texts));
        add(Scope::Domain, text, &|key| of_domain.contains(&key.slot));
    }
    let mut open: Vec<usize> = truth.current.iter().map(|key| key.slot).collect();
    open.dedup();
    random.shuffle(&mut open);
    for slot in open.into_iter().take(slots) {
        let text = wording.slots.get(&texts.slots[slot].id).and_then(|texts| random.pick(&texts.ask));
        add(Scope::Slot, text, &|key| key.slot == slot);
    }
    let hard = |key: &Key| texts.slots[key.slot].kind == Kind::Constraint;
    if truth.current.iter().any(hard) {
        for _ in 0..general {
            add(Scope::General, random.pick(&wording.general), &hard);
        }
    }
    (questions, gold)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::baseline::plan;
    use crate::baseline::texts::Phrasings;

    #[test]
    fn every_question_has_an_answer_within_its_scope() {
        let texts = Texts::load(Phrasings::Train).unwrap();
        let parameters = Parameters::FIXED;
        let mut scopes = [0; 3];
        for seed in 0..10 {
            let mut random = Random::new(seed);
            for plan in plan::pair(&random.clone(), &texts, &parameters) {
                for session in &plan.sessions[1..] {
                    let (questions, gold) =
                        ask(&mut random, &texts, &parameters, Language::Zh, &session.truth);
                    assert_eq!(questions.len(), gold.len());
                    for gold in gold {
                        assert!(!gold.wanted.is_empty());
                        assert!(gold.wanted.is_subset(&gold.current));
                        assert!(gold.wanted.is_disjoint(&gold.stale));
                        scopes[gold.scope as usize] += 1;
                    }
                }
            }
        }
        assert!(scopes.iter().all(|count| *count > 100), "{scopes:?}");
    }
}
