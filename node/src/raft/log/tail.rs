//! What a group knows of its log in memory: its bounds, and a bounded cache of its last entries.

use std::collections::VecDeque;
use std::ops::Range;

use crate::raft::error::LogError;
use crate::raft::record::Record;
use crate::raft::types::{GroupId, LogPosition, RaftEntry};

/// The bounds of a group's log and its newest entries.
///
/// The cache always holds the entries that are not on disk yet, whatever they weigh; of the others
/// it keeps the newest up to a number of bytes.
pub(crate) struct Tail {
    group: GroupId,
    purged: Option<LogPosition>,
    last: Option<LogPosition>,
    /// Index of the first entry that can be read.
    first: u64,
    /// Index after the last entry.
    end: u64,
    /// Entries below this are on disk.
    durable_end: u64,
    /// The entries `end - cached.len() .. end`, with their sizes.
    cached: VecDeque<(usize, RaftEntry)>,
    cached_bytes: usize,
    cached_bytes_max: usize,
    /// Counts truncations and purges: a reader that saw it change read two different logs.
    epoch: u64,
    #[cfg(test)]
    may_start_anywhere: bool,
}

/// How to answer a read.
pub(crate) struct ReadPlan {
    /// What must come from disk; it precedes `cached`.
    pub(crate) disk: Range<u64>,
    /// What is in memory.
    pub(crate) cached: Vec<RaftEntry>,
    /// The epoch at which this plan holds.
    pub(crate) epoch: u64,
}

impl Tail {
    /// A tail for the log that was found on disk.
    pub(crate) fn new(
        group: GroupId,
        purged: Option<LogPosition>,
        last: Option<LogPosition>,
        cached_bytes_max: usize,
    ) -> Self {
        let first = next_index(purged);
        let end = next_index(last).max(first);
        Tail {
            group,
            purged,
            last,
            first,
            end,
            durable_end: end,
            cached: VecDeque::new(),
            cached_bytes: 0,
            cached_bytes_max,
            epoch: 0,
            #[cfg(test)]
            may_start_anywhere: false,
        }
    }

    pub(crate) fn purged(&self) -> Option<LogPosition> {
        self.purged
    }

    /// The last entry's position, else the last purged one.
    pub(crate) fn last(&self) -> Option<LogPosition> {
        self.last.or(self.purged)
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Adds entries, which must continue the log without a hole.
    pub(crate) fn append(&mut self, entries: Vec<RaftEntry>) -> Result<(), LogError> {
        #[cfg(test)]
        self.jump_to(entries.first());
        for (expected, entry) in (self.end..).zip(&entries) {
            if entry.log_id.index != expected {
                return Err(LogError::Hole { group: self.group, expected, got: entry.log_id.index });
            }
        }
        for entry in entries {
            self.last = Some(entry.log_id.into());
            self.end += 1;
            let bytes = Record::approximate_bytes(&entry);
            self.cached_bytes += bytes;
            self.cached.push_back((bytes, entry));
        }
        Ok(())
    }

    /// The entries below `end` are on disk: the oldest may leave the cache.
    pub(crate) fn made_durable(&mut self, end: u64) {
        self.durable_end = self.durable_end.max(end.min(self.end));
        while self.cached_bytes > self.cached_bytes_max && self.cached_start() < self.durable_end {
            if let Some((bytes, _)) = self.cached.pop_front() {
                self.cached_bytes -= bytes;
            }
        }
    }

    /// Drops the entries from `end` on; `last` is the position of the entry before.
    pub(crate) fn truncate(&mut self, end: u64, last: Option<LogPosition>) {
        if end >= self.end {
            return;
        }
        let keep = usize::try_from(end.saturating_sub(self.cached_start())).unwrap_or(usize::MAX);
        for (bytes, _) in self.cached.drain(keep.min(self.cached.len())..) {
            self.cached_bytes -= bytes;
        }
        self.end = end.max(self.first);
        self.durable_end = self.durable_end.min(self.end);
        self.last = last;
        self.epoch += 1;
    }

    /// Drops the entries up to `purged`, which may lie behind the log's end. Returns whether none is left.
    pub(crate) fn purge(&mut self, purged: LogPosition) -> bool {
        if self.purged.is_some_and(|known| known.index >= purged.index) {
            return self.first == self.end;
        }
        let first = self.first.max(purged.index + 1);
        while self.cached_start() < first {
            match self.cached.pop_front() {
                Some((bytes, _)) => self.cached_bytes -= bytes,
                None => break,
            }
        }
        self.purged = Some(purged);
        self.first = first;
        self.epoch += 1;
        if first >= self.end {
            self.end = first;
            self.durable_end = first;
            self.last = None;
            return true;
        }
        false
    }

    /// The position of an entry in the cache.
    pub(crate) fn position(&self, index: u64) -> Option<LogPosition> {
        let offset = index.checked_sub(self.cached_start())?;
        self.cached.get(usize::try_from(offset).ok()?).map(|(_, entry)| entry.log_id.into())
    }

    /// How to read the part of `range` that exists.
    pub(crate) fn plan(&self, range: Range<u64>) -> ReadPlan {
        let start = range.start.max(self.first);
        let end = range.end.min(self.end).max(start);
        let split = self.cached_start().clamp(start, end);
        let skip = usize::try_from(split.saturating_sub(self.cached_start())).unwrap_or(usize::MAX);
        let count = usize::try_from(end - split).unwrap_or(usize::MAX);
        let cached = self.cached.iter().skip(skip).take(count).map(|(_, entry)| entry.clone()).collect();
        ReadPlan { disk: start..split, cached, epoch: self.epoch }
    }

    /// openraft's conformance suite starts logs at 1, which openraft itself never does.
    #[cfg(test)]
    fn jump_to(&mut self, entry: Option<&RaftEntry>) {
        if let Some(entry) = entry
            && self.may_start_anywhere
            && self.end == 0
        {
            (self.first, self.end, self.durable_end) =
                (entry.log_id.index, entry.log_id.index, entry.log_id.index);
        }
    }

    #[cfg(test)]
    pub(crate) fn allow_any_start(&mut self) {
        self.may_start_anywhere = true;
    }

    fn cached_start(&self) -> u64 {
        self.end - self.cached.len() as u64
    }
}

/// The index that follows a position.
pub(crate) fn next_index(position: Option<LogPosition>) -> u64 {
    position.map_or(0, |position| position.index + 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    fn position(term: u64, index: u64) -> LogPosition {
        LogPosition { term, node: 1, index }
    }

    fn blanks(term: u64, range: Range<u64>) -> Vec<RaftEntry> {
        range
            .map(|index| RaftEntry {
                log_id: position(term, index).into(),
                payload: openraft::EntryPayload::Blank,
            })
            .collect()
    }

    fn indices(plan: &ReadPlan) -> Vec<u64> {
        plan.cached.iter().map(|entry| entry.log_id.index).collect()
    }

    #[test]
    fn a_hole_is_refused_and_changes_nothing() {
        let mut tail = Tail::new(4, None, None, 1 << 20);
        tail.append(blanks(1, 0..3)).unwrap();
        let hole = tail.append(blanks(1, 4..5));
        assert_eq!(hole, Err(LogError::Hole { group: 4, expected: 3, got: 4 }));
        let mut inner_hole = blanks(1, 3..4);
        inner_hole.extend(blanks(1, 5..6));
        assert!(tail.append(inner_hole).is_err());
        assert!(tail.append(blanks(1, 2..3)).is_err(), "an overwrite without a truncate is refused too");
        assert_eq!((tail.end(), tail.last()), (3, Some(position(1, 2))));
    }

    #[test]
    fn entries_not_on_disk_stay_cached_whatever_they_weigh() {
        let mut tail = Tail::new(0, None, None, 200);
        tail.append(blanks(1, 0..100)).unwrap();
        assert_eq!(indices(&tail.plan(0..100)).len(), 100);
        tail.made_durable(50);
        let plan = tail.plan(0..100);
        assert_eq!((plan.disk.clone(), indices(&plan)), (0..50, (50..100).collect()));
        tail.made_durable(100);
        let plan = tail.plan(10..1_000);
        assert_eq!((plan.disk.clone(), indices(&plan)), (10..97, vec![97, 98, 99]));
    }

    #[test]
    fn truncate_and_purge_move_the_bounds() {
        let mut tail = Tail::new(0, None, None, 1 << 20);
        tail.append(blanks(1, 0..10)).unwrap();
        let epoch = tail.epoch();
        tail.truncate(4, Some(position(1, 3)));
        assert_ne!(tail.epoch(), epoch);
        assert_eq!((tail.end(), tail.last()), (4, Some(position(1, 3))));
        tail.append(blanks(2, 4..6)).unwrap();
        assert_eq!(tail.position(5), Some(position(2, 5)));
        assert!(!tail.purge(position(1, 2)));
        assert_eq!(indices(&tail.plan(0..9)), vec![3, 4, 5]);
        assert!(tail.purge(position(3, 20)), "a purge behind the end empties the log");
        assert_eq!((tail.first(), tail.end(), tail.last()), (21, 21, Some(position(3, 20))));
        assert_eq!(tail.plan(0..100).disk, 21..21);
        tail.append(blanks(3, 21..22)).unwrap();
        assert_eq!(tail.position(21), Some(position(3, 21)));
    }

    #[test]
    fn truncating_below_the_cache_empties_it() {
        let mut tail = Tail::new(0, None, None, 0);
        tail.append(blanks(1, 0..10)).unwrap();
        tail.made_durable(10);
        tail.truncate(5, Some(position(1, 4)));
        let plan = tail.plan(0..10);
        assert_eq!((plan.disk.clone(), plan.cached.len()), (0..5, 0));
        tail.append(blanks(2, 5..6)).unwrap();
        assert_eq!(indices(&tail.plan(0..10)), vec![5]);
    }
}
