//! Settings from `--set section.key=value`.

use super::catalogue;
use super::layer::{Layer, Origin};
use super::problems::Problems;
use super::{unknown, value};

/// Reads the flags. The last one for a setting counts.
pub(super) fn read(flags: &[String], problems: &mut Problems) -> Layer {
    let mut layer = Layer::new(Origin::Flag);
    for flag in flags {
        let Some((path, text)) = flag.split_once('=') else {
            problems.add(&format!("--set {flag}"), "there is no \"=\"; expected section.key=value");
            continue;
        };
        let path = path.trim();
        let place = format!("--set {path}");
        match catalogue::setting(path) {
            Some(setting) => layer.take(setting, &place, value::from_text(setting, text), problems),
            None => problems.add(&place, explain(path)),
        }
    }
    layer
}

fn explain(path: &str) -> String {
    match path.split_once('.') {
        Some((section, key)) => unknown::explain(section, key, |setting| setting.path.clone()),
        None => format!("expected section.key=value; {}", unknown::explain_outside(path)),
    }
}
