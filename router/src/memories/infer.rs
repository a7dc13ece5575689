//! What a memory states: the fact that the caller gives, or what rules find in its text.

use super::draft::Draft;
use crate::fact_rules::FactRules;
use holdfast_core::facts::constraint::is_constraint;
use holdfast_core::facts::extract::{Extracted, Saying, TEXT_BYTES_MAX, extract, tells_change};
use holdfast_core::facts::statement::{Claim, statement};
use holdfast_core::memory::HARD_CONSTRAINT;

/// Roles that do not speak for the user: what they say of "I" is not said of the user.
const OTHER_ROLES: [&str; 9] =
    ["agent", "ai", "assistant", "bot", "developer", "function", "model", "system", "tool"];

/// What the memory states, and whether that is all it says: a fact that the caller gives is what the
/// memory is about. `event_us` is when it was said.
pub(super) fn said(draft: &Draft, event_us: i64, by: &FactRules) -> Extracted {
    let who = draft.speaker.as_deref();
    if let Some(fact) = &draft.fact {
        let claim = Claim {
            fact: fact.clone(),
            arity: draft.arity,
            mode: draft.mode.clone(),
            valid_from_us: draft.valid_from_us,
            valid_to_us: draft.valid_to_us,
            ..Claim::default()
        };
        // The draft has checked that each part has a normal form.
        let statements: Vec<_> = statement(claim, who, &by.registry).into_iter().collect();
        let importance = statements.iter().any(is_constraint).then_some(HARD_CONSTRAINT);
        return Extracted { statements, whole: true, importance };
    }
    if is_searched_for_facts(draft) {
        extract(&draft.content, Saying { who, event_us }, &by.rules, &by.registry)
    } else {
        Extracted::default()
    }
}

/// Whether facts are looked for in the text.
pub(super) fn is_searched_for_facts(draft: &Draft) -> bool {
    draft.fact.is_none() && draft.infer && speaks_for_the_user(draft)
}

/// Whether a text of the user's tells of a change, so that it may contradict an older one.
pub(super) fn tells_of_change(draft: &Draft) -> bool {
    draft.infer && speaks_for_the_user(draft) && tells_change(&draft.content)
}

/// How important a text is by the rules of facts, if they tell, and whether it states one.
pub(crate) fn importance(role: &str, content: &str, event_us: i64, by: &FactRules) -> (Option<f32>, bool) {
    if OTHER_ROLES.contains(&role.to_lowercase().as_str()) {
        return (None, false);
    }
    let said = extract(content, Saying { who: Some(role), event_us }, &by.rules, &by.registry);
    (said.importance, !said.statements.is_empty())
}

fn speaks_for_the_user(draft: &Draft) -> bool {
    let other = |name: &Option<String>| {
        name.as_ref().is_some_and(|name| OTHER_ROLES.contains(&name.to_lowercase().as_str()))
    };
    !other(&draft.role) && !other(&draft.speaker)
}

/// An upper bound of the bytes of what rules find: each statement holds parts of the text, as they
/// are and in normal form, and the name of the speaker.
pub(super) fn cost_max(draft: &Draft) -> usize {
    const STATEMENTS: usize = holdfast_core::limits::STATEMENTS_MAX;
    const FIXED: usize = 128;
    if !draft.infer || draft.fact.is_some() || draft.content.len() > TEXT_BYTES_MAX {
        return 0;
    }
    let speaker = draft.speaker.as_ref().map_or(0, String::len);
    STATEMENTS * (FIXED + 4 * speaker + 4 * draft.content.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::http::json;

    fn draft(body: serde_json::Value) -> Draft {
        Draft::new(json::part(&body.to_string(), "").unwrap()).unwrap()
    }

    fn stated(body: serde_json::Value) -> Vec<(String, String)> {
        let statements = said(&draft(body), 0, &FactRules::built_in()).statements;
        statements.into_iter().map(|statement| (statement.subject, statement.value)).collect()
    }

    #[test]
    fn the_user_states_and_the_assistant_does_not() {
        use serde_json::json;
        let own = vec![("user".to_owned(), "berlin".to_owned())];
        assert_eq!(stated(json!({"content": "I live in Berlin"})), own);
        assert_eq!(stated(json!({"content": "I live in Berlin", "role": "user"})), own);
        assert_eq!(stated(json!({"content": "I live in Berlin", "role": "assistant"})), []);
        assert_eq!(stated(json!({"content": "I live in Berlin", "speaker": "Assistant"})), []);
        let named = json!({"content": "I live in Berlin", "role": "user", "speaker": "Ann"});
        assert_eq!(stated(named), [("ann".to_owned(), "berlin".to_owned())]);
    }

    #[test]
    fn a_given_fact_goes_before_the_rules() {
        use serde_json::json;
        let fact = json!({"subject": "I", "predicate": "lives in", "object": "Paris"});
        let body = json!({"content": "I live in Berlin", "fact": fact});
        assert_eq!(stated(body.clone()), [("user".to_owned(), "paris".to_owned())]);
        assert_eq!(said(&draft(body), 0, &FactRules::built_in()).importance, None);
        let fact = json!({"subject": "我", "predicate": "过敏", "object": "花生"});
        let allergy = draft(json!({"content": "花生", "fact": fact}));
        assert_eq!(said(&allergy, 0, &FactRules::built_in()).importance, Some(1.0));
        let none = Draft { infer: false, ..draft(json!({"content": "I live in Berlin"})) };
        assert_eq!(said(&none, 0, &FactRules::built_in()), Extracted::default());
    }
}
