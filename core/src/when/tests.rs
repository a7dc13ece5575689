#![allow(clippy::unwrap_used)]

use super::*;
use jiff::Timestamp;
use jiff::tz::Offset;
use proptest::prelude::*;

/// Wednesday.
const NOW: &str = "2026-12-02T12:30:00Z";

fn us(time: &str) -> i64 {
    time.parse::<Timestamp>().unwrap().as_microsecond()
}

/// Each range as `from..until` in UTC, without what is zero.
fn ranges(text: &str, now: &str, zone: &TimeZone) -> Vec<String> {
    let shown = |us: i64| {
        let text = Timestamp::from_microsecond(us).unwrap().to_string();
        text.trim_end_matches('Z')
            .trim_end_matches(":00")
            .trim_end_matches("T00")
            .trim_end_matches("T00:00")
            .to_owned()
    };
    let found = find(text, us(now), zone).into_iter();
    found.map(|when| format!("{}..{}", shown(when.from_us), shown(when.until_us))).collect()
}

#[test]
fn english_and_chinese_name_the_same_times() {
    for (english, chinese, range) in [
        ("what did I do yesterday?", "我昨天做了什么", "2026-12-01..2026-12-02"),
        ("the day before yesterday", "前天", "2026-11-30..2026-12-01"),
        ("three days ago", "三天前", "2026-11-29..2026-11-30"),
        ("10 days ago", "10天前", "2026-11-22..2026-11-23"),
        ("two weeks ago", "两周前", "2026-11-15..2026-11-22"),
        ("a month ago", "一个月前", "2026-11-01..2026-12-01"),
        ("eleven months ago", "十一个月前", "2026-01-01..2026-02-01"),
        ("12 months ago", "十二个月之前", "2025-12-01..2026-01-01"),
        ("three years ago", "3年前", "2023-01-01..2024-01-01"),
        ("two hours ago", "两小时前", "2026-12-02T10..2026-12-02T11"),
        ("last week", "上周", "2026-11-23..2026-11-30"),
        ("this week", "这周", "2026-11-30..2026-12-07"),
        ("next week", "下星期", "2026-12-07..2026-12-14"),
        ("last weekend", "上周末", "2026-11-28..2026-11-30"),
        ("last month's trip", "上个月的旅行", "2026-11-01..2026-12-01"),
        ("this year", "今年", "2026-01-01..2027-01-01"),
        ("last year", "去年", "2025-01-01..2026-01-01"),
        ("in May 2023", "2023年5月", "2023-05-01..2023-06-01"),
        ("May 2023", "二〇二三年五月", "2023-05-01..2023-06-01"),
        ("in 2023", "2023年", "2023-01-01..2024-01-01"),
        ("on 7 May 2023", "2023年5月7日", "2023-05-07..2023-05-08"),
        ("May 7th, 2023", "２０２３年５月７号", "2023-05-07..2023-05-08"),
        ("on 7 May", "5月7日", "2026-05-07..2026-05-08"),
        ("on December 24th", "十二月二十四号", "2025-12-24..2025-12-25"),
        ("in May", "5月份", "2026-05-01..2026-06-01"),
        ("in the last 3 days", "最近三天", "2026-11-29T12:30..2026-12-02T12:30"),
        ("over the past two months", "过去两个月", "2026-10-02T12:30..2026-12-02T12:30"),
        ("December 2026", "2026年12月", "2026-12-01..2027-01-01"),
        ("tomorrow", "明天", "2026-12-03..2026-12-04"),
    ] {
        assert_eq!(ranges(english, NOW, &TimeZone::UTC), [range], "{english}");
        assert_eq!(ranges(chinese, NOW, &TimeZone::UTC), [range], "{chinese}");
    }
}

#[test]
fn what_only_one_language_says() {
    for (text, range) in [
        ("last Tuesday", "2026-12-01..2026-12-02"),
        ("last Wednesday", "2026-11-25..2026-11-26"),
        ("this past Sunday", "2026-11-29..2026-11-30"),
        ("the past week", "2026-11-25T12:30..2026-12-02T12:30"),
        ("since 2026", "2026-01-01..2026-12-02T12:30"),
        ("last May", "2026-05-01..2026-06-01"),
        ("last December", "2025-12-01..2026-01-01"),
        ("the 7th of May", "2026-05-07..2026-05-08"),
        ("2023-05-07", "2023-05-07..2023-05-08"),
        ("report 2023/5", "2023-05-01..2023-06-01"),
        ("29 February", "2024-02-29..2024-03-01"),
        ("last night", "2026-12-01..2026-12-02"),
        ("上周三", "2026-11-25..2026-11-26"),
        ("上个星期天", "2026-11-29..2026-11-30"),
        ("下周三", "2026-12-09..2026-12-10"),
        ("上上周", "2026-11-16..2026-11-23"),
        ("大前天", "2026-11-29..2026-11-30"),
        ("前年", "2024-01-01..2025-01-01"),
        ("去年五月", "2025-05-01..2025-06-01"),
        ("去年5月7号", "2025-05-07..2025-05-08"),
        ("上个月7号", "2026-11-07..2026-11-08"),
        ("半年前", "2026-06-01..2026-07-01"),
        ("二十三天前", "2026-11-09..2026-11-10"),
        ("去年的5月", "2025-05-01..2025-06-01"),
        ("下周天气怎么样", "2026-12-07..2026-12-14"),
        ("下周日程", "2026-12-07..2026-12-14"),
        ("上周一起吃饭", "2026-11-23..2026-11-30"),
        ("上周三次会议", "2026-11-23..2026-11-30"),
        ("上周日本队", "2026-11-23..2026-11-30"),
        ("上周一", "2026-11-23..2026-11-24"),
        ("在上周日，", "2026-11-29..2026-11-30"),
        ("in May last year", "2025-05-01..2025-06-01"),
        ("on May 7 last year", "2025-05-07..2025-05-08"),
        ("since May 7, 2023", "2023-05-07..2026-12-02T12:30"),
        ("since yesterday", "2026-12-01..2026-12-02T12:30"),
        ("since May", "2026-05-01..2026-12-02T12:30"),
        ("last week of May 2023", "2023-05-01..2023-06-01"),
        ("In May I went there. In which month?", "2026-05-01..2026-06-01"),
        ("in 2023 we met", "2023-01-01..2024-01-01"),
    ] {
        assert_eq!(ranges(text, NOW, &TimeZone::UTC), [range], "{text}");
    }
}

/// What says no time, or more than one.
const UNREAD: [&str; 94] = [
    "",
    "🙂",
    "on Tuesday",
    "周三",
    "last summer",
    "3/4/2023",
    "may I ask",
    "I may go in",
    "march on",
    "in 20233",
    "in 1492",
    "31 February",
    "Feb 30 2023",
    "2023-13-01",
    "99999999999 days ago",
    "0 days ago",
    "a few days ago",
    "几天前",
    "三月",
    "五个月",
    "以前天气怎么样",
    "以后天气",
    "以年为单位",
    "2023",
    "25月7日",
    "today",
    "今天想吃什么",
    "order CN-A10293",
    "last one",
    "this",
    "in",
    "三十三十天前天",
    "the last",
    "12345年",
    "before April 10, 2023",
    "the Sunday after last week",
    "by July 10, 2022",
    "2023年5月7日之前",
    "before May 2023",
    "before last week",
    "before the 7th of May",
    "after 7 May",
    "2023年前",
    "昨天之前",
    "twenty-one days ago",
    "1.5 hours ago",
    "1,500 days ago",
    "half a year ago",
    "half an hour ago",
    "two or three days ago",
    "一百二十天前",
    "一百零三天前",
    "1.5年前",
    "两三天前",
    "三四年前",
    "2-3天前",
    "23年5月",
    "1850年5月",
    "May 7 '23",
    "in May 1850",
    "How late may I call?",
    "early may",
    "in? May",
    "the past may",
    "How may 2 users",
    "the 1st may be",
    "last sun lotion",
    "last sat",
    "last Sunday of May",
    "budget of 2000",
    "in 2000 words",
    "当前天气",
    "目前天气",
    "最后天气",
    "午后天气",
    "雨后天晴",
    "说明日期",
    "声明日期",
    "目前年龄",
    "以前年轻时",
    "发明年份",
    "说明年限",
    "失去年轻",
    "晚上月亮",
    "马上月底",
    "地下月台",
    "日本月饼",
    "早上周三有课",
    "桌上周围",
    "周围",
    "日本周末",
    "下周期",
    "去年以来",
    "上周三以后",
];

#[test]
fn what_has_more_than_one_meaning_is_not_read() {
    for text in UNREAD {
        assert_eq!(ranges(text, NOW, &TimeZone::UTC), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn a_day_begins_where_the_asker_is() {
    let shanghai = TimeZone::fixed(Offset::constant(8));
    // 01:30 on the 3rd there.
    let now = "2026-12-02T17:30:00Z";
    for text in ["yesterday", "昨天"] {
        assert_eq!(ranges(text, now, &shanghai), ["2026-12-01T16..2026-12-02T16"]);
        assert_eq!(ranges(text, now, &TimeZone::UTC), ["2026-12-01..2026-12-02"]);
    }
}

#[test]
fn hours_are_counted_through_the_change_of_summer_time() {
    // Berlin went from 2:00 to 3:00 on 29 March 2026, at 1:00 UTC.
    let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    assert_eq!(ranges("two hours ago", "2026-03-29T02:30:00Z", &berlin), ["2026-03-29..2026-03-29T01"]);
}

#[test]
fn words_are_as_they_stand_in_the_question() {
    let found = find("Wo war ich Yesterday, und was geschah 去年五月？", us(NOW), &TimeZone::UTC);
    let words: Vec<&str> = found.iter().map(|when| when.words.as_str()).collect();
    assert_eq!(words, ["Yesterday", "去年五月"]);
    assert_eq!((found[0].lift(), found[1].lift()), (0.05, 0.02), "a day says more than a month");
    assert!(found[0].holds(found[0].from_us) && !found[0].holds(found[0].until_us));
    assert_eq!(find("In May, 2023!", us(NOW), &TimeZone::UTC)[0].words, "In May, 2023");
    let many = "yesterday ".repeat(50);
    assert_eq!(find(&many, us(NOW), &TimeZone::UTC).len(), TIMES_MAX);
}

#[test]
fn the_ends_of_time_are_no_error() {
    for now_us in [i64::MIN, i64::MAX, 0, us("9999-12-30T00:00:00Z"), us("-009999-01-03T00:00:00Z")] {
        for text in
            ["yesterday", "10000 years ago", "next year", "明年", "in May", "2023年5月", "last 9999 years"]
        {
            for when in find(text, now_us, &TimeZone::UTC) {
                assert!(when.from_us < when.until_us, "{text} {now_us}");
            }
        }
    }
}

proptest! {
    /// Whatever comes in, ranges are in order and words are parts of the text.
    #[test]
    fn any_text_is_read(
        parts in prop::collection::vec(
            prop_oneof![
                prop::sample::select(vec![
                    "last ", "week ", "May ", "7 ", "2023 ", "ago ", "three ", "days ", "上", "个", "周", "三", "天",
                    "前", "去年", "5", "月", "日", "in ", "of ", "十", "２０", "-", "/",
                ]).prop_map(str::to_owned),
                "\\PC{0,3}",
            ],
            0..12,
        ),
        now_us in any::<i64>(),
    ) {
        let text = parts.concat();
        for when in find(&text, now_us, &TimeZone::UTC) {
            prop_assert!(when.from_us < when.until_us);
            prop_assert!(text.contains(&when.words) && !when.words.is_empty());
        }
    }
}
