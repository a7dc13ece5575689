//! The rules of a tenant: predicates with their cardinality and other names, and patterns that find
//! them in texts. They go before the built-in ones. Routers apply them before the proposal, so that a
//! change of them concerns what is said from then on and no stored statement.

use super::extract::{Rule, Rules};
use super::registry::{Arity, EXTENSION_NAMES_MAX, Extension, Registry};
use crate::codec::stored;
use crate::limits::check_id;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Most predicates of a tenant.
pub const OWN_PREDICATES_MAX: usize = 256;
/// Most other names of one predicate of a tenant.
pub const OWN_ALIASES_MAX: usize = 32;
/// Most patterns of a tenant: each text is tried against all of them.
pub const OWN_PATTERNS_MAX: usize = 256;
/// Longest pattern of a tenant, in bytes.
pub const OWN_PATTERN_BYTES_MAX: usize = 512;

/// The rules of one tenant. Key: see [`crate::keys::meta::fact_rules`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactRulesRow {
    /// Whose they are.
    pub tenant: String,
    /// Counts changes from 1; 0 for a tenant that never set any.
    pub version: u64,
    /// When they were last changed, in log time.
    pub updated_us: i64,
    /// In the order in which they were given.
    pub predicates: Vec<OwnPredicate>,
    /// In the order in which they are tried.
    pub patterns: Vec<OwnPattern>,
}

/// A predicate of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnPredicate {
    /// By which it is stored.
    pub name: String,
    /// How many objects it holds.
    pub cardinality: OwnCardinality,
    /// What else it is called.
    pub aliases: Vec<String>,
}

/// How many objects a predicate of a tenant holds. Stored by position: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnCardinality {
    /// One at a time.
    Single,
    /// Many at once.
    Many,
    /// Nobody knows.
    Unknown,
}

impl OwnCardinality {
    const NAMES: [(Self, &'static str); 3] =
        [(Self::Single, "single"), (Self::Many, "many"), (Self::Unknown, "unknown")];

    /// The wire name.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.into_iter().find(|(own, _)| *own == self).map_or("unknown", |(_, name)| name)
    }

    /// Finds a cardinality by its wire name.
    pub fn from_wire(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(_, known)| *known == name).map(|(own, _)| own)
    }

    fn arity(self) -> Arity {
        match self {
            Self::Single => Arity::One,
            Self::Many => Arity::Many,
            Self::Unknown => Arity::Unknown,
        }
    }
}

/// A pattern of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnPattern {
    /// As [`super::extract::Pattern`] reads it.
    pub pattern: String,
    /// What is said where it fits; empty if the pattern has a slot for it.
    pub predicate: String,
    /// Importance of what it finds, in thousandths.
    pub importance_milli: u16,
}

stored!(FactRulesRow);

impl FactRulesRow {
    /// The rules and the registry that go by this row.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] or `TooLarge`, naming what is wrong: these are the checks
    /// that a change of the rules has to pass.
    pub fn compile(&self) -> Result<(Rules, Registry)> {
        self.check_sizes()?;
        let mut extension = Extension::default();
        for (at, predicate) in self.predicates.iter().enumerate() {
            let aliases: Vec<&str> = predicate.aliases.iter().map(String::as_str).collect();
            for name in aliases.iter().chain([&predicate.name.as_str()]) {
                check_id(&format!("predicates[{at}]"), name)?;
                if super::normal::predicate(name).is_empty() {
                    let detail = format!("{name} has no letter or digit, so it names no predicate");
                    return Err(Error::invalid(format!("predicates[{at}]"), detail));
                }
            }
            if !extension.add(&predicate.name, predicate.cardinality.arity(), &aliases) {
                let detail = format!("the predicates have more than {EXTENSION_NAMES_MAX} names in all");
                return Err(Error::too_large("predicates", detail));
            }
        }
        let mut own = Vec::with_capacity(self.patterns.len());
        for (at, pattern) in self.patterns.iter().enumerate() {
            let importance = f32::from(pattern.importance_milli) / 1_000.0;
            let rule = Rule::parse(&pattern.pattern, &pattern.predicate, importance);
            own.push(rule.map_err(|error| Error::invalid(format!("patterns[{at}]"), error.to_string()))?);
        }
        let rules = Rules::with(own).map_err(|error| Error::invalid("patterns", error.to_string()))?;
        Ok((rules, Registry::new(extension)))
    }

    fn check_sizes(&self) -> Result<()> {
        if self.predicates.len() > OWN_PREDICATES_MAX {
            return Err(Error::too_large("predicates", format!("at most {OWN_PREDICATES_MAX} predicates")));
        }
        if self.patterns.len() > OWN_PATTERNS_MAX {
            return Err(Error::too_large("patterns", format!("at most {OWN_PATTERNS_MAX} patterns")));
        }
        for (at, predicate) in self.predicates.iter().enumerate() {
            if predicate.aliases.len() > OWN_ALIASES_MAX {
                let detail = format!("at most {OWN_ALIASES_MAX} aliases of one predicate");
                return Err(Error::too_large(format!("predicates[{at}].aliases"), detail));
            }
        }
        for (at, pattern) in self.patterns.iter().enumerate() {
            if pattern.pattern.len().max(pattern.predicate.len()) > OWN_PATTERN_BYTES_MAX {
                let detail =
                    format!("a pattern and its predicate have at most {OWN_PATTERN_BYTES_MAX} bytes");
                return Err(Error::too_large(format!("patterns[{at}]"), detail));
            }
            if pattern.importance_milli > 1_000 {
                let detail = "importance is a number from 0 to 1";
                return Err(Error::invalid(format!("patterns[{at}].importance"), detail));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::extract::{Saying, extract};
    use super::*;
    use crate::memory::Cardinality;

    fn row() -> FactRulesRow {
        let predicate = |name: &str, cardinality, aliases: &[&str]| OwnPredicate {
            name: name.into(),
            cardinality,
            aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
        };
        let pattern = |pattern: &str, predicate: &str| OwnPattern {
            pattern: pattern.into(),
            predicate: predicate.into(),
            importance_milli: 800,
        };
        FactRulesRow {
            tenant: "t".into(),
            predicates: vec![
                predicate("badge", OwnCardinality::Single, &["badge number", "工牌号"]),
                predicate("lives in", OwnCardinality::Many, &[]),
            ],
            patterns: vec![
                pattern("{s} (carries|wears) badge {o}", "badge"),
                pattern("{s}的工牌是{o}", "badge"),
            ],
            ..FactRulesRow::default()
        }
    }

    #[test]
    fn rules_of_a_tenant_find_and_change() {
        let (rules, registry) = row().compile().unwrap();
        let saying = Saying { who: None, event_us: 0 };
        let one = |text: &str| extract(text, saying, &rules, &registry);
        for (text, subject, value) in
            [("Anna wears badge 77", "anna", "77"), ("小明的工牌是77", "小明", "77")]
        {
            let found = one(text);
            let statement = &found.statements[0];
            assert_eq!(
                (statement.subject.as_str(), statement.predicate.as_str()),
                (subject, "badge"),
                "{text}"
            );
            assert_eq!((statement.value.as_str(), statement.cardinality), (value, Cardinality::Single));
            assert_eq!(found.importance, Some(0.8));
        }
        assert_eq!(registry.find("工牌号").name, "badge");
        assert_eq!(one("I live in Berlin").statements[0].about, "berlin", "many homes, as the tenant has it");
    }

    #[test]
    fn what_is_wrong_with_rules_is_named() {
        let wrong = |change: &dyn Fn(&mut FactRulesRow)| {
            let mut row = row();
            change(&mut row);
            row.compile().unwrap_err().field.unwrap()
        };
        assert_eq!(wrong(&|row| row.patterns[1].pattern = "{s} (x".into()), "patterns[1]");
        assert_eq!(wrong(&|row| row.patterns[0].pattern = "no slot".into()), "patterns[0]");
        assert_eq!(wrong(&|row| row.patterns[0].pattern = "x".repeat(600)), "patterns[0]");
        assert_eq!(wrong(&|row| row.patterns[0].importance_milli = 1_001), "patterns[0].importance");
        assert_eq!(wrong(&|row| row.predicates[0].name = String::new()), "predicates[0]");
        assert_eq!(wrong(&|row| row.predicates[1].name = "？！".into()), "predicates[1]");
        assert_eq!(wrong(&|row| row.predicates[0].aliases = vec!["a".into(); 33]), "predicates[0].aliases");
        assert_eq!(wrong(&|row| row.patterns = vec![row.patterns[0].clone(); 257]), "patterns");
        assert_eq!(wrong(&|row| row.predicates = vec![row.predicates[0].clone(); 257]), "predicates");
        let many = |row: &mut FactRulesRow| {
            let names = |at: usize| (0..30).map(|n| format!("p{at}x{n}")).collect();
            row.predicates = (0..60)
                .map(|at| OwnPredicate {
                    name: format!("p{at}"),
                    cardinality: OwnCardinality::Many,
                    aliases: names(at),
                })
                .collect();
        };
        assert_eq!(wrong(&many), "predicates");
    }

    #[test]
    fn wire_names_lead_back() {
        for (own, name) in OwnCardinality::NAMES {
            assert_eq!((own.as_str(), OwnCardinality::from_wire(name)), (name, Some(own)));
        }
        assert_eq!(OwnCardinality::from_wire("few"), None);
    }
}
