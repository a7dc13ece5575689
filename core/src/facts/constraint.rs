//! Which statements are hard constraints: what must be respected whatever is asked.

use crate::memory::{Mode, Statement};

/// Predicates under which every object constrains.
const CONSTRAINING: [&str; 4] = ["allergic to", "illness", "intolerant to", "medication"];
/// Predicates under which what is *not* done constrains.
const ABSTAINED: [&str; 3] = ["drinks", "eats", "tolerates"];

/// Whether a statement is a hard constraint: an allergy, an intolerance, an illness, a medication, something that
/// is never eaten, drunk or taken.
pub fn is_constraint(statement: &Statement) -> bool {
    matches!(statement.mode, Mode::State | Mode::Correct) && binds(statement)
}

/// The same of what a statement says, even if that holds for a while.
pub fn binds(statement: &Statement) -> bool {
    let predicate = statement.predicate.as_str();
    match statement.value.as_str() {
        "yes" => CONSTRAINING.contains(&predicate),
        "no" => ABSTAINED.contains(&predicate),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::facts::registry::Registry;
    use crate::facts::statement::{Claim, statement};
    use crate::memory::Fact;

    fn constrains(predicate: &str, object: &str) -> bool {
        let fact = Fact {
            subject: "I".into(),
            predicate: predicate.into(),
            object: object.into(),
            ..Fact::default()
        };
        is_constraint(&statement(Claim { fact, ..Claim::default() }, None, &Registry::default()).unwrap())
    }

    #[test]
    fn allergies_medication_and_abstention_constrain_in_both_languages() {
        for (predicate, object) in [
            ("allergic to", "peanuts"),
            ("过敏", "花生"),
            ("is intolerant to", "lactose"),
            ("服用", "二甲双胍"),
            ("患有", "糖尿病"),
            ("does not tolerate", "ibuprofen"),
            ("does not eat", "pork"),
            ("不吃", "辣"),
            ("does not drink", "alcohol"),
        ] {
            assert!(constrains(predicate, object), "{predicate} {object}");
        }
        for (predicate, object) in [
            ("eats", "meat"),
            ("吃", "辣"),
            ("likes", "tea"),
            ("lives in", "Ulm"),
            ("not allergic to", "peanuts"),
            ("no longer lives in", "Ulm"),
        ] {
            assert!(!constrains(predicate, object), "{predicate} {object}");
        }
    }
}
