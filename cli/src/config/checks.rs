//! Checks that need more than one setting, or the role.

use super::catalogue::SECTIONS;
use super::layer;
use super::problems::Problems;
use super::{Config, Role};
use figment::Figment;
use std::fmt;

/// What the checks of the sections work with.
pub(super) struct Checks<'a> {
    pub(super) config: &'a Config,
    role: Role,
    figment: &'a Figment,
    problems: &'a mut Problems,
}

impl Checks<'_> {
    /// Adds a problem of the first of these settings, unless one of their values is not known.
    pub(super) fn fail(&mut self, settings: &[&str], message: impl fmt::Display) {
        if let Some(first) = settings.first()
            && self.knows(settings)
        {
            self.problems.add(&layer::place(self.figment, first), message);
        }
    }

    /// Whether all of these settings have values that are right in themselves.
    pub(super) fn knows(&self, settings: &[&str]) -> bool {
        settings.iter().all(|path| self.problems.knows(path))
    }

    /// The process that the configuration is for.
    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// Whether the configuration is for such a process.
    pub(super) fn is_for(&self, role: Role) -> bool {
        self.role == Role::All || self.role == role
    }
}

/// Checks the configuration as a whole.
pub(super) fn run(config: &Config, role: Role, figment: &Figment, problems: &mut Problems) {
    let mut checks = Checks { config, role, figment, problems };
    check_required(&mut checks);
    config.cluster.check(&mut checks);
    config.node.check(&mut checks);
    config.router.check(&mut checks);
    config.embedder.check(&mut checks);
    config.tls.check(&mut checks);
}

fn check_required(checks: &mut Checks<'_>) {
    for setting in SECTIONS.iter().flat_map(|section| &section.settings) {
        let is_required = setting.required_by.iter().any(|role| match role.as_str() {
            "node" => checks.is_for(Role::Node),
            _ => checks.is_for(Role::Router) || checks.is_for(Role::Operator),
        });
        let value = checks.figment.find_value(&setting.path).ok();
        let is_empty = match value {
            Some(figment::value::Value::String(_, text)) => text.is_empty(),
            Some(figment::value::Value::Array(_, items)) => items.is_empty(),
            _ => false,
        };
        if is_required && is_empty {
            let range = setting.range.as_deref().unwrap_or_default();
            checks.fail(
                &[&setting.path],
                format!("must be set: {range} (file: {}, environment: {})", setting.path, setting.variable()),
            );
        }
    }
}
