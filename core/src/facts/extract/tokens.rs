//! Words and characters that patterns are matched against.

use crate::text::chars::is_cjk;

/// A word, a CJK character or a mark of punctuation, with its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// In lower case.
    pub(super) low: String,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Whether it has an upper-case letter.
    pub(super) capital: bool,
    /// Whether it is a part of a name by that: in a sentence with small letters, behind its first
    /// word. Such a word does not do in the sentence what it does elsewhere: "This Is Us was written
    /// in New York".
    pub(super) titled: bool,
}

/// Endings that English writes onto the word before them.
const CLITICS: [&str; 6] = ["'m", "'re", "'ve", "'ll", "'d", "'s"];

/// Cuts a text, which must be in its normal form, into tokens: words of any script (with the joiners
/// inside of them), single CJK characters, single marks. `don't` is `do` and `n't`, `I'm` is `i` and
/// `'m`.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        if c.is_whitespace() {
            continue;
        }
        let mut end = start + c.len_utf8();
        // An ending by itself, as patterns write it.
        if let Some(clitic) = CLITICS.iter().find(|clitic| stands_alone(&text[start..], clitic)) {
            end = start + clitic.len();
            while chars.peek().is_some_and(|(at, _)| *at < end) {
                chars.next();
            }
        } else if is_word(c) {
            while let Some((at, next)) = chars.peek().copied() {
                let joins =
                    is_joiner(next) && text[at + next.len_utf8()..].chars().next().is_some_and(is_word);
                if !is_word(next) && !joins {
                    break;
                }
                end = at + next.len_utf8();
                chars.next();
            }
        }
        push(&mut tokens, text, start, end);
    }
    tokens
}

fn push(tokens: &mut Vec<Token>, text: &str, start: usize, end: usize) {
    let capital = text[start..end].contains(char::is_uppercase);
    let low = text[start..end].to_lowercase().replace(['\u{2019}', '\u{2018}'], "'");
    let token =
        |low: &str, start, end, capital| Token { low: low.to_owned(), start, end, capital, titled: false };
    let cut = CLITICS.iter().find_map(|clitic| low.strip_suffix(clitic)).or_else(|| low.strip_suffix("n't"));
    // Lower case may be longer than the text it was made of; then the word stays whole.
    match cut.filter(|stem| {
        !stem.is_empty() && text.is_char_boundary(start + stem.len()) && start + stem.len() < end
    }) {
        Some(stem) => {
            let middle = start + stem.len();
            tokens.push(token(
                if stem == "ca" {
                    "can"
                } else if stem == "wo" {
                    "will"
                } else {
                    stem
                },
                start,
                middle,
                capital,
            ));
            tokens.push(token(&low[stem.len()..], middle, end, false));
        }
        None => tokens.push(token(&low, start, end, capital)),
    }
}

fn stands_alone(text: &str, clitic: &str) -> bool {
    let rest = text.strip_prefix(clitic);
    rest.is_some_and(|rest| !rest.chars().next().is_some_and(is_word))
}

fn is_word(c: char) -> bool {
    !is_cjk(c) && (c.is_alphanumeric() || matches!(c, '+' | '#' | '@' | '$' | '€' | '£' | '%' | '&'))
}

fn is_joiner(c: char) -> bool {
    matches!(c, '\'' | '\u{2019}' | '-' | '.' | '_' | '/' | ':' | ',')
}

/// Whether a token is punctuation.
pub(super) fn is_mark(token: &Token) -> bool {
    !token.low.chars().any(|c| c.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn low(text: &str) -> Vec<String> {
        tokens(text).into_iter().map(|token| token.low).collect()
    }

    #[test]
    fn words_characters_and_marks() {
        assert_eq!(
            low("I'm in Zürich, 我住北京."),
            ["i", "'m", "in", "zürich", ",", "我", "住", "北", "京", "."]
        );
        assert_eq!(low("I don’t, can't, won't"), ["i", "do", "n't", ",", "can", "n't", ",", "will", "n't"]);
        assert_eq!(low("at 7:30 for $3.50 C++"), ["at", "7:30", "for", "$3.50", "c++"]);
        assert_eq!(low("my sister's cat"), ["my", "sister", "'s", "cat"]);
        assert_eq!(low("('m|'s) 're"), ["(", "'m", "|", "'s", ")", "'re"]);
        assert!(low("").is_empty());
    }

    #[test]
    fn places_are_those_of_the_text() {
        let text = "Ich heiße İpek und wohne in 北京";
        for token in tokens(text) {
            assert!(text.get(token.start..token.end).is_some());
        }
    }
}
