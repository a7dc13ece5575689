//! One term of the keyword index: its bound and its stem.

use std::borrow::Cow;
use std::cell::RefCell;

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

/// Words whose stems a thread remembers. Half of a text is the same few hundred words, and the rules take
/// a microsecond for each.
const REMEMBERED: usize = 2_048;

/// A word, and how its stem is made of it.
struct Stemmed {
    word: Box<str>,
    stem: Stem,
}

enum Stem {
    /// So many of its bytes from the first on.
    Head(usize),
    /// Something else.
    Other(Box<str>),
}

thread_local! {
    /// By hash; a newer word takes the place of an older one. What is in it changes no answer.
    static STEMS: RefCell<Vec<Option<Stemmed>>> =
        RefCell::new(std::iter::repeat_with(|| None).take(REMEMBERED).collect());
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
        if english { self.remembered(word) } else { bounded(word) }
    }

    fn remembered<'a>(&self, word: &'a str) -> Cow<'a, str> {
        STEMS.with_borrow_mut(|stems| {
            let place = &mut stems[xxh3_64(word.as_bytes()) as usize % REMEMBERED];
            if place.as_ref().is_none_or(|known| *known.word != *word) {
                let stem = self.stemmer.stem(word);
                let stem = match word.starts_with(&*stem) {
                    true => Stem::Head(stem.len()),
                    false => Stem::Other(stem.into()),
                };
                *place = Some(Stemmed { word: word.into(), stem });
            }
            match place.as_ref().map(|known| &known.stem) {
                Some(Stem::Head(len)) => Cow::Borrowed(&word[..*len]),
                Some(Stem::Other(stem)) => Cow::Owned(stem.to_string()),
                None => Cow::Borrowed(word),
            }
        })
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
    fn remembered_stems_are_those_of_the_rules() {
        let (english, rules) = (English::new(), Stemmer::create(Algorithm::English));
        let heads = ["run", "happ", "relat", "gener", "commun", "dog", "sk", "y", "'"];
        let ends = ["", "s", "ing", "ies", "ational", "ously", "ied", "'s", "ness", "y", "ly", "al", "eed"];
        // More words than are remembered, and each twice in a row and once more later.
        let words: Vec<String> = (b'a'..=b'z')
            .flat_map(|letter| heads.map(|head| format!("{}{head}", char::from(letter))))
            .flat_map(|head| ends.map(|end| format!("{head}{end}")))
            .collect();
        assert!(words.len() > REMEMBERED);
        for _ in 0..2 {
            for word in &words {
                assert_eq!(english.stem(word), rules.stem(word));
                assert_eq!(english.stem(word), rules.stem(word));
            }
        }
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
