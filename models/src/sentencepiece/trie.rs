//! The vocabulary as a byte trie: every piece that a text starts with, in one walk.

use std::ops::Range;

/// No piece ends at this node.
const NO_PIECE: u32 = u32::MAX;

/// A static trie; the children of a node lie side by side, sorted by their byte.
#[derive(Debug)]
pub(super) struct PieceTrie {
    /// The byte that leads to each node; the root is node 0 and has none.
    labels: Vec<u8>,
    /// The piece that ends at each node, or [`NO_PIECE`].
    pieces: Vec<u32>,
    /// First child of each node; the children of node `n` end where those of `n + 1` start.
    children: Vec<u32>,
}

impl PieceTrie {
    /// Builds the trie of `entries`, (spelling, id) pairs in any order.
    ///
    /// Returns `Err` with the spelling that occurs twice or is empty.
    pub(super) fn new(mut entries: Vec<(&[u8], u32)>) -> Result<Self, Vec<u8>> {
        entries.sort_unstable();
        let mut trie = Self { labels: vec![0], pieces: vec![NO_PIECE], children: Vec::new() };
        // Breadth first, so that the children of successive nodes follow one another.
        let all = 0..entries.len();
        let mut level = vec![all];
        let mut depth = 0;
        while !level.is_empty() {
            let mut next = Vec::new();
            for range in level {
                trie.children.push(trie.labels.len() as u32);
                trie.add_children(&entries, range, depth, &mut next)?;
            }
            level = next;
            depth += 1;
        }
        trie.children.push(trie.labels.len() as u32);
        Ok(trie)
    }

    /// Adds the children of one node, whose entries are `range` and share `depth` bytes, and
    /// queues the entries that go on below each child.
    fn add_children(
        &mut self,
        entries: &[(&[u8], u32)],
        mut range: Range<usize>,
        depth: usize,
        next: &mut Vec<Range<usize>>,
    ) -> Result<(), Vec<u8>> {
        while let Some((spelling, id)) = entries[range.clone()].first() {
            let Some(label) = spelling.get(depth) else {
                return Err(spelling.to_vec());
            };
            let same = entries[range.clone()].partition_point(|(other, _)| other.get(depth) <= Some(label));
            let mut below = range.start..range.start + same;
            let ends_here = spelling.len() == depth + 1;
            self.labels.push(*label);
            self.pieces.push(if ends_here { *id } else { NO_PIECE });
            range.start = below.end;
            // Shorter spellings sort first: the one that ends here is the first of its group.
            below.start += usize::from(ends_here);
            next.push(below);
        }
        Ok(())
    }

    /// Calls `found` with (length in bytes, id) of every piece that `text` starts with, shortest
    /// first.
    #[inline]
    pub(super) fn prefixes(&self, text: &[u8], mut found: impl FnMut(usize, u32)) {
        let mut node = 0;
        for (index, byte) in text.iter().enumerate() {
            let start = self.children[node] as usize;
            let end = self.children[node + 1] as usize;
            let Ok(child) = self.labels[start..end].binary_search(byte) else {
                return;
            };
            node = start + child;
            if self.pieces[node] != NO_PIECE {
                found(index + 1, self.pieces[node]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn prefixes(trie: &PieceTrie, text: &str) -> Vec<(usize, u32)> {
        let mut found = Vec::new();
        trie.prefixes(text.as_bytes(), |length, id| found.push((length, id)));
        found
    }

    #[test]
    fn finds_every_prefix_shortest_first() {
        let trie = PieceTrie::new(vec![(b"abc", 3), (b"a", 1), ("辣".as_bytes(), 7), (b"ab", 2), (b"b", 4)])
            .unwrap();
        assert_eq!(prefixes(&trie, "abcd"), [(1, 1), (2, 2), (3, 3)]);
        assert_eq!(prefixes(&trie, "辣椒"), [(3, 7)]);
        assert_eq!(prefixes(&trie, "不"), []);
        assert_eq!(prefixes(&trie, ""), []);
        assert_eq!(prefixes(&trie, "bab"), [(1, 4)]);
    }

    #[test]
    fn refuses_duplicates_and_empty_pieces() {
        assert_eq!(PieceTrie::new(vec![(b"ab", 1), (b"a", 0), (b"ab", 2)]).unwrap_err(), b"ab");
        assert_eq!(PieceTrie::new(vec![(b"", 1)]).unwrap_err(), b"");
        assert_eq!(prefixes(&PieceTrie::new(vec![]).unwrap(), "a"), []);
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_plain_search(
            words in proptest::collection::btree_set("[ab我]{1,5}", 0..40),
            text in "[ab我c]{0,12}",
        ) {
            let words: Vec<String> = words.into_iter().collect();
            let entries = words.iter().zip(0..).map(|(word, id)| (word.as_bytes(), id)).collect();
            let trie = PieceTrie::new(entries).unwrap();
            let mut expected: Vec<(usize, u32)> = words
                .iter()
                .zip(0..)
                .filter(|(word, _)| text.starts_with(word.as_str()))
                .map(|(word, id)| (word.len(), id))
                .collect();
            expected.sort_unstable();
            proptest::prop_assert_eq!(prefixes(&trie, &text), expected);
        }
    }
}
