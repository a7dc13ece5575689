//! Whom a query names among the speakers of a space.

use std::collections::BTreeMap;

use unicode_segmentation::UnicodeSegmentation;

use super::chars::is_cjk;
use super::names_self;
use super::normalize::fold;

/// At most this much of a query is searched for names, in bytes.
const QUERY_BYTES_MAX: usize = 4 * 1024;

/// Speakers that are roles, not names: the word "user" in a query names nobody.
const ROLES: [&str; 6] = ["assistant", "developer", "function", "system", "tool", "user"];

/// Whom a query is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressed {
    /// Nobody in particular, or several: no speaker is preferred.
    Nobody,
    /// The one speaker that is named, by its interned id.
    Speaker(u32),
    /// The one who asks (I, my, me, 我), and no other: rows of role `user`.
    Asker,
}

/// The distinct speakers of a space, prepared for finding them in queries.
#[derive(Debug, Clone, Default)]
pub struct SpeakerNames {
    /// First unit of a name (folded) -> the names that begin with it, in the order of their ids.
    by_first: BTreeMap<String, Vec<Name>>,
}

#[derive(Debug, Clone)]
struct Name {
    id: u32,
    /// Words, or single characters where the name is CJK.
    units: Vec<String>,
    cjk: bool,
}

impl SpeakerNames {
    /// Prepares names with their interned ids. Roles, names without a letter and CJK names of a
    /// single character (too common inside other words) are never found.
    pub fn new<'a>(speakers: impl IntoIterator<Item = (u32, &'a str)>) -> Self {
        let mut by_first: BTreeMap<String, Vec<Name>> = BTreeMap::new();
        for (id, speaker) in speakers {
            let folded = fold(speaker);
            if ROLES.contains(&folded.trim()) {
                continue;
            }
            let (units, cjk) = units(&folded);
            let Some(first) = units.first().cloned() else {
                continue;
            };
            let lettered = first.chars().any(char::is_alphabetic);
            if !lettered || cjk && units.len() < 2 {
                continue;
            }
            by_first.entry(first).or_default().push(Name { id, units, cjk });
        }
        for names in by_first.values_mut() {
            names.sort_by_key(|name| name.id);
        }
        Self { by_first }
    }

    /// The names of which the query holds something, those of which it holds most first, and of equals
    /// those with the lower ids: who is [addressed](Self::addressed) follows from them alone, so those of
    /// several partitions together say what all of their speakers would.
    pub fn named(&self, query: &str) -> Vec<u32> {
        let folded = fold(prefix(query, QUERY_BYTES_MAX));
        let (query_units, _) = units(&folded);
        let mut longest: BTreeMap<u32, usize> = BTreeMap::new();
        for (at, unit) in query_units.iter().enumerate() {
            for name in self.by_first.get(unit).into_iter().flatten() {
                let len = name.match_len(&query_units[at..]);
                if len > 0 {
                    let known = longest.entry(name.id).or_default();
                    *known = len.max(*known);
                }
            }
        }
        let mut named: Vec<(u32, usize)> = longest.into_iter().collect();
        named.sort_by_key(|(_, len)| std::cmp::Reverse(*len));
        named.into_iter().map(|(id, _)| id).collect()
    }

    /// Whom the query is about.
    ///
    /// A name is found by its whole words, whatever their case, or by the first of them
    /// ("Caroline" finds "Caroline Smith"); a CJK name wherever its characters stand together.
    /// A longer match hides a shorter one at the same place: "John Smith" does not also name
    /// "John Doe".
    pub fn addressed(&self, query: &str) -> Addressed {
        let query = prefix(query, QUERY_BYTES_MAX);
        let folded = fold(query);
        let (query_units, _) = units(&folded);
        let mut named: Option<u32> = None;
        for at in 0..query_units.len() {
            let Some(names) = self.by_first.get(&query_units[at]) else {
                continue;
            };
            let lengths = names.iter().map(|name| name.match_len(&query_units[at..]));
            let longest = lengths.clone().max().unwrap_or(0);
            if longest == 0 {
                continue;
            }
            for (name, len) in names.iter().zip(lengths) {
                if len < longest {
                    continue;
                }
                match named {
                    Some(id) if id != name.id => return Addressed::Nobody,
                    _ => named = Some(name.id),
                }
            }
        }
        match named {
            Some(id) => Addressed::Speaker(id),
            None if names_self(query) => Addressed::Asker,
            None => Addressed::Nobody,
        }
    }
}

impl Name {
    /// How many units of `text` this name covers at its beginning: all of its own, or its first.
    fn match_len(&self, text: &[String]) -> usize {
        if text.starts_with(&self.units) { self.units.len() } else { usize::from(!self.cjk) }
    }
}

/// The longest prefix of at most `bytes` bytes that ends at a character.
fn prefix(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The units names are compared by: words without `'s`, and each CJK character; whether there
/// was CJK among them.
fn units(folded: &str) -> (Vec<String>, bool) {
    let mut units = Vec::new();
    let mut cjk = false;
    for word in folded.unicode_words() {
        if word.chars().any(is_cjk) {
            cjk = true;
            units.extend(word.chars().map(String::from));
        } else {
            units.push(word.strip_suffix("'s").unwrap_or(word).to_owned());
        }
    }
    (units, cjk)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addressed(speakers: &[&str], query: &str) -> Addressed {
        SpeakerNames::new((0..).zip(speakers.iter().copied())).addressed(query)
    }

    #[test]
    fn one_name_is_found_in_any_case_and_form() {
        let speakers = ["Caroline", "Melanie Jones", "user"];
        for (query, id) in [
            ("What did Caroline research?", 0),
            ("CAROLINE’s job", 0),
            ("when did melanie paint", 1),
            ("did Melanie Jones go", 1),
        ] {
            assert_eq!(addressed(&speakers, query), Addressed::Speaker(id), "{query}");
        }
        assert_eq!(addressed(&speakers, "Carolines"), Addressed::Nobody);
        assert_eq!(addressed(&speakers, "the user said"), Addressed::Nobody);
        assert_eq!(addressed(&speakers, "Jones"), Addressed::Nobody);
    }

    #[test]
    fn two_names_are_none_and_hide_the_asker() {
        let speakers = ["Caroline", "Mel"];
        assert_eq!(addressed(&speakers, "Do Mel and Caroline know me?"), Addressed::Nobody);
        assert_eq!(addressed(&speakers, "What does Mel think of me?"), Addressed::Speaker(1));
        assert_eq!(addressed(&speakers, "What do I like?"), Addressed::Asker);
        assert_eq!(addressed(&speakers, "Mel, Mel's and mel"), Addressed::Speaker(1));
    }

    #[test]
    fn the_longer_match_wins() {
        let speakers = ["John Smith", "John Doe"];
        assert_eq!(addressed(&speakers, "where is John Smith"), Addressed::Speaker(0));
        assert_eq!(addressed(&speakers, "where is John"), Addressed::Nobody);
        assert_eq!(addressed(&speakers, "John Smith and John"), Addressed::Nobody);
    }

    #[test]
    fn cjk_names_are_found_inside_text() {
        let speakers = ["小明", "李", "たなか", "김철수"];
        assert_eq!(addressed(&speakers, "昨天小明说了什么"), Addressed::Speaker(0));
        assert_eq!(addressed(&speakers, "小红说了什么"), Addressed::Nobody);
        assert_eq!(addressed(&speakers, "李先生"), Addressed::Nobody);
        assert_eq!(addressed(&speakers, "たなかさんは"), Addressed::Speaker(2));
        assert_eq!(addressed(&speakers, "김철수는 어디"), Addressed::Speaker(3));
        assert_eq!(addressed(&speakers, "我喜欢什么"), Addressed::Asker);
    }

    /// Speakers that are split in any way are those of the whole, once the names that are found are put together.
    #[test]
    fn parts_name_what_the_whole_does() {
        let speakers = ["Caroline", "John Smith", "John Doe", "小明", "user", "Mel", "李", "小"];
        for query in [
            "where is John Smith",
            "John and Mel",
            "小明 and me",
            "What do I like?",
            "Caroline's John",
            "",
            "李小明",
        ] {
            for cut in 0..speakers.len() {
                let (a, b) = speakers.split_at(cut);
                let named = |part: &[&'static str]| -> Vec<&'static str> {
                    let names = SpeakerNames::new((0..).zip(part.iter().copied()));
                    names.named(query).into_iter().map(|id| part[id as usize]).collect()
                };
                let all: Vec<&str> = [named(a), named(b)].concat();
                let of = |names: &[&str], addressed: Addressed| match addressed {
                    Addressed::Speaker(id) => {
                        names.get(id as usize).map_or("?".to_owned(), |name| (*name).to_owned())
                    }
                    other => format!("{other:?}"),
                };
                assert_eq!(
                    of(&all, addressed(&all, query)),
                    of(&speakers, addressed(&speakers, query)),
                    "{query} {cut}"
                );
            }
        }
    }

    #[test]
    fn odd_names_and_queries_are_safe() {
        assert_eq!(addressed(&["", " ", "!!", "42"], "42 !! "), Addressed::Nobody);
        assert_eq!(addressed(&[], "me"), Addressed::Asker);
        let long = format!("{}Caroline", "é ".repeat(100_000));
        assert_eq!(addressed(&["Caroline"], &long), Addressed::Nobody);
    }
}
