//! Why a memory is among the hits of a search, or not.

use super::oracle::{self, Stored};
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

fn trace(image: &Image, query: &Query<'_>, seq: u64) -> Trace {
    image.search(&Query { trace: Some(seq), ..*query }).unwrap().trace.unwrap()
}

#[test]
fn what_a_query_may_not_see_is_told_by_its_reason() {
    let image = image(&[
        IndexRow { expires_us: Some(5), ..row("old", "tea") },
        IndexRow { status: Status::Archived, ..row("cold", "tea") },
        IndexRow { status: Status::Deprecated, ..row("was", "tea") },
        IndexRow { valid_to_us: Some(7), ..row("over", "tea") },
        IndexRow { older: true, ..row("doubted", "茶") },
        row("now", "tea"),
        IndexRow { status: Status::Merged, ..row("again", "tea") },
    ]);
    let query = Query { text: "tea", log_now_us: 5, now_us: 7, ..Query::default() };
    let sights = [
        (1, Sight::Expired),
        (2, Sight::Archived),
        (3, Sight::Superseded),
        (4, Sight::Over),
        (5, Sight::Older),
        (6, Sight::Seen),
        (7, Sight::Merged),
        (8, Sight::Absent),
    ];
    for (seq, sight) in sights {
        let trace = trace(&image, &query, seq);
        assert_eq!(trace.sight, sight, "{seq}");
        assert_eq!(trace.hit.is_some(), sight == Sight::Seen);
    }
    let all = Query { include_deprecated: true, ..query };
    assert_eq!(trace(&image, &all, 3).sight, Sight::Seen);
    // Nothing that has expired comes back, whatever is asked.
    assert_eq!(trace(&image, &all, 1).sight, Sight::Expired);
    let held = HashMap::new();
    let then = Query { as_of: Some(AsOf { valid_us: -1, recorded_us: -1, held: &held }), ..query };
    assert_eq!(trace(&image, &then, 6).sight, Sight::NotThen);
    // What states nothing and names no time may always have been so, as far as it was recorded by then.
    let then = Query { as_of: Some(AsOf { valid_us: -1, recorded_us: i64::MAX, held: &held }), ..query };
    assert_eq!(trace(&image, &then, 6).sight, Sight::Seen);
}

#[test]
fn what_happened_later_was_not_so_before() {
    let image = image(&[
        IndexRow { created_us: 9, event_us: 9, ..row("timeless", "the tea is green") },
        IndexRow { created_us: 9, event_us: 5, ..row("event", "we had tea") },
        IndexRow { created_us: 9, event_us: 9, valid_from_us: Some(9), ..row("fact", "I like tea") },
    ]);
    let held = HashMap::new();
    let sights = |valid_us, recorded_us| {
        let as_of = Some(AsOf { valid_us, recorded_us, held: &held });
        let query = Query { text: "tea", log_now_us: 20, now_us: 20, as_of, ..Query::default() };
        [1, 2, 3].map(|seq| trace(&image, &query, seq).sight == Sight::Seen)
    };
    assert_eq!(sights(1, i64::MAX), [true, false, false]);
    assert_eq!(sights(6, i64::MAX), [true, true, false]);
    assert_eq!(sights(9, i64::MAX), [true, true, true]);
    assert_eq!(sights(9, 8), [false, false, false], "nobody knew it yet");
}

#[test]
fn ranks_are_those_of_each_source() {
    let vector = |x: f32, y: f32| Some(Vector::quantise(&[x, y]).unwrap());
    let image = image(&[
        IndexRow { vector: vector(1.0, 0.0), ..row("same", "nothing of it") },
        IndexRow { vector: vector(0.0, 1.0), ..row("words", "green tea") },
        IndexRow {
            vector: vector(1.0, 1.0),
            ..row("both", "green tea, and much more than that to be said of it")
        },
        row("none", "茶"),
    ]);
    let terms = holdfast_core::text::analyze_query("green tea").terms;
    let query = Query {
        text: "green tea",
        terms: &terms,
        vector: Some(&[1.0, 0.0]),
        explain: true,
        ..Query::default()
    };
    let answer = image.search(&query).unwrap();
    let ranks: std::collections::BTreeMap<_, _> =
        answer.hits.iter().map(|hit| (hit.id.as_str(), hit.ranks.unwrap())).collect();
    let of = |cosine, keyword| Ranks { cosine, keyword };
    assert_eq!(ranks["same"], of(Some(1), None));
    assert_eq!(ranks["words"], of(Some(3), Some(1)));
    assert_eq!(ranks["both"], of(Some(2), Some(2)));
    assert_eq!(ranks["none"], of(None, None));
    assert!(
        image.search(&Query { explain: false, ..query }).unwrap().hits.iter().all(|hit| hit.ranks.is_none())
    );
    // Equal values share the better place.
    let twins = super::trace::image(&[row("a", "tea"), row("b", "tea"), row("c", "tea tea tea tea")]);
    let query = Query { text: "tea", terms: &terms, explain: true, ..Query::default() };
    let places: Vec<_> =
        twins.search(&query).unwrap().hits.into_iter().map(|hit| hit.ranks.unwrap().keyword).collect();
    assert_eq!(places.iter().filter(|place| **place == Some(2)).count(), 2, "{places:?}");
}

#[test]
fn a_filter_is_told_by_the_condition_that_is_not_met() {
    let image = image(&[
        IndexRow { kind: Kind::Episodic, ..row("a", "tea") },
        IndexRow { kind: Kind::Semantic, ..row("b", "茶") },
    ]);
    let filter = Filter::parse(&json!({"kind": "semantic", "importance": {"$gt": 0.2}})).unwrap();
    let query = Query { text: "tea", filter: Some(&filter), ..Query::default() };
    let trace = trace(&image, &query, 1);
    assert_eq!(trace.faults.len(), 1);
    assert_eq!(trace.faults[0].condition, r#"{"kind":{"$eq":"semantic"}}"#);
    assert_eq!(trace.faults[0].found.as_deref(), Some(r#""episodic""#));
    assert_eq!(trace.passing, 1);
}

proptest! {
    /// Every memory is told as the search treats it: seen as the documentation says, ranked where the
    /// whole list of results has it, with the same score.
    #[test]
    fn a_trace_is_what_the_search_does(rows in prop::collection::vec(rows(), 1..25), asked in queries()) {
        let mut stored = Stored::new();
        for (seq, row) in (1u64..).zip(rows) {
            stored.insert(seq, IndexRow { id: format!("m{seq}"), ..row });
        }
        let mut image = Image::new();
        stored.iter().for_each(|(seq, row)| image.put(*seq, row));
        let visible = oracle::scores(&stored, &asked);
        let terms = asked.terms();
        let query = Query { top_k: stored.len(), min_score: None, ..asked.query(&terms) };
        let all = image.search(&query).unwrap().hits;
        for seq in stored.keys() {
            let trace = trace(&image, &query, *seq);
            prop_assert_eq!(trace.sight == Sight::Seen, visible.contains_key(seq));
            let Some(hit) = &trace.hit else { continue };
            prop_assert_eq!(trace.passing, all.len() as u64);
            let better = all.iter().filter(|other| {
                other.score.total_cmp(&hit.score).then(other.seq.cmp(seq)).is_gt()
            });
            prop_assert_eq!(trace.rank, better.count() as u64 + 1);
            let found = all.iter().find(|hit| hit.seq == *seq);
            prop_assert_eq!(trace.faults.is_empty(), found.is_some());
            if let Some(found) = found {
                prop_assert_eq!(hit, found);
            }
        }
    }
}
