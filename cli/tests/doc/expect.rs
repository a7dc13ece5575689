//! Compares what a command prints with what a page says that it prints.
//!
//! `…` in a page stands for what differs from run to run (ids, times, scores, tokens) or is left out:
//!
//! - In text: in a line, any characters; as a line of its own, any lines. Spaces are compared as one
//!   space.
//! - In JSON (what begins with `{` or `[`): inside a string, any characters; as a value, any value;
//!   as the last thing in an object or list, any further fields or elements. Fields have no order.

use serde_json::Value;

/// Stands for any value while the page's JSON is read; no page can write it.
const ANY: &str = "\u{0}any";
/// Stands for whatever else an object or a list has.
const REST: &str = "\u{0}rest";

/// # Errors
/// Where the output differs, in a sentence.
pub fn compare(expected: &str, actual: &str) -> Result<(), String> {
    if expected.trim_start().starts_with(['{', '[']) {
        let expected = serde_json::from_str(&marked(expected))
            .map_err(|error| format!("the expected output is no JSON: {error}"))?;
        let actual: Value = serde_json::from_str(actual)
            .map_err(|error| format!("the output is no JSON ({error}): {actual}"))?;
        return json(&expected, &actual, "").map_err(|why| format!("{why}; the whole answer: {actual}"));
    }
    text(expected, actual)
}

/// Writes every bare `…` as JSON, by the place where it stands.
fn marked(expected: &str) -> String {
    let (mut out, mut open, mut last) = (String::new(), Vec::new(), ' ');
    let (mut in_string, mut escaped) = (false, false);
    for c in expected.chars() {
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            out.push(c);
            continue;
        }
        match c {
            '"' => in_string = true,
            '{' | '[' => open.push(c),
            '}' | ']' => {
                open.pop();
            }
            _ => {}
        }
        match (c, last, open.last()) {
            ('…', ':', _) => out.push_str("\"\\u0000any\""),
            ('…', _, Some('{')) => out.push_str("\"\\u0000rest\":0"),
            ('…', ..) => out.push_str("\"\\u0000rest\""),
            _ => out.push(c),
        }
        if !c.is_whitespace() {
            last = c;
        }
    }
    out
}

fn json(expected: &Value, actual: &Value, at: &str) -> Result<(), String> {
    match (expected, actual) {
        (Value::String(any), _) if any == ANY => Ok(()),
        (Value::String(pattern), Value::String(text)) if wild(pattern, text) => Ok(()),
        (Value::Object(fields), Value::Object(found)) => {
            for (name, value) in fields.iter().filter(|(name, _)| *name != REST) {
                let at = format!("{at}.{name}");
                json(value, found.get(name).ok_or_else(|| format!("{at} is missing"))?, &at)?;
            }
            match found.keys().find(|name| !fields.contains_key(*name)) {
                Some(more) if !fields.contains_key(REST) => Err(format!("{at}.{more} is not on the page")),
                _ => Ok(()),
            }
        }
        (Value::Array(items), Value::Array(found)) => {
            let open = items.last().is_some_and(|item| item == REST);
            let items = &items[..items.len() - usize::from(open)];
            if found.len() < items.len() || (found.len() > items.len() && !open) {
                return Err(format!("{at} has {} elements, the page shows {}", found.len(), items.len()));
            }
            let mut pairs = items.iter().zip(found).enumerate();
            pairs.try_for_each(|(n, (item, found))| json(item, found, &format!("{at}[{n}]")))
        }
        _ if expected == actual => Ok(()),
        _ => Err(format!("{at} is {actual}, the page says {expected}")),
    }
}

fn text(expected: &str, actual: &str) -> Result<(), String> {
    let lines = |text: &str| -> Vec<String> {
        text.trim().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let (expected, found) = (lines(expected), lines(actual));
    if sequence(&expected, &found, |line| line == "…", |line, found| wild(line, found)) {
        return Ok(());
    }
    Err(format!("the output is not what the page says:\n{}", actual.trim_end()))
}

/// Whether a text is a pattern in which `…` stands for any characters.
fn wild(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    sequence(&pattern, &text, |c| *c == '…', |a, b| a == b)
}

/// Whether `found` is `pattern`, in which some elements stand for any number of others.
fn sequence<T>(pattern: &[T], found: &[T], is_any: fn(&T) -> bool, same: fn(&T, &T) -> bool) -> bool {
    // Where the last wildcard stands, and how much it has taken so far.
    let (mut p, mut f, mut back) = (0, 0, None);
    while f < found.len() {
        if p < pattern.len() && is_any(&pattern[p]) {
            back = Some((p, f));
            p += 1;
        } else if p < pattern.len() && same(&pattern[p], &found[f]) {
            (p, f) = (p + 1, f + 1);
        } else if let Some((at, taken)) = back {
            back = Some((at, taken + 1));
            (p, f) = (at + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(is_any)
}

#[test]
fn what_differs_is_told() {
    let answer = r#"{"id":"x1","n":[1,2,3],"in":{"a":null,"b":"hf_12_34"},"score":0.5}"#;
    for right in [
        answer,
        r#"{ "id": "…", "n": [1, …], "in": {…}, "score": … }"#,
        r#"{"in": {"b": "hf_…_34", …}, …}"#,
        "{…}",
        r#"{"id":…, "n": […], "in": {"a": null, "b": …}, "score": 0.5}"#,
    ] {
        assert_eq!(compare(right, answer), Ok(()), "{right}");
    }
    for wrong in [
        r#"{"id":"x2", …}"#,
        r#"{"id":"x1"}"#,
        r#"{"id":"x1","n":[1,2],…}"#,
        r#"{"n":[1,2,3,4,…],…}"#,
        r#"{"in":{"a":null},…}"#,
        r#"{"in":{"c":…,…},…}"#,
        r#"{"score":"0.5",…}"#,
        "[…]",
    ] {
        assert!(compare(wrong, answer).is_err(), "{wrong}");
    }
    assert!(compare("{…}", "not JSON").is_err());
    for right in ["one\n…\nfour 4", "one\ntwo\nthree\nfour   4", "…", "o…\n…\nf… 4"] {
        assert_eq!(compare(right, "one\ntwo\nthree\nfour 4\n"), Ok(()), "{right}");
    }
    for wrong in ["one", "one\n…\nfive", "one\ntwo\nfour 4", "o…\nf… 4", "", "one\ntwo\nthree\nfour 4\nfive"]
    {
        assert!(compare(wrong, "one\ntwo\nthree\nfour 4\n").is_err(), "{wrong}");
    }
}
