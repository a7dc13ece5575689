//! A text that is counted once, of whose parts the counts are then known.

use super::o200k::O200k;
use std::ops::Range;

/// A text and where its tokens are, by o200k_base. A part is counted as if it stood alone: in the middle
/// of it are the pieces of the whole, and only its two ends are looked at again.
pub(crate) struct Counted<'a> {
    text: &'a str,
    /// Where each piece ends, and how many tokens there are up to there.
    pieces: Vec<(usize, usize)>,
}

impl<'a> Counted<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        // A word and the space before it.
        let mut pieces = Vec::with_capacity(text.len() / 4);
        let mut total = 0;
        O200k::get().each_piece(text, |end, tokens| {
            total += tokens;
            pieces.push((end, total));
        });
        Self { text, pieces }
    }

    /// Tokens of the whole.
    pub(crate) fn total(&self) -> usize {
        self.pieces.last().map_or(0, |(_, total)| *total)
    }

    /// Tokens of a part, whose ends must lie between characters.
    pub(crate) fn count(&self, part: Range<usize>) -> usize {
        let Range { start, end } = part;
        let encoding = O200k::get();
        // The end and the tokens of what is before a piece.
        let before =
            |at: usize| at.checked_sub(1).and_then(|at| self.pieces.get(at)).copied().unwrap_or((0, 0));
        let mut next = self.pieces.partition_point(|(piece, _)| *piece <= start);
        let (mut at, mut tokens) = (start, 0);
        // Until a piece of the part alone ends where one of the whole does.
        while at < end && before(next).0 != at {
            let (len, held) = encoding.first_piece(&self.text[at..end]);
            (at, tokens) = (at + len, tokens + held);
            while self.pieces.get(next).is_some_and(|(piece, _)| *piece <= at) {
                next += 1;
            }
        }
        // How space is cut depends on what is behind it, which is the one way in which the pieces of the
        // whole may differ from those of a part of it that begins with them.
        let body = start + self.text[start..end].trim_end().len();
        let last = self.pieces.partition_point(|(piece, _)| *piece <= body);
        if last > next {
            tokens += before(last).1 - before(next).1;
            at = before(last).0;
        }
        encoding.each_piece(self.text.get(at..end).unwrap_or_default(), |_, held| tokens += held);
        tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_count_as_if_they_stood_alone(
            text in "([a-cA-C中文é\u{301}🙂0-9'sſ .!/\\n\\t\u{3000}]|don't|  ){0,40}",
            one in any::<prop::sample::Index>(),
            other in any::<prop::sample::Index>(),
        ) {
            let bounds: Vec<usize> =
                text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let (one, other) = (*one.get(&bounds), *other.get(&bounds));
            let part = one.min(other)..one.max(other);
            let counted = Counted::new(&text);
            prop_assert_eq!(counted.count(part.clone()), Counted::new(&text[part]).total());
            prop_assert_eq!(counted.count(0..text.len()), counted.total());
        }
    }
}
