//! Wall time, injected so that tests choose it.

use std::time::{SystemTime, UNIX_EPOCH};

/// A source of wall-clock time. It may jump; the state machine makes it monotonic.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since the Unix epoch.
    fn now_us(&self) -> u64;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_us(&self) -> u64 {
        // A clock before 1970 gives 0: the state machine then counts on from the last applied time.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
    }
}
