#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::json;
use serde_json::value::RawValue;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Inner {
    name: String,
    #[serde(default)]
    weight: Option<f64>,
    #[serde(default)]
    count: Option<u32>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Outer {
    items: Bounded<Inner, 2>,
    #[serde(default)]
    on: Option<bool>,
    #[serde(default)]
    mode: Option<Mode>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Fast,
    Exact,
}

fn refused(text: &str) -> (ErrorCode, String, String) {
    let error = body::<Outer>(text.as_bytes()).unwrap_err();
    (error.code, error.field.unwrap_or_default(), error.detail)
}

#[test]
fn every_fault_names_its_field() {
    for (text, field, words) in [
        (r#"{"items":[{"name":"a"},{"name":7}]}"#, "items[1].name", "must be a string"),
        (r#"{"items":[{"name":"a","weight":"x"}]}"#, "items[0].weight", "must be a number"),
        (
            r#"{"items":[{"name":"a","count":-1}]}"#,
            "items[0].count",
            "a whole number that is not negative, not integer -1",
        ),
        (r#"{"items":[{"name":"a","count":1.5}]}"#, "items[0].count", "whole number"),
        (r#"{"items":[{}]}"#, "items[0].name", "is missing"),
        (r#"{"items":[{"name":"a","nmae":"b"}]}"#, "items[0].nmae", "not a field"),
        (r#"{"items":[{"name":"a","name":"b"}]}"#, "items[0].name", "given twice"),
        (r#"{"items":{}}"#, "items", "must be an array"),
        (r#"{"items":[],"on":"yes"}"#, "on", "true or false"),
        (r#"{"items":[],"mode":"快"}"#, "mode", "mode is \"快\", which is unknown; give fast or exact"),
        (r#"{"itmes":[]}"#, "itmes", "not a field"),
        (r#"{}"#, "items", "is missing"),
        (r#"{"items":[{"name":"a","weight":1e999}]}"#, "items[0].weight", "number out of range"),
        (r#"{"items":[{"name":"\ud800"}]}"#, "items[0].name", "not valid JSON"),
        ("[]", "", "the body"),
        ("{\"items\":[]} x", "", "not valid JSON"),
        ("{\"items\":[NaN]}", "items[0]", "not valid JSON"),
        ("{", "", "not valid JSON"),
        ("", "", "empty"),
        (" \n", "", "empty"),
    ] {
        let (code, at, detail) = refused(text);
        assert_eq!(code, ErrorCode::InvalidArgument, "{text}");
        assert_eq!(at, field, "{text}: {detail}");
        assert!(detail.contains(words), "{text}: {detail}");
    }
}

#[test]
fn size_and_encoding_are_checked() {
    let many = r#"{"items":[{"name":"a"},{"name":"b"},{"name":"c"}]}"#;
    assert_eq!(refused(many).0, ErrorCode::TooLarge);
    let error = body::<Outer>(b"{\"items\":[{\"name\":\"\xff\"}]}").unwrap_err();
    assert!(error.detail.contains("UTF-8"), "{}", error.detail);
    let deep = "[".repeat(100_000);
    assert!(body::<Value>(deep.as_bytes()).is_err());
}

#[test]
fn a_list_is_no_body() {
    for list in ["[]", " [\"a\"]", "[{\"name\": \"a\"}]"] {
        let error = body::<Inner>(list.as_bytes()).unwrap_err();
        assert!(error.detail.contains("send a JSON object"), "{list}: {}", error.detail);
    }
}

#[test]
fn a_list_is_no_object_however_deep() {
    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Deep {
        #[serde(default)]
        inner: Option<Inner>,
        #[serde(default)]
        named: BTreeMap<String, Inner>,
        #[serde(default)]
        pair: Option<(u8, Inner)>,
        #[serde(default)]
        choice: Option<Choice>,
        #[serde(default)]
        change: Change<Inner>,
        #[serde(default)]
        any: Option<Value>,
        #[serde(default)]
        list: Vec<Inner>,
    }
    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[allow(dead_code)]
    enum Choice {
        One(Inner),
        Two { name: String },
        Three,
    }

    let one = r#"{"name":"茶"}"#;
    for good in [
        format!(r#"{{"inner":{one},"named":{{"a":{one}}},"pair":[1,{one}],"list":[{one},{one}]}}"#),
        format!(r#"{{"choice":{{"one":{one}}},"change":{one},"any":[["x"],{{"y":[1]}},null,1e3,-7]}}"#),
        r#"{"choice":{"two":{"name":"x"}},"change":null,"inner":null}"#.into(),
        r#"{"choice":"three","any":"🙂"}"#.into(),
    ] {
        let read = body::<Deep>(good.as_bytes());
        assert!(read.is_ok(), "{good}: {read:?}");
    }
    for (bad, field) in [
        (r#"{"inner":["茶",null,null]}"#, "inner"),
        (r#"{"named":{"a":["茶"]}}"#, "named.a"),
        (r#"{"pair":[1,["茶"]]}"#, "pair[1]"),
        (r#"{"choice":{"one":["茶"]}}"#, "choice.one"),
        (r#"{"choice":{"two":["茶"]}}"#, "choice.two"),
        (r#"{"change":["茶"]}"#, "change"),
        (r#"{"list":[{"name":"a"},["茶"]]}"#, "list[1]"),
        (r#"{"list":[[]]}"#, "list[0]"),
    ] {
        let error = body::<Deep>(bad.as_bytes()).unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{bad}: {}", error.detail);
        assert!(error.detail.contains("must be an object, not an array"), "{bad}: {}", error.detail);
    }
}

#[test]
fn parts_carry_their_prefix() {
    let error = part::<Inner>(r#"{"name":[]}"#, "memories[3]").unwrap_err();
    assert_eq!(error.field.as_deref(), Some("memories[3].name"));
    let error = part::<Inner>("7", "memories[3]").unwrap_err();
    assert_eq!(error.field.as_deref(), Some("memories[3]"));
    let raw: Vec<&RawValue> = part(r#"[ {"name": 1e999} , 2]"#, "memories").unwrap();
    assert_eq!(raw.len(), 2);
    assert_eq!(raw[0].get(), r#"{"name": 1e999}"#);
}

#[test]
fn canonical_json_does_not_depend_on_order() {
    let (a, b) =
        (r#"{"b":[1,{"d":null,"c":"引\n"}],"a":1.5}"#, r#"{ "a":1.5, "b":[1,{"c":"引\n","d":null}] }"#);
    let (a, b): (Value, Value) = (body(a.as_bytes()).unwrap(), body(b.as_bytes()).unwrap());
    assert_eq!(canonical(&a), r#"{"a":1.5,"b":[1,{"c":"引\n","d":null}]}"#);
    assert_eq!(canonical(&a), canonical(&b));
    assert_eq!(depth(&a), 3);
    assert_eq!(depth(&json!("x")), 0);
}

/// What is read without its paths is what is read with them.
#[test]
fn the_quick_way_accepts_what_the_other_accepts() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let items = |inner: &str| format!(r#"{{"items":[{inner}]}}"#);
    let mut texts: Vec<String> = [127, 128, 129, 200].map(deep).into();
    texts.extend([r#"{"name":"a"}"#, r#"{"name":"a","name":"b"}"#, r#"{"name":"\ud800"}"#, "{}"].map(items));
    texts.extend([r#"{"name":"字","weight":1e999}"#, r#"{"name":"","count":1.0}"#].map(items));
    texts.extend(
        [
            "",
            " ",
            "null",
            "1 2",
            "{} {}",
            "[1,]",
            "{\"items\":[]}x",
            "NaN",
            "\u{feff}{}",
            "// a\n{}",
            "\"a\u{0}\"",
        ]
        .map(str::to_owned),
    );
    let valid = r#" {"items":[{"name":"🙂","count":7}],"mode":"fast","on":null}  "#;
    texts.extend(valid.char_indices().map(|(at, _)| valid[..at].to_owned()));
    texts.push(valid.to_owned());
    for text in &texts {
        let of = |result: Result<Value>| result.map(|value| value.to_string());
        assert_eq!(of(part(text, "p")), of(tracked(text, "p")), "{text:?}");
        let of = |result: Result<Outer>| result.map(|value| format!("{value:?}"));
        assert_eq!(of(part(text, "p")), of(tracked(text, "p")), "{text:?}");
    }
    assert!(part::<Outer>(valid, "").is_ok());
}
