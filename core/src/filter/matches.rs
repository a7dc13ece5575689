//! Asking a filter of a row. Recursion is as deep as the filter, which parsing bounds.

use super::row::FilterRow;
use super::scalar::{Number, Scalar, ScalarRef, is_one_of};
use super::{Condition, Field, Node, Ordered, Test, TextField, TimeField};
use serde_json::Value;
use std::cmp::Ordering;

pub(super) fn node(at: &Node, row: &impl FilterRow) -> bool {
    match at {
        Node::All(nodes) => nodes.iter().all(|at| node(at, row)),
        Node::Any(nodes) => nodes.iter().any(|at| node(at, row)),
        Node::Not(at) => !node(at, row),
        Node::Condition(at) => condition(at, row),
    }
}

fn condition(at: &Condition, row: &impl FilterRow) -> bool {
    let test = &at.test;
    match &at.field {
        Field::Text(TextField::Kind) => test.holds(ScalarRef::Text(row.kind().as_str())),
        Field::Text(TextField::Column(column)) => {
            row.text(*column).is_some_and(|text| test.holds(ScalarRef::Text(text)))
        }
        Field::Time(field) => {
            let us = match field {
                TimeField::Created => row.created_us(),
                TimeField::Event => row.event_us(),
            };
            test.holds(ScalarRef::Number(Number::Int(us.into())))
        }
        Field::Importance => {
            let importance = f64::from(row.importance());
            !importance.is_nan() && test.holds(ScalarRef::Number(Number::Float(importance)))
        }
        Field::Pinned => test.holds(ScalarRef::Bool(row.pinned())),
        Field::Entities => row.entities().any(|entity| test.holds_of_element(ScalarRef::Text(entity))),
        Field::Metadata(path) => row.metadata(path).is_some_and(|value| test.holds_of_json(&value)),
    }
}

impl Test {
    fn holds(&self, value: ScalarRef<'_>) -> bool {
        match self {
            Self::Exists => true,
            Self::Equals(other) => value.compare(other.as_ref()) == Some(Ordering::Equal),
            Self::OneOf(list) => is_one_of(value, list),
            Self::Ordered(order, other) => match value.compare(other.as_ref()) {
                Some(Ordering::Less) => matches!(order, Ordered::Less | Ordered::LessOrEqual),
                Some(Ordering::Equal) => matches!(order, Ordered::GreaterOrEqual | Ordered::LessOrEqual),
                Some(Ordering::Greater) => matches!(order, Ordered::Greater | Ordered::GreaterOrEqual),
                None => false,
            },
            Self::Contains(part) => match (value, part) {
                (ScalarRef::Text(text), Scalar::Text(part)) => text.contains(part.as_str()),
                _ => false,
            },
        }
    }

    /// Of one element of a list: that it is there, or equal.
    fn holds_of_element(&self, element: ScalarRef<'_>) -> bool {
        match self {
            Self::Exists => true,
            Self::Equals(other) | Self::Contains(other) => {
                element.compare(other.as_ref()) == Some(Ordering::Equal)
            }
            Self::OneOf(list) => is_one_of(element, list),
            Self::Ordered(..) => false,
        }
    }

    fn holds_of_json(&self, value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Array(_) | Value::Object(_) if *self == Self::Exists => true,
            Value::Array(elements) => {
                elements.iter().filter_map(ScalarRef::of).any(|element| self.holds_of_element(element))
            }
            Value::Object(_) => false,
            scalar => ScalarRef::of(scalar).is_some_and(|value| self.holds(value)),
        }
    }
}
