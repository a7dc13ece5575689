//! One source of settings, with the place of each.

use super::catalogue::Setting;
use super::problems::{Problems, visible};
use figment::value::{Dict, Map, Value};
use figment::{Error, Figment, Metadata, Profile, Provider};
use std::collections::BTreeMap;

/// The kind of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    File,
    Environment,
    Flag,
}

impl Origin {
    fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

/// The values of one source that are right in themselves.
#[derive(Debug)]
pub(super) struct Layer {
    origin: Origin,
    values: BTreeMap<&'static str, Value>,
    places: BTreeMap<String, String>,
}

impl Layer {
    pub(super) fn new(origin: Origin) -> Self {
        Self { origin, values: BTreeMap::new(), places: BTreeMap::new() }
    }

    /// Takes a value, or what is wrong with it. `place`: the line, variable or flag.
    pub(super) fn take(
        &mut self,
        setting: &'static Setting,
        place: &str,
        value: Result<Value, Vec<String>>,
        problems: &mut Problems,
    ) {
        match value {
            Ok(value) => {
                self.values.insert(&setting.path, value);
                self.places.insert(setting.path.clone(), place.to_owned());
            }
            Err(errors) => {
                for error in errors {
                    problems.add_bad(&setting.path, &spell(self.origin.name(), place, &setting.path), error);
                }
            }
        }
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        let places = self.places.clone();
        Metadata::named(self.origin.name())
            .interpolater(move |_, keys| places.get(&keys.join(".")).cloned().unwrap_or_default())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        let mut sections = Dict::new();
        for (path, value) in &self.values {
            let Some((section, key)) = path.split_once('.') else { continue };
            let empty = || Value::from(Dict::new());
            if let Value::Dict(_, keys) = sections.entry(section.to_owned()).or_insert_with(empty) {
                keys.insert(key.to_owned(), value.clone());
            }
        }
        Ok(Map::from([(Profile::Default, sections)]))
    }
}

/// Where the value in effect comes from, for errors.
pub(super) fn place(figment: &Figment, path: &str) -> String {
    let (origin, place) = provenance(figment, path);
    spell(&origin, &place, path)
}

/// Where the value in effect comes from, for a comment: `environment HOLDFAST_NODE__DATA`.
pub(super) fn source(figment: &Figment, path: &str) -> String {
    let (origin, place) = provenance(figment, path);
    visible(format!("{origin} {place}").trim())
}

fn provenance(figment: &Figment, path: &str) -> (String, String) {
    let keys: Vec<_> = path.split('.').collect();
    match figment.find_metadata(path) {
        Some(data)
            if [Origin::File, Origin::Environment, Origin::Flag].iter().any(|o| o.name() == data.name) =>
        {
            (data.name.to_string(), data.interpolate(figment.profile(), &keys))
        }
        _ => ("default".to_owned(), String::new()),
    }
}

fn spell(origin: &str, place: &str, path: &str) -> String {
    match origin {
        "file" => format!("{place}: {path}"),
        "environment" => format!("environment variable {place}"),
        "flag" => place.to_owned(),
        _ => path.to_owned(),
    }
}
