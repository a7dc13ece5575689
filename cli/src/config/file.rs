//! Settings from a TOML file.

use super::catalogue;
use super::layer::{Layer, Origin};
use super::problems::Problems;
use super::{unknown, value};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Largest file that is read. A configuration has a few kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads a file.
pub(super) fn read(path: &Path, problems: &mut Problems) -> Layer {
    let mut layer = Layer::new(Origin::File);
    let name = path.display().to_string();
    match text_of(path) {
        Ok(text) => parse(&name, &text, &mut layer, problems),
        Err(why) => problems.add_unread(&name, why),
    }
    layer
}

fn text_of(path: &Path) -> Result<String, String> {
    let bytes = bytes_of(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::IsADirectory => "this is a directory; give the file in it".to_owned(),
        _ => error.to_string(),
    })?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("larger than {FILE_BYTES_MAX} bytes; is it a configuration file?"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes().iter().take(valid).filter(|byte| **byte == b'\n').count();
        format!("not UTF-8: line {line} has bytes that are no text; save the file as UTF-8")
    })
}

fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse(name: &str, text: &str, layer: &mut Layer, problems: &mut Problems) {
    let line = |at: usize| 1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
    let (table, mut errors) = DeTable::parse_recoverable(text);
    // The first place is where to look: later ones may follow from it.
    errors.sort_by_key(|error| error.span().map(|span| span.start));
    for error in &errors {
        let place = match error.span() {
            Some(span) => format!("{name}:{}", line(span.start)),
            None => name.to_owned(),
        };
        problems.add_unread(&place, format!("not valid TOML: {}", error.message()));
    }
    if !errors.is_empty() {
        return;
    }
    for (section, at, value) in in_order(table.get_ref()) {
        let place = format!("{name}:{}", line(at));
        match (catalogue::section(section), value) {
            (Some(_), DeValue::Table(keys)) => {
                for (key, at, value) in in_order(keys) {
                    let place = format!("{name}:{}", line(at));
                    match catalogue::setting(&format!("{section}.{key}")) {
                        Some(setting) => {
                            layer.take(setting, &place, value::from_toml(setting, value), problems);
                        }
                        None => problems.add(&place, unknown::explain(section, key, |s| s.path.clone())),
                    }
                }
            }
            (Some(_), _) => problems.add_unread(&place, format!("{section} must be a table: [{section}]")),
            (None, DeValue::Table(_) | DeValue::Array(_)) => {
                problems.add(&place, unknown::explain_section(section));
            }
            (None, _) => problems.add(&place, unknown::explain_outside(section)),
        }
    }
}

/// The entries of a table as the file has them, with where their keys stand.
fn in_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<(&'a str, usize, &'a DeValue<'i>)> {
    let entry = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'i>>)| {
        let name: &'a std::borrow::Cow<'i, str> = key.get_ref();
        (name.as_ref(), key.span().start, value.get_ref())
    };
    let mut entries: Vec<_> = table.iter().map(entry).collect();
    entries.sort_by_key(|(_, at, _)| *at);
    entries
}
