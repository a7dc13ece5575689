//! What sort of memory a question asks for: a fact, something that happened, or how a thing is done.
//!
//! An intent is a preference, not a filter: memories of its kind gain a boost, and others are still
//! found. Told by the caller it counts in full; guessed from the words of the question, by half.

use crate::memory::Kind;
use crate::score::BOOST_MAX;
use crate::when::When;

/// What a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// What is so: semantic memories, and not those whose source was unsure.
    Factual,
    /// What happened: episodes, the newer the more.
    Experiential,
    /// How a thing is done: procedures.
    Procedural,
}

/// A confidence up to this is no sure ground for a fact.
pub const SURE: f32 = 0.8;

/// Whether a memory of this confidence is no sure ground for a fact; one that is not a number is none.
pub fn is_unsure(confidence: f32) -> bool {
    confidence.is_nan() || confidence <= SURE
}

/// Days in which an episode loses half of what it gains for being new.
const HALF_LIFE_DAYS: f64 = 30.0;
const US_PER_DAY: f64 = 86_400e6;

impl Intent {
    /// Every intent.
    pub const ALL: [Self; 3] = [Self::Factual, Self::Experiential, Self::Procedural];

    /// The name in the public interface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Factual => "factual",
            Self::Experiential => "experiential",
            Self::Procedural => "procedural",
        }
    }

    /// The intent of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|intent| intent.name() == name)
    }

    /// The intent that a question's words speak for; none where they do not. `times` are those that
    /// the question names.
    ///
    /// ```
    /// use holdfast_core::intent::Intent;
    /// assert_eq!(Intent::guess("How do I reset the router?", &[]), Some(Intent::Procedural));
    /// assert_eq!(Intent::guess("上次去北京是什么时候？", &[]), Some(Intent::Experiential));
    /// assert_eq!(Intent::guess("Where does she live?", &[]), Some(Intent::Factual));
    /// assert_eq!(Intent::guess("tea", &[]), None);
    /// ```
    pub fn guess(question: &str, times: &[When]) -> Option<Self> {
        let words = Words::of(question);
        let has = |english: &[&str], chinese: &[&str]| {
            english.iter().any(|phrase| words.have(phrase))
                || chinese.iter().any(|phrase| question.contains(phrase))
        };
        if has(&PROCEDURAL, &PROCEDURAL_CHINESE) {
            return Some(Self::Procedural);
        }
        if !times.is_empty() || has(&EXPERIENTIAL, &EXPERIENTIAL_CHINESE) {
            return Some(Self::Experiential);
        }
        has(&FACTUAL, &FACTUAL_CHINESE).then_some(Self::Factual)
    }

    /// What a memory of a kind gains, at most [`BOOST_MAX`]. `age_us` is the time since it happened,
    /// in microseconds; a time to come counts as now. One that is [unsure](is_unsure) loses as much
    /// where a fact is asked for.
    pub fn boost(self, kind: Kind, age_us: i64, unsure: bool) -> f64 {
        match (self, kind) {
            (Self::Factual, _) if unsure => -BOOST_MAX,
            (Self::Factual, Kind::Semantic) | (Self::Procedural, Kind::Procedural) => BOOST_MAX,
            (Self::Experiential, Kind::Episodic) => {
                let days = age_us.max(0) as f64 / US_PER_DAY;
                BOOST_MAX * (0.5 + 0.5 * (-days / HALF_LIFE_DAYS).exp2())
            }
            _ => 0.0,
        }
    }
}

const PROCEDURAL: [&str; 12] = [
    "how do i",
    "how do you",
    "how do we",
    "how to",
    "how can i",
    "how can we",
    "how should i",
    "steps to",
    "steps for",
    "procedure for",
    "process for",
    "instructions for",
];
const PROCEDURAL_CHINESE: [&str; 12] = [
    "如何",
    "步骤",
    "流程",
    "怎么做",
    "怎么用",
    "怎么办",
    "怎么设置",
    "怎么安装",
    "怎么配置",
    "怎么写",
    "怎样做",
    "操作方法",
];
const EXPERIENTIAL: [&str; 17] = [
    "when did",
    "when was",
    "when were",
    "what happened",
    "last time",
    "did i",
    "did we",
    "did you",
    "did he",
    "did she",
    "did they",
    "have i",
    "have we",
    "remember when",
    "the time when",
    "have you ever",
    "how did",
];
const EXPERIENTIAL_CHINESE: [&str; 12] = [
    "上次",
    "上一次",
    "什么时候",
    "何时",
    "那次",
    "发生了什么",
    "发生过",
    "还记得",
    "当时",
    "经历",
    "去过",
    "做过",
];
const FACTUAL: [&str; 18] = [
    "what is",
    "what's",
    "what are",
    "what does",
    "what do",
    "who is",
    "who's",
    "who are",
    "where is",
    "where does",
    "where do",
    "which",
    "how many",
    "how much",
    "how old",
    "is my",
    "whose",
    "does my",
];
const FACTUAL_CHINESE: [&str; 14] = [
    "是什么",
    "是谁",
    "是哪",
    "在哪",
    "哪里",
    "哪个",
    "哪些",
    "多少",
    "几岁",
    "叫什么",
    "喜欢什么",
    "什么名字",
    "是不是",
    "有没有",
];

/// The words of a question in lower case, between single spaces.
struct Words(String);

impl Words {
    fn of(question: &str) -> Self {
        let lower = question.to_lowercase().replace('’', "'");
        let words = lower.split(|c: char| !(c.is_alphanumeric() || c == '\''));
        let mut text = String::from(" ");
        for word in words.filter(|word| !word.is_empty()) {
            text.push_str(word);
            text.push(' ');
        }
        Self(text)
    }

    /// Whether whole words follow each other so.
    fn have(&self, phrase: &str) -> bool {
        self.0
            .match_indices(phrase)
            .any(|(at, _)| self.0[..at].ends_with(' ') && self.0[at + phrase.len()..].starts_with(' '))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_speak_for_an_intent() {
        for (question, intent) in [
            ("How do I descale the coffee machine?", Some(Intent::Procedural)),
            ("What are the steps for a release?", Some(Intent::Procedural)),
            ("如何重置路由器", Some(Intent::Procedural)),
            ("咖啡机怎么用？", Some(Intent::Procedural)),
            ("When did Ann go to Berlin?", Some(Intent::Experiential)),
            ("What did we talk about in the last time?", Some(Intent::Experiential)),
            ("我上次去上海是跟谁？", Some(Intent::Experiential)),
            ("What’s my dog's name?", Some(Intent::Factual)),
            ("WHICH city does she live in", Some(Intent::Factual)),
            ("小明住在哪里？", Some(Intent::Factual)),
            ("她喜欢什么？", Some(Intent::Factual)),
            ("", None),
            ("🙂", None),
            ("tea", None),
            ("绿茶", None),
            // Parts of words are none.
            ("somehow total", None),
            ("switch", None),
        ] {
            assert_eq!(Intent::guess(question, &[]), intent, "{question}");
        }
        let when = When { from_us: 0, until_us: 1, words: "yesterday".into() };
        assert_eq!(Intent::guess("notes of yesterday", &[when]), Some(Intent::Experiential));
    }

    #[test]
    fn names_go_both_ways() {
        for intent in Intent::ALL {
            assert_eq!(Intent::from_name(intent.name()), Some(intent));
        }
        assert_eq!(Intent::from_name("auto"), None);
    }

    #[test]
    fn sure_is_above_eight_tenths() {
        for (confidence, unsure) in [(1.0, false), (0.81, false), (0.8, true), (0.0, true), (f32::NAN, true)]
        {
            assert_eq!(is_unsure(confidence), unsure, "{confidence}");
        }
    }

    #[test]
    fn boosts_are_bounded_and_worked_by_hand() {
        let days = |days: i64| days * 86_400_000_000;
        assert_eq!(Intent::Factual.boost(Kind::Semantic, 0, false), 0.1);
        assert_eq!(Intent::Factual.boost(Kind::Semantic, 0, true), -0.1);
        assert_eq!(Intent::Factual.boost(Kind::Episodic, 0, false), 0.0);
        assert_eq!(Intent::Procedural.boost(Kind::Procedural, i64::MAX, true), 0.1);
        // .1 (.5 + .5 / 2) = .075 after 30 days, .1 (.5 + .5 / 4) = .0625 after 60.
        assert!((Intent::Experiential.boost(Kind::Episodic, days(30), false) - 0.075).abs() < 1e-12);
        assert!((Intent::Experiential.boost(Kind::Episodic, days(60), true) - 0.0625).abs() < 1e-12);
        assert_eq!(Intent::Experiential.boost(Kind::Episodic, -days(5), false), 0.1);
        for intent in Intent::ALL {
            for kind in Kind::ALL {
                for age_us in [i64::MIN, -1, 0, 1, i64::MAX] {
                    let boost = intent.boost(kind, age_us, false);
                    assert!((0.0..=BOOST_MAX).contains(&boost), "{intent:?} {kind:?}");
                }
            }
        }
    }
}
