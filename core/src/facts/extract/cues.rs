//! Words that say when something holds: from now on, for a while, or other than was said before.

use super::lexicon::joined;
use super::tokens::Token;

/// Longest of the cues below, in tokens.
const PHRASE_TOKENS_MAX: usize = 6;

/// It is so from now on, or has changed.
#[rustfmt::skip]
const CHANGE: &[&str] = &[
    "now", "nowadays", "no longer", "anymore", "any more", "any longer", "switched to", "switched from",
    "changed to", "changed my mind", "moved to", "these days", "from now on", "from today on", "as of today",
    "as of now", "as of this week", "instead of", "instead", "used to", "stopped", "quit", "gave up", "started",
    "not any more", "lately", "recently", "became", "replaced", "starting today", "改", "改成", "改为", "改用",
    "换成", "换到", "换了", "不再", "再也不", "现在", "目前", "以后", "从今以后", "今后", "从今天起", "从今天开始",
    "从现在起", "从现在开始", "开始", "戒了", "戒掉", "放弃了", "如今", "最近", "变成", "转而", "而不是", "已经不",
];

const DAY_US: i64 = 86_400_000_000;
const HOUR_US: i64 = 3_600_000_000;

/// It is so for a while: the cue, and for how long in microseconds; 0 until the end of the day.
#[rustfmt::skip]
const TEMPORARY: &[(&str, i64)] = &[
    ("just this once", 0), ("this once", 0), ("just today", 0), ("just for today", 0), ("only today", 0),
    ("for today", 0), ("today", 0), ("tonight", 0), ("this evening", 0), ("this afternoon", 0),
    ("this week", 7 * DAY_US), ("this weekend", 3 * DAY_US), ("for now", 7 * DAY_US),
    ("for the moment", 7 * DAY_US), ("temporarily", 7 * DAY_US), ("this month", 31 * DAY_US), ("今天", 0),
    ("今晚", 0), ("今日", 0), ("就今天", 0), ("就这一次", 0), ("破例", 0), ("例外", 0), ("这周", 7 * DAY_US),
    ("本周", 7 * DAY_US), ("这个周末", 3 * DAY_US), ("暂时", 7 * DAY_US), ("临时", 7 * DAY_US),
    ("这个月", 31 * DAY_US), ("这几天", 7 * DAY_US),
];

#[rustfmt::skip]
const CORRECTION: &[&str] = &[
    "i meant", "i mean to say", "correction", "i misspoke", "i was wrong", "let me correct", "that was wrong",
    "更正", "我是说", "说错了", "我说错", "纠正一下", "搞错了", "弄错了",
];

/// Whether the words tell of a change.
pub(super) fn tells_change(tokens: &[Token]) -> bool {
    CHANGE.iter().any(|cue| find(tokens, cue))
}

/// Whether the words take back something that was said.
pub(super) fn corrects(tokens: &[Token]) -> bool {
    CORRECTION.iter().any(|cue| find(tokens, cue))
}

/// Until when a statement of `event_us` holds that is made for a while, and the words that say so.
///
/// What holds for a day ends with the day of the event in UTC, and not within twelve hours of it,
/// since where the speaker's day ends is not known.
pub(super) fn holds_until(tokens: &[Token], event_us: i64) -> Option<(i64, String)> {
    let from_then_on = [
        "from today",
        "as of today",
        "starting today",
        "从今天",
        "从今",
        "今后",
        "今天起",
        "今天开始",
        "from now on",
        "as of now",
    ];
    if from_then_on.iter().any(|cue| find(tokens, cue)) {
        return None;
    }
    let (cue, length_us) = TEMPORARY.iter().find(|(cue, _)| find(tokens, cue))?;
    let end_of_day = event_us.div_euclid(DAY_US).saturating_add(1).saturating_mul(DAY_US);
    let until_us = match length_us {
        0 => end_of_day.max(event_us.saturating_add(12 * HOUR_US)),
        length_us => event_us.saturating_add(*length_us),
    };
    Some((until_us, (*cue).to_owned()))
}

/// Whether a phrase stands in the tokens, at whole words.
fn find(tokens: &[Token], phrase: &str) -> bool {
    let cjk = !phrase.is_ascii();
    let most = if cjk { phrase.chars().count() } else { phrase.split(' ').count().min(PHRASE_TOKENS_MAX) };
    (0..tokens.len()).any(|at| tokens.get(at..at + most).is_some_and(|window| joined(window) == phrase))
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    #[test]
    fn cues_are_whole_words() {
        for text in [
            "I no longer eat meat",
            "I switched to tea",
            "我改喝茶了",
            "我不再吃肉",
            "现在我住北京",
            "From now on I walk",
        ] {
            assert!(tells_change(&tokens(text)), "{text}");
        }
        for text in ["I know Anna", "Snowy weather is nice", "我住北京", "the acquittal"] {
            assert!(!tells_change(&tokens(text)), "{text}");
        }
        assert!(corrects(&tokens("No, I meant Tuesday")) && corrects(&tokens("我说错了，是周二")));
    }

    #[test]
    fn windows_end_after_the_day() {
        let noon = 20_000 * DAY_US + 12 * HOUR_US;
        for text in ["just for today I eat meat", "今天想尝尝川菜微辣"] {
            assert_eq!(
                holds_until(&tokens(text), noon).map(|window| window.0),
                Some(20_001 * DAY_US),
                "{text}"
            );
        }
        let late = 20_000 * DAY_US + 23 * HOUR_US;
        let until = holds_until(&tokens("today I eat meat"), late).map(|window| window.0);
        assert_eq!(until, Some(late + 12 * HOUR_US));
        assert_eq!(holds_until(&tokens("as of today I live in Bonn"), noon), None);
        assert_eq!(holds_until(&tokens("从今天起我不喝酒"), noon), None);
        assert!(holds_until(&tokens("this week"), i64::MAX).is_some(), "no overflow");
    }
}
