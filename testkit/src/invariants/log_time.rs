use super::{Held, broken};
use std::collections::BTreeMap;

/// The time by which a state expires its rows comes from the log: later entries have later times,
/// whatever clocks do, and an entry has the same time wherever and whenever it is applied.
#[derive(Debug, Clone, Default)]
pub struct LogTime(BTreeMap<(u64, u64), i64>);

impl LogTime {
    /// The name of the invariant.
    pub const NAME: &str = "log time only goes forward";

    /// The log time of a state after the entry at `index`, microseconds. Only entries that hold
    /// commands move it.
    ///
    /// # Errors
    /// If an earlier entry has a later time, or the same entry another one.
    pub fn after(&mut self, group: u64, index: u64, time_us: i64) -> Held {
        let at = (group, index);
        let before = self.0.range((group, 0)..at).next_back();
        let behind = self.0.range(at..=(group, u64::MAX)).next();
        for (known, known_us) in before.into_iter().chain(behind) {
            let fits = match known.1.cmp(&index) {
                std::cmp::Ordering::Less => *known_us <= time_us,
                std::cmp::Ordering::Equal => *known_us == time_us,
                std::cmp::Ordering::Greater => *known_us >= time_us,
            };
            if !fits {
                let observed = format!(
                    "in group {group} it is {time_us} us after entry {index}, and {known_us} us after entry {}",
                    known.1
                );
                return broken(Self::NAME, observed);
            }
        }
        self.0.insert(at, time_us);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_goes_back_is_found_in_any_order_of_observation() {
        let mut time = LogTime::default();
        assert!(time.after(1, 5, 50).is_ok());
        assert!(time.after(1, 9, 90).is_ok());
        assert!(time.after(1, 7, 50).is_ok(), "an entry without commands");
        assert!(time.after(2, 6, 1).is_ok(), "another group");
        assert!(time.after(1, 7, 51).is_err(), "another time at a replay");
        assert!(time.after(1, 8, 91).is_err());
        assert!(time.after(1, 8, 49).is_err());
        assert!(time.after(1, 10, 89).is_err());
    }
}
