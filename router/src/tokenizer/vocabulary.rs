//! The tokens of an encoding, and byte-pair encoding by them: from single bytes on, the two neighbours
//! whose join is the token of lowest rank are joined, until no join is a token.
//!
//! The table is flat: a probe that finds nothing, which most are, reads one slot and no bytes of a
//! token.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use xxhash_rust::xxh3::xxh3_64;

/// No join of two parts.
const NONE: u32 = u32::MAX;

pub(super) struct Vocabulary {
    /// The bytes of all tokens, one behind the other.
    bytes: Vec<u8>,
    /// Where each begins, by rank, and at the end where the last one ends.
    starts: Vec<u32>,
    /// By the low bits of a token's hash: rank + 1, and the hash's high half. 0 is free; who finds a slot
    /// taken looks at the next.
    slots: Vec<(u32, u32)>,
    /// The ranks of all pairs of bytes, [`NONE`] where they are no token: with them each piece begins.
    pairs: Vec<u32>,
}

/// One part of a piece that is being encoded, at the index of its first byte.
#[derive(Clone, Copy)]
struct Part {
    /// Where the part before it begins.
    before: u32,
    /// Where it ends and the next one begins.
    end: u32,
    /// The rank of its join with the next one, [`NONE`] where that is no token.
    rank: u32,
}

/// Bytes of a piece whose memory is kept for the next: pieces of more are not text.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// Memory that is used again from piece to piece.
#[derive(Default)]
pub(super) struct Scratch {
    parts: Vec<Part>,
    joins: BinaryHeap<Reverse<u64>>,
}

impl Vocabulary {
    /// A vocabulary of tokens in the order of their ranks.
    pub(super) fn new(tokens: impl Iterator<Item = Vec<u8>>) -> Self {
        let (mut bytes, mut starts) = (Vec::new(), vec![0]);
        for token in tokens {
            bytes.extend_from_slice(&token);
            starts.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
        let slots = vec![(0, 0); (2 * starts.len()).next_power_of_two()];
        let mut vocabulary = Self { bytes, starts, slots, pairs: Vec::new() };
        for rank in 0..vocabulary.len() {
            let (mut at, tag) = vocabulary.place(vocabulary.token(rank));
            while vocabulary.slots[at].0 != 0 {
                at = (at + 1) % vocabulary.slots.len();
            }
            vocabulary.slots[at] = (rank + 1, tag);
        }
        let pairs = (0..=u16::MAX).map(|pair| vocabulary.rank(&pair.to_be_bytes()));
        vocabulary.pairs = pairs.collect();
        vocabulary
    }

    fn len(&self) -> u32 {
        u32::try_from(self.starts.len() - 1).unwrap_or(u32::MAX)
    }

    fn token(&self, rank: u32) -> &[u8] {
        let at = rank as usize;
        &self.bytes[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// The first slot to look at, and the mark that it would bear.
    #[allow(clippy::cast_possible_truncation)]
    fn place(&self, token: &[u8]) -> (usize, u32) {
        let hash = xxh3_64(token);
        (hash as usize & (self.slots.len() - 1), (hash >> 32) as u32)
    }

    /// The rank of the token with these bytes, [`NONE`] if there is none.
    fn rank(&self, bytes: &[u8]) -> u32 {
        let (mut at, tag) = self.place(bytes);
        loop {
            match self.slots[at] {
                (0, _) => return NONE,
                (next, found) if found == tag && self.token(next - 1) == bytes => return next - 1,
                _ => at = (at + 1) % self.slots.len(),
            }
        }
    }

    /// Tells `each` the length of every token of a piece, in its order.
    pub(super) fn encode(&self, piece: &[u8], scratch: &mut Scratch, mut each: impl FnMut(usize)) {
        if piece.len() < 2 || self.rank(piece) != NONE {
            return each(piece.len());
        }
        let Scratch { parts, joins } = scratch;
        self.join_all(piece, parts, joins);
        let mut at = 0;
        while let Some(part) = parts.get(at) {
            let end = part.end as usize;
            each(end - at);
            at = end;
        }
        if piece.len() > KEPT_BYTES_MAX {
            *scratch = Scratch::default();
        }
    }

    /// Leaves in `parts` the tokens of a piece.
    #[allow(clippy::cast_possible_truncation)]
    fn join_all(&self, piece: &[u8], parts: &mut Vec<Part>, joins: &mut BinaryHeap<Reverse<u64>>) {
        // Texts are far below 4 GiB.
        let len = piece.len() as u32;
        parts.clear();
        let mut queued = std::mem::take(joins).into_vec();
        queued.clear();
        for at in 0..len {
            let rank = match piece.get(at as usize..at as usize + 2) {
                Some(&[first, second]) => self.pairs[usize::from(u16::from_be_bytes([first, second]))],
                _ => NONE,
            };
            if rank != NONE {
                queued.push(join(rank, at));
            }
            parts.push(Part { before: at.wrapping_sub(1), end: at + 1, rank });
        }
        *joins = BinaryHeap::from(queued);
        while let Some(Reverse(next)) = joins.pop() {
            let (rank, at) = ((next >> 32) as u32, next as u32);
            let left = parts[at as usize];
            if left.rank != rank {
                // One of the two has been joined with another since.
                continue;
            }
            let right = parts[left.end as usize];
            parts[left.end as usize].rank = NONE;
            parts[at as usize].end = right.end;
            let mut look = |parts: &mut Vec<Part>, from: u32, end: Option<u32>| {
                let rank = end.map_or(NONE, |end| self.rank(&piece[from as usize..end as usize]));
                parts[from as usize].rank = rank;
                if rank != NONE {
                    joins.push(join(rank, from));
                }
            };
            let behind = parts.get_mut(right.end as usize).map(|behind| {
                behind.before = at;
                behind.end
            });
            look(parts, at, behind);
            if at > 0 {
                look(parts, left.before, Some(right.end));
            }
        }
    }
}

/// A join as it is queued: by rank, then by place.
fn join(rank: u32, at: u32) -> Reverse<u64> {
    Reverse(u64::from(rank) << 32 | u64::from(at))
}
