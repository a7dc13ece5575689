//! The analyzer: text to index terms.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::normalize::fold;
use super::scan::{Token, scan};
use super::stopwords::is_stop;
use super::term::{English, bounded};
use super::term_list::TermList;

/// Version of everything that decides which terms a text has: Unicode tables, scanner, stop
/// words, stemmer. It is stored with the terms; a change of meaning is a new version and a
/// background job that rewrites rows, never a silent difference between replicas.
pub const ANALYZER_VERSION: u16 = 1;

/// The terms of one text, as the index row stores them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Each distinct term with the number of its occurrences, in ascending order of the term.
    pub terms: TermList,
    /// All occurrences: the document length of BM25.
    pub len: u32,
}

/// The terms of a text: NFKC and lower case, `'s` dropped, stop words dropped, English stemmed,
/// CJK as bigrams, ids whole (and, behind the whole, their parts), emoji as terms.
///
/// Empty, all-punctuation and all-stop-word texts have no terms. No term is longer than
/// [`super::TERM_BYTES_MAX`] bytes.
///
/// ```
/// use holdfast_core::text::analyze;
/// let terms = analyze("Caroline's adoption of CN-A10293");
/// let words: Vec<&str> = terms.terms.iter().map(|(t, _)| t).collect();
/// assert_eq!(words, ["a10293", "adopt", "carolin", "cn", "cn-a10293"]);
/// ```
pub fn analyze(text: &str) -> Terms {
    let folded = fold(text);
    // A term of every four bytes: a word and the space behind it, or the first of two Chinese characters.
    let mut all: Vec<(u64, Cow<'_, str>)> = Vec::with_capacity(folded.len() / 4);
    each_term(&folded, is_stop, &mut |term, _| all.push((head(&term), term)));
    all.sort_unstable();
    let len = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let mut terms = TermList::default();
    for same in all.chunk_by(|(_, one), (_, other)| one == other) {
        terms.push(&same[0].1, u32::try_from(same.len()).unwrap_or(u32::MAX));
    }
    Terms { terms, len }
}

/// The first bytes of a term as a number, which is in the order of the terms and compared at once.
fn head(term: &str) -> u64 {
    let (mut head, len) = ([0; 8], term.len().min(8));
    head[..len].copy_from_slice(&term.as_bytes()[..len]);
    u64::from_be_bytes(head)
}

/// How many tokens of a text carry content: words that are no stop words, ids (one each,
/// whatever their parts), CJK bigrams and emoji, repeats counted.
pub fn content_token_count(text: &str) -> usize {
    let folded = fold(text);
    let mut count = 0;
    each_term(&folded, is_stop, &mut |_, whole| count += usize::from(whole));
    count
}

/// Emits the terms of folded text in order; the flag is false for the parts of an id.
pub(super) fn each_term<'a>(
    folded: &'a str,
    stop: impl Fn(&str) -> bool,
    emit: &mut impl FnMut(Cow<'a, str>, bool),
) {
    let english = English::new();
    scan(folded, &mut |token| match token {
        Token::Word(word) | Token::Part(word) => {
            let word = without_clitic(word);
            if !stop(word) {
                emit(english.stem(word), matches!(token, Token::Word(_)));
            }
        }
        Token::Id(whole) | Token::Cjk(whole) | Token::Emoji(whole) => emit(bounded(whole), true),
    });
}

/// The word without `'s` and the other endings that English writes behind an apostrophe:
/// "I'm", "they've" and "she'll" are the pronoun, which is what the stop list knows.
pub(super) fn without_clitic(word: &str) -> &str {
    for ending in ["'s", "'m", "'re", "'ve", "'ll", "'d"] {
        if let Some(stem) = word.strip_suffix(ending) {
            return stem;
        }
    }
    word
}

#[cfg(test)]
mod tests;
