//! Times that a question names: "yesterday", "in May 2023", 上周三, 三天前.
//!
//! Each becomes a range on the time at which things happened, seen from the time of the question in the
//! zone of who asks. A recall lifts what happened then by [`When::lift`]; it leaves nothing out. Only what has
//! one meaning is read: not "on Tuesday" (the last one or the next?), nor "last summer" (of which
//! half of the world?), nor "3/4/2023", nor a time that something was before or after. Words for the present (today, 今天) mostly say when the question is
//! asked, not what it asks for, and are not read either.

mod calendar;
mod chinese;
mod english;
#[cfg(test)]
mod tests;

use calendar::Clock;
use jiff::tz::TimeZone;

/// What a memory gains that happened on the day or in the week that a question names. Half of what a
/// boost may be: the words of a date are looked up as all words are, and this comes on top of it.
const LIFT: f64 = 0.05;
/// The same for a longer time, which says less: on LoCoMo (conversations 1 to 5) .03 for a month already
/// lifted more above the turn that was asked for than it lifted that turn.
const LIFT_WIDE: f64 = 0.02;
/// The longest time, in microseconds, that is not wide: a week and a day.
const NARROW_US: i64 = 8 * 86_400_000_000;

/// Most times that are read from one question.
pub const TIMES_MAX: usize = 4;

/// A range of time that a question names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct When {
    /// Its first moment, in microseconds since 1970.
    pub from_us: i64,
    /// The first moment after it.
    pub until_us: i64,
    /// The words that name it, as they stand in the question.
    pub words: String,
}

impl When {
    /// Whether a moment lies in the range.
    #[inline]
    pub fn holds(&self, us: i64) -> bool {
        (self.from_us..self.until_us).contains(&us)
    }

    /// What a memory gains that happened then.
    pub fn lift(&self) -> f64 {
        if self.until_us.saturating_sub(self.from_us) <= NARROW_US { LIFT } else { LIFT_WIDE }
    }
}

/// The times that a question names, in the order in which they stand there, at most [`TIMES_MAX`].
///
/// ```
/// use holdfast_core::when;
/// use jiff::tz::TimeZone;
/// // Wednesday, 2 December 2026, noon.
/// let now_us = 1_796_212_800_000_000;
/// let found = when::find("What did we talk about yesterday?", now_us, &TimeZone::UTC);
/// assert_eq!(found[0].words, "yesterday");
/// assert_eq!(found[0].from_us, now_us - 36 * 3_600_000_000);
/// ```
pub fn find(question: &str, now_us: i64, zone: &TimeZone) -> Vec<When> {
    let Some(clock) = Clock::new(now_us, zone) else { return Vec::new() };
    let mut found = english::find(question, &clock);
    found.extend(chinese::find(question, &clock));
    found.sort_by_key(|(start, _, _)| *start);
    let whens = found.into_iter().filter_map(|(start, end, range)| {
        let (from_us, until_us) = clock.micros(range)?;
        let words = question.get(start..end)?.to_owned();
        (from_us < until_us).then_some(When { from_us, until_us, words })
    });
    whens.take(TIMES_MAX).collect()
}
