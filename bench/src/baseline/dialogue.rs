//! Puts a session into words: statements, and around them what a dialogue is made of.

use serde_json::{Value, json};

use super::params::Parameters;
use super::plan::{Event, Intent, Key};
use super::random::Random;
use super::texts::{Language, LanguageTexts, Texts, fill, wrap};
use super::workload::Role;

/// A turn before it has an id and a time.
#[derive(Debug, Clone)]
pub struct Line {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub text: String,
    /// What it states: the gold label.
    pub states: Option<Key>,
}

/// The turns of one session.
pub fn lines(
    random: &mut Random,
    texts: &Texts,
    parameters: &Parameters,
    language: Language,
    events: &[Event],
) -> Vec<Line> {
    let mut scene = Scene { random, texts, of: texts.of(language), parameters, language };
    let mut exchanges: Vec<Vec<Line>> = Vec::new();
    for _ in 0..parameters.asides {
        exchanges.push(scene.aside());
    }
    for _ in 0..parameters.small_talk {
        exchanges.push(scene.small_talk());
    }
    for _ in 0..parameters.lookups {
        exchanges.push(scene.lookup());
    }
    scene.random.shuffle(&mut exchanges);
    // Statements keep their order: a correction comes after what it corrects.
    let mut places: Vec<usize> = events.iter().map(|_| scene.random.below(exchanges.len() + 1)).collect();
    places.sort_unstable();
    for (event, place) in events.iter().zip(places).rev() {
        let statement = scene.statement(event);
        exchanges.insert(place, statement);
    }
    exchanges.concat()
}

struct Scene<'a> {
    random: &'a mut Random,
    texts: &'a Texts,
    of: &'a LanguageTexts,
    parameters: &'a Parameters,
    language: Language,
}

impl Scene<'_> {
    fn statement(&mut self, event: &Event) -> Vec<Line> {
        let slot = &self.texts.slots[event.key.slot];
        let wording = &self.of.wording;
        let clauses = wording.slots.get(&slot.id).map(|texts| match event.intent {
            Intent::Today | Intent::Until(_) => &texts.once,
            _ => &texts.clause,
        });
        let wrappers = match event.intent {
            Intent::State => &wording.state,
            Intent::Restate => &wording.restate,
            Intent::Change => &wording.change,
            Intent::Today => &wording.today,
            Intent::Until(_) => &wording.until,
            Intent::Correct => &wording.correct,
        };
        let clause = clauses.and_then(|clauses| self.random.pick(clauses)).cloned().unwrap_or_default();
        let clause = fill(&clause, "v", slot.value(event.key.value, self.language));
        let wrapper = self.random.pick(wrappers).cloned().unwrap_or_default();
        let mut text = wrap(&wrapper, &clause);
        if let Intent::Until(last) = event.intent {
            text = fill(&text, "date", &self.date(last));
        }
        if self.random.chance(self.parameters.buried) {
            let (before, after) = (self.carrier(), self.carrier());
            text = self.sentences(&[before, text, after]);
        }
        let mut answer = vec![self.pick(&self.of.talk.ack)];
        if self.random.chance(0.5) {
            answer.extend(self.advice(event.key.slot));
        }
        vec![
            Line { role: Role::User, text: capital(&text), states: Some(event.key) },
            self.assistant(&answer),
        ]
    }

    /// The topic of a slot, and nothing about the user.
    fn aside(&mut self) -> Vec<Line> {
        let number = self.random.below(self.texts.slots.len());
        let slot = &self.texts.slots[number];
        let value = self.random.below(slot.values.len());
        let of_slot = self.of.wording.slots.get(&slot.id);
        let text = of_slot.map(|texts| self.pick(&texts.aside)).unwrap_or_default();
        let mut text = fill(&text, "v", slot.value(value, self.language));
        if self.random.chance(self.parameters.buried) {
            let more = self.carrier();
            text = self.sentences(&[text, more]);
        }
        let mut answer = self.advice(number);
        if self.random.chance(0.5) {
            answer.insert(0, self.pick(&self.of.talk.chat));
        }
        vec![Line { role: Role::User, text: capital(&text), states: None }, self.assistant(&answer)]
    }

    fn small_talk(&mut self) -> Vec<Line> {
        let text = self.pick(&self.of.talk.small);
        let answer = self.pick(&self.of.talk.chat);
        vec![Line { role: Role::User, text, states: None }, self.assistant(&[answer])]
    }

    fn lookup(&mut self) -> Vec<Line> {
        let number = self.random.below(self.texts.domains.len());
        let (domain, slots) = &self.texts.domains[number];
        let question = self.of.talk.lookup.get(domain).cloned().unwrap_or_default();
        let question = self.filled(&question);
        let items: Vec<Value> = (0..self.random.between(2, 4))
            .map(|_| {
                let slot = self.random.pick(slots).copied().unwrap_or_default();
                let slot = &self.texts.slots[slot];
                let value = self.random.below(slot.values.len());
                json!({
                    "ref": format!("CN-{}", 10_000 + self.random.below(90_000)),
                    "title": slot.value(value, self.language),
                    "with": self.pick(&self.of.talk.names),
                    "score": self.random.between(20, 50),
                })
            })
            .collect();
        let output = json!({ "tool": format!("search_{domain}"), "status": "ok", "items": items });
        let answer = self.pick(&self.of.talk.found);
        vec![
            Line { role: Role::User, text: question, states: None },
            Line { role: Role::Tool, text: output.to_string(), states: None },
            self.assistant(&[answer]),
        ]
    }

    fn assistant(&self, sentences: &[String]) -> Line {
        Line { role: Role::Assistant, text: self.sentences(sentences), states: None }
    }

    /// Some different sentences on the topic of a slot.
    fn advice(&mut self, slot: usize) -> Vec<String> {
        let mut all = self.of.talk.advice.get(self.texts.domain_of(slot)).cloned().unwrap_or_default();
        self.random.shuffle(&mut all);
        let (least, most) = self.parameters.advice;
        all.truncate(self.random.between(least, most));
        all.iter().map(|text| self.filled(text)).collect()
    }

    fn carrier(&mut self) -> String {
        self.pick(&self.of.talk.carrier)
    }

    fn pick(&mut self, from: &[String]) -> String {
        let text = self.random.pick(from).cloned().unwrap_or_default();
        self.filled(&text)
    }

    /// Replaces names, days and numbers.
    fn filled(&mut self, text: &str) -> String {
        const DAYS: [&str; 7] =
            ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
        const DAYS_ZH: [&str; 7] = ["周一", "周二", "周三", "周四", "周五", "周六", "周日"];
        let day = self.random.below(7);
        let day = if self.language == Language::En { DAYS[day] } else { DAYS_ZH[day] };
        let name = self.random.pick(&self.of.talk.names).cloned().unwrap_or_default();
        let text = fill(&fill(text, "day", day), "name", &name);
        fill(&text, "n", &self.random.between(2, 40).to_string())
    }

    fn date(&self, date: jiff::civil::Date) -> String {
        match self.language {
            Language::En => date.strftime("%-d %B").to_string(),
            Language::Zh => format!("{}月{}日", date.month(), date.day()),
        }
    }

    fn sentences(&self, sentences: &[String]) -> String {
        let sentences: Vec<String> = sentences.iter().map(|text| capital(text)).collect();
        sentences.join(if self.language == Language::En { " " } else { "" })
    }
}

/// With a capital at the start, as people write a message.
fn capital(text: &str) -> String {
    wrap("{C}", text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::baseline::texts::Phrasings;

    fn said(intent: Intent, language: Language, buried: f64) -> Vec<Line> {
        let texts = Texts::load(Phrasings::Train).unwrap();
        let slot = texts.slots.iter().position(|slot| slot.id == "seat").unwrap();
        let event = Event { key: Key { slot, value: 0, once: None }, intent };
        let parameters = Parameters { buried, ..Parameters::FIXED };
        lines(&mut Random::new(3), &texts, &parameters, language, &[event])
    }

    #[test]
    fn a_session_has_statements_asides_small_talk_and_tool_output() {
        let all = said(Intent::State, Language::En, 0.0);
        let parameters = Parameters::FIXED;
        let exchanges = 1 + parameters.asides + parameters.small_talk + parameters.lookups;
        assert_eq!(all.len(), 2 * exchanges + parameters.lookups);
        let stated: Vec<&Line> = all.iter().filter(|line| line.states.is_some()).collect();
        assert_eq!(stated.len(), 1);
        assert!(stated[0].text.contains("a window seat"), "{}", stated[0].text);
        assert_eq!(all.iter().filter(|line| line.role == Role::Tool).count(), parameters.lookups);
    }

    #[test]
    fn an_exception_names_its_last_day_and_a_buried_one_stands_inside() {
        let last = jiff::civil::date(2026, 3, 9);
        let text = |language, buried| {
            let all = said(Intent::Until(last), language, buried);
            all.into_iter().find(|line| line.states.is_some()).unwrap().text
        };
        assert!(text(Language::En, 0.0).contains("9 March"));
        assert!(text(Language::Zh, 0.0).contains("3月9日"));
        assert!(text(Language::Zh, 1.0).chars().count() > text(Language::Zh, 0.0).chars().count() + 10);
    }

    #[test]
    fn a_correction_stays_behind_what_it_corrects() {
        let texts = Texts::load(Phrasings::Train).unwrap();
        let event = |value, intent| Event { key: Key { slot: 1, value, once: None }, intent };
        let events = [event(0, Intent::State), event(1, Intent::Correct)];
        for seed in 0..50 {
            let all = lines(&mut Random::new(seed), &texts, &Parameters::FIXED, Language::En, &events);
            let values: Vec<usize> = all.iter().filter_map(|line| line.states).map(|key| key.value).collect();
            assert_eq!(values, [0, 1]);
        }
    }
}
