//! When an attempt is repeated, and after which pause.

use std::time::Duration;

use super::ClientError;

/// Bounds of the repetition of one call: in attempts and in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Most attempts, the first included; 1 never retries.
    pub attempts_max: u32,
    /// No new attempt is started when this much time has passed since the first.
    pub total_max: Duration,
    /// Pause after the first attempt; doubled after each further one.
    pub pause_first: Duration,
    /// Longest pause, also where the server asks for more.
    pub pause_max: Duration,
}

impl Default for RetryPolicy {
    /// Eight attempts within 20 s: enough to outlast the election of a new leader (1.5 s).
    fn default() -> Self {
        Self {
            attempts_max: 8,
            total_max: Duration::from_secs(20),
            pause_first: Duration::from_millis(100),
            pause_max: Duration::from_secs(5),
        }
    }
}

impl RetryPolicy {
    /// Never repeats: for measurements, where a retry would hide an error.
    pub fn never() -> Self {
        Self { attempts_max: 1, ..Self::default() }
    }

    /// The pause before the attempt after `attempt` (counted from 1), or `None` to give up.
    pub(super) fn pause(&self, attempt: u32, elapsed: Duration, error: &ClientError) -> Option<Duration> {
        let asked = match error {
            ClientError::Refused(problem) if problem.is_temporary() => problem.retry_after,
            ClientError::Unreachable { .. } => None,
            _ => return None,
        };
        let doubled = self.pause_first.saturating_mul(1 << attempt.saturating_sub(1).min(16));
        // Up to a quarter more, so that clients that failed together do not return together.
        let spread = doubled.mul_f64(1.0 + rand::random::<f64>() / 4.0);
        let pause = spread.max(asked.unwrap_or_default()).min(self.pause_max);
        (attempt < self.attempts_max && elapsed + pause < self.total_max).then_some(pause)
    }
}
