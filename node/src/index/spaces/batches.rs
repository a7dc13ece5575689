use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::time::Instant;

/// The batches that are on their way into the store, of all shards of the node: at most one for
/// each apply thread.
#[derive(Debug, Default)]
pub(super) struct Batches {
    state: Mutex<State>,
    closed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    open: BTreeSet<u64>,
}

/// Closes its batch when dropped.
#[derive(Debug)]
pub(super) struct OpenBatch<'a> {
    batches: &'a Batches,
    number: u64,
}

impl Batches {
    pub(super) fn open(&self) -> OpenBatch<'_> {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.open.insert(number);
        OpenBatch { batches: self, number }
    }

    /// Waits until every batch that is open now is closed; those opened meanwhile are not waited
    /// for. False if the deadline passes first.
    pub(super) fn settle(&self, deadline: Instant) -> bool {
        let until = self.state.lock().next;
        self.closed_below(until, deadline)
    }

    fn closed_below(&self, until: u64, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        let closed = |state: &State| state.open.first().is_none_or(|oldest| *oldest >= until);
        while !closed(&state) {
            if self.closed.wait_until(&mut state, deadline).timed_out() {
                return closed(&state);
            }
        }
        true
    }
}

impl Drop for OpenBatch<'_> {
    fn drop(&mut self) {
        self.batches.state.lock().open.remove(&self.number);
        self.batches.closed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn only_batches_that_were_open_are_waited_for() {
        let batches = Batches::default();
        let soon = || Instant::now() + Duration::from_millis(20);
        assert!(batches.settle(soon()));
        let first = batches.open();
        assert!(!batches.settle(soon()));
        let until = batches.state.lock().next;
        let later = batches.open();
        std::thread::scope(|scope| {
            let waiting =
                scope.spawn(|| batches.closed_below(until, Instant::now() + Duration::from_secs(60)));
            drop(first);
            assert!(waiting.join().is_ok_and(|settled| settled));
        });
        assert!(!batches.settle(soon()));
        drop(later);
        assert!(batches.settle(soon()));
    }
}
