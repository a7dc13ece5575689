//! `holdfast config reference`: all settings as Markdown.

use super::catalogue::{Format, Kind, SECTIONS, Setting};
use super::value;
use serde_json::Value as Json;

/// Says how the page is renewed, and what holds for all settings.
const HEAD: &str = "\
<!-- Made from the documentation of the structs in cli/src/config/. Do not edit; renew it with
     holdfast config reference > docs/configuration.md -->

# Configuration

`holdfast node` and `holdfast router` read their settings from three places; the later wins:

1. a TOML file: `--config FILE`;
2. environment variables: `HOLDFAST_<SECTION>__<KEY>`, such as `HOLDFAST_NODE__HEARTBEAT_MS=500`.
   Names without `__`, such as `HOLDFAST_URL`, are no settings;
3. flags: `--set section.key=value`, such as `--set node.heartbeat_ms=500`. May be repeated; the last
   one for a setting counts.

In variables and flags a value is written as in TOML; text needs no quotes, and a list may also be
written with commas: `a:7800,b:7800,c:7800`.

One file may serve nodes and routers: each uses its sections, and checks all of them. A section or
setting that does not exist, a wrong type and a value out of range are errors with exit code 2, also
where a later source would win. Nothing in the configuration is secret.

- `holdfast config check --config FILE --role node` (or `router`, `all`) checks a configuration.
- `holdfast node --config FILE --print-config` prints the settings in effect, and where each comes
  from.

[examples/cluster.toml](examples/cluster.toml) is a complete file for a cluster of three nodes.
";

/// The reference.
pub(super) fn markdown() -> String {
    let mut text = HEAD.to_owned();
    for section in SECTIONS.iter() {
        text.push_str(&format!("\n## `[{}]`\n\n{}\n", section.name, section.doc));
        for setting in &section.settings {
            text.push_str(&entry(setting));
        }
    }
    text
}

fn entry(setting: &Setting) -> String {
    let mut rows = vec![("Type", kind(&setting.kind).to_owned())];
    if let Some(unit) = setting.unit() {
        rows.push(("Unit", unit.to_owned()));
    }
    rows.push(("Default", default(setting)));
    if let Some(range) = range(setting) {
        rows.push(("Range", range));
    }
    rows.push(("Environment", format!("`{}`", setting.variable())));
    let rows: String = rows.iter().map(|(name, value)| format!("| {name} | {value} |\n")).collect();
    format!("\n### `{}`\n\n{}\n\n| | |\n| --- | --- |\n{rows}", setting.path, setting.doc)
}

fn kind(kind: &Kind) -> &'static str {
    match kind {
        Kind::Integer { .. } => "whole number",
        Kind::Boolean => "boolean",
        Kind::Text(_) | Kind::Choice(_) => "string",
        Kind::List(_) => "list of strings",
    }
}

fn default(setting: &Setting) -> String {
    let is_empty = match &setting.default {
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        _ => false,
    };
    if is_empty && !setting.required_by.is_empty() {
        return format!("none; required for {}", setting.required_by.join(" and "));
    }
    match setting.default.as_i64() {
        Some(number) => value::number(setting, number),
        None => format!("`{}`", setting.default),
    }
}

fn range(setting: &Setting) -> Option<String> {
    let of_kind = || match &setting.kind {
        Kind::Integer { min, max } => Some(value::range(setting, *min, *max)),
        Kind::Boolean => None,
        Kind::Choice(words) => {
            Some(words.iter().map(|word| format!("`{word:?}`")).collect::<Vec<_>>().join(" or "))
        }
        Kind::Text(format) | Kind::List(format) => match format {
            Format::Any => None,
            Format::NotEmpty => Some("not empty".to_owned()),
            Format::HostPort => Some("`host:port`".to_owned()),
            Format::Moved => Some("`host:port=host:port`".to_owned()),
            Format::IpPort => Some("an IP address and a port".to_owned()),
            Format::LogFilter => Some("a filter of levels".to_owned()),
        },
    };
    setting.range.clone().or_else(of_kind)
}
