//! One term of the keyword index: its bound and its stem.

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};
use xxhash_rust::xxh3::xxh3_64;

/// No term is longer than this, in bytes of UTF-8.
pub const TERM_BYTES_MAX: usize = 64;

/// A longer one keeps this many bytes of its beginning, then `~` and 16 hex digits of its hash.
const HEAD_BYTES: usize = TERM_BYTES_MAX - 17;

/// The term itself if it is short enough, else a head and a hash of all of it.
///
/// Cutting alone would make all long URLs of one site the same term; with the hash they stay
/// apart and an exact repeat is still found.
pub(super) fn bounded(term: &str) -> Cow<'_, str> {
    if term.len() <= TERM_BYTES_MAX {
        return Cow::Borrowed(term);
    }
    let mut end = HEAD_BYTES;
    while !term.is_char_boundary(end) {
        end -= 1;
    }
    let head = &term[..end];
    Cow::Owned(format!("{head}~{:016x}", xxh3_64(term.as_bytes())))
}

/// Reduces English words to stems by the Snowball "English" (Porter 2) rules.
pub(super) struct English {
    stemmer: Stemmer,
}

impl English {
    pub(super) fn new() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English) }
    }

    /// The stem of a lower-case word. Only words of ASCII letters and apostrophes are touched:
    /// the rules know no others, and a name or an id must not lose its end.
    pub(super) fn stem<'a>(&self, word: &'a str) -> Cow<'a, str> {
        let english =
            word.len() <= TERM_BYTES_MAX && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'\'');
        if english { self.stemmer.stem(word) } else { bounded(word) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_terms_are_bounded_and_stay_apart() {
        let a = format!("https://example.com/{}a", "x".repeat(1_000));
        let b = format!("https://example.com/{}b", "x".repeat(1_000));
        assert_eq!(bounded(&a).len(), TERM_BYTES_MAX);
        assert_ne!(bounded(&a), bounded(&b));
        assert_eq!(bounded(&a), bounded(&a.clone()));
        // A character of three bytes lies across the cut.
        let wide = "ก".repeat(100);
        assert!(bounded(&wide).len() <= TERM_BYTES_MAX);
        assert_eq!(bounded(&"y".repeat(64)).len(), 64);
    }

    #[test]
    fn only_english_words_are_stemmed() {
        let english = English::new();
        assert_eq!(english.stem("running"), "run");
        assert_eq!(english.stem("adoption"), "adopt");
        assert_eq!(english.stem("naïves"), "naïves");
        assert_eq!(english.stem("v1.2.3s"), "v1.2.3s");
        assert_eq!(english.stem(""), "");
        assert_eq!(english.stem("''"), "''");
    }
}
