//! The classes of characters that the scanner tells apart.

use unicode_normalization::char::is_combining_mark;
use unicode_properties::UnicodeEmoji;

/// What a character can be part of. See [`super::scan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A letter, digit or mark of a script that puts spaces between words.
    Word,
    /// One of `- _ . : / @ # '`: inside a run of `Word` it joins, at its edge it is punctuation.
    Joiner,
    /// A character of Chinese, Japanese or Korean text.
    Cjk,
    /// An emoji or pictograph.
    Emoji,
    /// Extends the grapheme before it: combining mark, joiner, tag.
    Extend,
    /// White space, punctuation, anything else.
    Other,
}

/// The class of a folded character.
pub(super) fn class(c: char) -> Class {
    if c.is_ascii() {
        return match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' => Class::Word,
            '-' | '_' | '.' | ':' | '/' | '@' | '#' | '\'' => Class::Joiner,
            _ => Class::Other,
        };
    }
    if matches!(c, '\u{4E00}'..='\u{9FFF}') || is_cjk(c) {
        return Class::Cjk;
    }
    if c == '\u{200C}' || c == '\u{200D}' || c == '\u{20E3}' || is_combining_mark(c) {
        return Class::Extend;
    }
    match c {
        // Flags of regions are spelled with tag characters after a black flag.
        '\u{E0020}'..='\u{E007F}' => Class::Extend,
        _ if c.is_emoji_char() => Class::Emoji,
        _ if c.is_alphanumeric() => Class::Word,
        _ => Class::Other,
    }
}

/// Han, Hiragana, Katakana, Hangul and the marks that are written among them.
pub(crate) fn is_cjk(c: char) -> bool {
    matches!(u32::from(c),
        0x1100..=0x11FF          // Hangul Jamo
        | 0x3005..=0x3007        // iteration mark, closing mark, ideographic zero
        | 0x3041..=0x3096        // Hiragana
        | 0x309D..=0x309F
        | 0x30A1..=0x30FA        // Katakana, without the middle dot U+30FB
        | 0x30FC..=0x30FF        // the long vowel mark included
        | 0x3105..=0x312F        // Bopomofo
        | 0x3131..=0x318E        // Hangul compatibility Jamo
        | 0x31A0..=0x31BF
        | 0x31F0..=0x31FF        // Katakana phonetic extensions
        | 0x3400..=0x4DBF        // Han, extension A
        | 0x4E00..=0x9FFF        // Han
        | 0xA960..=0xA97C        // Hangul Jamo, extended A
        | 0xAC00..=0xD7A3        // Hangul syllables
        | 0xD7B0..=0xD7FB
        | 0xF900..=0xFAFF        // Han, compatibility
        | 0x1B000..=0x1B16F      // Kana supplements
        | 0x20000..=0x323AF) // Han, extensions B and later
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_its_characters() {
        for c in ['a', '9', 'é', 'я', 'ن', 'ก', '½'] {
            assert_eq!(class(c), Class::Word, "{c:?}");
        }
        for c in ['漢', 'ひ', 'カ', 'ー', '한', '々', '𠮷'] {
            assert_eq!(class(c), Class::Cjk, "{c:?}");
        }
        for c in ['😀', '❤', '🇫', '☕', '👩'] {
            assert_eq!(class(c), Class::Emoji, "{c:?}");
        }
        for c in ['\u{301}', '\u{200D}', '\u{94D}'] {
            assert_eq!(class(c), Class::Extend, "{c:?}");
        }
        for c in [' ', '。', '、', '・', '？', '!', '"', '\u{0}', '«'] {
            assert_eq!(class(c), Class::Other, "{c:?}");
        }
    }
}
