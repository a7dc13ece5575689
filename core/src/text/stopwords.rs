//! The English words that carry no content.

/// Never indexed and never looked up. Deliberately short: a longer list costs recall on short
/// turns, where "not", "no" or "after" may be all that tells two apart. Sorted.
const SHORT: [&str; 44] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "did", "do", "does", "for", "from", "had", "has",
    "have", "he", "her", "his", "i", "in", "is", "it", "me", "my", "of", "on", "or", "she", "that", "the",
    "their", "they", "this", "to", "was", "we", "were", "what", "when", "with", "you", "your",
];

/// Dropped from queries above [`super::LONG_QUERY_WORDS`] words besides the short list: a long
/// question has enough content words, and its filler would outvote them. Sorted.
const LONG: [&str; 94] = [
    "about",
    "after",
    "again",
    "all",
    "also",
    "am",
    "any",
    "anything",
    "because",
    "been",
    "before",
    "being",
    "can",
    "could",
    "doing",
    "each",
    "even",
    "ever",
    "few",
    "give",
    "going",
    "got",
    "help",
    "here",
    "hers",
    "him",
    "how",
    "if",
    "into",
    "its",
    "just",
    "kind",
    "know",
    "let",
    "like",
    "made",
    "make",
    "many",
    "may",
    "might",
    "more",
    "most",
    "much",
    "must",
    "need",
    "no",
    "not",
    "now",
    "off",
    "one",
    "only",
    "other",
    "our",
    "out",
    "over",
    "own",
    "please",
    "really",
    "said",
    "same",
    "say",
    "shall",
    "should",
    "so",
    "some",
    "something",
    "still",
    "such",
    "tell",
    "than",
    "them",
    "then",
    "there",
    "these",
    "thing",
    "things",
    "think",
    "those",
    "too",
    "two",
    "until",
    "up",
    "us",
    "very",
    "want",
    "way",
    "which",
    "while",
    "who",
    "whom",
    "why",
    "will",
    "would",
    "yet",
];

/// The longest word of the short list, in bytes.
const SHORT_BYTES_MAX: usize = 5;

/// Whether a folded, unstemmed word is on the short list.
pub(super) fn is_stop(word: &str) -> bool {
    word.len() <= SHORT_BYTES_MAX && SHORT.binary_search(&word).is_ok()
}

/// Whether it is on either list.
pub(super) fn is_stop_in_long_query(word: &str) -> bool {
    is_stop(word) || LONG.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_disjoint() {
        assert!(SHORT.is_sorted() && LONG.is_sorted());
        assert!(SHORT.iter().all(|word| word.len() <= SHORT_BYTES_MAX && is_stop(word)));
        assert!(LONG.iter().all(|w| !is_stop(w)));
        assert!(is_stop("the") && !is_stop("not") && is_stop_in_long_query("not"));
    }
}
