//! When a read is asked of a second replica, and how often that may happen.
//!
//! A hedge goes out when the first replica takes longer than 95 of 100 reads of the kind took
//! lately. At most 5 of 100 reads may be hedged: where a whole cluster is slow, hedges would make
//! it slower.

use parking_lot::Mutex;
use std::time::Duration;

/// Reads whose times are looked at.
const WINDOW: usize = 512;
/// How many must be known before anything is hedged.
const KNOWN_MIN: usize = 64;
/// The percentile is made anew after so many reads.
const RENEW_EVERY: usize = 32;
/// No hedge goes out earlier than this: a connection may take as long to wake up.
const DELAY_MIN: Duration = Duration::from_millis(1);
/// What a read adds to the budget.
const EARNED: u32 = 5;
/// What a hedge takes from it.
const COST: u32 = 100;
/// What may be saved up: ten hedges.
const SAVED_MAX: u32 = 1_000;

/// What is known of one kind of reads.
#[derive(Debug, Default)]
pub(super) struct Hedging(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The last times, in a ring.
    times: Vec<Duration>,
    next: usize,
    since_renewed: usize,
    p95: Option<Duration>,
    budget: u32,
}

impl Hedging {
    /// A read begins. Answers after how long it may be hedged, if at all.
    pub(super) fn begin(&self) -> Option<Duration> {
        let mut state = self.0.lock();
        state.budget = (state.budget + EARNED).min(SAVED_MAX);
        state.p95.map(|p95| p95.max(DELAY_MIN))
    }

    /// Whether the budget allows a hedge now; then it is spent.
    pub(super) fn spend(&self) -> bool {
        let mut state = self.0.lock();
        let left = state.budget.checked_sub(COST);
        state.budget = left.unwrap_or(state.budget);
        left.is_some()
    }

    /// A read was answered by the replica that was asked first.
    pub(super) fn answered(&self, took: Duration) {
        let mut state = self.0.lock();
        if state.times.len() < WINDOW {
            state.times.push(took);
        } else {
            let next = state.next;
            state.times[next] = took;
            state.next = (next + 1) % WINDOW;
        }
        state.since_renewed += 1;
        if state.times.len() >= KNOWN_MIN && (state.p95.is_none() || state.since_renewed >= RENEW_EVERY) {
            state.since_renewed = 0;
            let mut times = state.times.clone();
            let at = times.len() * 95 / 100;
            state.p95 = Some(*times.select_nth_unstable(at).1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn nothing_is_hedged_before_enough_is_known() {
        let hedging = Hedging::default();
        for _ in 1..KNOWN_MIN {
            assert_eq!(hedging.begin(), None);
            hedging.answered(3 * MS);
        }
        hedging.answered(3 * MS);
        assert_eq!(hedging.begin(), Some(3 * MS));
    }

    #[test]
    fn the_delay_follows_the_slowest_of_twenty() {
        let hedging = Hedging::default();
        for number in 0..WINDOW {
            hedging.answered(if number % 10 == 0 { 40 * MS } else { 2 * MS });
        }
        assert_eq!(hedging.begin(), Some(40 * MS));
        for _ in 0..WINDOW {
            hedging.answered(MS / 10);
        }
        assert_eq!(hedging.begin(), Some(DELAY_MIN), "old times are forgotten");
    }

    #[test]
    fn five_of_a_hundred_are_hedged_at_most() {
        let hedging = Hedging::default();
        let mut hedged = 0;
        for _ in 0..10_000 {
            hedging.begin();
            hedged += u32::from(hedging.spend());
        }
        assert_eq!(hedged, 500);
        for _ in 0..10_000 {
            hedging.begin();
        }
        let burst = (0..1_000).filter(|_| hedging.spend()).count();
        assert_eq!(burst, 10, "what is saved up is bounded");
    }
}
