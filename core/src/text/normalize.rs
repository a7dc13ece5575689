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
    each_nfkc(text, |c| {
        if c.is_whitespace() {
            gap = !out.is_empty();
            return;
        }
        if gap {
            out.push(' ');
            gap = false;
        }
        out.push(c);
    });
    out
}

/// Emits the characters of a text's NFKC form.
///
/// A plain character has a form of its own that does not depend on what is before it (UAX #15, section
/// 9.1: a starter whose form is one that cannot join with what precedes). So a text is normalised
/// piecewise, each piece a character and all behind it that is not plain: most are one character.
fn each_nfkc(text: &str, mut emit: impl FnMut(char)) {
    let mut chars = text.char_indices().map(|(at, c)| (at, plain(c)));
    let mut next = chars.next();
    while let Some((start, form)) = next {
        next = chars.next();
        match (form, next) {
            (Some(form), None | Some((_, Some(_)))) => emit(form),
            _ => {
                while matches!(next, Some((_, None))) {
                    next = chars.next();
                }
                let end = next.map_or(text.len(), |(at, _)| at);
                text[start..end].nfkc().for_each(&mut emit);
            }
        }
    }
}

/// The NFKC form of a plain character, `None` for one that is not. Plain is what everyday text is made of:
/// ASCII, the letters of Latin-1, quotes and dashes, CJK punctuation, Kana, Han, Hangul, and ASCII in
/// full width.
fn plain(c: char) -> Option<char> {
    match c {
        '\0'..='\u{7F}' | '\u{4E00}'..='\u{9FFF}' => Some(c),
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(c) - 0xFEE0),
        '\u{3000}' => Some(' '),
        '\u{3001}'..='\u{3029}'
        | '\u{3030}'..='\u{3035}'
        | '\u{3041}'..='\u{3096}'
        | '\u{30A1}'..='\u{30FE}'
        | '\u{AC00}'..='\u{D7A3}'
        | '\u{C0}'..='\u{FF}'
        | '\u{2012}'..='\u{2016}'
        | '\u{2018}'..='\u{201F}' => Some(c),
        _ => None,
    }
}

/// The folded form: NFKC, lower case, one kind of apostrophe and hyphen, invisible characters gone.
///
/// White space is kept as it is (the scanner skips it). Removed are the characters that change
/// how a word looks to a program but not to a reader: soft hyphen, word joiner, byte order mark
/// and variation selectors; skin tones go too, so that one gesture is one term.
pub(crate) fn fold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    each_nfkc(text, |c| match c {
        // ASCII first: most text is, and `to_lowercase` looks each character up in a table, which has
        // nothing for Han.
        _ if c.is_ascii() => out.push(c.to_ascii_lowercase()),
        '\u{4E00}'..='\u{9FFF}' => out.push(c),
        '\u{AD}' | '\u{2060}' | '\u{FEFF}' => {}
        '\u{FE00}'..='\u{FE0F}' | '\u{1F3FB}'..='\u{1F3FF}' => {}
        '\u{2018}' | '\u{2019}' | '\u{2BC}' => out.push('\''),
        '\u{2010}'..='\u{2012}' | '\u{2212}' => out.push('-'),
        _ => out.extend(c.to_lowercase()),
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unicode_normalization::char::canonical_combining_class;
    use unicode_normalization::{IsNormalized, is_nfkc_quick};

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

    #[test]
    fn plain_characters_have_forms_that_nothing_before_them_changes() {
        for c in (0..=0x10_FFFF).filter_map(char::from_u32) {
            let Some(form) = plain(c) else { continue };
            assert!([c].into_iter().nfkc().eq([form]), "{c:?}");
            assert_eq!(is_nfkc_quick([form].into_iter()), IsNormalized::Yes, "{c:?}");
            assert_eq!(canonical_combining_class(form), 0, "{c:?}");
        }
    }

    proptest! {
        #[test]
        fn the_form_by_pieces_is_that_of_the_whole(
            text in "\\PC{0,60}|[ a-cé中，。ａ\u{3000}가ᄀ\u{1161}\u{11A8}각かﾞ\u{3099}\u{302A}\u{301}\u{327}İǅ’…\u{1F3FD}👍]{0,40}",
        ) {
            let mut pieces = String::new();
            each_nfkc(&text, |c| pieces.push(c));
            prop_assert_eq!(pieces, text.nfkc().collect::<String>());
        }

        #[test]
        fn normal_form_is_a_fixed_point(text in "\\PC{0,60}|[ \\t\\n\u{a0}a\u{301}가각ｶﾞ\u{AD}]{0,40}") {
            let once = normalize(&text);
            prop_assert_eq!(&normalize(&once), &once);
        }
    }
}
