//! Ranges of a calendar, seen from a moment.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// From one civil time up to another, exclusive.
pub(super) type Range = (DateTime, DateTime);

/// Where a range stands in a text, in bytes, and the range.
pub(super) type Found = (usize, usize, Range);

/// Largest number of units that is counted back or ahead.
const COUNT_MAX: i64 = 10_000;
/// Years that a text can name.
pub(super) const YEARS: std::ops::RangeInclusive<i64> = 1900..=2100;

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Hour,
    Day,
    Week,
    Month,
    Year,
}

/// The moment of the question, as a calendar on the wall shows it.
pub(super) struct Clock<'a> {
    now: DateTime,
    zone: &'a TimeZone,
}

impl<'a> Clock<'a> {
    pub(super) fn new(now_us: i64, zone: &'a TimeZone) -> Option<Self> {
        let now = Timestamp::from_microsecond(now_us).ok()?;
        Some(Self { now: zone.to_datetime(now), zone })
    }

    /// A range in microseconds since 1970.
    pub(super) fn micros(&self, (from, until): Range) -> Option<(i64, i64)> {
        let us = |at: DateTime| self.zone.to_timestamp(at).ok().map(Timestamp::as_microsecond);
        Some((us(from)?, us(until)?))
    }

    pub(super) fn today(&self) -> Date {
        self.now.date()
    }

    pub(super) fn this_year(&self) -> i64 {
        self.today().year().into()
    }

    pub(super) fn this_month(&self) -> i64 {
        self.today().month().into()
    }

    /// The day so many days from today.
    pub(super) fn day_from_today(&self, days: i64) -> Option<Range> {
        day(shift(self.today(), days)?)
    }

    /// The week, from Monday, so many weeks from this one.
    pub(super) fn week(&self, weeks: i64) -> Option<Range> {
        let monday = self.monday(weeks)?;
        between(monday, shift(monday, 7)?)
    }

    /// A day, Monday being 0, of the week so many weeks from this one.
    pub(super) fn weekday(&self, weeks: i64, weekday: i64) -> Option<Range> {
        day(shift(self.monday(weeks)?, weekday)?)
    }

    /// Saturday and Sunday of the week so many weeks from this one.
    pub(super) fn weekend(&self, weeks: i64) -> Option<Range> {
        let monday = self.monday(weeks)?;
        between(shift(monday, 5)?, shift(monday, 7)?)
    }

    /// The last such day, Monday being 0, before today.
    pub(super) fn last_weekday(&self, weekday: i64) -> Option<Range> {
        let today: i64 = self.today().weekday().to_monday_zero_offset().into();
        let back = (today - weekday).rem_euclid(7);
        self.day_from_today(-if back == 0 { 7 } else { back })
    }

    /// The month so many months from this one.
    pub(super) fn month_from_this(&self, months: i64) -> Option<Range> {
        let at = self.this_year() * 12 + self.this_month() - 1 + months;
        month(at.div_euclid(12), at.rem_euclid(12) + 1)
    }

    /// The last time that it was this month, or is.
    pub(super) fn latest_month(&self, of: i64) -> Option<Range> {
        let year = if of <= self.this_month() { self.this_year() } else { self.this_year() - 1 };
        month(year, of)
    }

    /// The last time that this month came to its end.
    pub(super) fn last_month_of(&self, of: i64) -> Option<Range> {
        let year = if of < self.this_month() { self.this_year() } else { self.this_year() - 1 };
        month(year, of)
    }

    /// The last time that it was this day of the year, or is.
    pub(super) fn latest_date(&self, of_month: i64, of_day: i64) -> Option<Range> {
        // The 29th of February comes every fourth year, or, around 1900 and 2100, every eighth.
        (0..=8).find_map(|back| {
            let at = date(self.this_year() - back, of_month, of_day).filter(|at| *at <= self.today())?;
            day(at)
        })
    }

    /// So many units ago: the hour around it, its day, the week around it, its month, its year.
    pub(super) fn ago(&self, count: i64, unit: Unit) -> Option<Range> {
        let count = within(count)?;
        match unit {
            Unit::Hour => Some((self.minutes_ago(count * 60 + 30)?, self.minutes_ago(count * 60 - 30)?)),
            Unit::Day => self.day_from_today(-count),
            Unit::Week => {
                let middle = shift(self.today(), -7 * count)?;
                between(shift(middle, -3)?, shift(middle, 4)?)
            }
            Unit::Month => self.month_from_this(-count),
            Unit::Year => year(self.this_year() - count),
        }
    }

    /// The last so many units, up to now.
    pub(super) fn past(&self, count: i64, unit: Unit) -> Option<Range> {
        let count = within(count)?;
        let span = Span::new();
        let span = match unit {
            Unit::Hour => return Some((self.minutes_ago(count * 60)?, self.now)),
            Unit::Day => span.try_days(count),
            Unit::Week => span.try_weeks(count),
            Unit::Month => span.try_months(count),
            Unit::Year => span.try_years(count),
        };
        Some((self.now.checked_sub(span.ok()?).ok()?, self.now))
    }

    /// From the start of a range up to now.
    pub(super) fn since(&self, (from, _): Range) -> Option<Range> {
        (from < self.now).then_some((from, self.now))
    }

    /// The wall clock so many minutes ago: hours are counted through changes of summer time.
    fn minutes_ago(&self, minutes: i64) -> Option<DateTime> {
        let now = self.zone.to_timestamp(self.now).ok()?;
        let then = now.checked_sub(Span::new().try_minutes(minutes).ok()?).ok()?;
        Some(self.zone.to_datetime(then))
    }

    fn monday(&self, weeks: i64) -> Option<Date> {
        let today: i64 = self.today().weekday().to_monday_zero_offset().into();
        shift(self.today(), 7 * weeks - today)
    }
}

fn within(count: i64) -> Option<i64> {
    (1..=COUNT_MAX).contains(&count).then_some(count)
}

fn shift(date: Date, days: i64) -> Option<Date> {
    date.checked_add(Span::new().try_days(days).ok()?).ok()
}

fn between(from: Date, until: Date) -> Option<Range> {
    let midnight = |date: Date| date.to_datetime(Time::midnight());
    Some((midnight(from), midnight(until)))
}

pub(super) fn date(year: i64, month: i64, day: i64) -> Option<Date> {
    let year = YEARS.contains(&year).then_some(year)?;
    Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok()
}

pub(super) fn day(date: Date) -> Option<Range> {
    between(date, shift(date, 1)?)
}

/// A day of a month of a year.
pub(super) fn day_of(year: i64, month: i64, of: i64) -> Option<Range> {
    day(date(year, month, of)?)
}

pub(super) fn month(year: i64, month: i64) -> Option<Range> {
    let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    let next = Date::new(next.0.try_into().ok()?, next.1.try_into().ok()?, 1).ok()?;
    between(date(year, month, 1)?, next)
}

pub(super) fn year(year: i64) -> Option<Range> {
    let next = Date::new((year + 1).try_into().ok()?, 1, 1).ok()?;
    between(date(year, 1, 1)?, next)
}
