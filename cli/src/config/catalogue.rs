//! The list of all settings, read from the structs: names, types, ranges, defaults, documentation.
//! The checks and the reference both go by it, so that they cannot differ.

use super::Config;
use schemars::generate::SchemaSettings;
use serde_json::Value as Json;
use std::sync::LazyLock;

/// The sections in the order of [`Config`].
pub(super) static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(read);

/// One section.
#[derive(Debug)]
pub(super) struct Section {
    /// Its name: `node`.
    pub(super) name: String,
    /// What it is about.
    pub(super) doc: String,
    /// Its settings, in the order of the struct.
    pub(super) settings: Vec<Setting>,
}

/// One setting.
#[derive(Debug)]
pub(super) struct Setting {
    /// Section and key: `node.heartbeat_ms`.
    pub(super) path: String,
    /// The key alone: `heartbeat_ms`.
    pub(super) key: String,
    /// Which values it takes.
    pub(super) kind: Kind,
    /// What it means.
    pub(super) doc: String,
    /// The value that it has when nothing sets it.
    pub(super) default: Json,
    /// The roles that cannot do without it, as [`super::Role`] spells them.
    pub(super) required_by: Vec<String>,
    /// The range in words, for what a type cannot say.
    pub(super) range: Option<String>,
}

/// Which values a setting takes.
#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    /// A whole number.
    Integer { min: i64, max: i64 },
    /// `true` or `false`.
    Boolean,
    /// Text of a format.
    Text(Format),
    /// A list of texts of a format.
    List(Format),
    /// One of these words.
    Choice(Vec<String>),
}

/// What a text must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Any,
    NotEmpty,
    HostPort,
    Moved,
    IpPort,
    LogFilter,
}

/// The section of that name.
pub(super) fn section(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name == name)
}

/// The setting of that path.
pub(super) fn setting(path: &str) -> Option<&'static Setting> {
    SECTIONS.iter().flat_map(|section| &section.settings).find(|setting| setting.path == path)
}

impl Setting {
    /// The environment variable that sets it.
    pub(super) fn variable(&self) -> String {
        format!("HOLDFAST_{}", self.path.replace('.', "__").to_uppercase())
    }

    /// The unit of its numbers, which its name carries.
    pub(super) fn unit(&self) -> Option<&'static str> {
        self.key.split('_').find_map(|word| match word {
            "ms" => Some("milliseconds"),
            "bytes" => Some("bytes"),
            _ => None,
        })
    }
}

fn read() -> Vec<Section> {
    // The schema of what is written out lists the fields in their order.
    let generator =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).for_serialize();
    let schema = generator.into_generator().into_root_schema_for::<Config>();
    let defaults = serde_json::to_value(Config::default()).unwrap_or_default();
    fields(schema.as_value())
        .map(|(name, schema)| Section {
            settings: fields(schema)
                .map(|(key, schema)| setting_of(&name, &key, schema, &defaults[&name][&key]))
                .collect(),
            doc: text(schema, "description"),
            name,
        })
        .collect()
}

fn fields(schema: &Json) -> impl Iterator<Item = (String, &Json)> {
    texts(&schema["required"]).into_iter().map(|name| {
        let field = &schema["properties"][&name];
        (name, field)
    })
}

fn setting_of(section: &str, key: &str, schema: &Json, default: &Json) -> Setting {
    Setting {
        path: format!("{section}.{key}"),
        key: key.to_owned(),
        kind: kind(schema),
        doc: text(schema, "description"),
        default: default.clone(),
        required_by: texts(&schema["x-required"]),
        range: schema["x-range"].as_str().map(str::to_owned),
    }
}

fn kind(schema: &Json) -> Kind {
    if schema["enum"].is_array() {
        return Kind::Choice(texts(&schema["enum"]));
    }
    match schema["type"].as_str() {
        Some("integer") => Kind::Integer {
            min: schema["minimum"].as_i64().unwrap_or(i64::MIN),
            max: schema["maximum"].as_i64().unwrap_or(i64::MAX),
        },
        Some("boolean") => Kind::Boolean,
        Some("array") => Kind::List(format(schema)),
        _ => Kind::Text(format(schema)),
    }
}

fn format(schema: &Json) -> Format {
    match schema["format"].as_str() {
        Some("host-port") => Format::HostPort,
        Some("moved") => Format::Moved,
        Some("ip-port") => Format::IpPort,
        Some("log-filter") => Format::LogFilter,
        _ if schema["minLength"].as_u64() == Some(1) => Format::NotEmpty,
        _ => Format::Any,
    }
}

fn text(schema: &Json, key: &str) -> String {
    // The lines of a comment are broken to fit the source, not the reader.
    let words = schema[key].as_str().unwrap_or_default().split_whitespace();
    words.collect::<Vec<_>>().join(" ")
}

fn texts(list: &Json) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sections_and_settings_are_in_the_order_of_the_structs() {
        let names: Vec<_> = SECTIONS.iter().map(|section| section.name.as_str()).collect();
        assert_eq!(names, ["cluster", "node", "router", "embedder", "tls", "log"]);
        let keys: Vec<_> = section("node").unwrap().settings.iter().map(|s| s.key.as_str()).collect();
        assert_eq!(&keys[..4], ["data", "listen", "advertise", "admin"]);
        let fields = serde_json::to_value(Config::default()).unwrap();
        for section in SECTIONS.iter() {
            assert_eq!(section.settings.len(), fields[&section.name].as_object().unwrap().len());
        }
    }

    #[test]
    fn every_setting_is_documented_and_every_number_bounded_around_its_default() {
        for section in SECTIONS.iter() {
            assert!(section.doc.ends_with('.'), "{}", section.name);
            for setting in &section.settings {
                assert!(setting.doc.ends_with('.'), "{}: {}", setting.path, setting.doc);
                assert!(!setting.default.is_null(), "{}", setting.path);
                if let Kind::Integer { min, max } = setting.kind {
                    let default = setting.default.as_i64().unwrap();
                    assert!(min >= 0 && max < i64::MAX, "{} has no range", setting.path);
                    assert!((min..=max).contains(&default), "{}", setting.path);
                }
            }
        }
    }

    #[test]
    fn kinds_come_from_the_structs() {
        let kind = |path| &setting(path).unwrap().kind;
        assert_eq!(kind("node.heartbeat_ms"), &Kind::Integer { min: 50, max: 5_000 });
        assert_eq!(kind("cluster.seeds"), &Kind::List(Format::HostPort));
        assert_eq!(kind("node.listen"), &Kind::Text(Format::IpPort));
        assert_eq!(kind("node.advertise"), &Kind::Text(Format::HostPort));
        assert_eq!(kind("node.data"), &Kind::Text(Format::NotEmpty));
        assert_eq!(kind("embedder.model_dir"), &Kind::Text(Format::Any));
        assert_eq!(kind("embedder.required"), &Kind::Boolean);
        assert_eq!(kind("log.filter"), &Kind::Text(Format::LogFilter));
        assert_eq!(kind("log.format"), &Kind::Choice(vec!["text".to_owned(), "json".to_owned()]));
    }

    #[test]
    fn units_and_variables_follow_from_the_names() {
        let unit = |path| setting(path).unwrap().unit();
        assert_eq!(unit("router.body_bytes_max"), Some("bytes"));
        assert_eq!(unit("node.heartbeat_ms"), Some("milliseconds"));
        assert_eq!(unit("router.in_flight_max"), None);
        let variable = setting("node.heartbeat_ms").unwrap().variable();
        assert_eq!(variable, "HOLDFAST_NODE__HEARTBEAT_MS");
    }
}
