//! Strict JSON: what is wrong is said with the path of the field and the type that was expected.

mod objects;

use holdfast_core::{Error, ErrorCode, Result};
use objects::Objects;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::error::Category;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// Marks a message of a deserializer as one about size.
const TOO_LARGE: &str = "too large: ";

/// Reads the body of a request.
pub(crate) fn body<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Error::new(ErrorCode::InvalidArgument, "the body is empty; send a JSON object"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let detail = format!("the body is not valid UTF-8: byte {at} does not belong; send UTF-8");
        Error::new(ErrorCode::InvalidArgument, detail)
    })?;
    // A list would be read as the fields of the object in their order, of which nobody promises anything.
    if text.trim_ascii_start().starts_with('[') {
        return Err(Error::new(ErrorCode::InvalidArgument, "the body is a list; send a JSON object"));
    }
    part(text, "")
}

/// Reads a part of a body whose path in it is `prefix`.
///
/// What is wrong is looked for only where something is: keeping track of the path costs more than reading.
pub(crate) fn part<'a, T: Deserialize<'a>>(text: &'a str, prefix: &str) -> Result<T> {
    match quick(text) {
        Ok(value) => Ok(value),
        Err(_) => tracked(text, prefix),
    }
}

/// As [`part`], without a word of where something is wrong.
fn quick<'a, T: Deserialize<'a>>(text: &'a str) -> serde_json::Result<T> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = T::deserialize(Objects(&mut deserializer))?;
    deserializer.end()?;
    Ok(value)
}

/// As [`part`], with the path of each field kept in mind.
fn tracked<'a, T: Deserialize<'a>>(text: &'a str, prefix: &str) -> Result<T> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(Objects(&mut deserializer)).map_err(|error| {
        let path = error.path().to_string();
        explain(error.inner(), join(prefix, &path))
    })?;
    deserializer.end().map_err(|error| explain(&error, None))?;
    Ok(value)
}

/// The path of a field below a prefix; `None` for the body itself.
fn join(prefix: &str, path: &str) -> Option<String> {
    // A question mark stands for a part of the path that was not read yet.
    let path = path.strip_suffix('?').map_or(path, |known| known.trim_end_matches('.'));
    match (prefix, path) {
        ("", "." | "") => None,
        (prefix, "." | "") => Some(prefix.to_owned()),
        ("", path) => Some(path.to_owned()),
        (prefix, path) if path.starts_with('[') => Some(format!("{prefix}{path}")),
        (prefix, path) => Some(format!("{prefix}.{path}")),
    }
}

fn explain(error: &serde_json::Error, field: Option<String>) -> Error {
    let message = error.to_string();
    if error.classify() != Category::Data {
        let detail = format!("this is not valid JSON: {message}");
        return with_field(Error::new(ErrorCode::InvalidArgument, detail), field);
    }
    // The position in the text is of no use once the field is named.
    let message = match message.rfind(" at line ") {
        Some(at) => &message[..at],
        None => &message,
    };
    let named = field.clone().unwrap_or_else(|| "the body".to_owned());
    if let Some(reason) = message.strip_prefix(TOO_LARGE) {
        return with_field(Error::new(ErrorCode::TooLarge, format!("{named} {reason}")), field);
    }
    if let Some(rest) = message.strip_prefix("unknown field `") {
        let name = rest.split('`').next().unwrap_or_default();
        let known = rest.find("expected ").map_or("", |at| &rest[at..]).replace('`', "");
        let path = last_named(field, name);
        let detail = format!("{path} is not a field of this request; {known}");
        return Error::invalid(path, detail);
    }
    if let Some(name) = quoted(message, "missing field `") {
        let path = last_named(field, name);
        return Error::invalid(path.clone(), format!("{path} is missing; give it"));
    }
    if let Some(name) = quoted(message, "duplicate field `") {
        let path = last_named(field, name);
        return Error::invalid(path.clone(), format!("{path} is given twice; give it once"));
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let (found, known) = rest.split_once(", expected ").unwrap_or((rest, "another one"));
        let known = known.trim_start_matches("one of ").replace('`', "");
        let detail = format!("{named} is {}, which is unknown; give {known}", found.replace('`', "\""));
        return with_field(Error::new(ErrorCode::InvalidArgument, detail), field);
    }
    let of = |start: &str| message.strip_prefix(start).and_then(|rest| rest.rsplit_once(", expected "));
    let detail = match (of("invalid type: "), of("invalid value: ")) {
        (Some((found, expected)), _) => {
            format!("{named} must be {}, not {}", plain(expected), plain(found))
        }
        (_, Some((found, expected))) => {
            format!("{named} must be {}, not {}", plain(expected), found.replace('`', ""))
        }
        _ => format!("{named} {message}"),
    };
    with_field(Error::new(ErrorCode::InvalidArgument, detail), field)
}

fn with_field(error: Error, field: Option<String>) -> Error {
    match field {
        Some(field) => error.at(field),
        None => error,
    }
}

fn quoted<'a>(message: &'a str, start: &str) -> Option<&'a str> {
    message.strip_prefix(start)?.split('`').next()
}

/// The path of a field that is missing in, or does not belong to, the object at `container`. The
/// path may end with the name already.
fn last_named(container: Option<String>, name: &str) -> String {
    match container {
        Some(path) if path == name || path.ends_with(&format!(".{name}")) => path,
        Some(path) => format!("{path}.{name}"),
        None => name.to_owned(),
    }
}

/// Serde's words for types in everyday words.
fn plain(words: &str) -> String {
    match words {
        "unit" | "unit value" => "null".into(),
        "sequence" | "a sequence" => "an array".into(),
        "map" | "a map" => "an object".into(),
        "bool" | "a boolean" => "true or false".into(),
        "f32" | "f64" => "a number".into(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative".into(),
        "i32" | "i64" => "a whole number".into(),
        words if words.starts_with("struct ") => "an object".into(),
        words => words.chars().take(120).collect(),
    }
}

/// A list of at most `MAX` elements, refused while it is read and not when it is in memory.
#[derive(Debug)]
pub(crate) struct Bounded<T, const MAX: usize>(pub(crate) Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Bounded<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Elements<T, const MAX: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Elements<T, MAX> {
            type Value = Bounded<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = seq.next_element()? {
                    if elements.len() == MAX {
                        return Err(de::Error::custom(format_args!(
                            "{TOO_LARGE}has more than {MAX} elements"
                        )));
                    }
                    elements.push(element);
                }
                Ok(Bounded(elements))
            }
        }
        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

/// What a change says of a field: nothing, that it shall be empty, or its new value.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Change<T> {
    /// The field is not mentioned.
    #[default]
    Keep,
    /// The field is `null`.
    Clear,
    /// The field has a value.
    Set(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Change<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Clear, Self::Set))
    }
}

/// How deep arrays and objects nest; 0 for a plain value.
pub(crate) fn depth(value: &Value) -> usize {
    // The parser has bounded the nesting (128), so that this recursion is bounded too.
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// JSON without white space and with the fields of each object in byte order, whatever order the
/// library keeps: equal values have equal text.
pub(crate) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            out.push('{');
            for (at, (name, field)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write_canonical(field, out);
            }
            out.push('}');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests;
