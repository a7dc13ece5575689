#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::ErrorCode;
use crate::memory::IndexRow;
use proptest::prelude::*;
use serde_json::json;

fn row() -> IndexRow {
    IndexRow {
        kind: Kind::Episodic,
        importance: 0.7,
        // 2023-05-08T13:56:00Z
        created_us: 1_683_554_160_000_000,
        event_us: 1_683_554_160_000_001,
        role: Some("user".into()),
        speaker: Some("小明".into()),
        session: Some("s-1".into()),
        entities: vec!["Ann".into(), "".into(), "猫%".into()],
        metadata: json!({
            "n": 10, "big": 9_007_199_254_740_993u64, "text": "9", "flag": true, "nothing": null,
            "tags": ["red", 3, null, ["deep"]], "a": {"b": {"c": "x"}, "b.c": "y"}, "a.b.d": "z"
        })
        .to_string(),
        ..IndexRow::default()
    }
}

fn matches(filter: Value) -> bool {
    Filter::parse(&filter).unwrap().matches(&IndexRowView::new(&row()))
}

fn refused(filter: Value, field: &str) -> String {
    let error = Filter::parse(&filter).expect_err("must be refused");
    assert_eq!(error.code, ErrorCode::InvalidArgument, "{filter}");
    assert_eq!(error.field.as_deref(), Some(field), "{filter}");
    error.detail
}

#[test]
fn nothing_asked_matches_everything() {
    assert!(matches(json!({})));
    for text in ["", "  \n", "{}"] {
        assert!(Filter::parse_text(text).unwrap().is_all(), "{text:?}");
    }
    assert!(Filter::kinds(&[]).is_all());
    assert!(Filter::parse_text("{").is_err());
}

#[test]
fn every_field_can_be_asked() {
    for (yes, no) in [
        (json!({"kind": "episodic"}), json!({"kind": "semantic"})),
        (json!({"role": "user"}), json!({"role": "User"})),
        (json!({"speaker": "小明"}), json!({"speaker": "小"})),
        (json!({"session": {"$in": ["s-0", "s-1"]}}), json!({"session": {"$in": []}})),
        (json!({"agent": {"$exists": false}}), json!({"agent": {"$exists": true}})),
        (json!({"sentiment": {"$ne": "sad"}}), json!({"sentiment": "sad"})),
        (json!({"importance": 0.7}), json!({"importance": {"$gt": 0.7}})),
        (json!({"importance": {"$gte": 0.7, "$lt": 1}}), json!({"importance": {"$gte": 0.7, "$lt": 0.7}})),
        (json!({"created_at": "2023-05-08T13:56:00Z"}), json!({"event_time": "2023-05-08T13:56:00Z"})),
        (
            json!({"event_time": {"$gt": "2023-05-08T15:56:00+02:00"}}),
            json!({"created_at": {"$gt": "2023-05-08T15:56:00+02:00"}}),
        ),
        (json!({"pinned": false}), json!({"pinned": true})),
        (json!({"entities": {"$contains": "Ann"}}), json!({"entities": {"$contains": "An"}})),
        (json!({"entities": "猫%"}), json!({"entities": "猫咪"})),
        (json!({"entities": {"$in": ["Bob", "Ann"]}}), json!({"entities": {"$nin": ["Bob", "Ann"]}})),
        (json!({"metadata.n": {"$gte": 10}}), json!({"metadata.n": {"$gt": 10}})),
        (json!({"metadata.flag": true}), json!({"metadata.flag": false})),
    ] {
        assert!(matches(yes.clone()), "{yes}");
        assert!(!matches(no.clone()), "{no}");
    }
}

#[test]
fn types_never_mix() {
    for filter in [
        json!({"metadata.text": {"$gt": 8}}),
        json!({"metadata.text": 9}),
        json!({"metadata.n": "10"}),
        json!({"metadata.n": {"$lt": "a"}}),
        json!({"metadata.flag": 1}),
        json!({"metadata.flag": "true"}),
        json!({"metadata.n": {"$contains": "1"}}),
        json!({"metadata.tags": "3"}),
        json!({"metadata.a": "x"}),
        json!({"metadata.big": 9_007_199_254_740_992u64}),
        json!({"metadata.big": 9_007_199_254_740_992.0}),
    ] {
        assert!(!matches(filter.clone()), "{filter}");
    }
    assert!(matches(json!({"metadata.n": 10.0})));
    assert!(matches(json!({"metadata.big": 9_007_199_254_740_993u64})));
}

/// `$ne` and `$nin` are exact negations: a missing field, or one of another type, is "not equal".
#[test]
fn not_equal_holds_where_nothing_is() {
    for field in ["agent", "metadata.missing", "metadata.a.b.c.d", "metadata.nothing"] {
        assert!(matches(json!({field: {"$ne": "x"}})), "{field}");
        assert!(matches(json!({field: {"$nin": ["x"]}})), "{field}");
        assert!(!matches(json!({field: {"$ne": "x", "$exists": true}})), "{field}");
        for operator in ["$eq", "$gt", "$gte", "$lt", "$lte", "$contains"] {
            assert!(!matches(json!({field: {operator: "x"}})), "{field} {operator}");
        }
    }
    assert!(matches(json!({"metadata.n": {"$ne": "10"}})));
    let bare = IndexRow::default();
    assert!(
        !Filter::parse(&json!({"entities": {"$exists": true}})).unwrap().matches(&IndexRowView::new(&bare))
    );
}

#[test]
fn lists_and_text_contain() {
    assert!(matches(json!({"metadata.tags": {"$contains": "red"}})));
    assert!(matches(json!({"metadata.tags": {"$contains": 3.0}})));
    assert!(matches(json!({"metadata.tags": {"$in": ["blue", "red"]}})));
    assert!(matches(json!({"metadata.tags": {"$exists": true}})));
    // An element is compared whole, lists inside lists are not searched, and lists have no order.
    assert!(!matches(json!({"metadata.tags": {"$contains": "re"}})));
    assert!(!matches(json!({"metadata.tags": {"$contains": "deep"}})));
    assert!(!matches(json!({"metadata.tags": {"$gt": 0}})));
    assert!(matches(json!({"session": {"$contains": "-"}})));
    assert!(matches(json!({"session": {"$contains": ""}})));
    // No character is a pattern.
    for text in ["s%", "s_1", "s.1", "s*", "%", ".*"] {
        assert!(
            !matches(json!({"session": text})) && !matches(json!({"session": {"$contains": text}})),
            "{text}"
        );
    }
}

#[test]
fn paths_find_whole_keys_first() {
    assert!(matches(json!({"metadata.a.b.c": "y"})));
    assert!(matches(json!({"metadata.a.b.d": "z"})));
    assert!(matches(json!({"metadata.a.b": {"$exists": true}})));
    assert!(matches(json!({"metadata.a.b.": {"$exists": false}})));
    assert!(matches(json!({"metadata..": {"$exists": false}})));
}

#[test]
fn logic() {
    let (yes, no) = (json!({"role": "user"}), json!({"role": "tool"}));
    assert!(matches(json!({"and": [yes, yes]})) && !matches(json!({"and": [yes, no]})));
    assert!(matches(json!({"or": [no, yes]})) && !matches(json!({"or": [no, no]})));
    assert!(matches(json!({"not": [no, no]})) && !matches(json!({"not": [no, yes]})));
    assert!(matches(json!({"not": no})) && !matches(json!({"not": yes})));
    assert!(!matches(json!({"role": "user", "not": [yes]})));
    assert!(matches(json!({"and": [{}]})));
    let kinds = Filter::kinds(&[Kind::Semantic, Kind::Episodic]);
    let view_row = row();
    let view = IndexRowView::new(&view_row);
    assert!(kinds.matches(&view) && !Filter::kinds(&[Kind::Semantic]).matches(&view));
    assert!(!kinds.and(Filter::parse(&no).unwrap()).matches(&view));
    assert!(Filter::all().and(Filter::all()).is_all());
    for nothing_asked in [json!({"and": [{}]}), json!({"and": [{"and": [{}, {}]}]}), json!({"or": [no, {}]})]
    {
        assert!(Filter::parse(&nothing_asked).unwrap().is_all(), "{nothing_asked}");
    }
    for asked in [json!({"and": [{}, no]}), json!({"or": [no, yes]}), json!({"not": [{}]}), json!({"or": []})]
    {
        assert!(!Filter::parse(&asked).is_ok_and(|filter| filter.is_all()), "{asked}");
    }
}

#[test]
fn errors_name_the_place_and_the_choice() {
    assert!(refused(json!([]), "filter").contains("object"));
    assert!(refused(json!({"colour": 1}), "filter.colour").contains("metadata.<path>"));
    assert!(refused(json!({"metadata": {}}), "filter.metadata").contains("metadata.<path>"));
    refused(json!({"metadata.": 1}), "filter.metadata.");
    refused(json!({"$eq": 1}), "filter.$eq");
    assert!(refused(json!({"role": {"$like": "u%"}}), "filter.role.$like").contains("$contains"));
    refused(json!({"role": {}}), "filter.role");
    refused(json!({"role": 1}), "filter.role");
    refused(json!({"role": null}), "filter.role");
    refused(json!({"kind": "dream"}), "filter.kind");
    refused(json!({"kind": {"$gt": "a"}}), "filter.kind.$gt");
    refused(
        json!({"and": [{}, {"or": [{"importance": {"$gte": "1"}}]}]}),
        "filter.and[1].or[0].importance.$gte",
    );
    refused(json!({"created_at": 1_683_554_160}), "filter.created_at");
    for time in ["yesterday", "2023-05-08", "2023-05-08T13:56:00", "2023-02-30T00:00:00Z", ""] {
        refused(json!({"created_at": {"$in": [time]}}), "filter.created_at.$in[0]");
    }
    refused(json!({"pinned": "true"}), "filter.pinned");
    refused(json!({"pinned": {"$exists": 1}}), "filter.pinned.$exists");
    refused(json!({"pinned": {"$lt": true}}), "filter.pinned.$lt");
    refused(json!({"metadata.x": {"$gt": true}}), "filter.metadata.x.$gt");
    refused(json!({"metadata.x": []}), "filter.metadata.x");
    refused(json!({"role": {"$in": "user"}}), "filter.role.$in");
    refused(json!({"importance": {"$contains": 1}}), "filter.importance.$contains");
    for logic in ["and", "or", "not"] {
        refused(json!({logic: []}), &format!("filter.{logic}"));
        refused(json!({logic: 1}), &format!("filter.{logic}"));
    }
    // An object under a metadata path holds operators, never a value to be compared.
    refused(json!({"metadata.a": {"b": 1}}), "filter.metadata.a.b");
}

#[test]
fn size_is_bounded() {
    let nested = |depth: usize| (1..depth).fold(json!({"role": "user"}), |inner, _| json!({"not": [inner]}));
    assert!(Filter::parse(&nested(8)).is_ok());
    assert!(Filter::parse(&nested(9)).is_err());
    let wide = |n: usize| json!({"or": vec![json!({"role": "x"}); n]});
    assert!(Filter::parse(&wide(128)).is_ok());
    assert!(Filter::parse(&wide(129)).is_err());
    let listed = |n: usize| json!({"role": {"$in": vec!["x"; n]}});
    assert!(Filter::parse(&listed(1_000)).is_ok());
    assert!(Filter::parse(&listed(1_001)).is_err());
    // JSON that is nested beyond reason is refused by its reader, before the stack is felt.
    assert!(Filter::parse_text(&format!("{}{}", "{\"not\":".repeat(100_000), "}".repeat(100_000))).is_err());
}

#[test]
fn damaged_metadata_has_no_fields() {
    for metadata in ["", "{", "[1]", "null", "\"x\""] {
        let row = IndexRow { metadata: metadata.into(), ..IndexRow::default() };
        let filter = Filter::parse(&json!({"metadata.x": {"$exists": true}})).unwrap();
        assert!(!filter.matches(&IndexRowView::new(&row)), "{metadata}");
    }
}

fn scalars() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-3i64..3).prop_map(|n| json!(n)),
        prop_oneof![Just(0.5), Just(-1.0), Just(2.0)].prop_map(|x: f64| json!(x)),
        any::<bool>().prop_map(|b| json!(b)),
        prop_oneof![Just("a"), Just("ab"), Just("记忆"), Just("1"), Just("")].prop_map(|s| json!(s)),
    ]
}

fn stored() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => scalars(),
        1 => Just(Value::Null),
        2 => prop::collection::vec(scalars(), 0..3).prop_map(Value::from),
        1 => scalars().prop_map(|x| json!({"inner": x})),
    ]
}

/// The meaning of an operator, written from the documentation.
fn expected(value: Option<&Value>, operator: &str, operand: &Value) -> bool {
    let equal = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
        (Some(x), Some(y)) => x == y,
        _ => a == b,
    };
    let present = value.filter(|value| !value.is_null());
    let scalars: Vec<&Value> = match present {
        Some(Value::Array(list)) => list.iter().collect(),
        Some(Value::Object(_)) | None => Vec::new(),
        Some(scalar) => vec![scalar],
    };
    let is_list = present.is_some_and(Value::is_array);
    match operator {
        "$eq" => scalars.iter().any(|value| equal(value, operand)),
        "$ne" => !expected(value, "$eq", operand),
        "$contains" => match (present, operand) {
            (Some(Value::String(text)), Value::String(part)) => text.contains(part.as_str()),
            _ => is_list && expected(value, "$eq", operand),
        },
        _ if is_list => false,
        _ => scalars.iter().any(|value| {
            let order = match (value, operand) {
                (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
                (Value::Number(a), Value::Number(b)) => a.as_f64().unwrap().partial_cmp(&b.as_f64().unwrap()),
                _ => None,
            };
            order.is_some_and(|order| match operator {
                "$gt" => order.is_gt(),
                "$gte" => order.is_ge(),
                "$lt" => order.is_lt(),
                _ => order.is_le(),
            })
        }),
    }
}

proptest! {
    #[test]
    fn operators_mean_what_the_documentation_says(
        value in prop::option::of(stored()),
        operand in scalars(),
        others in prop::collection::vec(scalars(), 0..4),
    ) {
        let metadata = value.as_ref().map(|value| json!({"x": value}).to_string()).unwrap_or_default();
        let row = IndexRow { metadata, ..IndexRow::default() };
        let view = IndexRowView::new(&row);
        let ask = |operators: Value| Filter::parse(&json!({"metadata.x": operators})).map(|f| f.matches(&view));
        for operator in ["$eq", "$ne", "$contains", "$gt", "$gte", "$lt", "$lte"] {
            match ask(json!({operator: operand})) {
                Ok(got) => prop_assert_eq!(got, expected(value.as_ref(), operator, &operand), "{}", operator),
                Err(_) => prop_assert!(operand.is_boolean() && operator.len() <= 4 && operator != "$eq"),
            }
        }
        let listed = others.iter().any(|other| expected(value.as_ref(), "$eq", other));
        prop_assert_eq!(ask(json!({"$in": others})).unwrap(), listed);
        prop_assert_eq!(ask(json!({"$nin": others})).unwrap(), !listed);
    }

    /// Whatever JSON comes in is read or refused, without a panic, and a refusal names the filter.
    #[test]
    fn any_json_is_read_or_refused(
        keys in prop::collection::vec("(and|or|not|kind|metadata\\.a|\\$eq|\\PC{0,4})", 1..5),
        leaf in scalars(),
    ) {
        let filter = keys.iter().fold(leaf, |inner, key| json!({key.as_str(): [inner.clone()], "role": inner}));
        if let Err(error) = Filter::parse(&filter) {
            prop_assert!(error.field.is_some_and(|field| field.starts_with("filter")));
        }
    }
}
