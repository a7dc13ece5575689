//! What a question says beyond its words: times, ids, what it asks for, and the situation.

use super::*;
use holdfast_core::intent::Intent;
use holdfast_core::score::BOOST_SUM_MAX;
use holdfast_core::situation::Situation;
use holdfast_core::text::analyze_query;
use holdfast_core::when::When;
use serde_json::json;
use std::collections::BTreeMap;

const DAY_US: i64 = 24 * HOUR_US;

fn image(rows: &[IndexRow]) -> Image {
    let mut image = Image::new();
    for (seq, row) in (1..).zip(rows) {
        image.put(seq, row);
    }
    image
}

/// The boost and the reasons of each memory, by id.
fn boosts(image: &Image, query: &Query<'_>) -> BTreeMap<String, (f64, String)> {
    let answer = image.search(&Query { explain: true, top_k: 100, ..*query }).unwrap();
    answer.hits.into_iter().map(|hit| (hit.id, (hit.parts.boost, hit.why.join("; ")))).collect()
}

#[track_caller]
fn close(got: f64, want: f64) {
    assert!((got - want).abs() < 1e-6, "{got} is not {want}");
}

#[test]
fn what_happened_at_the_time_of_the_question_is_lifted() {
    let at = |id: &str, event_us| IndexRow { event_us, ..row(id, "喝茶") };
    let image = image(&[at("before", 9), at("first", 10), at("last", 19), at("after", 20)]);
    let times = [
        When { from_us: 10, until_us: 20, words: "昨天".into() },
        When { from_us: 15, until_us: 16, words: "again".into() },
    ];
    let query = Query { text: "昨天喝茶", times: &times, ..Query::default() };
    let found = boosts(&image, &query);
    for (id, boost) in [("before", 0.0), ("first", 0.05), ("last", 0.05), ("after", 0.0)] {
        close(found[id].0, boost);
        assert_eq!(
            found[id].1.contains("time: it happened at the time of \"昨天\""),
            boost > 0.0,
            "{found:?}"
        );
    }
    for relevance in [RelevanceMode::Vector, RelevanceMode::Keyword] {
        assert!(boosts(&image, &Query { relevance, ..query }).values().all(|(boost, _)| *boost == 0.0));
    }
}

#[test]
fn an_id_that_is_whole_is_lifted() {
    let image = image(&[
        row("whole", "订单 CN-A10293 已发货"),
        row("part", "order CN shipped"),
        row("other", "order CN-A10294"),
    ]);
    let text = "Where is cn-a10293?";
    let terms = analyze_query(text).terms;
    let found = boosts(&image, &Query { text, terms: &terms, ..Query::default() });
    close(found["whole"].0, 0.05);
    assert!(found["whole"].1.contains("id: it has cn-a10293 whole"), "{found:?}");
    assert_eq!((found["part"].0, found["other"].0), (0.0, 0.0));
}

#[test]
fn an_intent_prefers_its_kind_and_what_is_sure() {
    let now_us = 100 * DAY_US;
    let of = |id: &str, kind, days: i64| IndexRow { kind, event_us: now_us - days * DAY_US, ..row(id, id) };
    let image = image(&[
        of("fact", Kind::Semantic, 9),
        IndexRow { unsure: true, ..of("rumour", Kind::Semantic, 9) },
        of("now", Kind::Episodic, 0),
        of("month", Kind::Episodic, 30),
        of("skill", Kind::Procedural, 9),
    ]);
    let with = |intent, guessed| {
        let intent = Some(Preference { intent, guessed });
        boosts(&image, &Query { text: "x", intent, now_us, ..Query::default() })
    };
    let factual = with(Intent::Factual, false);
    close(factual["fact"].0, 0.1);
    close(factual["rumour"].0, -0.1);
    assert!(factual["rumour"].1.contains("its source was unsure"), "{factual:?}");
    close(factual["now"].0, 0.0);
    let experiential = with(Intent::Experiential, false);
    close(experiential["now"].0, 0.1);
    close(experiential["month"].0, 0.075);
    close(experiential["fact"].0, 0.0);
    let guessed = with(Intent::Procedural, true);
    close(guessed["skill"].0, 0.05);
    assert!(guessed["skill"].1.contains("procedural by its words"), "{guessed:?}");
    // What is guessed does not count where relevance is plain; what is told does.
    for (guessed, boost) in [(true, 0.0), (false, 0.1)] {
        let intent = Some(Preference { intent: Intent::Procedural, guessed });
        let relevance = RelevanceMode::Keyword;
        close(
            boosts(&image, &Query { text: "x", intent, relevance, now_us, ..Query::default() })["skill"].0,
            boost,
        );
    }
    assert!(
        boosts(&image, &Query { text: "x", now_us, ..Query::default() })
            .values()
            .all(|(boost, _)| *boost == 0.0)
    );
}

#[test]
fn a_shared_situation_is_lifted() {
    let image = image(&[
        IndexRow { entities: vec!["北京".into()], ..row("there", "a") },
        IndexRow {
            metadata: json!({"place": "北京", "device": "mobile", "time_of_day": "morning"}).to_string(),
            ..row("all", "b")
        },
        IndexRow {
            metadata: json!({"place": "上海"}).to_string(),
            entities: vec!["上海".into()],
            ..row("else", "c")
        },
        row("none", "d"),
    ]);
    let here = Situation::new("北京", "mobile", "morning");
    let found = boosts(&image, &Query { text: "x", situation: Some(&here), ..Query::default() });
    for (id, boost) in [("there", 0.03), ("all", 0.09), ("else", 0.0), ("none", 0.0)] {
        close(found[id].0, boost);
    }
    assert!(found["all"].1.contains("situation: it shares place, device, time of day"), "{found:?}");
}

#[test]
fn all_lifts_together_are_bounded() {
    let image = image(&[IndexRow {
        kind: Kind::Semantic,
        metadata: json!({"place": "x", "device": "y", "time_of_day": "z"}).to_string(),
        topics: topics(1, false),
        ..row("a", "Ann paints in CN-A10293")
    }]);
    let here = Situation::new("x", "y", "z");
    let times = [When { from_us: 0, until_us: 1, words: "then".into() }];
    let query = Query {
        text: "What did Ann paint in CN-A10293?",
        times: &times,
        intent: Some(Preference { intent: Intent::Factual, guessed: false }),
        situation: Some(&here),
        ..Query::default()
    };
    close(boosts(&image, &query)["a"].0, BOOST_SUM_MAX);
}
