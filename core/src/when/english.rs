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
    /// Whether it is written with a capital.
    capital: bool,
    /// Whether a sentence ends before it.
    breaks: bool,
}

pub(super) fn find(text: &str, clock: &Clock<'_>) -> Vec<Found> {
    let words = words(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let sentence =
            words[at + 1..].iter().position(|word| word.breaks).map_or(words.len(), |next| at + 1 + next);
        match Run(&words[at..sentence]).read(clock) {
            Some((range, length)) if length > 0 && at + length <= sentence => {
                if !is_beside(&words, at) {
                    found.push((words[at].start, words[at + length - 1].end, range));
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    found
}

/// Whether the words before one say that another time is meant ("before 7 May"), or that its number is
/// only the end of one ("twenty-one days ago", "half a year ago", "two or three days ago").
fn is_beside(words: &[Word], at: usize) -> bool {
    let before = |back: usize| {
        let word = at.checked_sub(back).and_then(|at| words.get(at))?;
        let joined = words[at + 1 - back..=at].iter().all(|word| !word.breaks);
        joined.then_some(word.text.as_str())
    };
    let last = before(1).unwrap_or_default();
    let last = if last == "the" { before(2).unwrap_or_default() } else { last };
    const BESIDE: [&str; 11] =
        ["before", "after", "until", "till", "by", "than", "half", "or", "to", "hundred", "thousand"];
    BESIDE.contains(&last) || TENS.contains(&last) || last.starts_with(|c: char| c.is_ascii_digit())
}

/// Runs of ASCII letters and digits. What joins digits (dates, decimals, thousands) belongs to them.
fn words(text: &str) -> Vec<Word> {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let within = |at: usize| {
        bytes[at].is_ascii_alphanumeric()
            || matches!(bytes[at], b'-' | b'/' | b'.' | b',')
                && digit(at.checked_sub(1))
                && digit(Some(at + 1))
    };
    let mut words = Vec::new();
    let (mut at, mut breaks) = (0, false);
    while at < bytes.len() {
        let start = at;
        while at < bytes.len() && within(at) {
            at += 1;
        }
        if at > start {
            let text = text[start..at].to_ascii_lowercase();
            words.push(Word { text, start, end: at, capital: bytes[start].is_ascii_uppercase(), breaks });
            breaks = false;
        } else {
            breaks |= matches!(bytes[at], b'.' | b'?' | b'!' | b';' | b'\n');
            at += 1;
        }
    }
    words
}

/// The words of a sentence from one on.
struct Run<'a>(&'a [Word]);

/// A range and how many words name it.
type Read = Option<(Range, usize)>;

/// What follows a date without a year.
enum YearAfter {
    /// This year, by so many words.
    Given(i64, usize),
    /// Something that may be one.
    Unclear,
    Nothing,
}

impl Run<'_> {
    fn word(&self, at: usize) -> &str {
        self.0.get(at).map_or("", |word| word.text.as_str())
    }

    fn read(&self, clock: &Clock<'_>) -> Read {
        if self.word(0) == "since" {
            let rest = Run(&self.0[1..]);
            let date = rest.date(clock).or_else(|| rest.bare_month(clock)).or_else(|| rest.bare_year());
            let (range, length) = date?;
            return Some((clock.since(range)?, length + 1));
        }
        self.date(clock).or_else(|| self.introduced(clock))
    }

    fn date(&self, clock: &Clock<'_>) -> Read {
        self.named_day(clock)
            .or_else(|| self.ago(clock))
            .or_else(|| self.last_or_next(clock))
            .or_else(|| self.written_date())
            .or_else(|| self.day_of_month(clock))
            .or_else(|| self.month_of_year(clock))
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
        // "the last week of May" is none of ours.
        (self.word(skip + 1) != "of").then_some(())?;
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
            _ if back => match (position(&WEEKDAYS, word), self.month_name(skip)) {
                (Some(day), _) => clock.last_weekday(day)?,
                (_, Some(of)) => clock.last_month_of(of)?,
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

    /// "7 May", "7th of May, 2023", "May 7", "May 7th last year". Without a year the last one that was.
    fn day_of_month(&self, clock: &Clock<'_>) -> Read {
        let (day, month_at, length) = if let Some(day) = ordinal(self.word(0)) {
            let skip = usize::from(self.word(1) == "of");
            (day, 1 + skip, 2 + skip)
        } else {
            (ordinal(self.word(1))?, 0, 2)
        };
        let of = any_month(self.word(month_at))?;
        match self.year_after(length, clock) {
            YearAfter::Given(year, more) => Some((day_of(year, of, day)?, length + more)),
            YearAfter::Nothing if self.is_month(month_at) => Some((clock.latest_date(of, day)?, length)),
            YearAfter::Nothing | YearAfter::Unclear => None,
        }
    }

    /// "May 2023", "May of 2023", "May last year".
    fn month_of_year(&self, clock: &Clock<'_>) -> Read {
        let of = any_month(self.word(0))?;
        match self.year_after(1, clock) {
            YearAfter::Given(year, more) => Some((month(year, of)?, 1 + more)),
            YearAfter::Nothing | YearAfter::Unclear => None,
        }
    }

    /// "in May", "in May 2023", "in 2023".
    fn introduced(&self, clock: &Clock<'_>) -> Read {
        let word = self.word(0);
        let rest = Run(self.0.get(1..)?);
        let vague = matches!(word, "early" | "late" | "mid");
        // "How late may I call?"
        let asks = ["i", "we", "you", "he", "she", "they", "it", "be"].contains(&rest.word(1));
        let read = match word {
            "in" | "during" => {
                rest.month_of_year(clock).or_else(|| rest.bare_month(clock)).or_else(|| rest.bare_year())
            }
            "year" => rest.bare_year(),
            _ if vague && !asks => rest.month_of_year(clock).or_else(|| rest.bare_month(clock)),
            _ => None,
        };
        read.map(|(range, length)| (range, length + 1))
    }

    /// A month without a year: the last one that was.
    fn bare_month(&self, clock: &Clock<'_>) -> Read {
        let of = self.month_name(0)?;
        matches!(self.year_after(1, clock), YearAfter::Nothing).then_some(())?;
        Some((clock.latest_month(of)?, 1))
    }

    /// A year that counts nothing: "in 2000 words".
    fn bare_year(&self) -> Read {
        let range = year(year_of(self.word(0))?)?;
        let counts =
            self.0.get(1).is_some_and(|next| !next.capital && !FUNCTION_WORDS.contains(&next.text.as_str()));
        (!counts).then_some((range, 1))
    }

    fn year_after(&self, at: usize, clock: &Clock<'_>) -> YearAfter {
        if self.word(at) == "of" {
            return match year_of(self.word(at + 1)) {
                Some(year) => YearAfter::Given(year, 2),
                None => YearAfter::Unclear,
            };
        }
        let word = self.word(at);
        if let Some(year) = year_of(word) {
            return YearAfter::Given(year, 1);
        }
        let step = match (word, self.word(at + 1)) {
            ("last", "year") => -1,
            ("this", "year") => 0,
            ("next", "year") => 1,
            _ if word.starts_with(|c: char| c.is_ascii_digit()) => return YearAfter::Unclear,
            _ => return YearAfter::Nothing,
        };
        YearAfter::Given(clock.this_year() + step, 2)
    }

    /// Whether a word that names a month is no word of another kind.
    fn is_month(&self, at: usize) -> bool {
        self.0
            .get(at)
            .is_some_and(|word| word.capital || !matches!(word.text.as_str(), "may" | "march" | "mar"))
    }

    fn month_name(&self, at: usize) -> Option<i64> {
        position(&MONTHS, self.word(at)).filter(|_| self.is_month(at)).map(|at| at + 1)
    }
}

/// Words that may follow a year and are not counted by it.
const FUNCTION_WORDS: [&str; 48] = [
    "and", "or", "with", "at", "on", "in", "by", "for", "from", "to", "of", "when", "while", "did", "do",
    "does", "was", "were", "is", "are", "has", "had", "have", "what", "which", "who", "where", "why", "how",
    "about", "because", "before", "after", "the", "my", "our", "her", "his", "their", "she", "he", "they",
    "we", "i", "you", "it", "that", "as",
];
const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];

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

/// A name of a month, or its abbreviation, beside a day or a year.
fn any_month(word: &str) -> Option<i64> {
    let short = if word == "sept" { "sep" } else { word };
    let is_it = |name: &&str| *name == word || short.len() == 3 && name.starts_with(short);
    MONTHS.iter().position(is_it).and_then(|at| i64::try_from(at + 1).ok())
}

fn position(names: &[&str], word: &str) -> Option<i64> {
    names.iter().position(|name| *name == word).and_then(|at| i64::try_from(at).ok())
}

/// "7", "7th", "21st".
fn ordinal(word: &str) -> Option<i64> {
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    (digits.len() <= 2).then(|| digits.parse().ok()).flatten().filter(|day| (1..=31).contains(day))
}

fn year_of(word: &str) -> Option<i64> {
    (word.len() == 4).then(|| word.parse().ok()).flatten().filter(|year| YEARS.contains(year))
}
