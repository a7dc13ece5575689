//! What a search answers where it is easiest said by example.

use super::*;
use holdfast_core::filter::Filter;
use serde_json::json;

fn image(rows: &[IndexRow]) -> Image {
    let mut image = Image::new();
    for (seq, row) in (1..).zip(rows) {
        image.put(seq, row);
    }
    image
}

fn seqs(answer: &Answer) -> Vec<u64> {
    answer.hits.iter().map(|hit| hit.seq).collect()
}

#[test]
fn an_empty_space_answers() {
    let image = Image::new();
    let answer = image.search(&Query { text: "anything", vector: Some(&[1.0]), ..Query::default() }).unwrap();
    assert_eq!((answer.hits.len(), answer.scored, answer.exact, answer.index), (0, 0, true, "exact"));
    assert!(image.is_empty() && image.bytes() > 0);
}

#[test]
fn without_a_query_the_other_parts_order_and_the_newer_wins() {
    let with = |importance| IndexRow { importance, ..row("m", "some text") };
    let image = image(&[with(0.2), with(0.9), with(0.2), with(f32::NAN)]);
    let answer = image.search(&Query { top_k: 9, ..Query::default() }).unwrap();
    assert_eq!(seqs(&answer), [2, 4, 3, 1]);
    assert!(answer.hits.iter().all(|hit| hit.parts.relevance == 0.0 && hit.score.is_finite()));
    let none = image.search(&Query { top_k: 0, ..Query::default() }).unwrap();
    assert_eq!((none.hits.len(), none.scored), (0, 4));
}

#[test]
fn what_matches_nothing_is_no_error() {
    let image = image(&[row("a", "red bicycle"), row("b", "北京")]);
    for text in ["zebra", "the of", "???", "\u{0}", &"x ".repeat(5_000)] {
        let terms = holdfast_core::text::analyze_query(text).terms;
        for relevance in [RelevanceMode::Fused, RelevanceMode::Vector, RelevanceMode::Keyword] {
            let answer = image.search(&Query { text, terms: &terms, relevance, ..Query::default() }).unwrap();
            assert_eq!(answer.hits.len(), 2, "{text}");
        }
    }
}

#[test]
fn a_vector_of_the_wrong_length_is_refused() {
    let vector = Some(Vector::quantise(&[1.0, 0.0, 0.0]).unwrap());
    let image = image(&[IndexRow { vector, ..row("a", "x") }]);
    for bad in [&[1.0f32, 2.0][..], &[], &[0.0; 3], &[f32::NAN; 3]] {
        let error = image.search(&Query { vector: Some(bad), ..Query::default() }).unwrap_err();
        assert_eq!(error.code, holdfast_core::ErrorCode::InvalidArgument);
    }
}

#[test]
fn a_filter_chooses_and_changes_no_score() {
    let turn = |text: &str, kind| IndexRow { session: Some("s".into()), kind, ..row(text, text) };
    let image = image(&[
        turn("what color is the bicycle?", Kind::Episodic),
        turn("it is red", Kind::Semantic),
        turn("nice weather", Kind::Episodic),
    ]);
    let terms = holdfast_core::text::analyze_query("bicycle color").terms;
    let query = Query { text: "bicycle color", terms: &terms, ..Query::default() };
    let all = image.search(&query).unwrap();
    let filter = Filter::parse(&json!({"kind": "semantic"})).unwrap();
    let some = image.search(&Query { filter: Some(&filter), ..query }).unwrap();
    assert_eq!(seqs(&some), [2]);
    assert_eq!(some.scored, 3);
    assert_eq!(all.hits.iter().find(|hit| hit.seq == 2), some.hits.first());
}

#[test]
fn expired_and_superseded_memories_are_as_if_never_written() {
    let hidden = [
        IndexRow { expires_us: Some(10), ..row("old", "red bicycle") },
        IndexRow { status: Status::Deprecated, ..row("was", "red bicycle") },
        IndexRow { status: Status::Archived, ..row("cold", "red bicycle") },
    ];
    let shown = IndexRow { expires_us: Some(11), ..row("now", "red bicycle") };
    let terms = holdfast_core::text::analyze_query("bicycle").terms;
    let query = Query { text: "bicycle", terms: &terms, log_now_us: 10, ..Query::default() };
    let with = image(&[shown.clone(), hidden[0].clone(), hidden[1].clone(), hidden[2].clone()]);
    assert_eq!(with.search(&query).unwrap(), image(&[shown]).search(&query).unwrap());
    let all = with.search(&Query { include_deprecated: true, ..query }).unwrap();
    assert_eq!(seqs(&all), [4, 3, 1]);
}

#[test]
fn hits_say_why() {
    let turn = |id: &str, speaker: &str, text: &str| IndexRow {
        session: Some("s".into()),
        speaker: Some(speaker.into()),
        role: Some("user".into()),
        ..row(id, text)
    };
    let image = image(&[
        turn("q", "Ann", "What color is the bicycle?"),
        turn("a", "小明", "It is red"),
        turn("z", "Ann", "Nice weather"),
    ]);
    let why = |text: &str| {
        let terms = holdfast_core::text::analyze_query(text).terms;
        let answer = image.search(&Query { text, terms: &terms, explain: true, ..Query::default() }).unwrap();
        answer
            .hits
            .into_iter()
            .map(|hit| (hit.id, hit.why.join("; ")))
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    let named = why("小明's bicycle");
    assert!(named["q"].contains("words: bicycl") && named["q"].contains("question:"), "{named:?}");
    assert!(named["a"].contains("answer: it follows the question q"), "{named:?}");
    assert!(named["a"].contains("speaker: 小明") && named["a"].contains("neighbours:"), "{named:?}");
    assert!(!named["z"].contains("speaker:") && !named["z"].contains("words:"), "{named:?}");
    assert!(why("what do I like")["z"].contains("speaker: the user"));
    assert!(why("").values().all(String::is_empty));
    let silent = image.search(&Query { text: "bicycle", ..Query::default() }).unwrap();
    assert!(silent.hits.iter().all(|hit| hit.why.is_empty()));
}

/// A speaker who has said nothing that is left is nobody.
#[test]
fn speakers_are_forgotten_with_their_last_memory() {
    let said = |speaker: &str| IndexRow { speaker: Some(speaker.into()), ..row(speaker, "text") };
    let mut image = image(&[said("Ann"), said("Bob")]);
    let both =
        Query { text: "Ann and Bob", relevance: RelevanceMode::Fused, explain: true, ..Query::default() };
    let named = |image: &Image| image.search(&both).unwrap().hits.iter().any(|hit| !hit.why.is_empty());
    assert!(!named(&image));
    image.remove(2);
    assert!(named(&image));
    image.put(2, &said("Bob"));
    assert!(!named(&image));
    image.put(2, &said("Cid"));
    assert!(named(&image));
}

#[test]
fn bytes_follow_what_is_held() {
    let vector = Some(Vector::quantise(&[0.5; 512]).unwrap());
    let full = IndexRow { vector, metadata: "x".repeat(1_000), ..row("id", &"word ".repeat(50)) };
    let mut image = Image::new();
    (0..1_000).for_each(|seq| image.put(seq, &full));
    image.shrink();
    // 1,024 bytes of vector, 1,000 of metadata, some 200 of columns.
    let per_row = image.bytes() / 1_000;
    assert!((2_100..2_500).contains(&per_row), "{per_row}");
    let loaded = image.bytes();
    (0..1_000).for_each(|seq| image.put(seq, &IndexRow { metadata: String::new(), ..full.clone() }));
    assert_eq!(image.bytes(), loaded - 1_000_000);
    (0..600).for_each(|seq| image.remove(seq));
    assert!(image.is_wasteful() && image.len() == 400);
}

#[test]
fn a_question_lifts_the_fact_that_it_asks_for() {
    let fact = |id: &str, text: &str, subject: &str, predicate: &str| {
        let topic = Topic { subject: subject.into(), predicate: predicate.into() };
        IndexRow { topics: vec![topic], ..row(id, text) }
    };
    for (question, rows, why) in [
        (
            "Where does Ann work?",
            [
                fact("asked", "Ann works at Acme", "ann", "works at"),
                fact("other", "Bo works with Ann at the works of Ann", "bo", "works at"),
                fact("else", "Ann lives near her work", "ann", "lives in"),
            ],
            "fact: works at of ann",
        ),
        (
            "小明的职业是什么？",
            [
                fact("asked", "小明当医生", "小明", "job"),
                fact("other", "小红说小明的职业是什么", "小红", "job"),
                fact("else", "小明住在北京", "小明", "lives in"),
            ],
            "fact: job of 小明",
        ),
    ] {
        let image = image(&rows);
        let terms = holdfast_core::text::analyze_query(question).terms;
        let profile = holdfast_core::score::Profile::Relevance;
        let query = Query { text: question, terms: &terms, explain: true, profile, ..Query::default() };
        let hits = image.search(&query).unwrap().hits;
        let boost = |id: &str| hits.iter().find(|hit| hit.id == id).unwrap().parts.boost;
        assert!((boost("asked") - 0.1).abs() < 1e-9 && boost("other") == 0.0, "{hits:?}");
        assert!(boost("else") > 0.0 && boost("else") < boost("asked"), "{hits:?}");
        let asked = hits.iter().find(|hit| hit.id == "asked").unwrap();
        assert!(asked.why.iter().any(|line| line.starts_with(why)), "{:?}", asked.why);
        let plain = Query { relevance: RelevanceMode::Keyword, ..query };
        assert!(image.search(&plain).unwrap().hits.iter().all(|hit| hit.parts.boost == 0.0));
    }
}

/// A possible conflict hides a memory from the hits, and no constraint.
#[test]
fn a_doubt_hides_no_constraint() {
    let doubted = |id: &str| IndexRow { older: true, ..row(id, id) };
    let hard = |row: IndexRow| IndexRow { importance: 1.0, ..row };
    let image = image(&[
        hard(doubted("allergic to nuts")),
        doubted("tea"),
        row("weather", "nice weather"),
        hard(IndexRow { status: Status::Deprecated, ..doubted("milk") }),
        hard(IndexRow { expires_us: Some(5), ..doubted("today") }),
    ]);
    let beside = Beside { constraints: 10, stating: 10 };
    let answer = image.search(&Query { top_k: 9, log_now_us: 5, beside, ..Query::default() }).unwrap();
    let ids = |hits: &[Hit]| hits.iter().map(|hit| hit.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&answer.hits), ["allergic to nuts", "weather"]);
    assert_eq!((ids(&answer.constraints), answer.constraints_total), (vec!["allergic to nuts".into()], 1));
}

#[test]
fn constraints_and_facts_stand_beside_the_hits() {
    let states = |id: &str| IndexRow { valid_from_us: Some(1), ..row(id, id) };
    let hard = |id: &str| IndexRow { importance: 1.0, ..row(id, id) };
    let image = image(&[
        states("tea"),
        hard("peanuts"),
        row("weather", "nice weather"),
        IndexRow { role: Some("user".into()), ..states("coffee") },
        IndexRow { status: Status::Deprecated, ..hard("milk") },
        IndexRow { expires_us: Some(5), ..hard("today") },
        IndexRow { importance: f32::NAN, ..row("odd", "odd") },
        hard("花生"),
    ]);
    let beside = Beside { constraints: 10, stating: 10 };
    let query = Query { top_k: 1, log_now_us: 5, beside, ..Query::default() };
    let ids = |hits: &[Hit]| hits.iter().map(|hit| hit.id.clone()).collect::<Vec<_>>();
    let answer = image.search(&query).unwrap();
    assert_eq!(ids(&answer.hits), ["花生"]);
    assert_eq!(
        (ids(&answer.constraints), answer.constraints_total),
        (vec!["花生".into(), "peanuts".into()], 2)
    );
    assert_eq!(ids(&answer.stating), ["coffee", "tea"]);
    // What chooses among results chooses among facts, and leaves constraints alone.
    let filter = Filter::parse(&json!({"role": "user"})).unwrap();
    let narrow = image.search(&Query { filter: Some(&filter), min_score: Some(1.2), ..query }).unwrap();
    assert_eq!((narrow.hits.len(), narrow.stating.len(), narrow.constraints.len()), (0, 0, 2));
    let narrow = image.search(&Query { filter: Some(&filter), ..query }).unwrap();
    assert_eq!((ids(&narrow.hits), ids(&narrow.stating)), (vec!["coffee".into()], vec!["coffee".into()]));
    let few = Query { beside: Beside { constraints: 1, stating: 1 }, ..query };
    let few = image.search(&few).unwrap();
    assert_eq!((few.constraints.len(), few.constraints_total, few.stating.len()), (1, 2, 1));
    let none = image.search(&Query { beside: Beside::default(), ..query }).unwrap();
    assert_eq!((none.constraints.len(), none.constraints_total, none.stating.len()), (0, 0, 0));
    assert_eq!(none.hits, answer.hits);
}
