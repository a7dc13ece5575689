//! Who stands before and after whom in a session.

use super::rows::NONE;

/// Links between the turns of each session, in the order of event time, then seq. Rows of no
/// session have no neighbours, and no link ever leaves a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbours {
    prev: Vec<u32>,
    next: Vec<u32>,
}

impl Neighbours {
    /// Links rows 0..n.
    ///
    /// `session` holds the interned session of each row ([`NONE`] for none), `order` its event
    /// time in microseconds and its seq. Rows beyond the shorter of the two are left unlinked.
    pub fn build(session: &[u32], order: &[(i64, u64)]) -> Self {
        let rows = session.len().max(order.len());
        let mut links = Self { prev: vec![NONE; rows], next: vec![NONE; rows] };
        let mut sorted: Vec<(u32, (i64, u64), u32)> = (0u32..)
            .zip(session.iter().zip(order))
            .filter(|&(row, (&session, _))| session != NONE && row != NONE)
            .map(|(row, (&session, &order))| (session, order, row))
            .collect();
        sorted.sort_unstable();
        for pair in sorted.windows(2) {
            let [(session_a, _, a), (session_b, _, b)] = [pair[0], pair[1]];
            if session_a == session_b {
                links.join(a, b);
            }
        }
        links
    }

    /// Appends a row behind `before` (and in front of what followed it), or as the first of its
    /// session in front of `after`, or, with neither, alone. Returns the new row. A row named
    /// that does not exist counts as not given.
    pub fn push(&mut self, before: Option<u32>, after: Option<u32>) -> u32 {
        let row = u32::try_from(self.prev.len()).unwrap_or(NONE);
        self.prev.push(NONE);
        self.next.push(NONE);
        let exists = |at: &u32| *at < row;
        if let Some(before) = before.filter(exists) {
            let follower = self.next[before as usize];
            self.join(before, row);
            if follower != NONE {
                self.join(row, follower);
            }
        } else if let Some(after) = after.filter(exists) {
            let leader = self.prev[after as usize];
            self.join(row, after);
            if leader != NONE {
                self.join(leader, row);
            }
        }
        row
    }

    /// The row before each, [`NONE`] for the first of a session.
    pub fn prev(&self) -> &[u32] {
        &self.prev
    }

    /// The row after each, [`NONE`] for the last of a session.
    pub fn next(&self) -> &[u32] {
        &self.next
    }

    fn join(&mut self, a: u32, b: u32) {
        self.next[a as usize] = b;
        self.prev[b as usize] = a;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn order_is_time_then_seq_within_a_session() {
        let session = [7, NONE, 7, 9, 7];
        let order = [(5, 0), (5, 1), (1, 2), (1, 3), (5, 1)];
        let links = Neighbours::build(&session, &order);
        // Session 7: row 2 (time 1), row 0 (time 5, seq 0), row 4 (time 5, seq 1).
        assert_eq!(links.prev(), [2, NONE, NONE, NONE, 0]);
        assert_eq!(links.next(), [4, NONE, 0, NONE, NONE]);
    }

    #[test]
    fn a_pushed_row_goes_where_it_belongs() {
        let mut links = Neighbours::build(&[1, 1], &[(0, 0), (9, 1)]);
        assert_eq!(links.push(Some(0), None), 2);
        assert_eq!(links.push(None, Some(0)), 3);
        assert_eq!(links.push(None, None), 4);
        assert_eq!(links.push(Some(99), None), 5);
        assert_eq!(links.next(), [2, NONE, 1, 0, NONE, NONE]);
        assert_eq!(links.prev(), [3, 2, 0, NONE, NONE, NONE]);
    }

    proptest! {
        #[test]
        fn links_are_mutual_and_never_cross_sessions(
            rows in prop::collection::vec((0u32..4, -3i64..3), 0..40),
        ) {
            let session: Vec<u32> = rows.iter().map(|r| if r.0 == 3 { NONE } else { r.0 }).collect();
            let order: Vec<(i64, u64)> = (0..).zip(&rows).map(|(seq, r)| (r.1, seq)).collect();
            let links = Neighbours::build(&session, &order);
            for (row, &next) in links.next().iter().enumerate() {
                if next != NONE {
                    prop_assert_eq!(links.prev()[next as usize] as usize, row);
                    prop_assert_eq!(session[row], session[next as usize]);
                    prop_assert!(order[row] < order[next as usize]);
                }
            }
        }
    }
}
