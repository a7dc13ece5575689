//! The scanner: cuts folded text into words, ids, CJK bigrams and emoji.
//!
//! One pass by character class finds maximal runs; inside a run of word characters the word
//! boundaries are those of UAX #29 (`unicode-segmentation`). Ids come out whole *and* in parts:
//! `CN-A10293` gives `cn-a10293`, then `cn` and `a10293`. The whole is rare, so it decides; the
//! parts let someone who remembers only the number, or writes `covid` for `covid-19`, find it too.

use unicode_segmentation::UnicodeSegmentation;

use super::chars::{Class, class};

/// What the scanner found, in the order of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// An ordinary word, to be checked against the stop words and stemmed.
    Word(&'a str),
    /// An id, number with joiners, address or file name: one term, unstemmed.
    Id(&'a str),
    /// A word inside the id just emitted.
    Part(&'a str),
    /// Two neighbouring CJK characters, or one that stands alone.
    Cjk(&'a str),
    /// An emoji, one whole grapheme.
    Emoji(&'a str),
}

/// Emits the tokens of `text`, which must be folded ([`super::normalize::fold`]).
pub(super) fn scan<'a>(text: &'a str, emit: &mut impl FnMut(Token<'a>)) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match class(first) {
            Class::Word | Class::Joiner => {
                let end = run_end(rest, |k| matches!(k, Class::Word | Class::Joiner | Class::Extend));
                let run = &rest[..end];
                // Most are this: no joiner to cut at, and one word by UAX #29 (rules WB5 and WB8 to WB10).
                if run.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                    emit(Token::Word(run));
                } else {
                    split_run(run, emit);
                }
                end
            }
            Class::Cjk => {
                let end = run_end(rest, |k| k == Class::Cjk);
                bigrams(&rest[..end], emit);
                end
            }
            Class::Emoji => {
                let end = run_end(rest, |k| matches!(k, Class::Emoji | Class::Extend));
                for grapheme in rest[..end].graphemes(true) {
                    emit(Token::Emoji(grapheme));
                }
                end
            }
            Class::Extend | Class::Other => first.len_utf8(),
        };
        rest = &rest[end..];
    }
}

/// The byte length of the longest prefix whose characters all satisfy `inside`.
fn run_end(text: &str, inside: impl Fn(Class) -> bool) -> usize {
    text.char_indices().find(|&(_, c)| !inside(class(c))).map_or(text.len(), |(at, _)| at)
}

fn bigrams<'a>(run: &'a str, emit: &mut impl FnMut(Token<'a>)) {
    let starts = run.char_indices().map(|(at, _)| at);
    let ends = run.char_indices().map(|(at, c)| at + c.len_utf8()).skip(1);
    let mut any = false;
    for (start, end) in starts.zip(ends) {
        any = true;
        emit(Token::Cjk(&run[start..end]));
    }
    if !any {
        emit(Token::Cjk(run));
    }
}

/// Cuts a run of word characters and joiners where two joiners meet (`wait...what`, `a--b`),
/// except at `://`.
fn split_run<'a>(run: &'a str, emit: &mut impl FnMut(Token<'a>)) {
    let bytes = run.as_bytes();
    let (mut start, mut at) = (0, 0);
    while at < bytes.len() {
        let width = joiners_at(bytes, at);
        if width == 3 && &bytes[at..at + 3] == b"://" {
            at += 3;
        } else if width >= 2 {
            piece(&run[start..at], emit);
            at += width;
            start = at;
        } else {
            at += 1;
        }
    }
    piece(&run[start..], emit);
}

/// How many joiners (all ASCII) follow each other from byte `at` on.
fn joiners_at(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().take_while(|&&b| b.is_ascii() && class(char::from(b)) == Class::Joiner).count()
}

fn piece<'a>(piece: &'a str, emit: &mut impl FnMut(Token<'a>)) {
    let trimmed = piece
        .trim_start_matches(|c| matches!(class(c), Class::Joiner | Class::Extend))
        .trim_end_matches(|c| class(c) == Class::Joiner);
    let id = is_id(trimmed);
    if id {
        emit(Token::Id(trimmed));
    }
    for part in trimmed.split(is_connector) {
        for word in part.unicode_words() {
            emit(if id { Token::Part(word) } else { Token::Word(word) });
        }
    }
}

/// A joiner that builds ids. The apostrophe builds only words.
fn is_connector(c: char) -> bool {
    c != '\'' && class(c) == Class::Joiner
}

/// Whether a piece with connectors is an id rather than words that happen to be joined:
/// it has a digit (`D1:3`, `2023-05-08`, `v1.2.3`), or a mark that prose does not put between
/// words (`jane@example.com`, `file_names`, `main.rs`, `https://…`). `well-known`, `and/or` are
/// words.
fn is_id(piece: &str) -> bool {
    let connected = piece.contains(is_connector);
    connected && piece.contains(|c: char| matches!(c, '@' | '_' | '.') || c.is_numeric())
        || piece.contains("://")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::normalize::fold;
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let folded = fold(text);
        let mut out = Vec::new();
        scan(&folded, &mut |t| {
            out.push(match t {
                Token::Word(w) => format!("w {w}"),
                Token::Id(w) => format!("id {w}"),
                Token::Part(w) => format!("part {w}"),
                Token::Cjk(w) => format!("cjk {w}"),
                Token::Emoji(w) => format!("emoji {w}"),
            });
        });
        out
    }

    #[test]
    fn ids_stay_whole_and_give_their_parts() {
        assert_eq!(tokens("(CN-A10293)"), ["id cn-a10293", "part cn", "part a10293"]);
        assert_eq!(tokens("D1:3."), ["id d1:3", "part d1", "part 3"]);
        assert_eq!(tokens("v1.2.3!"), ["id v1.2.3", "part v1", "part 2", "part 3"]);
        assert_eq!(
            tokens("<jane@example.com>"),
            ["id jane@example.com", "part jane", "part example", "part com"]
        );
        assert_eq!(tokens("my_file.rs"), ["id my_file.rs", "part my", "part file", "part rs"]);
        assert_eq!(tokens("https://a.io/x")[0], "id https://a.io/x");
        assert_eq!(tokens("A10293"), ["w a10293"]);
        assert_eq!(
            tokens("订单CN-A10293已发货"),
            ["cjk 订单", "id cn-a10293", "part cn", "part a10293", "cjk 已发", "cjk 发货"]
        );
    }

    #[test]
    fn prose_is_cut_at_joiners() {
        assert_eq!(tokens("well-known and/or"), ["w well", "w known", "w and", "w or"]);
        assert_eq!(tokens("wait...what?! --no--"), ["w wait", "w what", "w no"]);
        assert_eq!(tokens("#hashtag @name 'quoted'"), ["w hashtag", "w name", "w quoted"]);
        assert_eq!(tokens("Don’t ... '"), ["w don't"]);
    }

    #[test]
    fn cjk_runs_become_bigrams() {
        assert_eq!(tokens("我喜欢"), ["cjk 我喜", "cjk 喜欢"]);
        assert_eq!(tokens("我。他们"), ["cjk 我", "cjk 他们"]);
        assert_eq!(tokens("ｺｰﾋｰ"), ["cjk コー", "cjk ーヒ", "cjk ヒー"]);
        assert_eq!(tokens("한국어 책"), ["cjk 한국", "cjk 국어", "cjk 책"]);
    }

    #[test]
    fn emoji_are_graphemes() {
        assert_eq!(tokens("ok👍🏽🎉"), ["w ok", "emoji 👍", "emoji 🎉"]);
        assert_eq!(tokens("👨‍👩‍👧 🇫🇷🇩🇪"), ["emoji 👨‍👩‍👧", "emoji 🇫🇷", "emoji 🇩🇪"]);
        assert_eq!(tokens("❤️ ❤"), ["emoji ❤", "emoji ❤"]);
    }

    #[test]
    fn nothing_comes_of_nothing() {
        for text in ["", " ", "...", "-_-", "''", "://", "\u{301}\u{301}", "。！？"] {
            assert_eq!(tokens(text), Vec::<String>::new(), "{text:?}");
        }
    }
}
