//! Filters on their way to the nodes: checked here, so that faults are named before any node is
//! asked, and put together into one.

use holdfast_core::filter::Filter;
use holdfast_core::limits::check_id;
use holdfast_core::memory::Kind;
use holdfast_core::{Error, Result};
use serde_json::{Map, Value, json};

/// Checks a filter in the syntax of the public API.
pub(crate) fn parse(filter: Value) -> Result<Value> {
    Filter::parse(&filter)?;
    Ok(filter)
}

/// Checks the value of a condition that came as a parameter of its own.
pub(crate) fn check_value(field: &str, value: &str) -> Result<()> {
    if field == "kind" && Kind::from_wire(value).is_none() {
        return Err(Error::invalid("kind", "kind must be semantic, episodic or procedural"));
    }
    check_id(field, value)
}

/// One filter that holds where all of these objects do, as text; empty if there are none. What
/// stands in one object holds together, so objects without a name in common become one, which
/// nests no deeper than the deepest of them.
pub(crate) fn all(filters: Vec<Value>) -> Result<String> {
    let mut merged = Map::new();
    let mut rest = Vec::new();
    for filter in filters {
        match filter {
            Value::Object(fields) if fields.keys().all(|name| !merged.contains_key(name)) => {
                merged.extend(fields)
            }
            other => rest.push(other),
        }
    }
    if merged.is_empty() && rest.is_empty() {
        return Ok(String::new());
    }
    let filter = if rest.is_empty() {
        Value::Object(merged)
    } else {
        rest.push(Value::Object(merged));
        json!({ "and": rest })
    };
    Filter::parse(&filter)?;
    Ok(filter.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn filters_join_without_nesting_where_they_can() {
        assert_eq!(all(vec![]).unwrap(), "");
        let joined = all(vec![json!({"kind": "semantic"}), json!({"session": "s"})]).unwrap();
        assert_eq!(joined, r#"{"kind":"semantic","session":"s"}"#);
        let joined = all(vec![json!({"kind": "semantic"}), json!({"kind": {"$ne": "episodic"}})]).unwrap();
        assert_eq!(joined, r#"{"and":[{"kind":{"$ne":"episodic"}},{"kind":"semantic"}]}"#);
    }

    #[test]
    fn faults_are_named() {
        assert!(parse(json!({"colour": "red"})).is_err());
        assert!(parse(json!([])).is_err());
        assert!(check_value("kind", "Semantic").is_err());
        assert!(check_value("session", "a\0").is_err());
    }
}
