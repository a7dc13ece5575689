//! Whether two texts say the same in the same words.
//!
//! Similar is not the same: "I had soup for lunch" and "I had salad for lunch" are as near to each other as two
//! wordings of one thing, for vectors as for shared terms. So nothing that may carry meaning may differ. Two texts
//! say the same if they are equal but for the case and width of letters, the form of quotes, what ends
//! them (unless one asks), and a lead-in of a short list in front, such as "by the way,". The names in them
//! must be written alike: "polish" and "Polish" are two words. Both must be told of nearly the same time.
//!
//! Tables and rules, which change from version to version: this runs before a proposal, never in apply.

mod gist;
#[cfg(test)]
mod tests;

pub use gist::Gist;

/// Longest text that is compared, in bytes: what is longer tells more than one thing.
pub const TEXT_BYTES_MAX: usize = 1_024;
/// Memories that are looked at for one text.
pub const CANDIDATES: usize = 16;
/// How far apart two events may be that are told alike, in microseconds (12 hours): what happened again the
/// next day is another event, and "Monday" is another Monday.
pub const SAME_EVENT_US: i64 = 12 * 3_600 * 1_000_000;

/// Whether two texts say the same, told of events at these times (in microseconds since 1970).
pub fn say_the_same((one, one_us): (&Gist, i64), (other, other_us): (&Gist, i64)) -> bool {
    other_us.saturating_sub(one_us).saturating_abs() <= SAME_EVENT_US && one == other
}
