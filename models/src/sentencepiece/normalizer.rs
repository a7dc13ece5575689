//! Text normalisation by a SentencePiece model's own table of replacements.
//!
//! The table is a double-array trie in darts-clone's layout (one `u32` a unit) whose keys are
//! UTF-8 byte strings and whose values are offsets into a block of zero-terminated
//! replacements. Unicode's NFKC as such would not do: the table also folds control characters
//! and white space, and it is fixed to the Unicode version the model was trained with.

use super::SentencePieceError;

/// What a space becomes, so that pieces can hold it: U+2581.
pub(super) const SPACE_SYMBOL: &[u8] = "\u{2581}".as_bytes();

const LEAF_VALUE_MASK: u32 = 0x7FFF_FFFF;
/// A leaf's sign bit is part of its label, so that no input byte equals it.
const LABEL_MASK: u32 = 0x8000_00FF;
const HAS_LEAF: u32 = 0x100;

/// Replaces by the longest matching key and squeezes white space.
#[derive(Debug)]
pub(super) struct Normalizer {
    units: Vec<u32>,
    replacements: Vec<u8>,
}

impl Normalizer {
    /// Reads a `precompiled_charsmap`.
    pub(super) fn from_charsmap(charsmap: &[u8]) -> Result<Self, SentencePieceError> {
        let damaged = |what| SentencePieceError::Damaged { what };
        let (size, rest) =
            charsmap.split_first_chunk::<4>().ok_or(damaged("the charsmap is shorter than its header"))?;
        let size = u32::from_le_bytes(*size) as usize;
        if size == 0 || !size.is_multiple_of(4) || size > rest.len() {
            return Err(damaged("the charsmap's trie does not fit"));
        }
        let (trie, replacements) = rest.split_at(size);
        if replacements.last() != Some(&0) {
            return Err(damaged("the charsmap's last replacement has no end"));
        }
        if std::str::from_utf8(replacements).is_err() {
            return Err(damaged("the charsmap's replacements are not UTF-8"));
        }
        let (units, _) = trie.as_chunks::<4>();
        Ok(Self {
            units: units.iter().map(|unit| u32::from_le_bytes(*unit)).collect(),
            replacements: replacements.to_vec(),
        })
    }

    /// Normalises `text`: replacements applied, white space at the ends removed and runs of it
    /// squeezed to one, one space put in front, every space written as [`SPACE_SYMBOL`].
    ///
    /// The result is valid UTF-8, empty if nothing but white space and dropped characters was
    /// there, and ends at a character once it has reached `bytes_max`, which bounds what a text
    /// that expands (U+FDFA becomes 18 characters) can cost.
    pub(super) fn normalize(&self, text: &str, bytes_max: usize) -> Vec<u8> {
        let mut input = text.as_bytes();
        while let Some((replacement, used)) = self.replace_prefix(input) {
            if replacement != b" " {
                break;
            }
            input = &input[used..];
        }
        let mut out = Vec::with_capacity(input.len().min(bytes_max) + 4 * SPACE_SYMBOL.len());
        out.extend_from_slice(SPACE_SYMBOL);
        let mut after_space = true;
        while out.len() < bytes_max
            && let Some((mut replacement, used)) = self.replace_prefix(input)
        {
            input = &input[used..];
            while after_space && let Some(shorter) = replacement.strip_prefix(b" ") {
                replacement = shorter;
            }
            let Some(last) = replacement.last() else {
                continue;
            };
            after_space = *last == b' ';
            for byte in replacement {
                match byte {
                    b' ' => out.extend_from_slice(SPACE_SYMBOL),
                    other => out.push(*other),
                }
            }
        }
        while out.ends_with(SPACE_SYMBOL) {
            out.truncate(out.len() - SPACE_SYMBOL.len());
        }
        out
    }

    /// What the start of `input` becomes, and how many bytes of it that takes: the longest key
    /// of the trie, else one character as it is. `None` at the end.
    fn replace_prefix<'a>(&'a self, input: &'a [u8]) -> Option<(&'a [u8], usize)> {
        let first = *input.first()?;
        if let Some((value, used)) = self.longest_key(input)
            && let Some(tail) = self.replacements.get(value..)
            && let Some(end) = tail.iter().position(|byte| *byte == 0)
        {
            return Some((&tail[..end], used));
        }
        let length = char_length(first).min(input.len());
        Some((&input[..length], length))
    }

    /// Value and length of the longest key that `input` starts with.
    fn longest_key(&self, input: &[u8]) -> Option<(usize, usize)> {
        let mut node = offset(*self.units.first()?);
        let mut longest = None;
        for (index, byte) in input.iter().enumerate() {
            node ^= usize::from(*byte);
            let Some(unit) = self.units.get(node) else {
                break;
            };
            if unit & LABEL_MASK != u32::from(*byte) {
                break;
            }
            node ^= offset(*unit);
            if unit & HAS_LEAF != 0
                && let Some(leaf) = self.units.get(node)
            {
                longest = Some(((leaf & LEAF_VALUE_MASK) as usize, index + 1));
            }
        }
        longest
    }
}

/// Where a unit's children are, relative to it.
fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & 0x200) >> 6)) as usize
}

/// Bytes of the UTF-8 character that starts with `first`.
pub(super) fn char_length(first: u8) -> usize {
    match first {
        0..0xC0 => 1,
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// A trie with no keys: every character stays as it is.
    fn identity() -> Normalizer {
        Normalizer { units: vec![0; 4], replacements: vec![0] }
    }

    fn normalized(text: &str) -> String {
        String::from_utf8(identity().normalize(text, usize::MAX >> 1)).unwrap()
    }

    #[test]
    fn squeezes_and_marks_spaces() {
        assert_eq!(normalized("  a  b "), "\u{2581}a\u{2581}b");
        assert_eq!(normalized("我 不"), "\u{2581}我\u{2581}不");
        assert_eq!(normalized("   "), "");
        assert_eq!(normalized(""), "");
    }

    #[test]
    fn stops_at_the_limit_and_at_a_character() {
        let text = "辣".repeat(1_000);
        let out = identity().normalize(&text, 100);
        assert!(out.len() >= 100 && out.len() < 104);
        assert!(std::str::from_utf8(&out).is_ok());
    }

    #[test]
    fn refuses_a_damaged_charsmap() {
        for bad in [
            &b""[..],
            b"\x01\x00",
            b"\x08\x00\x00\x00\x00\x00\x00\x00",
            b"\x03\x00\x00\x00abc\x00",
            b"\x04\x00\x00\x00\x00\x00\x00\x00x",
            b"\x04\x00\x00\x00\x00\x00\x00\x00\xff\x00",
        ] {
            assert!(Normalizer::from_charsmap(bad).is_err(), "{bad:?}");
        }
    }
}
