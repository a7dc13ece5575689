//! Times in English words.

use super::calendar::{Clock, Found, Range, Unit, YEARS, day_of, month, year};

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const NUMBERS: [&str; 12] =
    ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

/// A word in lower case and where it stands, in bytes.
struct Word {
    text: String,
    start: usize,
    end: usize,
}

pub(super) fn find(text: &str, clock: &Clock<'_>) -> Vec<Found> {
    let words = words(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let run = Run(&words[at..]);
        match run.read(clock) {
            Some((range, length)) if length > 0 => {
                let last = &words[(at + length).min(words.len()) - 1];
                let before = at.checked_sub(1).map_or("", |at| words[at].text.as_str());
                // "before 7 May" is any time but that.
                if !matches!(before, "before" | "after" | "until" | "till" | "by" | "than") {
                    found.push((words[at].start, last.end, range));
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    found
}

/// Runs of ASCII letters and digits. Hyphens and slashes between digits belong to dates.
fn words(text: &str) -> Vec<Word> {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let within = |at: usize| {
        bytes[at].is_ascii_alphanumeric()
            || matches!(bytes[at], b'-' | b'/') && digit(at.checked_sub(1)) && digit(Some(at + 1))
    };
    let mut words = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        while at < bytes.len() && within(at) {
            at += 1;
        }
        if at > start {
            words.push(Word { text: text[start..at].to_ascii_lowercase(), start, end: at });
        } else {
            at += 1;
        }
    }
    words
}

/// The words from one on.
struct Run<'a>(&'a [Word]);

/// A range and how many words name it.
type Read = Option<(Range, usize)>;

impl Run<'_> {
    fn word(&self, at: usize) -> &str {
        self.0.get(at).map_or("", |word| word.text.as_str())
    }

    fn read(&self, clock: &Clock<'_>) -> Read {
        self.named_day(clock)
            .or_else(|| self.ago(clock))
            .or_else(|| self.last_or_next(clock))
            .or_else(|| self.written_date())
            .or_else(|| self.day_of_month(clock))
            .or_else(|| self.month(clock))
            .or_else(|| self.year(clock))
    }

    fn named_day(&self, clock: &Clock<'_>) -> Read {
        let (days, length) = match (self.word(0), self.word(1), self.word(2)) {
            ("day", "before", "yesterday") => (-2, 3),
            ("day", "after", "tomorrow") => (2, 3),
            ("last", "night", _) => (-1, 2),
            ("yesterday", ..) => (-1, 1),
            ("tomorrow", ..) => (1, 1),
            _ => return None,
        };
        Some((clock.day_from_today(days)?, length))
    }

    /// "two weeks ago", "a month ago".
    fn ago(&self, clock: &Clock<'_>) -> Read {
        let count = match self.word(0) {
            "a" | "an" => 1,
            word => number(word)?,
        };
        let unit = unit(self.word(1))?;
        (self.word(2) == "ago").then_some(())?;
        Some((clock.ago(count, unit)?, 3))
    }

    /// "last week", "this year", "last Tuesday", "the last three days", "last May".
    fn last_or_next(&self, clock: &Clock<'_>) -> Read {
        let (which, skip) = match (self.word(0), self.word(1)) {
            ("this", "past") => ("past", 2),
            (which @ ("last" | "past" | "previous" | "this" | "next"), _) => (which, 1),
            _ => return None,
        };
        let word = self.word(skip);
        let back = matches!(which, "last" | "past" | "previous");
        if let Some(count) = number(word).filter(|_| back) {
            return Some((clock.past(count, unit(self.word(skip + 1))?)?, skip + 2));
        }
        let step = match which {
            "this" => 0,
            "next" => 1,
            _ => -1,
        };
        let range = match word {
            // The past week is that up to now, last week that before this one.
            "week" | "month" | "year" if which == "past" => clock.past(1, unit(word)?)?,
            "week" => clock.week(step)?,
            "weekend" => clock.weekend(step)?,
            "month" => clock.month_from_this(step)?,
            "year" => year(clock.this_year() + step)?,
            _ if back => match (weekday(word), month_name(word)) {
                (Some(day), _) => clock.last_weekday(day)?,
                (_, Some(of)) if self.word(skip + 1) != "of" => clock.last_month_of(of)?,
                _ => return None,
            },
            _ => return None,
        };
        Some((range, skip + 1))
    }

    /// "2023-05-07", "2023/5/7", "2023-05": the year first, so that nobody takes days for months.
    fn written_date(&self) -> Read {
        let word = self.word(0);
        let parts: Vec<&str> = word.split(['-', '/']).collect();
        let (first, rest) = parts.split_first()?;
        let named = year_of(first)?;
        let part = |text: &str| (text.len() <= 2).then(|| text.parse::<i64>().ok()).flatten();
        let range = match rest {
            [of] => month(named, part(of)?)?,
            [of, day] => day_of(named, part(of)?, part(day)?)?,
            _ => return None,
        };
        Some((range, 1))
    }

    /// "7 May", "7th of May, 2023", "May 7", "May 7th 2023". Without a year the last one that was.
    fn day_of_month(&self, clock: &Clock<'_>) -> Read {
        let (day, of, length) = if let Some(day) = ordinal(self.word(0)) {
            let skip = usize::from(self.word(1) == "of");
            (day, any_month(self.word(1 + skip))?, 2 + skip)
        } else {
            (ordinal(self.word(1))?, any_month(self.word(0))?, 2)
        };
        match year_of(self.word(length)) {
            Some(year) => Some((day_of(year, of, day)?, length + 1)),
            None => Some((clock.latest_date(of, day)?, length)),
        }
    }

    /// "May 2023", "May of 2023", "in May".
    fn month(&self, clock: &Clock<'_>) -> Read {
        if let Some(of) = any_month(self.word(0)) {
            let skip = usize::from(self.word(1) == "of");
            return Some((month(year_of(self.word(1 + skip))?, of)?, 2 + skip));
        }
        // A name alone may be a word of another kind: "may", "march".
        let introduces = matches!(self.word(0), "in" | "during" | "since" | "early" | "late" | "mid");
        let of = month_name(self.word(1)).filter(|_| introduces)?;
        if let Some(year) = year_of(self.word(2)) {
            return self.reaching(clock, month(year, of)?, 3);
        }
        self.reaching(clock, clock.latest_month(of)?, 2)
    }

    /// "in 2023", "since 2023".
    fn year(&self, clock: &Clock<'_>) -> Read {
        matches!(self.word(0), "in" | "during" | "of" | "since" | "year").then_some(())?;
        self.reaching(clock, year(year_of(self.word(1))?)?, 2)
    }

    fn reaching(&self, clock: &Clock<'_>, range: Range, length: usize) -> Read {
        let range = if self.word(0) == "since" { clock.since(range)? } else { range };
        Some((range, length))
    }
}

fn number(word: &str) -> Option<i64> {
    let named = NUMBERS.iter().position(|number| *number == word);
    named.and_then(|at| i64::try_from(at + 1).ok()).or_else(|| word.parse().ok())
}

fn unit(word: &str) -> Option<Unit> {
    Some(match word.strip_suffix('s').unwrap_or(word) {
        "hour" => Unit::Hour,
        "day" => Unit::Day,
        "week" => Unit::Week,
        "month" => Unit::Month,
        "year" => Unit::Year,
        _ => return None,
    })
}

fn weekday(word: &str) -> Option<i64> {
    position(&WEEKDAYS, |name| name == word || word.len() >= 3 && name.starts_with(word) && word.len() <= 5)
}

fn month_name(word: &str) -> Option<i64> {
    position(&MONTHS, |name| name == word).map(|at| at + 1)
}

/// A name of a month, or its abbreviation, beside a day or a year.
fn any_month(word: &str) -> Option<i64> {
    month_name(word).or_else(|| {
        let short = if word == "sept" { "sep" } else { word };
        position(&MONTHS, |name| short.len() == 3 && name.starts_with(short)).map(|at| at + 1)
    })
}

fn position(names: &[&str], is_it: impl Fn(&str) -> bool) -> Option<i64> {
    names.iter().position(|name| is_it(name)).and_then(|at| i64::try_from(at).ok())
}

/// "7", "7th", "21st".
fn ordinal(word: &str) -> Option<i64> {
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    (digits.len() <= 2).then(|| digits.parse().ok()).flatten().filter(|day| (1..=31).contains(day))
}

fn year_of(word: &str) -> Option<i64> {
    (word.len() == 4).then(|| word.parse().ok()).flatten().filter(|year| YEARS.contains(year))
}
