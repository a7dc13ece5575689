#![allow(clippy::unwrap_used)]
use super::*;
use crate::precisionmem::asked::Answered;
use std::time::Duration;

fn belief(id: &str, user: &str, scope: &str, more: Value) -> Value {
    let mut belief = json!({"_id": id, "user_id": user, "type": "preference", "canonical_name": "tea_time",
        "aliases": ["茶"], "content": format!("{id} likes tea"), "scope": [scope]});
    belief.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    belief
}

fn data(cases: Value) -> Dataset {
    let beliefs = json!([
        belief("new", "ann", "home", json!({"created_at": "2026-01-02T00:00:00Z"})),
        belief("old", "ann", "home", json!({"superseded_by": "new", "created_at": "2026-01-01T00:00:00Z"})),
        belief("work", "ann", "work", json!({"pinned": true})),
        belief("bo", "bo", "home", json!({})),
    ]);
    Dataset::parse(&beliefs.to_string(), &cases.to_string()).unwrap()
}

fn case(id: &str, expect: Value) -> Value {
    json!({"caseId": id, "category": "c", "scope": ["home"], "query": "tea", "expect": expect})
}

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn what_comes_is_held_against_what_is_expected() {
    let data = data(json!([
        case("exact", json!({"relevantBeliefs": {"shouldOnlyInclude": ["new"]}})),
        case("noisy", json!({"relevantBeliefs": {"shouldOnlyInclude": ["new"]}})),
        case(
            "missed",
            json!({"relevantBeliefs": {"shouldOnlyInclude": ["new"]}, "pinnedFacts": {"mustInclude": ["work"]}})
        ),
        case(
            "empty",
            json!({"relevantBeliefs": {"shouldOnlyInclude": []}, "personaPrelude": {"contains": ["Tea"], "mustNotContain": "ale"}})
        ),
        case("leak", json!({"relevantBeliefs": {"mustExclude": ["bo"]}})),
    ]));
    let mut counts = Counts::default();
    let came = |relevant: &[&str]| Answered {
        relevant: ids(relevant),
        took: Some(Duration::from_millis(relevant.len() as u64)),
        ..Answered::default()
    };
    let persona = Answered { persona_text: "- green TEA".into(), ..Answered::default() };
    for (case, answered) in data.cases.iter().zip([
        came(&["new"]),
        came(&["new", "old"]),
        came(&[]),
        persona,
        came(&["bo", "work", "gone"]),
    ]) {
        counts.case(&data, case, &answered);
    }
    counts.superseded(&data, "ann", &ids(&["home"]), "new", &ids(&["new"]));
    counts.superseded(&data, "ann", &ids(&["home"]), "new", &ids(&["new", "old"]));
    counts.superseded(&data, "ann", &ids(&["home"]), "new", &[]);
    let report = counts.report(4);
    assert_eq!((report.cases, report.passed, report.active, report.active_passed), (5, 2, 3, 1));
    assert_eq!((report.empty, report.empty_passed), (1, 1));
    assert!((report.precision - 0.5).abs() < 1e-9 && (report.recall - 2.0 / 3.0).abs() < 1e-9);
    assert_eq!(
        (report.leaked, report.stale),
        (3, 2),
        "another user's, another scope's, and one that is nobody's"
    );
    assert_eq!((report.superseded, report.superseded_right), (3, 1));
    assert_eq!((report.latency.count, report.latency.max_ms.round()), (4, 3.0));
    let failed: Vec<(&str, &[&str])> =
        report.failed.iter().map(|failed| (failed.case.as_str(), failed.parts.as_slice())).collect();
    assert_eq!(
        failed,
        [
            ("noisy", &["relevantBeliefs"][..]),
            ("missed", &["pinnedFacts", "relevantBeliefs"]),
            ("leak", &["relevantBeliefs"])
        ]
    );
    assert_eq!(report.categories["c"], (2, 5));
}

#[test]
fn files_that_contradict_themselves_are_refused() {
    let one = |more: Value| json!([belief("a", "ann", "home", more)]).to_string();
    let cases = |id: &str| json!([case("c", json!({"openQuestions": {"mustInclude": [id]}}))]).to_string();
    assert!(Dataset::parse(&one(json!({})), &cases("a")).is_ok());
    for (beliefs, cases) in [
        (one(json!({"superseded_by": "b"})), cases("a")),
        (one(json!({"superseded_by": "a"})), cases("a")),
        (one(json!({})), cases("b")),
        (one(json!({})), "[]".to_owned()),
        ("[]".to_owned(), cases("a")),
        ("{".to_owned(), cases("a")),
    ] {
        assert!(Dataset::parse(&beliefs, &cases).is_err(), "{beliefs} {cases}");
    }
}
