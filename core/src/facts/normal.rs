//! The normal forms of subjects, predicates and objects: two that mean the same to a reader are the
//! same bytes to apply.

use crate::text::chars::is_cjk;
use crate::text::normalize::fold;

/// Whom the one who speaks is called where no name is given.
pub const USER: &str = "user";

/// Words by which speakers name themselves, folded. Sorted.
const SELF: [&str; 18] = [
    "i",
    "i'm",
    "me",
    "mine",
    "my",
    "myself",
    "the user",
    "user",
    "we",
    "俺",
    "偶",
    "咱",
    "我",
    "我们",
    "我自己",
    "本人",
    "用户",
    "自己",
];

/// Speakers that are roles of the human side, not names.
const HUMAN_ROLES: [&str; 5] = ["customer", "human", "user", "客户", "用户"];

/// Folded (compatibility forms, width, case), every run of white space one space, without
/// punctuation at either end.
pub fn plain(text: &str) -> String {
    let folded = fold(text);
    let words: Vec<&str> = folded.split_whitespace().collect();
    words.join(" ").trim_matches(is_edge).to_owned()
}

/// [`plain`] without an article in front: the normal form of names and objects.
pub fn name(text: &str) -> String {
    let plain = plain(text);
    let bare = ["the ", "a ", "an "].iter().find_map(|article| plain.strip_prefix(article));
    // What was behind the article may begin with quotes of its own.
    match bare.map(|bare| bare.trim_start_matches(is_edge)) {
        Some(bare) if !bare.is_empty() => bare.to_owned(),
        _ => plain,
    }
}

/// What the speaker is called: by name, or `user`.
pub fn speaker(speaker: Option<&str>) -> String {
    let named = speaker.map(name).filter(|name| !name.is_empty());
    named.filter(|name| !HUMAN_ROLES.contains(&name.as_str())).unwrap_or_else(|| USER.to_owned())
}

/// The normal form of a subject as `who` says it: `I` is `who`, `my sister` is the sister of `who`.
pub fn subject(text: &str, who: Option<&str>) -> String {
    let plain = plain(text);
    if SELF.binary_search(&plain.as_str()).is_ok() {
        return speaker(who);
    }
    let mine = ["my ", "our ", "我的", "我们的", "咱们的"].iter().find_map(|mine| plain.strip_prefix(mine));
    match mine.map(str::trim_start) {
        Some(rest) if !rest.is_empty() => format!("{}'s {rest}", speaker(who)),
        _ => possessive(&name(text)),
    }
}

/// The normal form of a predicate before aliases: words by single spaces, whatever joined them.
pub fn predicate(text: &str) -> String {
    plain(&text.replace(['_', '-'], " "))
}

/// `小明的妹妹` and `小明's 妹妹` are one.
fn possessive(name: &str) -> String {
    match name.split_once('的') {
        Some((owner, thing)) if !owner.is_empty() && !thing.is_empty() => format!("{owner}'s {thing}"),
        _ => name.to_owned(),
    }
}

/// Whether a text is written in Chinese characters, mostly.
pub fn is_chinese(text: &str) -> bool {
    let (mut cjk, mut letters) = (0u32, 0u32);
    for c in text.chars() {
        cjk += u32::from(is_cjk(c));
        letters += u32::from(c.is_alphabetic() && !is_cjk(c));
    }
    // A Chinese character says about as much as three letters.
    cjk > 0 && cjk.saturating_mul(3) >= letters
}

/// Punctuation, quotes and symbols that stand around a name, not in it.
fn is_edge(c: char) -> bool {
    c.is_whitespace()
        || c.is_ascii_punctuation() && !matches!(c, '+' | '#' | '%' | '$' | '&' | '@')
        || matches!(
            c,
            '。' | '，'
                | '、'
                | '；'
                | '：'
                | '？'
                | '！'
                | '…'
                | '～'
                | '“'
                | '”'
                | '‘'
                | '’'
                | '「'
                | '」'
        )
        || matches!(c, '『' | '』' | '《' | '》' | '〈' | '〉' | '（' | '）' | '【' | '】' | '·' | '—')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_are_sorted() {
        assert!(SELF.is_sorted());
        assert!(HUMAN_ROLES.is_sorted());
    }

    #[test]
    fn names_are_one_in_every_dress() {
        for text in ["The  Hague", "the hague", "Ｔｈｅ Hague.", " \"The Hague\" ", "THE HAGUE!"] {
            assert_eq!(name(text), "hague", "{text}");
        }
        assert_eq!(name("《三体》。"), "三体");
        assert_eq!(name("C++"), "c++");
        assert_eq!(name("the"), "the");
        assert_eq!(name("…"), "");
    }

    #[test]
    fn those_who_speak_of_themselves_are_found() {
        for text in ["I", "me", "User", "the user", "我", "本人", "用户"] {
            assert_eq!(subject(text, None), "user", "{text}");
            assert_eq!(subject(text, Some("user")), "user", "{text}");
            assert_eq!(subject(text, Some("Caroline")), "caroline", "{text}");
        }
        assert_eq!(subject("My sister Anna", None), "user's sister anna");
        assert_eq!(subject("我的妹妹", Some("小明")), "小明's 妹妹");
        assert_eq!(subject("小明的妹妹", None), "小明's 妹妹");
        assert_ne!(subject("Anna", None), subject("my sister Anna", None));
    }

    #[test]
    fn predicates_are_words() {
        assert_eq!(predicate("Lives_In"), "lives in");
        assert_eq!(predicate("lives-in"), "lives in");
    }

    #[test]
    fn languages_are_told_apart() {
        assert!(is_chinese("我住在Berlin"));
        assert!(!is_chinese("I live in 北京 for the whole of this year"));
        assert!(!is_chinese(""));
    }

    #[test]
    fn quotes_behind_an_article_are_edges_too() {
        assert_eq!(name("A 'Green' Tea"), "green' tea");
        assert_eq!(name("the \"茶\""), "茶");
        assert_eq!(name("a '"), "a");
    }

    proptest! {
        #[test]
        fn normal_forms_are_fixed_points_without_nul(text in "\\PC{0,40}") {
            for form in [plain(&text), name(&plain(&text))] {
                prop_assert_eq!(&plain(&form), &form);
                prop_assert!(!form.contains('\0'));
            }
        }
    }
}
