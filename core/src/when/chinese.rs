//! Times in Chinese.

use super::calendar::{Clock, Found, Range, Unit, YEARS, day_of, month, year};

const DIGITS: [char; 10] = ['零', '一', '二', '三', '四', '五', '六', '七', '八', '九'];

pub(super) fn find(text: &str, clock: &Clock<'_>) -> Vec<Found> {
    if text.is_ascii() {
        return Vec::new();
    }
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let end = |at: usize| chars.get(at).map_or(text.len(), |(byte, _)| *byte);
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let mut cursor = Cursor { chars: &chars, at };
        if is_rest_of_number(&chars, at) {
            at += 1;
            continue;
        }
        if let Some(range) = read(&mut cursor, clock) {
            let (start, last) = (chars[at].0, end(cursor.at));
            // 5月7日之前 is any time but that.
            let beside = ["之前", "以前", "前", "之后", "以后", "后", "以来"];
            if !beside.iter().any(|word| cursor.eat(word)) {
                found.push((start, last, range));
            }
            at = cursor.at.max(at + 1);
            continue;
        }
        // Half of a number is none.
        let mut number = Cursor { chars: &chars, at };
        while number.number().is_some() || number.eat_while(char::is_numeric) > 0 {}
        at = number.at.max(at + 1);
    }
    found
}

/// Whether a number that begins here is only the end of one: 一百二十, 两三, 1.5, 2-3.
fn is_rest_of_number(chars: &[(usize, char)], at: usize) -> bool {
    let is_digit = |c: char| arabic(c).is_some() || chinese(c).is_some() || "十百千万亿半几".contains(c);
    let before = |back: usize| at.checked_sub(back).and_then(|at| chars.get(at)).map(|(_, c)| *c);
    let begins = chars.get(at).is_some_and(|(_, c)| is_digit(*c));
    let joined = |c: char| ".．,-~–点到至或".contains(c);
    begins
        && (before(1).is_some_and(is_digit)
            || before(1).is_some_and(joined) && before(2).is_some_and(is_digit))
}

/// A place in a text.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    chars: &'a [(usize, char)],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).map(|(_, c)| *c)
    }

    /// Whether the next character is one of these.
    fn is_before(&self, chars: &str) -> bool {
        self.peek().is_some_and(|c| chars.contains(c))
    }

    /// Whether the character before is one of these.
    fn is_behind(&self, chars: &str) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.chars.get(at));
        before.is_some_and(|(_, c)| chars.contains(*c))
    }

    /// Whether the next character belongs to a word that begins before it: 目前|年龄, 说明|日期, 早上|周三.
    fn is_within_word(&self) -> bool {
        match self.peek() {
            Some('前' | '后') => self.is_behind("以之目当最午雨生从先天年月日周"),
            Some('明' | '去' | '今') => self.is_behind("说声发证文透失过如至"),
            Some('上' | '下' | '本' | '这') => self.is_behind("晚早马天地桌山路手日"),
            Some('近') => self.is_behind("附接将靠临"),
            _ => false,
        }
    }

    /// Takes these characters, if they come next.
    fn eat(&mut self, text: &str) -> bool {
        let mut at = self.at;
        for c in text.chars() {
            if self.chars.get(at).map(|(_, c)| *c) != Some(c) {
                return false;
            }
            at += 1;
        }
        self.at = at;
        true
    }

    /// Takes the first of these that comes next, and says which.
    fn eat_one<T: Copy>(&mut self, of: &[(&str, T)]) -> Option<T> {
        of.iter().find(|(text, _)| self.eat(text)).map(|(_, meaning)| *meaning)
    }

    fn eat_while(&mut self, is: impl Fn(char) -> bool) -> usize {
        let start = self.at;
        while self.peek().is_some_and(&is) {
            self.at += 1;
        }
        self.at - start
    }

    /// A number of at most four digits, or in Chinese up to ninety-nine.
    fn number(&mut self) -> Option<i64> {
        let mut probe = *self;
        let start = probe.at;
        let length = probe.eat_while(|c| arabic(c).is_some());
        let value = if length > 0 {
            let digits = self.chars.get(start..probe.at)?.iter().filter_map(|(_, c)| arabic(*c));
            (length <= 4).then(|| digits.fold(0, |value, digit| value * 10 + digit))?
        } else {
            probe.chinese_number()?
        };
        self.at = probe.at;
        Some(value)
    }

    /// 三, 十, 十二, 二十, 二十三, and years digit by digit: 二〇二三.
    fn chinese_number(&mut self) -> Option<i64> {
        let start = self.at;
        let mut digits = Vec::new();
        while let Some(digit) = self.peek().and_then(chinese) {
            digits.push(digit);
            self.at += 1;
        }
        if digits.len() <= 1 && self.eat("十") {
            let tens = digits.first().copied().unwrap_or(1);
            let ones = self.peek().and_then(chinese);
            self.at += usize::from(ones.is_some());
            return Some(tens * 10 + ones.unwrap_or(0));
        }
        match digits.as_slice() {
            [one] => Some(*one),
            [_, _, _, _] => Some(digits.iter().fold(0, |value, digit| value * 10 + digit)),
            _ => {
                self.at = start;
                None
            }
        }
    }
}

fn arabic(c: char) -> Option<i64> {
    match c {
        '0'..='9' => Some(i64::from(u32::from(c) - u32::from('0'))),
        '０'..='９' => Some(i64::from(u32::from(c) - u32::from('０'))),
        _ => None,
    }
}

fn chinese(c: char) -> Option<i64> {
    match c {
        '〇' => Some(0),
        '两' => Some(2),
        _ => DIGITS.iter().position(|digit| *digit == c).and_then(|at| i64::try_from(at).ok()),
    }
}

fn read(cursor: &mut Cursor<'_>, clock: &Clock<'_>) -> Option<Range> {
    if cursor.is_within_word() {
        return None;
    }
    type Rule = fn(&mut Cursor<'_>, &Clock<'_>) -> Option<Range>;
    let rules: [Rule; 7] = [named_day, week, of_year, of_month, ago, past, date];
    rules.iter().find_map(|rule| {
        let mut probe = *cursor;
        let range = rule(&mut probe, clock)?;
        *cursor = probe;
        Some(range)
    })
}

fn named_day(cursor: &mut Cursor<'_>, clock: &Clock<'_>) -> Option<Range> {
    let days = cursor.eat_one(&[
        ("大前天", -3),
        ("前天", -2),
        ("昨天", -1),
        ("昨日", -1),
        ("昨晚", -1),
        ("昨夜", -1),
        ("大后天", 3),
        ("后天", 2),
        ("明天", 1),
        ("明日", 1),
    ])?;
    clock.day_from_today(days)
}

/// 上周, 上周三, 这个星期天, 下周末.
fn week(cursor: &mut Cursor<'_>, clock: &Clock<'_>) -> Option<Range> {
    let weeks = cursor.eat_one(&[("上上", -2), ("上", -1), ("这", 0), ("本", 0), ("下下", 2), ("下", 1)])?;
    cursor.eat("个");
    cursor.eat_one(&[("周", ()), ("星期", ()), ("礼拜", ())])?;
    // 周围, 周期, 周边.
    if cursor.is_before("围期边") {
        return None;
    }
    if cursor.eat("末") {
        return clock.weekend(weeks);
    }
    // A day of the week, unless its character begins another word: 天气, 日程, 一起, 三次.
    let weekdays = [
        ("一", 0, "共起直些样定下次个"),
        ("二", 1, "次个场天位"),
        ("三", 2, "次个场天位"),
        ("四", 3, "次个场天位"),
        ("五", 4, "次个场天位"),
        ("六", 5, "次个场天位"),
        ("日", 6, "程本期常记报"),
        ("天", 6, "气"),
    ];
    for (name, weekday, others) in weekdays {
        let mut probe = *cursor;
        if probe.eat(name) && !probe.is_before(others) {
            *cursor = probe;
            return clock.weekday(weeks, weekday);
        }
    }
    clock.week(weeks)
}

/// 去年, 去年五月, 2023年, 2023年5月, 2023年5月7日.
fn of_year(cursor: &mut Cursor<'_>, clock: &Clock<'_>) -> Option<Range> {
    let from_this = cursor.eat_one(&[("大前年", -3), ("前年", -2), ("去年", -1), ("今年", 0), ("明年", 1)]);
    // 年龄, 年薪, 年轻, 年份, 年限.
    if from_this.is_some() && cursor.is_before("龄薪轻收纪份限") {
        return None;
    }
    let named = match from_this {
        Some(years) => clock.this_year() + years,
        None => {
            let named = cursor.number().filter(|year| YEARS.contains(year))?;
            cursor.eat("年").then_some(named)?
        }
    };
    // 去年的5月.
    let mut probe = *cursor;
    probe.eat("的");
    let Some(of) = month_number(&mut probe) else { return year(named) };
    *cursor = probe;
    match day_number(cursor) {
        Some(day) => day_of(named, of, day),
        None => month(named, of),
    }
}

/// 上个月, 上个月7号, 这个月.
fn of_month(cursor: &mut Cursor<'_>, clock: &Clock<'_>) -> Option<Range> {
    let months = cursor.eat_one(&[
        ("上上个月", -2),
        ("上个月", -1),
        ("上月", -1),
        ("这个月", 0),
        ("本月", 0),
        ("下个月", 1),
        ("下月", 1),
    ])?;
    // 月亮, 月台, 月饼, 月色.
    if cursor.is_before("亮台饼色") {
        return None;
    }
    let range = clock.month_from_this(months)?;
    match day_number(cursor) {
        Some(day) => day_of(range.0.year().into(), range.0.month().into(), day),
        None => Some(range),
    }
}

/// 三天前, 两个星期前, 半年前.
fn ago(cursor: &mut Cursor<'_>, clock: &Clock<'_>) -> Option<Range> {
    let half = [("半年", (6, Unit::Month)), ("半个月", (15, Unit::Day))];
    let (count, unit) = match cursor.eat_one(&half) {
        Some(half) => half,
        None => count(cursor)?,
    };
    cursor.eat_one(&[("之前", ()), ("以前", ()), ("前", ())])?;
    clock.ago(count, unit)
}

/// 最近三天, 过去两个月.
fn past(cursor: &mut Cursor<'_>, clock: &Clock<'_>) -> Option<Range> {
    cursor.eat_one(&[("最近", ()), ("过去", ()), ("近", ())])?;
    cursor.eat("的");
    let (count, unit) = count(cursor)?;
    clock.past(count, unit)
}

/// 5月7日, 五月七号: the last one that was. 5月份 and, in Arabic digits, 5月: the last one.
fn date(cursor: &mut Cursor<'_>, clock: &Clock<'_>) -> Option<Range> {
    // A year that was not understood is none: 23年5月, 1850年5月.
    if cursor.is_behind("年的") {
        return None;
    }
    let in_digits = cursor.peek().and_then(arabic).is_some();
    let before = cursor.at;
    let of = month_number(cursor)?;
    if let Some(day) = day_number(cursor) {
        return clock.latest_date(of, day);
    }
    let last = cursor.chars.get(before..cursor.at)?.last().map(|(_, c)| *c);
    // 三月 may be three months in older words; 月份 is a month of the year.
    (in_digits || last == Some('份')).then(|| clock.latest_month(of)).flatten()
}

/// 三天, 两个星期. 五月 is May: months are counted with 个.
fn count(cursor: &mut Cursor<'_>) -> Option<(i64, Unit)> {
    let count = cursor.number()?;
    let unit = cursor.eat_one(&[
        ("个小时", Unit::Hour),
        ("小时", Unit::Hour),
        ("天", Unit::Day),
        ("日", Unit::Day),
        ("周", Unit::Week),
        ("个星期", Unit::Week),
        ("星期", Unit::Week),
        ("个礼拜", Unit::Week),
        ("礼拜", Unit::Week),
        ("个月", Unit::Month),
        ("年", Unit::Year),
    ])?;
    Some((count, unit))
}

fn month_number(cursor: &mut Cursor<'_>) -> Option<i64> {
    let mut probe = *cursor;
    let of = probe.number().filter(|of| (1..=12).contains(of))?;
    probe.eat("月").then_some(())?;
    probe.eat("份");
    *cursor = probe;
    Some(of)
}

fn day_number(cursor: &mut Cursor<'_>) -> Option<i64> {
    let mut probe = *cursor;
    let day = probe.number().filter(|day| (1..=31).contains(day))?;
    probe.eat_one(&[("日", ()), ("号", ())])?;
    *cursor = probe;
    Some(day)
}
