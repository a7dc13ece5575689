//! What is asked of a query: its terms, whether it is about its speaker, whether it is a question.

use std::collections::BTreeSet;

use super::analyzer::{content_token_count, each_term, without_clitic};
use super::normalize::fold;
use super::scan::{Token, scan};
use super::stopwords::{is_stop, is_stop_in_long_query};
use super::term::bounded;

/// Queries of more words than this lose the words of the longer stop list.
pub const LONG_QUERY_WORDS: usize = 20;

/// A question of at most this many content tokens hands its keyword score to the answer.
pub const SHORT_QUESTION_TOKENS: usize = 16;

/// The terms to look up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryTerms {
    /// Distinct terms in the order in which the query first has them.
    pub terms: Vec<String>,
    /// Words and ids of the query, stop words included; CJK text counts none.
    pub words: usize,
}

/// The terms of a query: as [`super::analyze`] makes them, distinct, in order; a query above
/// [`LONG_QUERY_WORDS`] words loses filler words too, unless it consists of nothing else.
///
/// Chinese words that point at the time of speaking (今天, 现在, …) end a run and are not looked up,
/// unless there is nothing else: said on another day they mean another one, and each would find
/// every memory that has it, with the bigrams across its border.
pub fn analyze_query(text: &str) -> QueryTerms {
    let folded = fold(text);
    let lasting = DEICTIC.iter().fold(folded.to_string(), |text, word| text.replace(word, " "));
    let terms = terms_of(&lasting);
    if terms.terms.is_empty() { terms_of(&folded) } else { terms }
}

/// When seen from the time of speaking.
const DEICTIC: [&str; 12] =
    ["今天", "明天", "昨天", "后天", "前天", "今晚", "昨晚", "明晚", "今早", "明早", "现在", "刚才"];

fn terms_of(folded: &str) -> QueryTerms {
    let mut words = 0;
    scan(folded, &mut |token| {
        words += usize::from(matches!(token, Token::Word(_) | Token::Id(_)));
    });
    let mut terms = Vec::new();
    if words > LONG_QUERY_WORDS {
        terms = distinct(folded, is_stop_in_long_query);
    }
    if terms.is_empty() {
        terms = distinct(folded, is_stop);
    }
    QueryTerms { terms, words }
}

fn distinct(folded: &str, stop: impl Fn(&str) -> bool) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut terms = Vec::new();
    each_term(folded, stop, &mut |term, _| {
        if seen.insert(term.clone()) {
            terms.push(term.into_owned());
        }
    });
    terms
}

/// The ids that a query names, as terms: those of the scanner, whole (`CN-A10293`, `main.rs`), and words
/// of letters and digits (`A10293`). Each begins with a letter, so that numbers, times and measures
/// (`10:30`, `500ml`, `1990s`) are none. Each once, at most [`QUERY_IDS_MAX`]. Short ones without a digit
/// (`e.g`, `p.m`) are words of prose.
pub fn query_ids(query: &str) -> Vec<String> {
    let folded = fold(query);
    let mut ids: Vec<String> = Vec::new();
    scan(&folded, &mut |token| {
        let has_digit = |text: &str| text.contains(char::is_numeric);
        let id = match token {
            Token::Id(id) if has_digit(id) || id.len() >= QUERY_ID_BYTES_MIN => id,
            Token::Word(word) if word.len() >= QUERY_ID_BYTES_MIN && has_digit(without_clitic(word)) => {
                without_clitic(word)
            }
            _ => return,
        };
        if !id.starts_with(char::is_alphabetic) {
            return;
        }
        let id = bounded(id);
        if ids.len() < QUERY_IDS_MAX && !ids.iter().any(|known| *known == *id) {
            ids.push(id.into_owned());
        }
    });
    ids
}

/// Fewest bytes of what is taken for an id without being one by its joiners and digits.
const QUERY_ID_BYTES_MIN: usize = 5;

/// Most ids that are looked for in one query.
pub const QUERY_IDS_MAX: usize = 16;

/// Whether a query speaks of the one who asks: it has I, me, my, mine or myself as a word, or 我.
pub fn names_self(query: &str) -> bool {
    let folded = fold(query);
    let mut found = false;
    scan(&folded, &mut |token| {
        found |= match token {
            Token::Word(word) => {
                let word = word.split('\'').next().unwrap_or(word);
                matches!(word, "i" | "me" | "my" | "mine" | "myself")
            }
            Token::Cjk(characters) => characters.contains('我'),
            Token::Id(_) | Token::Part(_) | Token::Emoji(_) => false,
        };
    });
    found
}

/// Whether a turn is a short question: it ends in `?` or `？` and has at most
/// [`SHORT_QUESTION_TOKENS`] content tokens. Such a turn repeats the words of what is asked, but
/// the answer stands in the turn after it.
pub fn is_short_question(text: &str) -> bool {
    let text = text.trim_end();
    (text.ends_with('?') || text.ends_with('？')) && content_token_count(text) <= SHORT_QUESTION_TOKENS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_keep_their_order_and_come_once() {
        let got = analyze_query("Sunrise paintings: did Melanie paint a sunrise?");
        assert_eq!(got.terms, ["sunris", "paint", "melani"]);
        assert_eq!(got.words, 7);
        assert_eq!(analyze_query("").terms, Vec::<String>::new());
        assert_eq!(analyze_query("CN-A10293").terms, ["cn-a10293", "cn", "a10293"]);
    }

    #[test]
    fn chinese_words_for_now_are_no_content() {
        assert_eq!(analyze_query("今天想吃微辣川菜").terms, ["想吃", "吃微", "微辣", "辣川", "川菜"]);
        assert_eq!(analyze_query("今天").terms, ["今天"], "unless there is nothing else");
        assert_eq!(analyze_query("what now, 现在?").terms, analyze_query("what now").terms);
    }

    #[test]
    fn long_queries_lose_filler() {
        let filler = "could you please tell me something about ".repeat(4);
        let got = analyze_query(&format!("{filler} the red bicycle"));
        assert_eq!(got.terms, ["red", "bicycl"]);
        // A long query of nothing but filler keeps what the short list leaves.
        assert!(!analyze_query(&filler).terms.is_empty());
        // The same words in a short query are looked up.
        assert!(analyze_query("tell something").terms.len() == 2);
    }

    #[test]
    fn self_is_a_word_not_a_letter() {
        for query in ["What do I like?", "my dog", "tell me", "I'm lost", "I’ve", "我喜欢什么"] {
            assert!(names_self(query), "{query}");
        }
        for query in ["What does Mia like?", "", "iPhone", "mystery", "他喜欢什么", "i-95 exit"] {
            assert!(!names_self(query), "{query}");
        }
    }

    #[test]
    fn ids_are_found_whole() {
        assert_eq!(query_ids("订单CN-A10293到哪了？ and cn-a10293, PR#77"), ["cn-a10293", "pr#77"]);
        assert_eq!(query_ids("A10293's in main.rs, D1:3"), ["a10293", "main.rs", "d1:3"]);
        let long = format!("https://a.io/{}", "x".repeat(500));
        assert!(super::super::analyze(&long).terms.iter().any(|(term, _)| *term == query_ids(&long)[0]));
        for text in [
            "",
            "tea",
            "wait...what",
            "绿茶",
            "well-known state-of-the-art",
            "🙂",
            "e.g. 5 p.m.",
            "2023",
            "3.5",
            "10:30",
            "24/7",
            "the 1990s",
            "500ml",
            "2023-05-08",
        ] {
            assert_eq!(query_ids(text), Vec::<String>::new(), "{text}");
        }
        let many: String = (0..100).map(|n| format!("A-{n} ")).collect();
        assert_eq!(query_ids(&many).len(), QUERY_IDS_MAX);
    }

    #[test]
    fn short_questions() {
        assert!(is_short_question("How are you? \n"));
        assert!(is_short_question("你好吗？"));
        assert!(is_short_question("?"));
        assert!(!is_short_question("Is it? Yes."));
        assert!(!is_short_question(""));
        let long = format!("{}?", "word ".repeat(SHORT_QUESTION_TOKENS + 1));
        assert!(!is_short_question(&long));
        let exact = format!("{}?", "word ".repeat(SHORT_QUESTION_TOKENS));
        assert!(is_short_question(&exact));
    }
}
