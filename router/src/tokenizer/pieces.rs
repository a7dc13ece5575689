//! Cuts a text into the pieces that o200k_base encodes one by one.
//!
//! The encoding is defined with a regular expression (`O200K_BASE_PAT_STR` of tiktoken). Matching it
//! took two thirds of the time of a count, so this is the same automaton by hand; a property test holds
//! the two together. Classes of characters come from `regex-syntax`, which the expression is read by
//! too, so that both know the same version of Unicode.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, HirKind};
use std::sync::LazyLock;

/// What the expression tells characters apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    /// None of the others.
    Other,
    /// `\p{Lu}` and `\p{Lt}`.
    Upper,
    /// `\p{Ll}`.
    Lower,
    /// `\p{Lm}` and `\p{Lo}`: letters without case, such as those of Chinese.
    Caseless,
    /// `\p{M}`.
    Mark,
    /// `\p{N}`.
    Number,
    /// `\s` but for line ends.
    Space,
    /// `\r` and `\n`.
    LineEnd,
}

impl Kind {
    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`.
    fn may_begin_word(self) -> bool {
        matches!(self, Self::Upper | Self::Caseless | Self::Mark)
    }

    /// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`.
    fn may_end_word(self) -> bool {
        matches!(self, Self::Lower | Self::Caseless | Self::Mark)
    }

    /// `[^\r\n\p{L}\p{N}]`.
    fn may_lead(self) -> bool {
        matches!(self, Self::Other | Self::Mark | Self::Space)
    }

    /// `[^\s\p{L}\p{N}]`.
    fn is_symbol(self) -> bool {
        matches!(self, Self::Other | Self::Mark)
    }

    /// `\s`.
    fn is_space(self) -> bool {
        matches!(self, Self::Space | Self::LineEnd)
    }
}

/// The kinds of all characters, in blocks of 256, equal ones once.
struct Kinds {
    blocks: Vec<[Kind; 256]>,
    of_block: Vec<u16>,
}

static KINDS: LazyLock<Kinds> = LazyLock::new(Kinds::new);

impl Kinds {
    fn new() -> Self {
        let mut all = vec![Kind::Other; 0x11_0000];
        for (class, kind) in [
            (r"[\p{Lu}\p{Lt}]", Kind::Upper),
            (r"\p{Ll}", Kind::Lower),
            (r"[\p{Lm}\p{Lo}]", Kind::Caseless),
            (r"\p{M}", Kind::Mark),
            (r"\p{N}", Kind::Number),
            (r"\s", Kind::Space),
            (r"[\r\n]", Kind::LineEnd),
        ] {
            for (first, last) in ranges(class) {
                all[first as usize..=last as usize].fill(kind);
            }
        }
        let (mut blocks, mut of_block) = (Vec::<[Kind; 256]>::new(), Vec::new());
        for block in all.as_chunks::<256>().0 {
            let at = blocks.iter().position(|known| known == block).unwrap_or_else(|| {
                blocks.push(*block);
                blocks.len() - 1
            });
            of_block.push(u16::try_from(at).unwrap_or(u16::MAX));
        }
        Self { blocks, of_block }
    }

    fn of(&self, c: char) -> Kind {
        let at = u32::from(c) as usize;
        self.blocks[usize::from(self.of_block[at >> 8])][at & 0xFF]
    }
}

/// The characters of a class as ranges, both ends inclusive. None if the class cannot be read, which
/// none of ours is; a test would show it.
fn ranges(class: &str) -> Vec<(u32, u32)> {
    let parsed = ParserBuilder::new().build().parse(class);
    match parsed.as_ref().map(|hir| hir.kind()) {
        Ok(HirKind::Class(Class::Unicode(class))) => {
            class.ranges().iter().map(|range| (range.start().into(), range.end().into())).collect()
        }
        Ok(HirKind::Class(Class::Bytes(class))) => {
            class.ranges().iter().map(|range| (range.start().into(), range.end().into())).collect()
        }
        _ => Vec::new(),
    }
}

/// The pieces of texts.
pub(super) struct Pieces(&'static Kinds);

impl Pieces {
    pub(super) fn new() -> Self {
        Self(&KINDS)
    }

    /// The length in bytes of the first piece of a text that is not empty.
    pub(super) fn first(&self, text: &str) -> usize {
        let Some((kind, width)) = self.at(text, 0) else { return text.len() };
        // The alternatives of the expression in their order: the first that matches wins.
        if let Some(end) = self.word(text, kind, width) {
            return end;
        }
        match kind {
            Kind::Number => self.run(text, width, Some(2), |kind| kind == Kind::Number),
            Kind::Space
                if text.starts_with(' ') && self.at(text, 1).is_some_and(|(next, _)| next.is_symbol()) =>
            {
                self.symbols(text, 1)
            }
            Kind::Space | Kind::LineEnd => self.space(text),
            _ => self.symbols(text, width),
        }
    }

    /// The character at a place and its length in bytes; `None` at the end.
    fn at(&self, text: &str, at: usize) -> Option<(Kind, usize)> {
        let c = text[at..].chars().next()?;
        Some((self.0.of(c), c.len_utf8()))
    }

    /// Where a run of characters ends that goes on at `from`, with at most `most` more.
    fn run(&self, text: &str, from: usize, most: Option<usize>, inside: impl Fn(Kind) -> bool) -> usize {
        let rest = text[from..].char_indices().take(most.unwrap_or(usize::MAX));
        let inside = rest.take_while(|(_, c)| inside(self.0.of(*c)));
        inside.last().map_or(from, |(at, c)| from + at + c.len_utf8())
    }

    /// `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|…)?`, else
    /// `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|…)?`.
    fn word(&self, text: &str, first: Kind, width: usize) -> Option<usize> {
        let lead = if first.may_lead() { width } else { 0 };
        let end = self.cased(text, lead);
        // A mark may lead a word or be one.
        let end = end.or_else(|| if first == Kind::Mark { self.cased(text, 0) } else { None });
        let end = end.or_else(|| {
            let capitals = self.run(text, lead, None, Kind::may_begin_word);
            (capitals > lead).then_some(capitals)
        })?;
        Some(end + contraction(&text[end..]))
    }

    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` from a place on.
    fn cased(&self, text: &str, from: usize) -> Option<usize> {
        // Where the first part of the expression ends, and its last character that the second takes too.
        let (mut end, mut shared) = (from, None);
        for c in text[from..].chars() {
            let kind = self.0.of(c);
            if !kind.may_begin_word() {
                break;
            }
            end += c.len_utf8();
            if kind.may_end_word() {
                shared = Some(end);
            }
        }
        let rest = self.run(text, end, None, Kind::may_end_word);
        // Without an end of its own the second part takes back what the first had.
        if rest > end { Some(rest) } else { shared }
    }

    /// ` ?[^\s\p{L}\p{N}]+[\r\n/]*`, whose first symbol ends at or behind `from`.
    fn symbols(&self, text: &str, from: usize) -> usize {
        let end = self.run(text, from, None, Kind::is_symbol);
        let trail = text[end..].bytes().take_while(|byte| matches!(byte, b'\r' | b'\n' | b'/'));
        end + trail.count()
    }

    /// `\s*[\r\n]+`, else `\s+(?!\S)`, else `\s+`.
    fn space(&self, text: &str) -> usize {
        let (mut end, mut line_end, mut last) = (0, None, 0);
        for c in text.chars() {
            let kind = self.0.of(c);
            if !kind.is_space() {
                break;
            }
            last = end;
            end += c.len_utf8();
            if kind == Kind::LineEnd {
                line_end = Some(end);
            }
        }
        match line_end {
            Some(line_end) => line_end,
            // The last one belongs to the word behind it.
            None if end < text.len() && last > 0 => last,
            None => end,
        }
    }
}

/// The length of `(?i:'s|'t|'re|'ve|'m|'ll|'d)` at the beginning of a text, else 0.
fn contraction(text: &str) -> usize {
    let Some(rest) = text.strip_prefix('\'') else { return 0 };
    let mut letters = rest.chars();
    let Some(first) = letters.next() else { return 0 };
    let second = letters.next().unwrap_or(' ').to_ascii_lowercase();
    match (first.to_ascii_lowercase(), second) {
        // The long s is an s whatever its case.
        ('s' | 't' | 'm' | 'd' | 'ſ', _) => 1 + first.len_utf8(),
        ('r' | 'v', 'e') | ('l', 'l') => 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<&str> {
        let (mut rest, mut found) = (text, Vec::new());
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(Pieces::new().first(rest));
            found.push(piece);
            rest = behind;
        }
        found
    }

    #[test]
    fn every_kind_of_character_is_known() {
        for (c, kind) in [
            ('A', Kind::Upper),
            ('ǅ', Kind::Upper),
            ('z', Kind::Lower),
            ('ß', Kind::Lower),
            ('中', Kind::Caseless),
            ('ʰ', Kind::Caseless),
            ('\u{301}', Kind::Mark),
            ('7', Kind::Number),
            ('Ⅷ', Kind::Number),
            ('½', Kind::Number),
            (' ', Kind::Space),
            ('\u{3000}', Kind::Space),
            ('\t', Kind::Space),
            ('\n', Kind::LineEnd),
            ('\r', Kind::LineEnd),
            ('🙂', Kind::Other),
            ('。', Kind::Other),
            ('\0', Kind::Other),
            ('\u{10FFFF}', Kind::Other),
        ] {
            assert_eq!(KINDS.of(c), kind, "{c:?}");
        }
    }

    #[test]
    fn words_numbers_symbols_and_space_are_told_apart() {
        for (text, wanted) in [
            ("Hello world's", &["Hello", " world's"][..]),
            ("XMLParser parseXML", &["XMLParser", " parse", "XML"]),
            ("中ABC 中abc", &["中", "ABC", " 中abc"]),
            ("12345", &["123", "45"]),
            ("a!!//\n\nb", &["a", "!!//\n\n", "b"]),
            ("a   b", &["a", "  ", " b"]),
            ("a   ", &["a", "   "]),
            ("a \n \n  b", &["a", " \n \n", " ", " b"]),
            (" 7", &[" ", "7"]),
            ("\t7", &["\t", "7"]),
            ("I'LL they'Re it'ſ", &["I'LL", " they'Re", " it'ſ"]),
            ("\u{301}ABC", &["\u{301}", "ABC"]),
            ("\u{301}abc", &["\u{301}abc"]),
            ("🙂🙂好", &["🙂🙂", "好"]),
            (" 🙂", &[" 🙂"]),
        ] {
            assert_eq!(pieces(text), wanted, "{text:?}");
        }
    }
}
