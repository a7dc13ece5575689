#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::super::TERM_BYTES_MAX;
use super::*;

fn words(text: &str) -> Vec<String> {
    analyze(text).terms.iter().map(|(t, _)| t.to_owned()).collect()
}

#[test]
fn counts_are_kept_and_sorted() {
    let got = analyze("Paint, painting; PAINTED the sunrise");
    assert!(got.terms.iter().eq([("paint", 3), ("sunris", 1)]));
    assert_eq!(got.len, 4);
}

#[test]
fn possessives_and_contractions_fall_on_their_word() {
    assert_eq!(words("Caroline's"), words("caroline"));
    assert_eq!(words("Caroline’s"), words("caroline"));
    assert_eq!(words("I'm I’ve it's"), Vec::<String>::new());
}

#[test]
fn hyphenated_words_split_and_ids_do_not() {
    assert_eq!(words("well-known"), ["known", "well"]);
    assert!(words("order 2024-0042-17").contains(&"2024-0042-17".into()));
    assert_eq!(content_token_count("CN-A10293 shipped"), 2);
}

#[test]
fn mixed_scripts() {
    assert_eq!(words("我爱NY😀"), ["ny", "我爱", "😀"]);
    assert_eq!(words("ＡＢＣ１２３"), words("abc123"));
    assert_eq!(words("Größe STRASSE"), ["größe", "strass"]);
    assert_eq!(words("हिन्दी में"), ["में", "हिन्दी"]);
}

#[test]
fn odd_texts_have_no_terms() {
    for text in ["", " \t\r\n", "!!!", "the of and", "\u{200D}\u{FE0F}", "\u{0}", "。、"] {
        assert_eq!(analyze(text), Terms::default(), "{text:?}");
    }
}

/// 64 KiB of anything must not be worse than linear: the limit of a content, times a margin that
/// a quadratic scan (4 billion steps) would break by far.
#[test]
fn the_largest_content_is_quick_whatever_it_is() {
    const LIMIT: usize = 64 * 1024;
    let units = [
        "a",
        "1-",
        "a.1_",
        "'",
        "a'",
        "https://",
        "😀",
        "👩\u{200D}",
        "🇫",
        "\u{301}",
        "a\u{301}",
        "漢",
        "ก",
        "\u{FDFA}",
        "\u{1100}",
        "\u{200D}",
        "word ",
        "x/y:z@",
        "\u{315}\u{300}",
        "ᄀ한",
    ];
    for unit in units {
        let text: String = unit.repeat(LIMIT / unit.len());
        // Were it not linear, this would not end within the time that a test may take.
        let terms = analyze(&text);
        assert!(terms.terms.iter().all(|(t, _)| t.len() <= TERM_BYTES_MAX), "{unit:?}");
    }
}

proptest! {
    #[test]
    fn terms_are_sorted_bounded_and_repeatable(
        text in "\\PC{0,80}|[a-z0-9'_.:/@# 我你\u{301}\u{200D}😀-]{0,80}",
    ) {
        let got = analyze(&text);
        prop_assert!(got.terms.iter().is_sorted_by(|one, next| one.0 < next.0));
        let in_bounds = |t: &str, n: u32| !t.is_empty() && t.len() <= TERM_BYTES_MAX && n > 0;
        prop_assert!(got.terms.iter().all(|(t, n)| in_bounds(t, n)));
        prop_assert_eq!(got.terms.iter().map(|(_, n)| n).sum::<u32>(), got.len);
        prop_assert!(content_token_count(&text) <= got.len as usize);
        prop_assert_eq!(&analyze(&text), &got);
        // What is indexed does not depend on whether the text was put in normal form first.
        prop_assert_eq!(&analyze(&super::super::normalize(&text)), &got);
    }
}
