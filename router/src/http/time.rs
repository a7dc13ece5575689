//! Times: microseconds since 1970 inside, RFC 3339 outside.

use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

/// The router's clock, in microseconds since 1970.
pub(crate) fn now_us() -> i64 {
    Timestamp::now().as_microsecond()
}

/// A time in JSON: read as RFC 3339 with a zone, written in UTC with microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(pub(crate) i64);

/// The last time that can be read and written, whatever the zone: 9999-12-30T22:00:00Z.
const LAST: Time = Time(253_402_207_200_000_000);

impl Time {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parsed: Result<Timestamp, _> = text.parse();
        let parsed = parsed.map(|time| Self(time.as_microsecond())).ok();
        parsed.filter(|time| *time <= LAST).ok_or_else(|| {
            if is_well_formed(text) {
                return format!("is beyond the last time that can be given, {LAST}");
            }
            "must be an RFC 3339 time with a zone, such as 2026-11-30T09:30:00Z or 2026-11-30T17:30:00+08:00"
                .to_owned()
        })
    }
}

/// Whether it is written as a time is, with a zone, whatever the time.
fn is_well_formed(text: &str) -> bool {
    Pieces::parse(text).is_ok_and(|pieces| pieces.time().is_some() && pieces.offset().is_some())
}

impl Time {
    /// The day in UTC, as `2026-11-30`.
    pub(crate) fn day(self) -> String {
        match Timestamp::from_microsecond(self.0) {
            Ok(time) => time.strftime("%Y-%m-%d").to_string(),
            Err(_) => "no day".to_owned(),
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match Timestamp::from_microsecond(self.0) {
            Ok(time) => serializer.collect_str(&format_args!("{time:.6}")),
            // Beyond the years that RFC 3339 can write; no caller can have given it.
            Err(_) => serializer.serialize_none(),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_microsecond(self.0) {
            Ok(time) => write!(f, "{time:.6}"),
            Err(_) => write!(f, "microsecond {}", self.0),
        }
    }
}

/// The moment at which a caller stops waiting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(duration: Duration) -> Self {
        Self::of(Instant::now(), duration)
    }

    /// The deadline of something that began at `start`.
    pub(crate) fn of(start: Instant, duration: Duration) -> Self {
        Self(start + duration)
    }

    /// The time that is left, zero at the end.
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// The end of the first part of what is left; `share` is 0..=1.
    pub(crate) fn part(self, share: f64) -> Self {
        let now = Instant::now();
        Self(now + self.0.saturating_duration_since(now).mul_f64(share.clamp(0.0, 1.0)))
    }

    /// Whichever is earlier.
    pub(crate) fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    pub(crate) fn at(self) -> Instant {
        self.0
    }
}

/// Whole milliseconds for the wire, at least 1 while anything is left.
pub(crate) fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(u32::MAX)
}

/// Whole microseconds since `start`.
pub(crate) fn micros_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn times_are_read_with_any_zone_and_written_in_utc() {
        for (text, written) in [
            ("2023-05-08T13:56:00Z", "2023-05-08T13:56:00.000000Z"),
            ("2023-05-08T21:56:00.123456789+08:00", "2023-05-08T13:56:00.123456Z"),
            ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
            ("9999-12-30T00:00:00Z", "9999-12-30T00:00:00.000000Z"),
        ] {
            let time = Time::parse(text).unwrap();
            assert_eq!(serde_json::to_string(&time).unwrap(), format!("\"{written}\""));
        }
        for bad in [
            "",
            "yesterday",
            "2023-05-08",
            "2023-05-08T13:56:00",
            "2023-13-01T00:00:00Z",
            "1683554160",
            "明天",
        ] {
            assert!(Time::parse(bad).is_err(), "{bad}");
        }
        for late in ["9999-12-31T23:59:59Z", "9999-12-30T22:00:00.000001Z", "9999-12-31T09:00:00+08:00"] {
            let error = Time::parse(late).unwrap_err();
            assert!(error.contains("9999-12-30T22:00:00"), "{late}: {error}");
        }
        assert_eq!(Time::parse("9999-12-30T22:00:00Z"), Ok(LAST));
        assert_eq!(serde_json::to_string(&LAST).unwrap(), "\"9999-12-30T22:00:00.000000Z\"");
        assert_eq!(serde_json::to_string(&Time(i64::MAX)).unwrap(), "null");
        assert_eq!(Time::parse("2026-03-02T23:30:00-05:00").unwrap().day(), "2026-03-03");
    }
}
