//! What a user comes to say, session by session, and so what is true when: the gold labels exist
//! before any word does.

use std::collections::BTreeSet;

use jiff::civil::Date;

use super::params::Parameters;
use super::random::Random;
use super::texts::{Kind, Texts};

/// A memory that matters: one value of a slot, or one exception from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The slot.
    pub slot: usize,
    /// Its value.
    pub value: usize,
    /// Which exception it is; `None` for a rule.
    pub once: Option<usize>,
}

/// How a user says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// For the first time.
    State,
    /// Once more.
    Restate,
    /// Instead of what held before.
    Change,
    /// For today only.
    Today,
    /// Until a day, which is still included.
    Until(Date),
    /// Instead of what was said wrongly in this session.
    Correct,
}

/// A statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What it states.
    pub key: Key,
    /// How.
    pub intent: Intent,
}

/// What holds of one slot.
#[derive(Debug, Clone, Default)]
struct SlotState {
    /// The rules that hold: one, or for slots of many values several.
    rules: Vec<usize>,
    /// Values that have held.
    past: Vec<usize>,
    /// Exceptions and their last days.
    exceptions: Vec<(Key, Date)>,
    /// Everything that was ever said.
    stated: BTreeSet<Key>,
}

/// What is true at the start of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Truth {
    /// What holds and applies today.
    pub current: BTreeSet<Key>,
    /// What was said and does not hold, or no longer.
    pub stale: BTreeSet<Key>,
}

/// One session of a plan.
#[derive(Debug, Clone)]
pub struct PlannedSession {
    /// Its day.
    pub day: Date,
    /// What is true before a word is said.
    pub truth: Truth,
    /// What is said, in order.
    pub events: Vec<Event>,
}

/// A user's sessions.
#[derive(Debug, Clone)]
pub struct Plan {
    /// In time order.
    pub sessions: Vec<PlannedSession>,
}

/// Plans both users of a pair of look-alikes: the same days, the same slots, other values.
pub fn pair(random: &Random, texts: &Texts, parameters: &Parameters) -> [Plan; 2] {
    let mut shared = random.fork(0);
    let mut slots: Vec<usize> = (0..texts.slots.len()).collect();
    shared.shuffle(&mut slots);
    slots.truncate(parameters.slots);
    let days = days(&mut shared, parameters);
    // For each slot an order of its values; the second user starts elsewhere in it.
    let orders: Vec<Vec<usize>> = slots
        .iter()
        .map(|slot| {
            let mut order: Vec<usize> = (0..texts.slots[*slot].values.len()).collect();
            shared.shuffle(&mut order);
            order
        })
        .collect();
    [0, 1].map(|user| {
        let mut planner = Planner {
            random: random.fork(1 + user as u64),
            texts,
            parameters,
            states: vec![SlotState::default(); texts.slots.len()],
            exceptions: 0,
        };
        let mut own = orders.clone();
        for order in &mut own {
            order.rotate_left(2 * user);
        }
        planner.plan(&slots, &own, &days)
    })
}

fn days(random: &mut Random, parameters: &Parameters) -> Vec<Date> {
    let mut day = jiff::civil::date(2026, 1, 5).saturating_add(span(random.below(20)));
    let mut days = Vec::with_capacity(parameters.sessions);
    for _ in 0..parameters.sessions {
        days.push(day);
        let (least, most) = parameters.gap_days;
        day = day.saturating_add(span(random.between(least, most)));
    }
    days
}

fn span(days: usize) -> jiff::Span {
    jiff::Span::new().days(i64::try_from(days).unwrap_or(0))
}

struct Planner<'a> {
    random: Random,
    texts: &'a Texts,
    parameters: &'a Parameters,
    states: Vec<SlotState>,
    exceptions: usize,
}

impl Planner<'_> {
    fn plan(&mut self, slots: &[usize], orders: &[Vec<usize>], days: &[Date]) -> Plan {
        // Constraints come up early, preferences bit by bit; the last session says nothing first.
        let first: Vec<usize> = slots
            .iter()
            .map(|slot| match self.texts.slots[*slot].kind {
                Kind::Constraint => self.random.below(days.len().div_ceil(2)),
                Kind::Preference => self.random.below(days.len().saturating_sub(2).max(1)),
            })
            .collect();
        let sessions = days
            .iter()
            .enumerate()
            .map(|(number, day)| {
                let truth = self.truth(*day);
                let mut events = Vec::new();
                for ((slot, order), first) in slots.iter().zip(orders).zip(&first) {
                    if number == *first {
                        self.state(*slot, order[0], Intent::State, order, &mut events);
                    } else if number > *first {
                        self.later(*slot, order, *day, &mut events);
                    }
                }
                PlannedSession { day: *day, truth, events: self.mixed(events) }
            })
            .collect();
        Plan { sessions }
    }

    /// What may happen to a slot that was spoken about before.
    fn later(&mut self, slot: usize, order: &[usize], day: Date, events: &mut Vec<Event>) {
        let parameters = self.parameters;
        if self.random.chance(parameters.change) {
            if let Some(value) = self.other_value(slot, order) {
                let many = self.texts.slots[slot].many;
                let intent = if many { Intent::State } else { Intent::Change };
                self.state(slot, value, intent, order, events);
            }
        } else if self.random.chance(parameters.exception) {
            self.exception(slot, order, day, events);
        } else if self.random.chance(parameters.restate)
            && let Some(value) = self.random.pick(&self.states[slot].rules).copied()
        {
            events.push(Event { key: Key { slot, value, once: None }, intent: Intent::Restate });
        }
    }

    /// A value that does not hold now: at times one that held before.
    fn other_value(&mut self, slot: usize, order: &[usize]) -> Option<usize> {
        let state = &self.states[slot];
        let past: Vec<usize> =
            state.past.iter().copied().filter(|value| !state.rules.contains(value)).collect();
        if !self.texts.slots[slot].many && self.random.chance(self.parameters.back) && !past.is_empty() {
            return self.random.pick(&past).copied();
        }
        let never_said = |value: &usize| !state.stated.iter().any(|key| key.value == *value);
        order.iter().copied().find(never_said)
    }

    /// A rule is stated, at times wrongly at first.
    fn state(&mut self, slot: usize, value: usize, intent: Intent, order: &[usize], events: &mut Vec<Event>) {
        let key = Key { slot, value, once: None };
        let wrong =
            order.iter().rev().copied().find(|other| {
                *other != value && !self.states[slot].stated.iter().any(|key| key.value == *other)
            });
        let corrected = self.random.chance(self.parameters.correction);
        let many = self.texts.slots[slot].many;
        let state = &mut self.states[slot];
        match wrong.filter(|_| corrected) {
            Some(wrong) => {
                let said = Key { slot, value: wrong, once: None };
                events.push(Event { key: said, intent });
                events.push(Event { key, intent: Intent::Correct });
                state.stated.insert(said);
            }
            None => events.push(Event { key, intent }),
        }
        state.stated.insert(key);
        if !many {
            state.past.append(&mut state.rules);
        }
        state.rules.push(value);
    }

    fn exception(&mut self, slot: usize, order: &[usize], day: Date, events: &mut Vec<Event>) {
        let texts = &self.texts.of(super::texts::Language::En).wording.slots[&self.texts.slots[slot].id];
        let busy = self.states[slot].exceptions.iter().any(|(_, last)| *last >= day);
        if texts.once.is_empty() || busy {
            return;
        }
        let rules = self.states[slot].rules.clone();
        let Some(value) = order.iter().rev().copied().find(|value| !rules.contains(value)) else { return };
        let key = Key { slot, value, once: Some(self.exceptions) };
        self.exceptions += 1;
        let (intent, last) = if self.random.chance(self.parameters.exception_days) {
            let last = day.saturating_add(span(self.random.between(4, 12)));
            (Intent::Until(last), last)
        } else {
            (Intent::Today, day)
        };
        events.push(Event { key, intent });
        let state = &mut self.states[slot];
        state.stated.insert(key);
        state.exceptions.push((key, last));
    }

    /// What is true on `day` before anything is said. A rule with a running exception is neither
    /// current nor stale: it does not apply today and is no mistake either.
    fn truth(&self, day: Date) -> Truth {
        let mut truth = Truth::default();
        for (slot, state) in self.states.iter().enumerate() {
            let running: Vec<Key> =
                state.exceptions.iter().filter(|(_, last)| *last >= day).map(|(key, _)| *key).collect();
            let rules: Vec<Key> =
                state.rules.iter().map(|value| Key { slot, value: *value, once: None }).collect();
            for key in &state.stated {
                if running.contains(key) || (rules.contains(key) && running.is_empty()) {
                    truth.current.insert(*key);
                } else if !rules.contains(key) {
                    truth.stale.insert(*key);
                }
            }
        }
        truth
    }

    /// The order of the slots is mixed; a correction stays behind what it corrects.
    fn mixed(&mut self, events: Vec<Event>) -> Vec<Event> {
        let mut groups: Vec<Vec<Event>> = Vec::new();
        for event in events {
            match groups.last_mut() {
                Some(group) if event.intent == Intent::Correct => group.push(event),
                _ => groups.push(vec![event]),
            }
        }
        self.random.shuffle(&mut groups);
        groups.concat()
    }
}

#[cfg(test)]
mod tests;
