//! The normal form of a text, and the folded form that the analyzer scans.

use unicode_normalization::UnicodeNormalization;

/// The form whose hash finds exact duplicates: NFKC, trimmed, every run of white space one space.
///
/// Case is kept: "polish" and "Polish" are two statements. The result is a fixed point:
/// `normalize(normalize(t)) == normalize(t)`.
///
/// ```
/// use holdfast_core::text::normalize;
/// assert_eq!(normalize("  Ｈｅｌｌｏ \t\n world "), "Hello world");
/// ```
pub fn normalize(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut gap = false;
    for c in text.nfkc() {
        if c.is_whitespace() {
            gap = !out.is_empty();
            continue;
        }
        if gap {
            out.push(' ');
            gap = false;
        }
        out.push(c);
    }
    out
}

/// The folded form: NFKC, lower case, one kind of apostrophe and hyphen, invisible characters gone.
///
/// White space is kept as it is (the scanner skips it). Removed are the characters that change
/// how a word looks to a program but not to a reader: soft hyphen, word joiner, byte order mark
/// and variation selectors; skin tones go too, so that one gesture is one term.
pub(crate) fn fold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.nfkc() {
        match c {
            '\u{AD}' | '\u{2060}' | '\u{FEFF}' => {}
            '\u{FE00}'..='\u{FE0F}' | '\u{1F3FB}'..='\u{1F3FF}' => {}
            '\u{2018}' | '\u{2019}' | '\u{2BC}' => out.push('\''),
            '\u{2010}'..='\u{2012}' | '\u{2212}' => out.push('-'),
            // ASCII first: most text is, and `to_lowercase` looks each character up in a table.
            _ if c.is_ascii() => out.push(c.to_ascii_lowercase()),
            _ => out.extend(c.to_lowercase()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spaces_of_all_kinds_collapse_and_case_stays() {
        assert_eq!(normalize("\u{3000}Ａ\u{a0}\u{2003}b\r\n\tC\u{2028}"), "A b C");
        assert_eq!(normalize(""), "");
        assert_eq!(normalize(" \t\n"), "");
        assert_ne!(normalize("Polish"), normalize("polish"));
    }

    #[test]
    fn composed_and_decomposed_are_one() {
        assert_eq!(normalize("cafe\u{301}"), normalize("café"));
        // Half-width Katakana with a separate voicing mark.
        assert_eq!(normalize("ｶﾞｽ"), "ガス");
    }

    #[test]
    fn fold_unifies_apostrophes_and_hidden_characters() {
        assert_eq!(fold("It’s RE\u{AD}SET ❤\u{FE0F} 👍\u{1F3FD}"), "it's reset ❤ 👍");
    }

    proptest! {
        #[test]
        fn normal_form_is_a_fixed_point(text in "\\PC{0,60}|[ \\t\\n\u{a0}a\u{301}가각ｶﾞ\u{AD}]{0,40}") {
            let once = normalize(&text);
            prop_assert_eq!(&normalize(&once), &once);
        }
    }
}
