use super::{Held, broken};
use std::collections::BTreeMap;

/// A write that its client repeats until it is answered takes effect once; one without an answer, at
/// most once. Observed on counters that each write raises by one.
#[derive(Debug, Clone, Default)]
pub struct ExactlyOnce(BTreeMap<String, (u64, u64)>);

impl ExactlyOnce {
    /// The name of the invariant.
    pub const NAME: &str = "a write takes effect exactly once";

    /// A raise of a counter was acknowledged.
    pub fn acknowledged(&mut self, counter: &str) {
        self.0.entry(counter.to_owned()).or_default().0 += 1;
    }

    /// A raise of a counter was given up without an answer.
    pub fn unknown(&mut self, counter: &str) {
        self.0.entry(counter.to_owned()).or_default().1 += 1;
    }

    /// The counters that were raised.
    pub fn counters(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The value of a counter in the end.
    ///
    /// # Errors
    /// If it is less than was acknowledged, or more than was asked for.
    pub fn counted(&self, counter: &str, value: u64) -> Held {
        let (acknowledged, unknown) = self.0.get(counter).copied().unwrap_or_default();
        if (acknowledged..=acknowledged + unknown).contains(&value) {
            return Ok(());
        }
        let observed = format!(
            "{counter} is {value} after {acknowledged} acknowledged raises and {unknown} of unknown outcome"
        );
        broken(Self::NAME, observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_and_a_repeated_raise_are_found() {
        let mut once = ExactlyOnce::default();
        once.acknowledged("a");
        once.acknowledged("a");
        once.unknown("a");
        assert!(once.counted("a", 1).is_err());
        assert!(once.counted("a", 2).is_ok());
        assert!(once.counted("a", 3).is_ok());
        assert!(once.counted("a", 4).is_err());
        assert!(once.counted("b", 1).is_err(), "nobody asked for it");
    }
}
