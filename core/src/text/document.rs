//! Which text of a memory is indexed and which is embedded.

use std::borrow::Cow;
use std::fmt::Write;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// The text to analyse for the keyword index: `day month year`, then `speaker: content`, then the
/// caption of an attached image. With the date as words, "in May 2023" finds it.
///
/// `event_time_micros` is in microseconds since 1970-01-01T00:00Z; the date is that of UTC.
///
/// ```
/// use holdfast_core::text::index_text;
/// let text = index_text(1_683_554_160_000_000, Some("Caroline"), "Hi Mel!", None);
/// assert_eq!(text, "8 May 2023\nCaroline: Hi Mel!");
/// ```
pub fn index_text(
    event_time_micros: i64,
    speaker: Option<&str>,
    content: &str,
    caption: Option<&str>,
) -> String {
    let (year, month, day) = civil_date(event_time_micros);
    let mut out = String::with_capacity(content.len() + 64);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{day} {} {year}", MONTHS[month - 1]);
    out.push_str(&embed_text(speaker, &captioned(content, caption)));
    out
}

/// The text to embed: `speaker: content`, without the date, which would draw the vectors of one
/// day together whatever was said.
pub fn embed_text(speaker: Option<&str>, content: &str) -> String {
    match speaker {
        Some(speaker) if !speaker.trim().is_empty() => format!("{speaker}: {content}"),
        _ => content.to_owned(),
    }
}

/// Content with the caption of its image behind it, as both texts want it.
pub fn captioned<'a>(content: &'a str, caption: Option<&str>) -> Cow<'a, str> {
    match caption {
        Some(caption) if !caption.trim().is_empty() => Cow::Owned(format!("{content}\n{caption}")),
        _ => Cow::Borrowed(content),
    }
}

/// Year, month (1..=12) and day (1..=31) of the proleptic Gregorian calendar in UTC, for every
/// i64. Years count from 1 March, so that the leap day is the last of its year; 400 such years
/// are 146,097 days.
fn civil_date(micros: i64) -> (i64, usize, i64) {
    // Days since 0000-03-01, which is 719,468 days before 1970-01-01.
    let days = micros.div_euclid(MICROS_PER_DAY) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March on repeat 31 30 31 30 31: 153 days in five.
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, next_year) = match month_from_march {
        0..=9 => (month_from_march + 3, 0),
        _ => (month_from_march - 9, 1),
    };
    let month = usize::try_from(month).unwrap_or(1);
    (era * 400 + year_of_era + next_year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date_of_day(day: i64) -> (i64, usize, i64) {
        civil_date(day * MICROS_PER_DAY)
    }

    #[test]
    fn known_dates() {
        assert_eq!(date_of_day(0), (1970, 1, 1));
        assert_eq!(date_of_day(-1), (1969, 12, 31));
        assert_eq!(date_of_day(19_485), (2023, 5, 8));
        assert_eq!(date_of_day(11_016), (2000, 2, 29));
        assert_eq!(date_of_day(-719_468), (0, 3, 1));
        assert_eq!(civil_date(-1), (1969, 12, 31));
        assert_eq!(civil_date(MICROS_PER_DAY - 1), (1970, 1, 1));
    }

    /// Walks four centuries day by day with the rules everyone knows.
    #[test]
    fn every_day_of_an_era_follows_the_one_before() {
        let (mut year, mut month, mut day) = (1900, 1, 1);
        // 1900-01-01 is 25,567 days before 1970-01-01.
        for n in -25_567..(146_097 - 25_567) {
            assert_eq!(date_of_day(n), (year, month, day), "day {n}");
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = match month {
                2 => 28 + i64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > last {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(civil_date(i64::MAX), (294_247, 1, 10));
        assert_eq!(civil_date(i64::MIN), (-290_308, 12, 21));
        assert!(index_text(i64::MIN, None, "", None).contains("-290308"));
    }

    #[test]
    fn texts() {
        assert_eq!(index_text(0, Some("Mel"), "look", Some("a dog")), "1 January 1970\nMel: look\na dog");
        assert_eq!(index_text(0, None, "look", Some(" ")), "1 January 1970\nlook");
        assert_eq!(embed_text(Some("小明"), "你好"), "小明: 你好");
        assert_eq!(embed_text(Some(""), "x"), "x");
    }
}
