//! The view of a columnar image that relevance is computed from.

/// No row, no session, no speaker.
pub const NONE: u32 = u32::MAX;

/// The bits of a row's flag byte.
pub mod flag {
    /// The row exists and may be seen: not deleted, not hidden. A row without this bit is treated
    /// as if it had never been written.
    pub const LIVE: u8 = 1;
    /// The row is a short question ([`crate::text::is_short_question`]).
    pub const QUESTION: u8 = 2;
    /// The row's role is `user`.
    pub const USER: u8 = 4;
    /// The row has a vector.
    pub const VECTOR: u8 = 8;
    /// The row's source was not sure ([`crate::intent::SURE`]).
    pub const UNSURE: u8 = 16;
}

/// Columns of one image, borrowed for one recall. All slices have one entry per row.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    flags: &'a [u8],
    prev: &'a [u32],
    next: &'a [u32],
    speaker: &'a [u32],
}

/// The columns given to [`Rows::new`] have different lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("columns of one image differ in length: {0:?}")]
pub struct RowsError(pub [usize; 4]);

impl<'a> Rows<'a> {
    /// Takes the columns: flag bytes ([`flag`]), the row before and after each in its session
    /// ([`super::Neighbours`]; [`NONE`] at the ends and for rows of no session), interned speakers.
    ///
    /// # Errors
    /// If their lengths differ.
    pub fn new(
        flags: &'a [u8],
        prev: &'a [u32],
        next: &'a [u32],
        speaker: &'a [u32],
    ) -> Result<Self, RowsError> {
        let lens = [flags.len(), prev.len(), next.len(), speaker.len()];
        if lens.iter().any(|&len| len != flags.len()) {
            return Err(RowsError(lens));
        }
        Ok(Self { flags, prev, next, speaker })
    }

    /// Rows of the image, dead ones included.
    pub fn len(&self) -> usize {
        self.flags.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.flags.is_empty()
    }

    /// The flag byte of a row; 0 (dead) for a row that is not in the view.
    #[inline]
    pub fn flags(&self, row: usize) -> u8 {
        self.flags.get(row).copied().unwrap_or(0)
    }

    /// Whether a row may be seen.
    #[inline]
    pub fn is_live(&self, row: usize) -> bool {
        self.flags(row) & flag::LIVE != 0
    }

    /// Whether a row is live and has a vector.
    #[inline]
    pub fn has_vector(&self, row: usize) -> bool {
        self.flags(row) & (flag::LIVE | flag::VECTOR) == flag::LIVE | flag::VECTOR
    }

    /// The interned speaker of a row, [`NONE`] for none.
    #[inline]
    pub fn speaker(&self, row: usize) -> u32 {
        self.speaker.get(row).copied().unwrap_or(NONE)
    }

    /// The live row before `row` in its session.
    #[inline]
    pub(super) fn before(&self, row: usize) -> Option<usize> {
        self.follow(self.prev, row)
    }

    /// The live row after `row` in its session.
    #[inline]
    pub(super) fn after(&self, row: usize) -> Option<usize> {
        self.follow(self.next, row)
    }

    /// Follows links over dead rows, so that a row masked a moment ago and one that was never
    /// loaded give the same neighbours. A run of dead rows is walked by at most the two live rows
    /// on each side of it, so a pass over all rows stays linear. The count of steps is bounded:
    /// damaged links that form a ring end, they do not hang.
    #[inline]
    fn follow(&self, links: &[u32], row: usize) -> Option<usize> {
        let mut at = row;
        for _ in 0..self.len() {
            let link = *links.get(at)?;
            if link == NONE {
                return None;
            }
            at = link as usize;
            if self.is_live(at) {
                return Some(at);
            }
        }
        None
    }
}
