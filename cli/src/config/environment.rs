//! Settings from environment variables: `HOLDFAST_<SECTION>__<KEY>`.

use super::catalogue;
use super::layer::{Layer, Origin};
use super::problems::Problems;
use super::{unknown, value};
use std::ffi::OsString;

const PREFIX: &str = "HOLDFAST_";
/// Stands between section and key. Names without it are no settings: `HOLDFAST_URL`.
const SEPARATOR: &str = "__";
/// The variable that every command knows for the log filter.
const LOG: &str = "HOLDFAST_LOG";

/// Reads the variables.
pub(super) fn read(variables: impl Iterator<Item = (OsString, OsString)>, problems: &mut Problems) -> Layer {
    let mut layer = Layer::new(Origin::Environment);
    let mut ours: Vec<_> = variables
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
        .filter(|(name, _)| name == LOG || name.strip_prefix(PREFIX).is_some_and(|n| n.contains(SEPARATOR)))
        .collect();
    // The short name comes after `HOLDFAST_LOG__FILTER`, and wins.
    ours.sort_by(|a, b| (a.0 == LOG, &a.0).cmp(&(b.0 == LOG, &b.0)));
    for (name, text) in ours {
        if name == LOG && text.is_empty() {
            continue;
        }
        let Some(setting) = setting(&name) else {
            problems.add(&format!("environment variable {name}"), explain(&name));
            continue;
        };
        let value = match text.to_str() {
            Some(text) => value::from_text(setting, text),
            None => Err(vec!["its value is not UTF-8".to_owned()]),
        };
        layer.take(setting, &name, value, problems);
    }
    layer
}

fn setting(name: &str) -> Option<&'static catalogue::Setting> {
    if name == LOG {
        return catalogue::setting("log.filter");
    }
    catalogue::SECTIONS.iter().flat_map(|section| &section.settings).find(|s| s.variable() == name)
}

fn explain(name: &str) -> String {
    let rest = name.strip_prefix(PREFIX).unwrap_or(name);
    let (section, key) = rest.split_once(SEPARATOR).unwrap_or((rest, ""));
    unknown::explain(&section.to_lowercase(), &key.to_lowercase(), catalogue::Setting::variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_two_underscores_are_no_settings() {
        let mut problems = Problems::default();
        let names =
            ["HOLDFAST_URL", "HOLDFAST_NODE_PORT", "HOME__X", "holdfast_node__data", "XHOLDFAST_A__B"];
        read(names.iter().map(|name| (OsString::from(name), OsString::from("x"))), &mut problems);
        assert!(problems.is_empty(), "{problems}");
    }

    #[test]
    fn near_misses_are_errors_with_the_right_variable() {
        for (name, meant) in [
            ("HOLDFAST_NODE__HARTBEAT_MS", "HOLDFAST_NODE__HEARTBEAT_MS"),
            ("HOLDFAST_NOOD__DATA", "HOLDFAST_NODE__DATA"),
            ("HOLDFAST_NOOD__X", "\"node\""),
            ("HOLDFAST_node__data", "HOLDFAST_NODE__DATA"),
            ("HOLDFAST_NODE__DATA__X", "HOLDFAST_NODE__DATA"),
            ("HOLDFAST___DATA", "HOLDFAST_NODE__DATA"),
            ("HOLDFAST___", "the sections are"),
        ] {
            let mut problems = Problems::default();
            read([(OsString::from(name), OsString::from("x"))].into_iter(), &mut problems);
            let text = problems.to_string();
            assert!(text.contains(&format!("environment variable {name}: ")), "{text}");
            assert!(text.contains(meant), "{text}");
        }
    }
}
