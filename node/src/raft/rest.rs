//! Whether a group is at rest: then its heartbeats may wait for those of other groups.
//!
//! openraft gives each group a clock of its own. 256 groups at rest would send some thousand messages
//! a second, each alone; on common beats they travel together. A heartbeat is told from what somebody
//! waits for by the group's own doings: it has none in flight and had none a moment ago, so that the
//! note of the last commit, which followers apply by, is not held back either.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// One group's doings as a leader.
#[derive(Debug)]
pub(crate) struct Rest {
    start: Instant,
    doing: AtomicUsize,
    /// When the last one ended, in milliseconds from `start`, plus one; 0 if there was none.
    ended_ms: AtomicU64,
    /// How long after that the group is at rest.
    after: Duration,
    woken: Notify,
}

/// Something is being done while this lives.
pub(crate) struct Doing<'a>(&'a Rest);

impl Drop for Doing<'_> {
    fn drop(&mut self) {
        let ms = u64::try_from(self.0.start.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.0.ended_ms.store(ms + 1, Ordering::Release);
        self.0.doing.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Rest {
    pub(crate) fn new(after: Duration) -> Self {
        Rest {
            start: Instant::now(),
            doing: AtomicUsize::new(0),
            ended_ms: AtomicU64::new(0),
            after,
            woken: Notify::new(),
        }
    }

    /// A write or read begins; heartbeats that wait leave now, so as not to stand in its way.
    pub(crate) fn doing(&self) -> Doing<'_> {
        self.doing.fetch_add(1, Ordering::AcqRel);
        self.woken.notify_waiters();
        Doing(self)
    }

    fn is_at_rest(&self) -> bool {
        if self.doing.load(Ordering::Acquire) > 0 {
            return false;
        }
        match self.ended_ms.load(Ordering::Acquire) {
            0 => true,
            ended => self.start.elapsed() > Duration::from_millis(ended - 1) + self.after,
        }
    }

    /// Waits for `beat` if the group is at rest, and no longer than it is.
    pub(crate) async fn wait(&self, beat: Instant) {
        let woken = self.woken.notified();
        tokio::pin!(woken);
        // Before the look, so that nothing that begins after it is missed.
        woken.as_mut().enable();
        if self.is_at_rest() {
            tokio::select! {
                () = tokio::time::sleep_until(beat) => {}
                () = woken => {}
            }
        }
    }
}

/// The first of the moments `start`, `start + every`, … that is after `now`.
pub(crate) fn next_beat(start: Instant, every: Duration, now: Instant) -> Instant {
    let every_us = every.as_micros().max(1);
    let beats = now.saturating_duration_since(start).as_micros() / every_us + 1;
    let us = u64::try_from(beats.saturating_mul(every_us)).unwrap_or(u64::MAX);
    start + Duration::from_micros(us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn beats_are_common() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let every = Duration::from_millis(30);
        for (now, beat) in [(0, 30), (1, 30), (29, 30), (30, 60), (59, 60), (100, 120)] {
            assert_eq!(next_beat(start, every, at(now)), at(beat), "{now}");
        }
        assert!(next_beat(start, Duration::ZERO, at(5)) > at(5));
    }

    #[tokio::test]
    async fn only_a_group_at_rest_waits_and_a_write_ends_it() {
        let rest = Arc::new(Rest::new(Duration::ZERO));
        let hour = Duration::from_secs(3_600);
        let far = move || Instant::now() + hour;
        let doing = rest.doing();
        rest.wait(far()).await;
        drop(doing);
        std::thread::sleep(Duration::from_millis(5));
        assert!(rest.is_at_rest());
        let waiting = tokio::spawn({
            let rest = Arc::clone(&rest);
            async move { rest.wait(far()).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        let _doing = rest.doing();
        let ended = tokio::time::timeout(Duration::from_secs(60), waiting).await;
        assert!(ended.is_ok(), "the write did not wake the heartbeat");
        let lingering = Rest::new(hour);
        drop(lingering.doing());
        assert!(!lingering.is_at_rest(), "the last commit is still to be told");
    }
}
