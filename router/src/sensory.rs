//! The sensory filter: what of an input is worth remembering. Per call, nothing is stored here.
//!
//! Answers of tools are reduced to chosen fields or to a sentence; long texts to a cap of tokens;
//! what is below a threshold is left out.

use crate::http::json;
use crate::tokenizer::Tokenizer;
use holdfast_core::text::{protected, sentences};
use holdfast_core::{Error, Result};
use serde::Deserialize;
use serde_json::{Map, Value};
use serde_json_path::JsonPath;

/// Longest text that is shortened, in bytes.
const CAPPED_BYTES_MAX: usize = 256 * 1024;
/// Most fields that one call may choose of a tool's answer.
pub(crate) const KEEP_MAX: usize = 16;
/// Longest JSONPath, in bytes.
const PATH_BYTES_MAX: usize = 256;
/// Most values that one path may lead to.
const NODES_MAX: usize = 100;
/// Most tokens of a tool's answer that is plain text.
const TOOL_TOKENS_MAX: usize = 512;
/// Most values in the sentence that stands for a tool's answer.
const SENTENCE_VALUES_MAX: usize = 12;
/// Longest value in it, in bytes.
const VALUE_BYTES_MAX: usize = 80;

/// What a call asks of the filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sensory {
    /// Inputs of less importance are left out.
    min_importance: Option<f64>,
    /// Longer texts are shortened to this many tokens.
    max_tokens: Option<u32>,
}

impl Sensory {
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(min) = self.min_importance.filter(|min| !(0.0..=1.0).contains(min)) {
            let detail = format!("sensory.min_importance is {min}; give a number from 0 to 1");
            return Err(Error::invalid("sensory.min_importance", detail));
        }
        if self.max_tokens == Some(0) {
            return Err(Error::invalid("sensory.max_tokens", "sensory.max_tokens must be at least 1"));
        }
        Ok(())
    }

    /// Whether an input passes.
    ///
    /// # Errors
    /// Says what was asked and what the input is worth.
    pub(crate) fn admit(&self, importance: f32) -> Result<()> {
        match self.min_importance {
            // In the precision of what is stored: 0.7 is not below 0.7.
            Some(min) if importance < min as f32 => {
                let detail =
                    format!("left out: its importance is {importance}, below sensory.min_importance {min}");
                Err(Error::invalid("importance", detail))
            }
            _ => Ok(()),
        }
    }

    /// The text within the cap.
    pub(crate) fn cap(&self, text: String) -> String {
        // What is longer is too large whatever is kept of it, and costs no work here.
        match self.max_tokens.filter(|_| text.len() <= CAPPED_BYTES_MAX) {
            Some(max) => shorten(&text, max as usize).unwrap_or(text),
            None => text,
        }
    }
}

/// Whether a text is nothing but a JSON object or array with something in it.
pub(crate) fn is_raw_json(text: &str) -> bool {
    let text = text.trim();
    text.starts_with(['{', '['])
        && match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(fields)) => !fields.is_empty(),
            Ok(Value::Array(items)) => !items.is_empty(),
            _ => false,
        }
}

/// What is kept of a tool's answer: the fields that were chosen, as JSON; without a choice a sentence
/// for JSON, and the first sentences of a text.
///
/// # Errors
/// If a path is none, is too costly, or leads to nothing.
pub(crate) fn tool_output(name: &str, output: &Value, keep: &[String]) -> Result<String> {
    let parsed = match output {
        Value::String(text) if is_raw_json(text) => serde_json::from_str(text).ok(),
        Value::String(_) => None,
        other => Some(other.clone()),
    };
    match (parsed, output) {
        (Some(value), _) if keep.is_empty() => Ok(sentence(name, &value)),
        (Some(value), _) => chosen(&value, keep),
        (None, Value::String(text)) if keep.is_empty() => {
            Ok(shorten(text, TOOL_TOKENS_MAX).unwrap_or_else(|| text.clone()))
        }
        (None, _) => {
            let detail = "keep chooses fields of JSON, and the output is plain text; leave keep out";
            Err(Error::invalid("tool.keep", detail))
        }
    }
}

/// Whether a path has a `,` or a `?` outside of quoted names.
fn has_lists_or_conditions(path: &str) -> bool {
    let mut quote = None;
    let mut chars = path.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(_), '\\') => drop(chars.next()),
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ',' | '?') => return true,
            _ => {}
        }
    }
    false
}

fn chosen(value: &Value, keep: &[String]) -> Result<String> {
    let mut fields = Map::new();
    for (at, path) in keep.iter().enumerate() {
        let field = format!("tool.keep[{at}]");
        // Each `..` and each condition multiplies the work by the size of the document, and each list
        // of selectors doubles what the next one starts from.
        if path.len() > PATH_BYTES_MAX || path.matches("..").count() > 1 || has_lists_or_conditions(path) {
            let detail = format!(
                "{field} must have at most {PATH_BYTES_MAX} bytes, one `..`, and neither lists of selectors (`[a,b]`) nor conditions (`[?…]`)"
            );
            return Err(Error::invalid(field, detail));
        }
        let parsed = JsonPath::parse(path).map_err(|error| {
            Error::invalid(field.clone(), format!("{field} is no JSONPath (RFC 9535): {error}"))
        })?;
        let mut nodes: Vec<Value> =
            parsed.query(value).iter().take(NODES_MAX).map(|node| (*node).clone()).collect();
        let found = match nodes.len() {
            0 => continue,
            1 => nodes.remove(0),
            _ => Value::Array(nodes),
        };
        fields.insert(label(path), found);
    }
    if fields.is_empty() {
        return Err(Error::invalid(
            "tool.keep",
            "no path of keep leads to anything in the output; mend the paths",
        ));
    }
    Ok(json::canonical(&Value::Object(fields)))
}

/// A path without its syntax: `$.main.temp` is `main.temp`.
fn label(path: &str) -> String {
    let words =
        path.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').filter(|word| !word.is_empty());
    let label = words.collect::<Vec<_>>().join(".");
    if label.is_empty() { path.to_owned() } else { label }
}

/// A short sentence with the values that stand in JSON, word for word.
fn sentence(name: &str, value: &Value) -> String {
    let (mut parts, mut left_out) = (Vec::new(), 0);
    flatten(&mut Vec::new(), value, &mut parts, &mut left_out);
    let text = parts.join(", ");
    let chinese = text.chars().chain(name.chars()).any(|c| ('\u{4E00}'..='\u{9FFF}').contains(&c));
    match (chinese, left_out) {
        (_, 0) if parts.is_empty() => format!("{name}: {}", if chinese { "没有结果" } else { "no result" }),
        (true, 0) => format!("{name}：{text}。"),
        (true, n) => format!("{name}：{text}，另有{n}项。"),
        (false, 0) => format!("{name}: {text}."),
        (false, n) => format!("{name}: {text}, and {n} more."),
    }
}

fn flatten(path: &mut Vec<String>, value: &Value, parts: &mut Vec<String>, left_out: &mut usize) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                path.push(name.clone());
                flatten(path, value, parts, left_out);
                path.pop();
            }
        }
        Value::Array(items) => {
            for item in items {
                flatten(path, item, parts, left_out);
            }
        }
        Value::Null => {}
        scalar if parts.len() >= SENTENCE_VALUES_MAX => {
            *left_out += usize::from(!scalar.is_null());
        }
        scalar => {
            let text = match scalar {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let text = beginning(&text, VALUE_BYTES_MAX);
            parts.push(if path.is_empty() { text.to_owned() } else { format!("{} {text}", path.join(" ")) });
        }
    }
}

/// The sentences of a text that fit, those with amounts, dates, doses and names first, in the order of
/// the text. `None` if all of it fits.
pub(crate) fn shorten(text: &str, tokens_max: usize) -> Option<String> {
    let count = |text: &str| Tokenizer::default().count_stored(text) as usize;
    // A token has at least one byte.
    if text.len() <= tokens_max || count(text) <= tokens_max {
        return None;
    }
    let all = sentences(text);
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|at| (protected(all[*at]).is_empty(), *at));
    let (mut kept, mut left) = (Vec::new(), tokens_max);
    for at in order {
        // One more for the space between two.
        let tokens = count(all[at]) + 1;
        if tokens <= left {
            left -= tokens;
            kept.push(at);
        }
    }
    if kept.is_empty() {
        return Some(beginning(all.first().copied().unwrap_or(text), tokens_max).to_owned());
    }
    kept.sort_unstable();
    Some(kept.into_iter().map(|at| all[at]).collect::<Vec<_>>().join(" "))
}

fn beginning(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn keep(paths: &[&str]) -> Vec<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    #[test]
    fn chosen_fields_are_kept() {
        let output =
            json!({"city": "Berlin", "main": {"temp": 21.5, "humidity": 60}, "days": [{"t": 1}, {"t": 2}]});
        let kept =
            tool_output("weather", &output, &keep(&["$.main.temp", "$.days[*].t", "$.nothing"])).unwrap();
        assert_eq!(kept, r#"{"days.t":[1,2],"main.temp":21.5}"#);
        let text = Value::String(output.to_string());
        assert_eq!(tool_output("weather", &text, &keep(&["$.city"])).unwrap(), r#"{"city":"Berlin"}"#);
        let deep = ["$..*..*", "$..a..b"];
        for (paths, field) in [
            (keep(&["$.city", "not a path"]), "tool.keep[1]"),
            (keep(&["$.nothing"]), "tool.keep"),
            (keep(&deep[..1]), "tool.keep[0]"),
            (keep(&deep[1..]), "tool.keep[0]"),
            (keep(&[&"a".repeat(300)]), "tool.keep[0]"),
            (keep(&[&format!("${}", "[*,*]".repeat(50))]), "tool.keep[0]"),
            (keep(&["$[?$[?@==0]]"]), "tool.keep[0]"),
        ] {
            assert_eq!(tool_output("weather", &output, &paths).unwrap_err().field.as_deref(), Some(field));
        }
        assert!(tool_output("weather", &json!("plain"), &keep(&["$"])).is_err());
    }

    #[test]
    fn json_without_a_choice_becomes_a_sentence() {
        let output = json!({"city": "Berlin", "temp": 21, "ok": true, "none": null});
        assert_eq!(tool_output("weather", &output, &[]).unwrap(), "weather: city Berlin, ok true, temp 21.");
        let chinese = json!({"城市": "北京", "温度": 21});
        assert_eq!(tool_output("天气", &chinese, &[]).unwrap(), "天气：城市 北京, 温度 21。");
        let many: Vec<u32> = (0..40).collect();
        let text = tool_output("count", &json!(many), &[]).unwrap();
        assert!(text.ends_with(", and 28 more."), "{text}");
        assert_eq!(tool_output("search", &json!({}), &[]).unwrap(), "search: no result");
        let long = tool_output("read", &json!({"text": "长".repeat(9_000)}), &[]).unwrap();
        assert!(long.len() < 200);
    }

    #[test]
    fn raw_json_is_told_from_text() {
        for raw in [r#"{"a":1}"#, " [1] ", "[[\"x\"]]"] {
            assert!(is_raw_json(raw), "{raw}");
        }
        for text in ["", "{}", "[]", "{a}", "[sic] she said", "7", "\"x\"", "{\"a\":1} is what I got", "🙂"]
        {
            assert!(!is_raw_json(text), "{text}");
        }
    }

    #[test]
    fn long_texts_keep_what_is_protected() {
        let talk = "It was a nice day and we talked a lot about this and that. ";
        let text = format!("{}Take 20 mg at 14:30. {}", talk.repeat(30), talk.repeat(30));
        let short = shorten(&text, 60).unwrap();
        assert!(short.contains("Take 20 mg at 14:30."), "{short}");
        assert!(Tokenizer::default().count(&short).unwrap() <= 60);
        assert_eq!(shorten("short", 60), None);
        for text in ["词".repeat(5_000), "x".repeat(5_000), "🙂".repeat(2_000)] {
            let short = shorten(&text, 50).unwrap();
            assert!(!short.is_empty() && Tokenizer::default().count(&short).unwrap() <= 50);
        }
    }

    #[test]
    fn the_threshold_says_why() {
        let filter = Sensory { min_importance: Some(0.35), max_tokens: None };
        for at_or_above in [0.4, 0.35] {
            assert!(filter.admit(at_or_above).is_ok(), "{at_or_above}");
        }
        assert!(filter.admit(0.2).unwrap_err().detail.contains("0.35"));
        assert!(Sensory { min_importance: Some(f64::NAN), max_tokens: None }.check().is_err());
        assert!(Sensory { min_importance: None, max_tokens: Some(0) }.check().is_err());
    }
}
