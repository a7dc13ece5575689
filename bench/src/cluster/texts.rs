//! What is written: texts of one size, made from a seed, no two alike.

use clap::ValueEnum;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::prose::{CHINESE, ENGLISH};
use crate::load::statement;

/// Bytes of one content.
pub(super) const CONTENT_BYTES: usize = 2_048;
/// Distinct bodies; the head makes each content unique.
const BODIES: usize = 256;
/// Users that the writes are spread over.
pub(super) const USERS: u64 = 1_000;

/// A write: which arm of the benchmark, which of its clients, and the how-manieth of that client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) arm: u32,
    pub(super) client: u32,
    pub(super) number: u64,
}

impl Name {
    /// Its id, which no other write of the run has.
    pub(super) fn id(self) -> String {
        format!("w-{}-{}-{}", self.arm, self.client, self.number)
    }

    /// The user whose memory it is.
    pub(super) fn user(self) -> String {
        let mixed = (u64::from(self.client) << 32 | self.number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        user(mixed >> 32)
    }
}

/// A user by number, which may be larger than the number of users.
pub(super) fn user(number: u64) -> String {
    format!("user-{}", number % USERS)
}

/// What contents are made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    // Ordinary sentences, some 480 tokens: a memory that is stored as one.
    #[default]
    Prose,
    // Made-up statements with many names and numbers, some 540 tokens: above the limit of 512, so that
    // each is stored whole and in two chunks.
    Statements,
}

impl Kind {
    /// The name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Prose => "prose",
            Self::Statements => "statements",
        }
    }
}

/// English and Chinese sentences, joined up to [`CONTENT_BYTES`].
#[derive(Debug)]
pub(super) struct Texts(Vec<String>);

impl Texts {
    pub(super) fn new(kind: Kind, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let body = |_| match kind {
            Kind::Prose => prose(&mut rng),
            Kind::Statements => joined(std::iter::repeat_with(|| statement(&mut rng))),
        };
        Self((0..BODIES).map(body).collect())
    }

    /// The content of a write: always the same for the same seed and name.
    pub(super) fn content(&self, name: Name) -> String {
        let at = usize::try_from(name.number).unwrap_or_default().wrapping_add(name.client as usize);
        let mut text = format!("Note {}. {}", name.id(), self.0[at % self.0.len()]);
        text.truncate(text.floor_char_boundary(CONTENT_BYTES));
        while text.len() < CONTENT_BYTES {
            text.push('.');
        }
        text
    }
}

/// Sentences of both languages in turn, in an order of their own, none of them twice: all of them are
/// longer than a content.
fn prose(rng: &mut StdRng) -> String {
    let (mut english, mut chinese) = (ENGLISH, CHINESE);
    english.shuffle(rng);
    chinese.shuffle(rng);
    joined(english.into_iter().zip(chinese).flat_map(|(one, other)| [one, other]).map(str::to_owned))
}

fn joined(sentences: impl Iterator<Item = String>) -> String {
    let mut text = String::with_capacity(CONTENT_BYTES + 256);
    for sentence in sentences {
        if text.len() >= CONTENT_BYTES {
            break;
        }
        text += &sentence;
        text.push(' ');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_below_the_limit_of_chunks_and_statements_above() {
        let counter = crate::baseline::tokens::Counter::new();
        let tokens = |kind| {
            let texts = Texts::new(kind, 1);
            (0..BODIES as u64).map(move |number| {
                let text = texts.content(Name { arm: 12, client: 63, number: number * 1_000 });
                counter.count(&text)
            })
        };
        let prose = tokens(Kind::Prose).min().zip(tokens(Kind::Prose).max());
        assert!(prose.is_some_and(|(min, max)| min >= 350 && max < 512), "{prose:?}");
        let above = tokens(Kind::Statements).filter(|tokens| (513..=700).contains(tokens)).count();
        assert!(above > BODIES / 2, "{above} of {BODIES}");
    }

    #[test]
    fn contents_have_one_size_and_differ() {
        for kind in [Kind::Prose, Kind::Statements] {
            have_one_size_and_differ(kind);
        }
    }

    fn have_one_size_and_differ(kind: Kind) {
        let (texts, again) = (Texts::new(kind, 7), Texts::new(kind, 7));
        let mut seen = std::collections::BTreeSet::new();
        for client in 0..3 {
            for number in 0..200 {
                let name = Name { arm: 1, client, number };
                let text = texts.content(name);
                assert_eq!(text.len(), CONTENT_BYTES);
                assert_eq!(text, again.content(name));
                assert!(seen.insert(text) && seen.insert(name.id()));
            }
        }
        let english = if kind == Kind::Prose { "the" } else { "euros" };
        assert!(
            seen.iter().any(|text| text.contains('。')) && seen.iter().any(|text| text.contains(english))
        );
        assert_ne!(
            Texts::new(kind, 8).content(Name { arm: 1, client: 0, number: 0 }),
            *seen.first().unwrap_or(&String::new())
        );
    }

    #[test]
    fn writes_spread_over_the_users() {
        let users = |client: u32| (0..2_000).map(move |number| Name { arm: 0, client, number }.user());
        let distinct: std::collections::BTreeSet<String> = users(0).chain(users(63)).collect();
        assert!(distinct.len() > 800, "{}", distinct.len());
    }
}
