//! `--print-config`: the settings in effect, as a file that gives the same ones again.

use super::catalogue::SECTIONS;
use super::{Config, layer};
use figment::Figment;
use std::fmt::Write;

/// Writes the configuration as TOML, each value with where it comes from.
///
/// # Errors
/// If a value has no form in TOML. None can come from a file, variable or flag.
pub(super) fn to_toml(config: &Config, figment: &Figment) -> anyhow::Result<String> {
    let values = toml::Table::try_from(config)?;
    let mut text = String::new();
    for section in SECTIONS.iter() {
        let gap = if text.is_empty() { "" } else { "\n" };
        writeln!(text, "{gap}[{}]", section.name)?;
        for setting in &section.settings {
            let value = values.get(&section.name).and_then(|keys| keys.get(&setting.key));
            if let Some(value) = value {
                writeln!(text, "{} = {value}  # {}", setting.key, layer::source(figment, &setting.path))?;
            }
        }
    }
    Ok(text)
}
