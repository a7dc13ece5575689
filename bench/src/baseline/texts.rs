//! The words that dialogues are made of, read from the JSON files in `texts/`.
//!
//! Phrasings of what users say about themselves, and of the questions, come in two sets that share
//! no phrasing: `train.json`, which rules of the system may be written against, and `held_out.json`,
//! which none ever is. What both sets share (small talk, replies of the assistant, tool output)
//! holds no statement.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Which phrasings a workload is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Phrasings {
    /// Those that rules may be written against
    Train,
    /// Those that no rule has been written against: published figures are of these
    HeldOut,
    /// Both sets together
    All,
}

impl Phrasings {
    /// The name as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::HeldOut => "held-out",
            Self::All => "all",
        }
    }
}

/// Language of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// English.
    En,
    /// Chinese.
    Zh,
}

/// Whether breaking a statement does harm or only annoys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Must always be respected.
    Constraint,
    /// Is liked better.
    Preference,
}

/// Something that a user has one answer to, or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// Name, the same in every file.
    pub id: String,
    /// What it weighs.
    pub kind: Kind,
    /// Whether a further value stands beside the earlier ones instead of replacing them.
    #[serde(default)]
    pub many: bool,
    /// The possible answers, English and Chinese.
    pub values: Vec<(String, String)>,
}

impl Slot {
    /// A value in a language.
    pub fn value(&self, value: usize, language: Language) -> &str {
        self.values.get(value).map_or("", |(en, zh)| match language {
            Language::En => en,
            Language::Zh => zh,
        })
    }
}

/// Phrasings of one slot.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotTexts {
    /// The statement itself.
    pub clause: Vec<String>,
    /// A temporary exception; empty where there is none.
    #[serde(default)]
    pub once: Vec<String>,
    /// A question about it.
    pub ask: Vec<String>,
    /// The same topic without a statement about the user.
    pub aside: Vec<String>,
}

/// Phrasings in one language.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wording {
    /// A first statement.
    pub state: Vec<String>,
    /// The same again in a later session.
    pub restate: Vec<String>,
    /// A change of mind.
    pub change: Vec<String>,
    /// An exception that ends with the day.
    pub today: Vec<String>,
    /// An exception with a last day.
    pub until: Vec<String>,
    /// A correction of what was just said.
    pub correct: Vec<String>,
    /// Questions for everything that must be respected.
    pub general: Vec<String>,
    /// Questions about a domain.
    pub domains: BTreeMap<String, Vec<String>>,
    /// What belongs to a slot.
    pub slots: BTreeMap<String, SlotTexts>,
}

/// What surrounds the statements, in one language.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Talk {
    /// Names of people.
    pub names: Vec<String>,
    /// Small talk of the user.
    pub small: Vec<String>,
    /// The assistant's answer to a statement; never repeats it.
    pub ack: Vec<String>,
    /// The assistant's answer to small talk.
    pub chat: Vec<String>,
    /// What a statement may be buried in.
    pub carrier: Vec<String>,
    /// The assistant's advice by domain.
    pub advice: BTreeMap<String, Vec<String>>,
    /// The user asks for a lookup, by domain.
    pub lookup: BTreeMap<String, String>,
    /// The assistant sums a lookup up.
    pub found: Vec<String>,
}

/// Wording and talk of one language.
#[derive(Debug, Clone)]
pub struct LanguageTexts {
    /// What depends on the set of phrasings.
    pub wording: Wording,
    /// What does not.
    pub talk: Talk,
}

/// Everything that a workload is made of.
#[derive(Debug, Clone)]
pub struct Texts {
    /// Domain -> indices of its slots.
    pub domains: Vec<(String, Vec<usize>)>,
    /// The slots.
    pub slots: Vec<Slot>,
    en: LanguageTexts,
    zh: LanguageTexts,
}

#[derive(Deserialize)]
struct World {
    domains: BTreeMap<String, Vec<String>>,
    slots: Vec<Slot>,
}

#[derive(Deserialize)]
struct ByLanguage<T> {
    en: T,
    zh: T,
}

impl Texts {
    /// Reads the built-in files.
    ///
    /// # Errors
    /// A file does not fit the others: a fault of this program.
    pub fn load(phrasings: Phrasings) -> Result<Self> {
        let world: World = serde_json::from_str(include_str!("texts/world.json")).context("world.json")?;
        let talk: ByLanguage<Talk> =
            serde_json::from_str(include_str!("texts/talk.json")).context("talk.json")?;
        let mut wording = ByLanguage { en: Wording::default(), zh: Wording::default() };
        if phrasings != Phrasings::HeldOut {
            add(&mut wording, include_str!("texts/train.json")).context("train.json")?;
        }
        if phrasings != Phrasings::Train {
            add(&mut wording, include_str!("texts/held_out.json")).context("held_out.json")?;
        }
        let mut domains = Vec::new();
        for (name, ids) in world.domains {
            let find = |id: &String| world.slots.iter().position(|slot| slot.id == *id);
            let slots: Option<Vec<usize>> = ids.iter().map(find).collect();
            domains.push((name, slots.context("world.json: a domain names a slot that does not exist")?));
        }
        for slot in &world.slots {
            let complete = [&wording.en, &wording.zh].iter().all(|language| {
                language
                    .slots
                    .get(&slot.id)
                    .is_some_and(|texts| !texts.clause.is_empty() && !texts.ask.is_empty())
            });
            ensure!(complete, "slot {} lacks phrasings", slot.id);
        }
        Ok(Self {
            domains,
            slots: world.slots,
            en: LanguageTexts { wording: wording.en, talk: talk.en },
            zh: LanguageTexts { wording: wording.zh, talk: talk.zh },
        })
    }

    /// The texts of a language.
    pub fn of(&self, language: Language) -> &LanguageTexts {
        match language {
            Language::En => &self.en,
            Language::Zh => &self.zh,
        }
    }

    /// The domain of a slot.
    pub fn domain_of(&self, slot: usize) -> &str {
        let found = self.domains.iter().find(|(_, slots)| slots.contains(&slot));
        found.map_or("", |(name, _)| name)
    }
}

/// Appends the phrasings of a file.
fn add(wording: &mut ByLanguage<Wording>, json: &str) -> Result<()> {
    let more: ByLanguage<Wording> = serde_json::from_str(json)?;
    for (to, from) in [(&mut wording.en, more.en), (&mut wording.zh, more.zh)] {
        to.state.extend(from.state);
        to.restate.extend(from.restate);
        to.change.extend(from.change);
        to.today.extend(from.today);
        to.until.extend(from.until);
        to.correct.extend(from.correct);
        to.general.extend(from.general);
        for (domain, questions) in from.domains {
            to.domains.entry(domain).or_default().extend(questions);
        }
        for (slot, texts) in from.slots {
            let to = to.slots.entry(slot).or_default();
            to.clause.extend(texts.clause);
            to.once.extend(texts.once);
            to.ask.extend(texts.ask);
            to.aside.extend(texts.aside);
        }
    }
    Ok(())
}

/// Replaces `{name}` in `text`.
pub fn fill(text: &str, name: &str, value: &str) -> String {
    text.replace(&format!("{{{name}}}"), value)
}

/// Puts a clause into a wrapper: `{c}` as it is, `{C}` with a capital.
pub fn wrap(wrapper: &str, clause: &str) -> String {
    let mut letters = clause.chars();
    let capital: String =
        letters.next().iter().flat_map(|first| first.to_uppercase()).chain(letters).collect();
    fill(&fill(wrapper, "c", clause), "C", &capital)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    /// Every phrasing of a set, with what it stands for.
    fn phrasings(texts: &Texts) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for language in [Language::En, Language::Zh] {
            let wording = &texts.of(language).wording;
            for list in [
                &wording.state,
                &wording.restate,
                &wording.change,
                &wording.today,
                &wording.until,
                &wording.correct,
                &wording.general,
            ] {
                assert!(list.len() >= 2);
                all.extend(list.iter().cloned());
            }
            all.extend(wording.domains.values().flatten().cloned());
            for texts in wording.slots.values() {
                for list in [&texts.clause, &texts.once, &texts.ask, &texts.aside] {
                    all.extend(list.iter().cloned());
                }
            }
        }
        all
    }

    #[test]
    fn the_two_sets_share_no_phrasing() {
        let train = phrasings(&Texts::load(Phrasings::Train).unwrap());
        let held_out = phrasings(&Texts::load(Phrasings::HeldOut).unwrap());
        let all = phrasings(&Texts::load(Phrasings::All).unwrap());
        assert!(train.len() > 300 && held_out.len() > 300, "{} {}", train.len(), held_out.len());
        assert_eq!(train.intersection(&held_out).collect::<Vec<_>>(), Vec::<&String>::new());
        assert_eq!(all.len(), train.len() + held_out.len());
    }

    #[test]
    fn exceptions_exist_where_one_value_rules_and_values_fit_in() {
        for set in [Phrasings::Train, Phrasings::HeldOut] {
            let texts = Texts::load(set).unwrap();
            for language in [Language::En, Language::Zh] {
                for slot in &texts.slots {
                    let of_slot = &texts.of(language).wording.slots[&slot.id];
                    assert!(!slot.many || of_slot.once.is_empty(), "{}", slot.id);
                    for text in of_slot.clause.iter().chain(&of_slot.once).chain(&of_slot.aside) {
                        assert!(text.contains("{v}"), "{}: {text}", slot.id);
                    }
                }
                for (domain, _) in &texts.domains {
                    assert!(texts.of(language).wording.domains.contains_key(domain), "{domain}");
                    assert!(texts.of(language).talk.advice.contains_key(domain), "{domain}");
                    assert!(texts.of(language).talk.lookup.contains_key(domain), "{domain}");
                }
            }
        }
    }

    #[test]
    fn clauses_are_put_into_wrappers() {
        assert_eq!(wrap("{C} now, {c}.", "my cup"), "My cup now, my cup.");
        assert_eq!(wrap("现在{c}。", "我住在巴黎"), "现在我住在巴黎。");
        assert_eq!(fill("{n} of {n}", "n", "3"), "3 of 3");
    }
}
