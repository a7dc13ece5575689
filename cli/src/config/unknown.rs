//! Names that are no settings: what was probably meant.

use super::catalogue::{self, SECTIONS, Section, Setting};

/// How much alike two names must be, of 1, for one to be proposed for the other.
const LIKENESS_MIN: f64 = 0.8;

/// What is wrong with a name, or nothing if there is such a setting. `spell` writes a setting the
/// way its source does.
pub(super) fn explain(section: &str, key: &str, spell: impl Fn(&Setting) -> String) -> String {
    let known = catalogue::section(section);
    let wrong = match known {
        Some(_) => format!("[{section}] has no setting {key:?}"),
        None => format!("there is no section {section:?}"),
    };
    let near_section = known.or_else(|| closest(section, SECTIONS.iter(), |section| &section.name));
    let near = near_section
        .and_then(|section| closest(key, section.settings.iter(), |setting| &setting.key))
        .or_else(|| elsewhere(key));
    match (near, known, near_section) {
        (Some(setting), _, _) => format!("{wrong}; did you mean {}?", spell(setting)),
        (None, Some(section), _) => {
            let keys: Vec<_> = section.settings.iter().map(|setting| setting.key.as_str()).collect();
            format!("{wrong}; it has {}", keys.join(", "))
        }
        (None, None, Some(section)) => format!("{wrong}; did you mean {:?}?", section.name),
        (None, None, None) => format!("{wrong}; {}", all_sections()),
    }
}

/// What is wrong with a section of a file.
pub(super) fn explain_section(name: &str) -> String {
    match closest(name, SECTIONS.iter(), |section| &section.name) {
        Some(section) => format!("there is no section {name:?}; did you mean [{}]?", section.name),
        None => format!("there is no section {name:?}; {}", all_sections()),
    }
}

/// What is wrong with a key of a file that stands before its first section.
pub(super) fn explain_outside(key: &str) -> String {
    let near = elsewhere(key).or_else(|| closest(key, all_settings(), |setting| &setting.key));
    match near {
        Some(setting) => format!("{key:?} stands in no section; did you mean {}?", setting.path),
        None => format!("{key:?} stands in no section, and no section has it; {}", all_sections()),
    }
}

fn all_settings() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().flat_map(|section| &section.settings)
}

fn all_sections() -> String {
    let names: Vec<_> = SECTIONS.iter().map(|section: &Section| section.name.as_str()).collect();
    format!("the sections are {}", names.join(", "))
}

/// A setting of that very name in any section.
fn elsewhere(key: &str) -> Option<&'static Setting> {
    all_settings().find(|setting| setting.key == key)
}

fn closest<'a, T>(
    wrong: &str,
    candidates: impl Iterator<Item = &'a T>,
    name: impl Fn(&T) -> &str,
) -> Option<&'a T> {
    let wrong = wrong.to_lowercase();
    candidates
        .map(|candidate| (strsim::jaro_winkler(&wrong, name(candidate)), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(section: &str, key: &str) -> String {
        explain(section, key, |setting| setting.path.clone())
    }

    #[test]
    fn what_was_probably_meant_is_proposed() {
        assert!(path("node", "hartbeat_ms").ends_with("did you mean node.heartbeat_ms?"));
        assert!(path("nood", "data").ends_with("did you mean node.data?"));
        assert!(path("nood", "x").ends_with("did you mean \"node\"?"));
        assert!(path("NODE", "DATA").ends_with("did you mean node.data?"));
        assert!(path("node", "http").ends_with("did you mean router.http?"));
        assert!(path("server", "seeds").ends_with("did you mean cluster.seeds?"));
        assert!(explain_section("clusters").ends_with("did you mean [cluster]?"));
        assert!(explain_outside("heartbeat_ms").ends_with("did you mean node.heartbeat_ms?"));
        assert!(explain_outside("seed").ends_with("did you mean cluster.seeds?"));
    }

    #[test]
    fn where_nothing_is_alike_the_choice_is_listed() {
        assert!(path("log", "zzz").ends_with("it has filter, format"));
        let sections = "the sections are cluster, node, router, embedder, tls, log";
        assert!(path("zzz", "qqq").ends_with(sections));
        assert!(explain_section("").ends_with(sections));
        assert!(explain_outside("节点").ends_with(sections));
    }
}
