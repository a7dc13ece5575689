#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod blocks;
mod chosen;
mod graph_files;
mod graphs;
mod history;
mod lists;
mod loads;
mod oracle;
mod preferences;
mod search;
mod store;
mod trace;

use super::*;
use holdfast_core::memory::{IndexRow, Kind, Status, Topic};
use holdfast_core::text::{analyze, is_short_question};
use holdfast_core::vector::Vector;
use proptest::prelude::*;
use std::collections::HashMap;

/// Log time of the searches: rows that expire at 5 have, those at 15 have not.
const LOG_NOW_US: i64 = 10;
const HOUR_US: i64 = 3_600_000_000;
const NAMES: [&str; 3] = ["Ann", "Bob Jones", "小明"];

const TEXTS: [&str; 12] = [
    "I adopted a red bicycle",
    "What color is the bicycle?",
    "The bicycle is red, red, red",
    "我喜欢红色的自行车",
    "你喜欢什么颜色？",
    "昨天去了北京",
    "Order CN-A10293 shipped to 北京",
    "🙂🙂",
    "",
    "the of and",
    "sunrise painting at the lake",
    "did you paint the sunrise?",
];

/// A row with all that its text gives.
pub(super) fn row(id: &str, text: &str) -> IndexRow {
    let terms = analyze(text);
    IndexRow {
        id: id.into(),
        importance: 0.5,
        strength_milli: 1_000,
        count: 1,
        question: is_short_question(text),
        analyzer: 1,
        terms: terms.terms,
        terms_len: terms.len,
        ..IndexRow::default()
    }
}

/// Facts about those who are named and others, among them what somebody says of themselves.
fn topics(label: u32, second: bool) -> Vec<Topic> {
    let topic =
        |subject: &str, predicate: &str| Topic { subject: subject.into(), predicate: predicate.into() };
    let first = match label {
        1 => topic("ann", "paint in"),
        2 => topic("小明", "lives in"),
        _ => return Vec::new(),
    };
    let second = second.then(|| topic("user", "attitude to"));
    std::iter::once(first).chain(second).collect()
}

fn vectors() -> impl Strategy<Value = Option<Vector>> {
    let values = prop::collection::vec(-1f32..1.0, 5);
    let some = (values, prop::bool::weighted(0.1)).prop_map(|(values, other_model)| {
        let mut vector = Vector::quantise(&values).ok()?;
        vector.model = u8::from(other_model);
        Some(vector)
    });
    prop_oneof![3 => some, 1 => Just(None)]
}

fn rows() -> impl Strategy<Value = IndexRow> {
    let texts = prop::collection::vec(0..TEXTS.len(), 0..4);
    let who = (prop::option::of(0..NAMES.len()), any::<bool>(), prop::option::of(0..3u8));
    let what =
        (0..3usize, 0..10u8, 0..3u32, 0..4i64, prop_oneof![Just(None), Just(Some(5i64)), Just(Some(15))]);
    let numbers = (0..=10u8, prop_oneof![Just(0u32), Just(1), Just(200)], 100..=5_000u16, 0..200i64);
    (texts, who, what, numbers, vectors()).prop_map(|(texts, who, what, numbers, vector)| {
        let text: Vec<&str> = texts.iter().map(|at| TEXTS[*at]).collect();
        let (speaker, user, session) = who;
        let (kind, status, label, event, expires_us) = what;
        let (importance, access_count, strength_milli, hours) = numbers;
        IndexRow {
            kind: [Kind::Semantic, Kind::Episodic, Kind::Procedural][kind],
            status: [Status::Deprecated, Status::Archived, Status::Merged]
                .get(usize::from(status))
                .copied()
                .unwrap_or_default(),
            importance: f32::from(importance) / 10.0,
            access_count,
            strength_milli,
            created_us: event,
            event_us: event,
            last_access_us: event - hours * HOUR_US,
            expires_us,
            valid_from_us: (label == 1).then_some(event),
            valid_to_us: [None, Some(HOUR_US), Some(3 * HOUR_US)]
                .get(usize::from(importance) % 4)
                .copied()
                .flatten(),
            retracted_us: (importance == 7).then_some(2),
            older: access_count == 1,
            role: Some(if user { "user" } else { "assistant" }.into()),
            speaker: speaker.map(|at| NAMES[at].to_owned()),
            session: session.map(|session| format!("s{session}")),
            agent: (label == 0).then(|| "agent".into()),
            entities: (0..label).map(|n| format!("e{n}")).collect(),
            metadata: if label == 1 { String::new() } else { format!("{{\"n\":{label}}}") },
            pinned: label == 2,
            vector,
            topics: topics(label, access_count == 200),
            ..row("", &text.join(" "))
        }
    })
}

/// What a query is, with its own data.
#[derive(Debug, Clone)]
struct Asked {
    text: &'static str,
    vector: Option<Vec<f32>>,
    relevance: RelevanceMode,
    profile: holdfast_core::score::Profile,
    filter: Option<holdfast_core::filter::Filter>,
    top_k: usize,
    min_score: Option<f64>,
    include_deprecated: bool,
    conflicts: Conflicts,
    /// Valid time and record time of a question about the past.
    as_of: Option<(i64, i64)>,
}

/// Statements are kept apart from the columns; here by a rule that anyone can follow.
fn held() -> &'static HashMap<u64, bool> {
    static HELD: std::sync::OnceLock<HashMap<u64, bool>> = std::sync::OnceLock::new();
    HELD.get_or_init(|| {
        (0..10_000u64).filter(|seq| !seq.is_multiple_of(3)).map(|seq| (seq, seq.is_multiple_of(2))).collect()
    })
}

impl Asked {
    fn terms(&self) -> Vec<String> {
        holdfast_core::text::analyze_query(self.text).terms
    }

    fn query<'a>(&'a self, terms: &'a [String]) -> Query<'a> {
        Query {
            text: self.text,
            terms,
            vector: self.vector.as_deref(),
            relevance: self.relevance,
            profile: self.profile,
            filter: self.filter.as_ref(),
            now_us: 2 * HOUR_US,
            log_now_us: LOG_NOW_US,
            top_k: self.top_k,
            min_score: self.min_score,
            include_deprecated: self.include_deprecated,
            conflicts: self.conflicts,
            as_of: self.as_of.map(|(valid_us, recorded_us)| AsOf { valid_us, recorded_us, held: held() }),
            explain: true,
            ..Query::default()
        }
    }
}

fn queries() -> impl Strategy<Value = Asked> {
    let text = prop::sample::select(vec![
        "",
        "What color is the red bicycle?",
        "What did Ann paint?",
        "Does Bob Jones tell me about the sunrise",
        "Ann and 小明",
        "what do I like",
        "自行车是什么颜色",
        "小明去北京吗",
        "CN-A10293",
        "zebra crossing",
        "the of",
        "🙂",
    ]);
    let vector = prop::option::of(
        prop::collection::vec(-1f32..1.0, 5).prop_filter("zero", |v| v.iter().any(|x| *x != 0.0)),
    );
    let relevance = prop_oneof![
        3 => Just(RelevanceMode::Fused), 1 => Just(RelevanceMode::Vector), 1 => Just(RelevanceMode::Keyword)
    ];
    let profile = prop::sample::select(holdfast_core::score::Profile::ALL.to_vec());
    let filter = prop::option::of(prop::sample::select(vec![
        serde_json::json!({}),
        serde_json::json!({"kind": {"$ne": "semantic"}}),
        serde_json::json!({"metadata.n": {"$gte": 2}}),
        serde_json::json!({"entities": {"$contains": "e0"}, "not": [{"session": "s1"}]}),
        serde_json::json!({"or": [{"speaker": "小明"}, {"importance": {"$gt": 0.7}}]}),
        serde_json::json!({"agent": "nobody"}),
    ]));
    let conflicts = prop::sample::select(vec![Conflicts::Latest, Conflicts::Mark, Conflicts::All]);
    let as_of = prop_oneof![3 => Just(None), 1 => (0..5i64, 0..5i64).prop_map(Some)];
    let sight = (any::<bool>(), conflicts, as_of);
    let rest = (0..8usize, prop_oneof![3 => Just(None), 1 => (0.0..0.8f64).prop_map(Some)], sight);
    (text, vector, relevance, profile, filter, rest).prop_map(
        |(text, vector, relevance, profile, filter, (top_k, min_score, sight))| Asked {
            text,
            vector,
            relevance,
            profile,
            filter: filter.map(|filter| holdfast_core::filter::Filter::parse(&filter).unwrap()),
            top_k,
            min_score,
            include_deprecated: sight.0,
            conflicts: sight.1,
            as_of: sight.2,
        },
    )
}
