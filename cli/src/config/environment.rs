//! Settings from environment variables: `HOLDFAST_<SECTION>__<KEY>`.

use super::catalogue;
use super::layer::{Layer, Origin};
use super::problems::Problems;
use super::{unknown, value};
use figment::value::Value;
use std::ffi::{OsStr, OsString};

const PREFIX: &str = "HOLDFAST_";
/// Stands between section and key. Names without it are no settings: `HOLDFAST_URL`.
const SEPARATOR: &str = "__";
/// The variable that every command knows for the log filter.
pub(super) const LOG: &str = "HOLDFAST_LOG";

/// Reads the settings.
pub(super) fn read(variables: impl Iterator<Item = (OsString, OsString)>, problems: &mut Problems) -> Layer {
    let mut layer = Layer::new(Origin::Environment);
    let mut ours: Vec<_> = variables
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
        .filter(|(name, _)| name.strip_prefix(PREFIX).is_some_and(|rest| rest.contains(SEPARATOR)))
        .collect();
    ours.sort();
    for (name, text) in ours {
        match setting(&name) {
            Some(setting) => layer.take(setting, &name, value(setting, &text), problems),
            None => problems.add(&format!("environment variable {name}"), explain(&name)),
        }
    }
    layer
}

/// Reads `HOLDFAST_LOG`: it wins over everything, so that a log can be turned up for one start.
pub(super) fn read_log(value_of_log: Option<OsString>, problems: &mut Problems) -> Layer {
    let mut layer = Layer::new(Origin::Environment);
    let text = value_of_log.filter(|text| !text.is_empty());
    if let (Some(text), Some(setting)) = (text, catalogue::setting("log.filter")) {
        layer.take(setting, LOG, value(setting, &text), problems);
    }
    layer
}

fn value(setting: &catalogue::Setting, text: &OsStr) -> Result<Value, Vec<String>> {
    match text.to_str() {
        Some(text) => value::from_text(setting, text),
        None => Err(vec!["its value is not UTF-8".to_owned()]),
    }
}

fn setting(name: &str) -> Option<&'static catalogue::Setting> {
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
