//! What is written: texts of one size, made from a seed, no two alike.

use rand::SeedableRng;
use rand::rngs::StdRng;

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

/// English and Chinese statements, joined up to [`CONTENT_BYTES`].
#[derive(Debug)]
pub(super) struct Texts(Vec<String>);

impl Texts {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let body = |_| {
            let mut text = String::with_capacity(CONTENT_BYTES + 256);
            while text.len() < CONTENT_BYTES {
                text += &statement(&mut rng);
                text.push(' ');
            }
            text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_have_one_size_and_differ() {
        let (texts, again) = (Texts::new(7), Texts::new(7));
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
        assert!(
            seen.iter().any(|text| text.contains('。')) && seen.iter().any(|text| text.contains("euros"))
        );
        assert_ne!(
            Texts::new(8).content(Name { arm: 1, client: 0, number: 0 }),
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
