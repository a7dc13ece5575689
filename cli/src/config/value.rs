//! One value: from TOML or plain text to what its setting takes.

use super::address;
use super::catalogue::{Format, Kind, Setting};
use figment::value::Value;
use toml::Spanned;
use toml::de::{DeInteger, DeValue};
use tracing_subscriber::EnvFilter;

/// Longest piece of a wrong value that a message repeats, in characters.
const SHOWN_LEN_MAX: usize = 60;

/// Checks a TOML value against its setting.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn from_toml(setting: &Setting, value: &DeValue<'_>) -> Result<Value, Vec<String>> {
    let wrong = || vec![format!("expected {}, found {}", expected(setting), found(value))];
    match (&setting.kind, value) {
        (Kind::Integer { min, max }, DeValue::Integer(number)) => {
            integer(number, *min, *max).ok_or_else(|| {
                let shown = shown(&number.to_string());
                vec![format!("{shown} is out of range: {}", with_unit(range(setting, *min, *max), setting))]
            })
        }
        (Kind::Boolean, DeValue::Boolean(value)) => Ok(Value::from(*value)),
        (Kind::Text(format), DeValue::String(text)) => {
            // What is empty by default may be: it stands for "not set".
            if !(text.is_empty() && setting.default == "") {
                check(*format, text).map_err(|error| vec![error])?;
            }
            Ok(Value::from(text.as_ref()))
        }
        (Kind::Choice(words), DeValue::String(text)) => {
            if words.iter().any(|word| word == text.as_ref()) {
                Ok(Value::from(text.as_ref()))
            } else {
                Err(wrong())
            }
        }
        (Kind::List(format), DeValue::Array(items)) => list(*format, items.iter()),
        _ => Err(wrong()),
    }
}

/// Checks a value from the environment or a flag: TOML, or else the text as it stands.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn from_text(setting: &Setting, text: &str) -> Result<Value, Vec<String>> {
    let parsed = DeValue::parse(text.trim());
    match (&setting.kind, parsed.as_ref().map(Spanned::get_ref)) {
        (_, Ok(value @ DeValue::String(inner))) => match setting.kind {
            Kind::List(_) => from_toml(setting, &split(inner)),
            _ => from_toml(setting, value),
        },
        (Kind::List(_), Ok(value @ DeValue::Array(_))) => from_toml(setting, value),
        (Kind::List(_), Err(error)) if text.trim_start().starts_with('[') => {
            Err(vec![format!("not a TOML list: {}", error.message())])
        }
        (Kind::List(_), _) => from_toml(setting, &split(text)),
        // A folder may be called 2024.
        (Kind::Text(_) | Kind::Choice(_), _) | (_, Err(_)) => {
            from_toml(setting, &DeValue::String(text.into()))
        }
        (_, Ok(value)) => from_toml(setting, value),
    }
}

/// `a:1,b:1` as a list.
fn split(text: &str) -> DeValue<'_> {
    let items = text.split(',').map(|item| Spanned::new(0..0, DeValue::String(item.trim().into())));
    DeValue::Array(if text.trim().is_empty() { Default::default() } else { items.collect() })
}

fn list<'a>(
    format: Format,
    items: impl Iterator<Item = &'a Spanned<DeValue<'a>>>,
) -> Result<Value, Vec<String>> {
    let (mut texts, mut errors) = (Vec::new(), Vec::new());
    for (index, item) in items.enumerate() {
        match item.get_ref() {
            DeValue::String(text) => match check(format, text) {
                Ok(()) => texts.push(text.to_string()),
                Err(error) => errors.push(format!("item {}: {error}", index + 1)),
            },
            other => errors.push(format!("item {}: expected a string, found {}", index + 1, found(other))),
        }
    }
    if errors.is_empty() { Ok(Value::from(texts)) } else { Err(errors) }
}

fn integer(number: &DeInteger<'_>, min: i64, max: i64) -> Option<Value> {
    // Too many digits for any integer are out of every range.
    let parsed = i64::from_str_radix(number.as_str(), number.radix()).ok();
    parsed.filter(|value| (min..=max).contains(value)).map(Value::from)
}

fn with_unit(message: String, setting: &Setting) -> String {
    match setting.unit() {
        Some(unit) => format!("{message} {unit}"),
        None => message,
    }
}

fn check(format: Format, text: &str) -> Result<(), String> {
    match format {
        Format::Any => Ok(()),
        Format::NotEmpty if text.is_empty() => Err("must not be empty".to_owned()),
        Format::NotEmpty => Ok(()),
        Format::HostPort => address::check_host_port(text),
        Format::Moved => address::check_moved(text),
        Format::IpPort => address::check_ip_port(text),
        Format::LogFilter => EnvFilter::try_new(text).map(|_| ()).map_err(|error| {
            format!(
                "{:?} is not a log filter: {error}; expected one such as \"info,openraft=off\"",
                shown(text)
            )
        }),
    }
}

fn expected(setting: &Setting) -> String {
    match &setting.kind {
        Kind::Integer { min, max } => format!("a whole number, {}", range(setting, *min, *max)),
        Kind::Boolean => "true or false".to_owned(),
        Kind::Text(_) => "a string".to_owned(),
        Kind::List(_) => "a list of strings".to_owned(),
        Kind::Choice(words) => {
            let quoted: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
            quoted.join(" or ")
        }
    }
}

/// A range in words: `50 to 5000`.
pub(super) fn range(setting: &Setting, min: i64, max: i64) -> String {
    format!("{} to {}", number(setting, min), number(setting, max))
}

/// A number of a setting as people read it: `16777216 (16 MiB)`.
pub(super) fn number(setting: &Setting, number: i64) -> String {
    let sizes = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let size = sizes.into_iter().find(|(shift, _)| number > 0 && number % (1 << shift) == 0);
    match size.filter(|_| setting.unit() == Some("bytes")) {
        Some((shift, name)) => format!("{number} ({} {name})", number >> shift),
        None => number.to_string(),
    }
}

fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the string {:?}", shown(text)),
        DeValue::Integer(number) => format!("the number {}", shown(&number.to_string())),
        DeValue::Float(number) => format!("the number {}", shown(&number.to_string())),
        DeValue::Boolean(value) => format!("{value}"),
        DeValue::Datetime(time) => format!("the time {time}"),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// A wrong value as messages repeat it.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_LEN_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::catalogue::{SECTIONS, setting};

    fn text(path: &str, text: &str) -> Result<Value, String> {
        from_text(setting(path).unwrap(), text).map_err(|errors| errors.join("; "))
    }

    fn toml(path: &str, text: &str) -> Result<Value, String> {
        let value = DeValue::parse(text).unwrap();
        from_toml(setting(path).unwrap(), value.get_ref()).map_err(|errors| errors.join("; "))
    }

    #[test]
    fn the_bounds_of_every_number_are_inside_and_their_neighbours_outside() {
        for setting in SECTIONS.iter().flat_map(|section| &section.settings) {
            let Kind::Integer { min, max } = setting.kind else { continue };
            for inside in [min, max] {
                assert_eq!(text(&setting.path, &inside.to_string()).unwrap().to_i128(), Some(inside.into()));
            }
            for outside in [min - 1, max + 1] {
                for error in [
                    text(&setting.path, &outside.to_string()).unwrap_err(),
                    toml(&setting.path, &outside.to_string()).unwrap_err(),
                ] {
                    assert!(error.starts_with(&format!("{outside} is out of range: {min}")), "{error}");
                }
            }
        }
    }

    #[test]
    fn numbers_of_any_length_are_out_of_range_not_something_else() {
        let nines = "9".repeat(400);
        for huge in ["9223372036854775808", "-9223372036854775809", "0xffffffffffffffffff", &nines] {
            for error in [toml("node.heartbeat_ms", huge), text("node.heartbeat_ms", huge)] {
                let error = error.unwrap_err();
                assert!(error.contains("is out of range: 50 to 5000 milliseconds"), "{error}");
                assert!(error.len() < 200, "{error}");
            }
        }
        let error = text("node.spaces_bytes", "1").unwrap_err();
        let range = "16777216 (16 MiB) to 1099511627776 (1 TiB) bytes";
        assert_eq!(error, format!("1 is out of range: {range}"));
        assert_eq!(text("node.heartbeat_ms", "0x64").unwrap().to_i128(), Some(100));
        assert_eq!(text("node.heartbeat_ms", " 1_000 ").unwrap().to_i128(), Some(1000));
    }

    #[test]
    fn a_wrong_type_says_what_was_expected_and_what_was_found() {
        for (path, value, expected) in [
            ("node.heartbeat_ms", "\"250\"", "a whole number, 50 to 5000, found the string \"250\""),
            ("node.heartbeat_ms", "250.0", "found the number 250.0"),
            ("node.heartbeat_ms", "true", "found true"),
            ("node.heartbeat_ms", "[250]", "found a list"),
            ("node.heartbeat_ms", "{a = 1}", "found a table"),
            ("node.heartbeat_ms", "1979-05-27", "found the time 1979-05-27"),
            ("node.data", "5", "a string, found the number 5"),
            ("embedder.required", "\"yes\"", "true or false, found the string \"yes\""),
            ("embedder.required", "1", "true or false, found the number 1"),
            ("log.format", "\"xml\"", "\"text\" or \"json\", found the string \"xml\""),
            ("cluster.seeds", "\"a:1\"", "a list of strings, found the string \"a:1\""),
            (
                "cluster.seeds",
                "[1, \"a:1\", \"b\"]",
                "item 1: expected a string, found the number 1; item 3:",
            ),
        ] {
            let error = toml(path, value).unwrap_err();
            assert!(error.contains(expected), "{path} = {value}: {error}");
        }
        assert!(text("node.heartbeat_ms", "").unwrap_err().contains("found the string \"\""));
        assert!(text("node.heartbeat_ms", "fast").unwrap_err().contains("found the string \"fast\""));
    }

    #[test]
    fn variables_and_flags_hold_toml_or_plain_text() {
        let string = |path, value| text(path, value).unwrap().into_string().unwrap();
        assert_eq!(string("node.data", "/data"), "/data");
        assert_eq!(string("node.data", "\"/my data\""), "/my data");
        assert_eq!(string("node.data", "2024"), "2024");
        assert_eq!(string("node.data", "true"), "true");
        assert_eq!(string("node.data", "/数据/记忆"), "/数据/记忆");
        assert_eq!(string("node.data", "C:\\data"), "C:\\data");
        assert_eq!(string("embedder.model_dir", ""), "");
        assert_eq!(string("log.format", "json"), "json");
        assert_eq!(string("log.filter", "info,openraft=off"), "info,openraft=off");
        assert_eq!(text("node.data", "").unwrap_err(), "must not be empty");
        assert_eq!(text("node.data", "\"\"").unwrap_err(), "must not be empty");
    }

    #[test]
    fn lists_are_toml_or_divided_by_commas() {
        let list = |value| -> Vec<String> { text("cluster.seeds", value).unwrap().deserialize().unwrap() };
        assert_eq!(list("[\"a:1\", 'b:1']"), ["a:1", "b:1"]);
        assert_eq!(list("a:1, b:1,c:1"), ["a:1", "b:1", "c:1"]);
        assert_eq!(list("\"a:1,b:1\""), ["a:1", "b:1"]);
        assert_eq!(list("a:1"), ["a:1"]);
        assert!(list("[]").is_empty());
        assert!(list("").is_empty());
        assert!(text("cluster.seeds", "a:1,,b:1").unwrap_err().starts_with("item 2: \"\" has no port"));
        assert!(text("cluster.seeds", "a:1,").unwrap_err().starts_with("item 2:"));
        assert!(text("cluster.seeds", "[\"a:1\"").unwrap_err().starts_with("not a TOML list: "));
        assert!(text("cluster.seeds", "[::1]:7800").unwrap_err().starts_with("not a TOML list: "));
    }

    #[test]
    fn formats_are_checked() {
        assert!(text("node.listen", "localhost:1").unwrap_err().contains("names are not resolved"));
        assert!(text("node.listen", "").unwrap_err().contains("is not an IP address"));
        assert!(text("node.advertise", "0.0.0.0:7800").unwrap_err().contains("cannot connect"));
        assert!(text("node.advertise", "").is_ok(), "it stands for not set");
        assert!(text("log.filter", "warn,=x=").unwrap_err().contains("is not a log filter"));
    }
}
