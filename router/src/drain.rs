//! Going out of service without failing anyone.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Once begun, `/readyz` answers 503; when the delay has passed, balancers have turned away and
/// connections may be refused. There is no way back: a drained router is stopped.
pub(crate) struct Drain {
    delay: Duration,
    begun: OnceLock<Instant>,
}

impl Drain {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { delay, begun: OnceLock::new() }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.get().is_some()
    }

    /// Begins, if it has not begun, and waits until the delay since then has passed.
    pub(crate) async fn run(&self) {
        let begun = *self.begun.get_or_init(Instant::now);
        tokio::time::sleep(self.delay.saturating_sub(begun.elapsed())).await;
    }
}
