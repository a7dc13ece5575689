//! Finds what must survive every compression word for word: amounts, dates, doses, names, ids.
//!
//! Rules for English and Chinese. It is better to protect a word too many than one too few: what is
//! protected without need only costs room.

use super::chars::is_cjk;
use std::ops::Range;

/// Units that belong to the number before them, in English. Compared in lower case.
const UNITS: [&str; 66] = [
    "%", "mg", "g", "kg", "mcg", "ug", "ml", "l", "cl", "oz", "lb", "lbs", "km", "m", "cm", "mm", "mi",
    "miles", "mile", "ft", "feet", "inch", "inches", "pm", "am", "o'clock", "h", "hr", "hrs", "hour",
    "hours", "min", "mins", "minutes", "minute", "s", "sec", "seconds", "day", "days", "week", "weeks",
    "month", "months", "year", "years", "times", "pills", "pill", "tablets", "tablet", "drops", "puffs",
    "dollars", "usd", "euros", "euro", "eur", "yuan", "rmb", "cny", "people", "gb", "mb", "kwh", "kcal",
];
/// Units that follow a number in Chinese, the longest first where one begins another.
const UNITS_ZH: [&str; 56] = [
    "毫克",
    "微克",
    "千克",
    "公斤",
    "克",
    "斤",
    "毫升",
    "升",
    "分钟",
    "小时",
    "个月",
    "个星期",
    "星期",
    "公里",
    "厘米",
    "毫米",
    "万元",
    "亿元",
    "美元",
    "欧元",
    "块钱",
    "人民币",
    "平米",
    "片",
    "粒",
    "颗",
    "滴",
    "支",
    "次",
    "天",
    "周",
    "月",
    "年",
    "日",
    "号",
    "点半",
    "点",
    "时",
    "分",
    "秒",
    "元",
    "块",
    "万",
    "亿",
    "岁",
    "米",
    "度",
    "人",
    "楼",
    "室",
    "路",
    "页",
    "倍",
    "层",
    "折",
    "两",
];
const NUMERALS_ZH: &str = "一二三四五六七八九十百千万两半零〇几";
/// Chinese words that look like an amount and are none.
const NO_AMOUNT_ZH: [&str; 10] =
    ["一点", "一次", "一天", "一路", "一时", "一分", "一度", "一人", "十分", "万一"];
const DATES: [&str; 27] = [
    "January",
    "February",
    "March",
    "April",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
    "Christmas",
    "Easter",
    "today",
    "tomorrow",
    "yesterday",
    "tonight",
    "noon",
    "midnight",
    "weekly",
];
const DATES_ZH: [&str; 24] = [
    "今天",
    "明天",
    "后天",
    "昨天",
    "前天",
    "今晚",
    "明晚",
    "今年",
    "明年",
    "去年",
    "上午",
    "下午",
    "早上",
    "晚上",
    "中午",
    "下周",
    "上周",
    "本周",
    "下个月",
    "上个月",
    "周末",
    "春节",
    "国庆",
    "中秋",
];
const WEEKDAYS_ZH: [&str; 3] = ["周", "星期", "礼拜"];
const TITLES: [&str; 6] = ["Dr.", "Mr.", "Mrs.", "Ms.", "Prof.", "St."];
const TITLES_ZH: [&str; 18] = [
    "先生", "女士", "医生", "大夫", "老师", "教授", "经理", "小姐", "同学", "师傅", "阿姨", "叔叔", "主任",
    "律师", "护士", "总", "博士", "老板",
];
const NAMED_ZH: [&str; 7] = ["名叫", "叫做", "我叫", "他叫", "她叫", "姓名是", "名字是"];
const SURNAMES: &str = "王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林郑罗梁谢宋唐许韩冯邓曹彭曾肖田董袁潘蔡蒋余于杜叶程苏魏\
                        吕丁任沈姚卢姜崔钟谭陆汪范金石廖贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃\
                        武戴莫孔向汤";
const GIVEN: &str = "明红芳丽强军华刚美玲燕伟敏静磊洋勇艳娟涛超杰霞平刚桂兰英梅雪莉婷";
/// Capitalised words that are no names.
const NO_NAMES: [&str; 13] =
    ["I", "I'm", "I'll", "I've", "I'd", "OK", "Ok", "A", "AM", "PM", "TV", "Yes", "No"];
/// Words behind the first word of a sentence that make it a name.
const VERBS: [&str; 22] = [
    "is", "was", "has", "had", "lives", "said", "says", "called", "calls", "wants", "likes", "loves",
    "hates", "works", "will", "needs", "and", "takes", "told", "asked", "moved", "prefers",
];

/// The protected terms of a text: byte ranges in its order that do not overlap.
pub fn protected(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    words(text, &mut spans);
    chinese(text, &mut spans);
    join(text, spans)
}

/// The names among them: people, places, things with a name of their own.
pub fn names(text: &str) -> Vec<&str> {
    let mut spans = Vec::new();
    capitalised(text, &mut spans);
    names_zh(text, &mut spans);
    let mut found: Vec<&str> = Vec::new();
    for span in join(text, spans) {
        if !found.contains(&&text[span.clone()]) {
            found.push(&text[span]);
        }
    }
    found
}

/// Sorts, and makes one of those that touch or are parted by one space.
fn join(text: &str, mut spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    spans.retain(|span| span.start < span.end);
    spans.sort_by_key(|span| (span.start, span.end));
    let mut joined: Vec<Range<usize>> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start <= last.end || &text[last.end..span.start] == " " => {
                last.end = last.end.max(span.end);
            }
            _ => joined.push(span),
        }
    }
    joined
}

/// Words between white space and Chinese characters, with their places.
fn tokens(text: &str) -> Vec<(usize, &str)> {
    let mut tokens = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        let ends = c.is_whitespace() || is_cjk(c) || is_mark(c);
        match (start, ends) {
            (None, false) => start = Some(at),
            (Some(from), true) => {
                tokens.push((from, &text[from..at]));
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        tokens.push((from, &text[from..]));
    }
    tokens
}

fn is_mark(c: char) -> bool {
    matches!(
        c,
        '"' | '“'
            | '”'
            | '('
            | ')'
            | '（'
            | '）'
            | '，'
            | '。'
            | '、'
            | '；'
            | '：'
            | '！'
            | '？'
            | '《'
            | '》'
            | '【'
            | '】'
            | '<'
            | '>'
            | '['
            | ']'
            | '…'
            | '—'
    )
}

/// A word without the punctuation around it, and where it starts.
fn trimmed(at: usize, word: &str) -> (usize, &str) {
    let is_edge = |c: char| matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '_' | '-' | '/');
    let rest = word.trim_start_matches(is_edge);
    (at + word.len() - rest.len(), rest.trim_end_matches(is_edge))
}

/// Numbers with their units, dates, ids, addresses, and names.
fn words(text: &str, spans: &mut Vec<Range<usize>>) {
    let tokens = tokens(text);
    for (index, (at, raw)) in tokens.iter().enumerate() {
        let (at, word) = trimmed(*at, raw);
        if word.is_empty() {
            continue;
        }
        let mut span = at..at + word.len();
        let has_digit = word.chars().any(char::is_numeric);
        let is_address = word.contains("://") || word.contains('@') && word.len() > 2;
        if has_digit {
            // The unit stands behind a space: `20 mg`, `3 tablets`.
            if let Some((next_at, next)) = tokens.get(index + 1) {
                let (next_at, next) = trimmed(*next_at, next);
                let near = text.get(span.end..next_at) == Some(" ");
                if near && UNITS.contains(&next.to_lowercase().as_str()) {
                    span.end = next_at + next.len();
                }
            }
        }
        let is_may = word == "May" && beside_number(&tokens, index);
        if has_digit || is_address || is_may || DATES.contains(&word) {
            spans.push(span);
        }
    }
    capitalised(text, spans);
}

fn beside_number(tokens: &[(usize, &str)], index: usize) -> bool {
    let is_number = |token: Option<&(usize, &str)>| {
        token.is_some_and(|(_, word)| word.starts_with(|c: char| c.is_ascii_digit()))
    };
    is_number(tokens.get(index + 1))
        || index.checked_sub(1).is_some_and(|before| is_number(tokens.get(before)))
}

/// Names by their capitals. The first word of a sentence has one anyway, and counts where the next
/// word shows that it is a name.
fn capitalised(text: &str, spans: &mut Vec<Range<usize>>) {
    let tokens = tokens(text);
    let starts_sentence = |index: usize| {
        index.checked_sub(1).and_then(|before| tokens.get(before)).is_none_or(|(before_at, before)| {
            let between = tokens.get(index).map_or("", |(at, _)| &text[before_at + before.len()..*at]);
            let ended = before.ends_with(['.', '!', '?', ':']) && !TITLES.contains(before);
            ended || between.contains(['。', '！', '？', '\n', '：', '"', '“'])
        })
    };
    let is_capital = |word: &str| {
        let mut chars = word.chars();
        chars.next().is_some_and(char::is_uppercase) && word.chars().any(char::is_alphabetic)
    };
    for (index, (at, raw)) in tokens.iter().enumerate() {
        if TITLES.contains(raw) {
            spans.push(*at..at + raw.len());
            continue;
        }
        let (at, word) = trimmed(*at, raw);
        let word = word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word);
        let is_date = DATES.contains(&word) || word == "May" && beside_number(&tokens, index);
        if !is_capital(word) || is_date || NO_NAMES.contains(&word) {
            continue;
        }
        let next = tokens.get(index + 1).map(|(at, raw)| trimmed(*at, raw).1).unwrap_or_default();
        let all_capitals =
            word.len() > 1 && word.chars().all(|c| c.is_uppercase() || c.is_numeric() || c == '-');
        let before_title = tokens.get(index + 1).is_some_and(|(_, raw)| TITLES.contains(raw));
        let goes_on = !before_title && !raw.ends_with(['.', ',', '!', '?', ':', ';']);
        let shown_by_next =
            goes_on && (is_capital(next) && !NO_NAMES.contains(&next) || VERBS.contains(&next));
        let common = super::stopwords::is_stop(&word.to_lowercase());
        if !starts_sentence(index) || all_capitals || shown_by_next && !common {
            spans.push(at..at + word.len());
        }
    }
}

/// Chinese amounts and dates; `20毫克`, `两片`, `5月6日`, `下午三点`.
fn chinese(text: &str, spans: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let numeral = |c: char| NUMERALS_ZH.contains(c);
        let is_number = |c: char| c.is_ascii_digit() || matches!(c, '０'..='９') || numeral(c);
        if let Some(date) = DATES_ZH.iter().find(|date| rest.starts_with(**date)) {
            let day = rest[date.len()..].chars().next().filter(|_| date.ends_with('周'));
            let day = day.filter(|day| "一二三四五六日天".contains(*day)).map_or(0, char::len_utf8);
            spans.push(at..at + date.len() + day);
            at += date.len() + day;
            continue;
        }
        if let Some(day) = WEEKDAYS_ZH.iter().find(|day| rest.starts_with(**day)) {
            let next = rest[day.len()..].chars().next();
            if let Some(next) = next.filter(|next| "一二三四五六日天".contains(*next)) {
                spans.push(at..at + day.len() + next.len_utf8());
            }
            at += day.len();
            continue;
        }
        if is_number(c) {
            let inside = |c: char| is_number(c) || matches!(c, '.' | ',' | '点' | '％' | '%');
            let digits: usize = rest.chars().take_while(|c| inside(*c)).map(char::len_utf8).sum();
            let run = rest[..digits].trim_end_matches(['.', ',', '点']).len().max(c.len_utf8());
            let unit =
                UNITS_ZH.iter().find(|unit| rest[run..].starts_with(**unit)).map_or(0, |unit| unit.len());
            let whole = &rest[..run + unit];
            let amount = unit > 0 && !NO_AMOUNT_ZH.contains(&whole);
            let several = rest[..run].chars().count() > 1 && !NO_AMOUNT_ZH.contains(&whole);
            if amount || several {
                spans.push(at..at + run + unit);
            }
            at += run + unit;
            continue;
        }
        at += c.len_utf8();
    }
    names_zh(text, spans);
}

/// Chinese names: behind 叫, before a title, as 小明 and 老王, and titles in 《》.
fn names_zh(text: &str, spans: &mut Vec<Range<usize>>) {
    let han = |text: &str, most: usize| -> usize {
        text.chars().take(most).take_while(|c| is_cjk(*c)).map(char::len_utf8).sum()
    };
    for (at, c) in text.char_indices() {
        let rest = &text[at..];
        let behind = &rest[c.len_utf8()..];
        if c == '《'
            && let Some(end) = rest.find('》')
        {
            spans.push(at..at + end + '》'.len_utf8());
        }
        if let Some(cue) = NAMED_ZH.iter().find(|cue| rest.starts_with(**cue)) {
            let name = han(&rest[cue.len()..], 3);
            spans.push(at + cue.len()..at + cue.len() + name);
        }
        if SURNAMES.contains(c) {
            // With a given name of up to two characters before a title, or none.
            for given in 0..=2 {
                let name: usize = behind.chars().take(given).map(char::len_utf8).sum();
                let has_title = TITLES_ZH.iter().find(|title| behind[name..].starts_with(**title));
                if let (Some(title), true) = (has_title, behind[..name].chars().all(is_cjk)) {
                    spans.push(at..at + c.len_utf8() + name + title.len());
                    break;
                }
            }
        }
        if matches!(c, '小' | '老' | '阿')
            && let Some(next) = behind.chars().next()
            && (SURNAMES.contains(next) || GIVEN.contains(next))
        {
            spans.push(at..at + c.len_utf8() + next.len_utf8());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> Vec<&str> {
        protected(text).into_iter().map(|span| &text[span]).collect()
    }

    #[test]
    fn amounts_dates_doses_and_names_are_found() {
        assert_eq!(terms("Take 20 mg of aspirin, 3 tablets at 14:30."), ["20 mg", "3 tablets", "14:30"]);
        assert_eq!(
            terms("It was $1,299.99 on 2024-05-01, about 12.5%."),
            ["$1,299.99", "2024-05-01", "12.5%"]
        );
        assert_eq!(terms("We met on May 3 with Anna Schmidt."), ["May 3", "Anna Schmidt"]);
        assert_eq!(terms("You may go."), Vec::<&str>::new());
        assert_eq!(terms("Anna lives in New York."), ["Anna", "New York"]);
        assert_eq!(
            terms("Ask Dr. Smith about CN-A10293 or jane@example.com!"),
            ["Dr. Smith", "CN-A10293", "jane@example.com"]
        );
        assert_eq!(terms("每天吃两片，每片20毫克。"), ["两片", "20毫克"]);
        assert_eq!(terms("2024年5月3日下午三点半见王医生"), ["2024年5月3日下午三点半", "王医生"]);
        assert_eq!(terms("小明，下周三去上海，花了三百块钱"), ["小明", "下周三", "三百块钱"]);
        assert_eq!(terms("我叫李雷，在读《三体》"), ["李雷", "《三体》"]);
    }

    #[test]
    fn ordinary_words_are_not() {
        for text in [
            "",
            "🙂",
            "I went home. Then I slept.",
            "The weather is nice.",
            "有一点累，十分开心",
            "OK!",
            "今儿挺好",
        ] {
            assert_eq!(terms(text), Vec::<&str>::new(), "{text}");
        }
    }

    #[test]
    fn names_alone() {
        assert_eq!(names("Anna said that 3 people went to Paris with Anna's dog"), ["Anna", "Paris"]);
        assert_eq!(names("我和小明去见王医生"), ["小明", "王医生"]);
        assert_eq!(names("The room is booked for Anna on May 3, not Monday"), ["Anna"]);
        assert_eq!(names("no names here, 20 mg"), Vec::<&str>::new());
    }

    #[test]
    fn spans_are_in_order_apart_and_at_characters() {
        let odd =
            "٣３ 半半半点 《 》《 5月 小 20 mg mg 🙂5 e\u{301}5 周 星期天 A1-B2://@ May 3 May 王王王王总总";
        let mut end = 0;
        for span in protected(odd) {
            assert!(span.start >= end && odd.get(span.clone()).is_some(), "{span:?}");
            end = span.end;
        }
    }
}
