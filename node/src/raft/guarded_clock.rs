//! A clock that does not follow a jump.

use super::clock::{Clock, SystemClock};
use parking_lot::Mutex;

/// How far ahead of what has really passed since the last look the wall clock may be. NTP steps and
/// slow readers stay below; a clock that was set wrong does not.
const AHEAD_MAX_US: u64 = 5 * 60 * 1_000_000;

/// Time since some fixed moment, which no setting of the wall clock moves.
pub trait SteadyTime: Send + Sync + 'static {
    /// Microseconds.
    fn elapsed_us(&self) -> u64;
}

/// The kernel's time since boot, which counts while the machine sleeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct SinceBoot;

impl SteadyTime for SinceBoot {
    fn elapsed_us(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let us = i128::from(time.tv_sec) * 1_000_000 + i128::from(time.tv_nsec) / 1_000;
        u64::try_from(us).unwrap_or(0)
    }
}

/// The machine's clock, guarded: where it jumps ahead by more than five minutes while the process
/// runs, time goes on as if it had not, and an alarm is logged. Log time never goes back, so a jump
/// that reached the log would stay in it, and memories would expire that should not.
///
/// It follows again when the wall clock is right again, or when an operator who knows that it is
/// right restarts the process: at its start it believes the wall clock, since how long it was down
/// it cannot know.
pub struct GuardedClock<W = SystemClock, S = SinceBoot> {
    wall: W,
    steady: S,
    state: Mutex<State>,
}

struct State {
    /// The latest time that was believed, and when.
    believed_us: u64,
    at_us: u64,
    jumped: bool,
}

impl GuardedClock {
    /// The machine's clock, believed as it is now.
    pub fn system() -> Self {
        Self::new(SystemClock, SinceBoot)
    }
}

impl<W: Clock, S: SteadyTime> GuardedClock<W, S> {
    /// Believes `wall` as it is now.
    pub fn new(wall: W, steady: S) -> Self {
        let state = State { believed_us: wall.now_us(), at_us: steady.elapsed_us(), jumped: false };
        Self { wall, steady, state: Mutex::new(state) }
    }

    /// Whether the wall clock is not believed at the moment.
    pub fn has_jumped(&self) -> bool {
        self.state.lock().jumped
    }
}

impl<W: Clock, S: SteadyTime> Clock for GuardedClock<W, S> {
    fn now_us(&self) -> u64 {
        let mut state = self.state.lock();
        let (wall_us, steady_us) = (self.wall.now_us(), self.steady.elapsed_us());
        let expected_us = state.believed_us.saturating_add(steady_us.saturating_sub(state.at_us));
        let jumped = wall_us.saturating_sub(expected_us) > AHEAD_MAX_US;
        if jumped != std::mem::replace(&mut state.jumped, jumped) {
            if jumped {
                tracing::error!(
                    ahead_s = (wall_us - expected_us) / 1_000_000,
                    "the clock jumped ahead and is not followed; set it right, or restart this process if it is"
                );
            } else {
                tracing::warn!("the clock is followed again");
            }
        }
        if jumped {
            return expected_us;
        }
        // A clock that goes back is answered as it is, for the state machine to level out, but not
        // believed: when it comes forward again that is no jump.
        if wall_us >= expected_us {
            (state.believed_us, state.at_us) = (wall_us, steady_us);
        }
        wall_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    const SECOND: u64 = 1_000_000;
    const DAY: u64 = 24 * 3_600 * SECOND;
    const START: u64 = 1_800_000_000 * SECOND;

    #[derive(Clone, Default)]
    struct Hand(Arc<AtomicU64>);

    impl Hand {
        fn add(&self, us: u64) {
            self.0.fetch_add(us, Ordering::Relaxed);
        }
        fn sub(&self, us: u64) {
            self.0.fetch_sub(us, Ordering::Relaxed);
        }
    }
    impl Clock for Hand {
        fn now_us(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }
    impl SteadyTime for Hand {
        fn elapsed_us(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn clocks() -> (Hand, Hand, GuardedClock<Hand, Hand>) {
        let (wall, steady) = (Hand::default(), Hand::default());
        wall.add(START);
        let clock = GuardedClock::new(wall.clone(), steady.clone());
        (wall, steady, clock)
    }

    #[test]
    fn time_that_passed_is_no_jump() {
        let (wall, steady, clock) = clocks();
        wall.add(30 * DAY);
        steady.add(30 * DAY);
        assert_eq!((clock.now_us(), clock.has_jumped()), (START + 30 * DAY, false));
    }

    #[test]
    fn a_step_of_minutes_is_followed_and_a_jump_is_not() {
        let (wall, steady, clock) = clocks();
        wall.add(240 * SECOND);
        assert_eq!(clock.now_us(), START + 240 * SECOND);
        wall.add(400 * DAY);
        assert_eq!((clock.now_us(), clock.has_jumped()), (START + 240 * SECOND, true));
        wall.add(SECOND);
        steady.add(SECOND);
        assert_eq!(clock.now_us(), START + 241 * SECOND, "time goes on");
        wall.sub(400 * DAY);
        assert_eq!((clock.now_us(), clock.has_jumped()), (START + 241 * SECOND, false));
    }

    #[test]
    fn back_and_forth_is_no_jump() {
        let (wall, _, clock) = clocks();
        wall.sub(DAY);
        assert_eq!(clock.now_us(), START - DAY);
        wall.add(DAY);
        assert_eq!((clock.now_us(), clock.has_jumped()), (START, false));
    }

    #[test]
    fn the_kernel_counts() {
        let before = SinceBoot.elapsed_us();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(SinceBoot.elapsed_us() > before);
    }
}
