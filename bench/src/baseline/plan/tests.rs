#![allow(clippy::unwrap_used)]
use super::*;
use crate::baseline::texts::Phrasings;

fn plans(seed: u64, parameters: &Parameters) -> [Plan; 2] {
    pair(&Random::new(seed), &Texts::load(Phrasings::All).unwrap(), parameters)
}

/// What the events say is true, told by another way than the planner's own state: only from
/// what was said, in order.
fn retold(plan: &Plan, texts: &Texts, at: usize) -> Truth {
    let mut said: Vec<(Key, Intent, Date)> = Vec::new();
    for session in &plan.sessions[..at] {
        for event in &session.events {
            if event.intent == Intent::Correct {
                let wrong = said.iter().rposition(|(key, ..)| key.slot == event.key.slot).unwrap();
                let intent = said[wrong].1;
                said[wrong].1 = Intent::Correct;
                said.push((event.key, intent, session.day));
            } else {
                said.push((event.key, event.intent, session.day));
            }
        }
    }
    let today = plan.sessions[at].day;
    let mut truth = Truth::default();
    for slot in 0..texts.slots.len() {
        let of_slot: Vec<_> = said.iter().filter(|(key, ..)| key.slot == slot).collect();
        let mut rules: Vec<Key> = Vec::new();
        let mut running = Vec::new();
        for (key, intent, day) in of_slot.iter().copied() {
            match intent {
                Intent::State | Intent::Change if texts.slots[slot].many => rules.push(*key),
                Intent::State | Intent::Change => rules = vec![*key],
                Intent::Today if *day >= today => running.push(*key),
                Intent::Until(last) if *last >= today => running.push(*key),
                _ => {}
            }
        }
        for (key, ..) in of_slot {
            if running.contains(key) || (running.is_empty() && rules.contains(key)) {
                truth.current.insert(*key);
            } else if !rules.contains(key) {
                truth.stale.insert(*key);
            }
        }
    }
    truth
}

#[test]
fn the_labels_follow_from_what_is_said() {
    let texts = Texts::load(Phrasings::All).unwrap();
    let lively =
        Parameters { change: 0.3, exception: 0.3, exception_days: 0.5, correction: 0.3, ..Parameters::FIXED };
    let mut stale = 0;
    for seed in 0..20 {
        for parameters in [&Parameters::FIXED, &lively] {
            for plan in pair(&Random::new(seed), &texts, parameters) {
                for at in 0..plan.sessions.len() {
                    assert_eq!(plan.sessions[at].truth, retold(&plan, &texts, at), "seed {seed}, {at}");
                    stale += plan.sessions[at].truth.stale.len();
                }
            }
        }
    }
    assert!(stale > 1000, "{stale}");
}

#[test]
fn every_intent_occurs_and_values_return() {
    let mut seen = [0; 6];
    let mut returned = 0;
    for seed in 0..20 {
        for plan in plans(seed, &Parameters::FIXED) {
            let events: Vec<Event> =
                plan.sessions.iter().flat_map(|session| session.events.clone()).collect();
            for (at, event) in events.iter().enumerate() {
                seen[match event.intent {
                    Intent::State => 0,
                    Intent::Restate => 1,
                    Intent::Change => 2,
                    Intent::Today => 3,
                    Intent::Until(_) => 4,
                    Intent::Correct => 5,
                }] += 1;
                let before = events[..at].iter().any(|earlier| earlier.key == event.key);
                returned += usize::from(before && event.intent == Intent::Change);
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
    assert!(returned > 5, "{returned}");
}

#[test]
fn look_alikes_share_topics_and_differ_in_what_they_say_first() {
    for seed in 0..10 {
        let quiet = Parameters { change: 0.0, exception: 0.0, correction: 0.0, ..Parameters::FIXED };
        let [one, other] = plans(seed, &quiet);
        let first = |plan: &Plan| -> BTreeSet<Key> {
            plan.sessions
                .iter()
                .flat_map(|session| &session.events)
                .filter(|event| event.intent == Intent::State)
                .map(|event| event.key)
                .collect()
        };
        let (one, other) = (first(&one), first(&other));
        assert!(one.is_disjoint(&other));
        let slots = |keys: &BTreeSet<Key>| keys.iter().map(|key| key.slot).collect::<BTreeSet<_>>();
        assert_eq!(slots(&one), slots(&other));
    }
}

#[test]
fn the_same_seed_plans_the_same() {
    let debug = |seed| format!("{:?}", plans(seed, &Parameters::FIXED));
    assert_eq!(debug(3), debug(3));
    assert_ne!(debug(3), debug(4));
}
