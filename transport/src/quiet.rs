use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A message that comes again is told this often.
const EVERY: Duration = Duration::from_secs(30);
/// Messages that are remembered.
const KNOWN_MAX: usize = 256;

/// Keeps a log readable: a message that repeats itself is told once in 30 seconds, with how often
/// it was left out in between.
#[derive(Debug, Default)]
pub struct Quiet(Mutex<HashMap<String, (Instant, u64)>>);

impl Quiet {
    /// How often this message was left out since it was last told, if it is to be told now.
    pub fn tell(&self, message: &str) -> Option<u64> {
        self.tell_at(message, Instant::now())
    }

    fn tell_at(&self, message: &str, now: Instant) -> Option<u64> {
        let mut known = self.0.lock();
        if let Some((told, left_out)) = known.get_mut(message) {
            if now.saturating_duration_since(*told) < EVERY {
                *left_out += 1;
                return None;
            }
            let before = *left_out;
            (*told, *left_out) = (now, 0);
            return Some(before);
        }
        if known.len() >= KNOWN_MAX {
            known.retain(|_, (told, _)| now.saturating_duration_since(*told) < EVERY);
        }
        if known.len() >= KNOWN_MAX {
            return None;
        }
        known.insert(message.to_owned(), (now, 0));
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_counted_and_memory_is_bounded() {
        let (quiet, start) = (Quiet::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(quiet.tell_at("a", start), Some(0));
        assert_eq!(quiet.tell_at("a", after(1)), None);
        assert_eq!(quiet.tell_at("a", after(29)), None);
        assert_eq!(quiet.tell_at("b", after(29)), Some(0));
        assert_eq!(quiet.tell_at("a", after(31)), Some(2));
        assert_eq!(quiet.tell_at("a", after(32)), None);
        for n in 0..1_000 {
            quiet.tell_at(&format!("flood {n}"), after(40));
        }
        assert!(quiet.0.lock().len() <= KNOWN_MAX);
        assert_eq!(quiet.tell_at("late", after(41)), None, "a flood hides others for a while");
        assert_eq!(quiet.tell_at("late", after(80)), Some(0), "and not for ever");
    }
}
