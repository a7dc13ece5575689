//! Rules: a pattern, and what is said where it fits.

use super::pattern::{Pattern, PatternError};

/// What an object must be for a rule to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Any,
    Diet,
    /// Who keeps a diet, by that: 素食者.
    DietPerson,
    Occupation,
    Thing,
    /// The name of a place or an organisation: not "a flat", not "home", not "Friday".
    Place,
    /// A proper name.
    Name,
    /// What a possessive may name: a proper name, a number, or what its noun is known to take.
    Value,
    /// One number.
    Number,
    /// A number, a month, a date.
    Date,
    /// No digit in it.
    NoDate,
    /// Something to eat or drink, of several perhaps.
    Food,
    /// The same behind a verb: not "at eight", not 亏.
    Meal,
    /// A food, or what is in foods, that people are known to be told not to eat.
    KnownFood,
    /// What somebody can be allergic to, of several perhaps.
    Allergen,
    /// What people are known to be allergic to.
    KnownAllergen,
    /// What is carried against an allergy stands in the predicate slot, and what it is to in the object's.
    Rescue,
    /// A medicine by its name or kind, of several perhaps.
    Medicine,
    /// An illness by its name.
    Illness,
    /// Who has an illness, by that.
    Patient,
    /// A passive participle or an adjective, with its preposition, stands in the predicate slot; the
    /// subject may be a plain noun.
    Passive,
    /// A verb that tells of a lasting relation stands in the predicate slot, after a proper name.
    Verb,
    /// A relative clause about a proper name, and what it may have as its value.
    Relative,
}

impl Need {
    /// Whether it is of what harms, which is not believed lightly, and denied still less so.
    pub(super) fn is_of_harm(self) -> bool {
        use Need::{Allergen, Illness, KnownAllergen, Medicine, Patient, Rescue};
        matches!(self, Allergen | KnownAllergen | Rescue | Medicine | Illness | Patient)
    }
}

/// What a rule's sentence does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// It says that something is so.
    State,
    /// It tells of a change, which is so from now on, even if it says `today`.
    Change,
    /// It tells that something was eaten, which may speak against a rule.
    Eaten,
    /// It tells what one feels like at the moment.
    Wish,
    /// Subject and object are the other way round.
    Inverse,
    /// It says that something is not so, or no longer: the predicate has the word for it.
    Denied,
    /// It says that something must not be, and fits only where the sentence says that it cannot.
    Forbidden,
    /// It is all that is said: an answer of one word.
    Alone,
}

/// One row of a table of rules: pattern, predicate, object, need, act, importance. An empty
/// predicate is the predicate slot; a `*` in it stands for that slot, `^` for the verb, `~` for the
/// kind; an empty object is the object slot.
pub(super) type Row = (&'static str, &'static str, &'static str, Need, Act, f32);

/// A rule that was read.
#[derive(Debug, Clone)]
pub struct Rule {
    pub(super) pattern: Pattern,
    pub(super) predicate: String,
    pub(super) object: String,
    pub(super) need: Need,
    pub(super) act: Act,
    pub(super) importance: f32,
}

impl Rule {
    /// A rule of a tenant: the predicate is said of subject and object where the pattern fits.
    ///
    /// # Errors
    /// [`PatternError`] if the pattern cannot be read, or has no object slot.
    pub fn parse(pattern: &str, predicate: &str, importance: f32) -> Result<Self, PatternError> {
        let failed = |reason| PatternError { pattern: pattern.to_owned(), reason };
        if !pattern.contains("{o}") {
            return Err(failed("it has no {o}, so nothing is said"));
        }
        if predicate.is_empty() && !pattern.contains("{p}") {
            return Err(failed("it has no predicate and no {p}"));
        }
        let importance = importance.clamp(0.0, 1.0);
        let (pattern, predicate) = (Pattern::parse(pattern)?, predicate.to_owned());
        let object = String::new();
        Ok(Self { pattern, predicate, object, need: Need::Any, act: Act::State, importance })
    }

    fn of_row(row: &Row) -> Result<Self, PatternError> {
        let (pattern, predicate, object, need, act, importance) = *row;
        let (predicate, object) = (predicate.to_owned(), object.to_owned());
        Ok(Self { pattern: Pattern::parse(pattern)?, predicate, object, need, act, importance })
    }
}

/// The rules of both languages, with those of a tenant in front.
#[derive(Debug, Clone)]
pub struct Rules {
    pub(super) rules: Vec<Rule>,
}

/// Most rules that a tenant adds.
pub const TENANT_RULES_MAX: usize = 256;

impl Rules {
    /// The built-in rules, with others that go first.
    ///
    /// # Errors
    /// [`PatternError`] if there are too many.
    pub fn with(own: Vec<Rule>) -> Result<Self, PatternError> {
        if own.len() > TENANT_RULES_MAX {
            let reason = "there are more than 256 rules";
            return Err(PatternError { pattern: String::new(), reason });
        }
        let tables = super::english::RULES.iter().chain(super::chinese::RULES);
        let built_in = tables.map(Rule::of_row).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { rules: own.into_iter().chain(built_in).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_can_be_read() {
        assert!(Rules::with(Vec::new()).is_ok());
    }

    #[test]
    fn bad_rules_of_a_tenant_are_refused() {
        for (pattern, predicate) in [("{s} has badge", "badge"), ("{s} foo {o}", ""), ("{s} (foo {o}", "foo")]
        {
            assert!(Rule::parse(pattern, predicate, 0.5).is_err(), "{pattern}");
        }
        assert!(Rule::parse("{s} (carries|wears) badge {o}", "badge", 0.5).is_ok());
    }
}
