//! Reading the public syntax. Every error names the place and says what is allowed there.

use super::row::TextColumn;
use super::scalar::{self, Number, Scalar};
use super::{Condition, FILTER_VALUES_MAX, Field, Node, Ordered, Test, TextField, TimeField};
use crate::limits::{FILTER_DEPTH_MAX, FILTER_TERMS_MAX, METADATA_BYTES_MAX};
use crate::memory::Kind;
use crate::{Error, Result};
use serde_json::{Map, Value};

const FIELDS: &str = "kind, role, speaker, session, agent, importance, created_at, event_time, sentiment, \
                      entities, pinned, metadata.<path>";
const OPERATORS: &str = "$eq, $ne, $in, $nin, $gt, $gte, $lt, $lte, $exists, $contains";
const METADATA: &str = "metadata.";

pub(super) fn parse(value: &Value) -> Result<Node> {
    Parser::default().object(value, "filter", 1)
}

/// Counts what has a limit while it descends.
#[derive(Default)]
struct Parser {
    conditions: usize,
    values: usize,
}

impl Parser {
    fn object(&mut self, value: &Value, path: &str, depth: usize) -> Result<Node> {
        if depth > FILTER_DEPTH_MAX {
            let detail = format!("a filter may be nested {FILTER_DEPTH_MAX} deep; flatten this one");
            return Err(Error::invalid(path, detail));
        }
        let Value::Object(object) = value else {
            let detail = "a filter is an object such as {\"kind\": \"semantic\"}";
            return Err(Error::invalid(path, detail));
        };
        let mut nodes = Vec::with_capacity(object.len());
        for (name, value) in object {
            let path = format!("{path}.{name}");
            nodes.push(match name.as_str() {
                "and" => Node::all(self.list(value, &path, depth)?),
                "or" => Node::any(self.list(value, &path, depth)?),
                "not" if value.is_object() => Node::not(self.object(value, &path, depth + 1)?),
                "not" => Node::not(Node::any(self.list(value, &path, depth)?)),
                _ => self.field(field(name, &path)?, value, &path)?,
            });
        }
        Ok(one_or_all(nodes))
    }

    fn list(&mut self, value: &Value, path: &str, depth: usize) -> Result<Vec<Node>> {
        let objects = match value {
            Value::Array(objects) if !objects.is_empty() => objects,
            // An empty list has a meaning in logic, but in practice it is a mistake of the caller,
            // and an empty `not` would match, and erase, everything.
            _ => {
                return Err(Error::invalid(
                    path,
                    "and, or and not take a list of at least one filter object",
                ));
            }
        };
        let each = objects.iter().enumerate();
        each.map(|(at, object)| self.object(object, &format!("{path}[{at}]"), depth + 1)).collect()
    }

    fn field(&mut self, field: Field, value: &Value, path: &str) -> Result<Node> {
        let Value::Object(operators) = value else {
            return self.condition(&field, "$eq", value, path);
        };
        if operators.is_empty() {
            return Err(Error::invalid(path, format!("give a value, or an operator of {OPERATORS}")));
        }
        self.operators(&field, operators, path)
    }

    fn operators(&mut self, field: &Field, operators: &Map<String, Value>, path: &str) -> Result<Node> {
        let mut nodes = Vec::with_capacity(operators.len());
        for (operator, value) in operators {
            nodes.push(self.condition(field, operator, value, &format!("{path}.{operator}"))?);
        }
        Ok(one_or_all(nodes))
    }

    fn condition(&mut self, field: &Field, operator: &str, value: &Value, path: &str) -> Result<Node> {
        self.conditions += 1;
        if self.conditions > FILTER_TERMS_MAX {
            let detail =
                format!("a filter has at most {FILTER_TERMS_MAX} conditions; use $in for lists of values");
            return Err(Error::invalid(path, detail));
        }
        let test = match operator {
            "$exists" => Test::Exists,
            "$eq" | "$ne" => Test::Equals(scalar_of(field, value, path)?),
            "$in" | "$nin" => Test::OneOf(self.values(field, value, path)?),
            "$gt" => ordered(Ordered::Greater, field, value, path)?,
            "$gte" => ordered(Ordered::GreaterOrEqual, field, value, path)?,
            "$lt" => ordered(Ordered::Less, field, value, path)?,
            "$lte" => ordered(Ordered::LessOrEqual, field, value, path)?,
            "$contains" => contains(field, value, path)?,
            _ => {
                return Err(Error::invalid(
                    path,
                    format!("there is no operator {operator}; use one of {OPERATORS}"),
                ));
            }
        };
        let negated = match (operator, value) {
            ("$exists", Value::Bool(exists)) => !exists,
            ("$exists", _) => return Err(Error::invalid(path, "$exists takes true or false")),
            ("$ne" | "$nin", _) => true,
            _ => false,
        };
        let node = Node::Condition(Condition { field: field.clone(), test });
        Ok(if negated { Node::not(node) } else { node })
    }

    fn values(&mut self, field: &Field, value: &Value, path: &str) -> Result<Vec<Scalar>> {
        let Value::Array(list) = value else {
            return Err(Error::invalid(path, "$in and $nin take a list of values"));
        };
        self.values += list.len();
        if self.values > FILTER_VALUES_MAX {
            let detail =
                format!("the lists of $in and $nin of one filter have at most {FILTER_VALUES_MAX} values");
            return Err(Error::invalid(path, detail));
        }
        let each = list.iter().enumerate();
        let values: Result<Vec<Scalar>> =
            each.map(|(at, value)| scalar_of(field, value, &format!("{path}[{at}]"))).collect();
        values.map(scalar::sorted)
    }
}

fn one_or_all(mut nodes: Vec<Node>) -> Node {
    match (nodes.len(), nodes.pop()) {
        (1, Some(node)) => node,
        (_, last) => {
            nodes.extend(last);
            Node::all(nodes)
        }
    }
}

fn field(name: &str, path: &str) -> Result<Field> {
    let column = |column| Ok(Field::Text(TextField::Column(column)));
    match name {
        "kind" => Ok(Field::Text(TextField::Kind)),
        "role" => column(TextColumn::Role),
        "speaker" => column(TextColumn::Speaker),
        "session" => column(TextColumn::Session),
        "agent" => column(TextColumn::Agent),
        "sentiment" => column(TextColumn::Sentiment),
        "importance" => Ok(Field::Importance),
        "created_at" => Ok(Field::Time(TimeField::Created)),
        "event_time" => Ok(Field::Time(TimeField::Event)),
        "entities" => Ok(Field::Entities),
        "pinned" => Ok(Field::Pinned),
        _ => match name.strip_prefix(METADATA) {
            Some(rest) if !rest.is_empty() && rest.len() <= METADATA_BYTES_MAX => {
                Ok(Field::Metadata(rest.into()))
            }
            _ => Err(Error::invalid(
                path,
                format!("there is no field of this name; use and, or, not, or one of {FIELDS}"),
            )),
        },
    }
}

/// A value of the type that the field has.
fn scalar_of(field: &Field, value: &Value, path: &str) -> Result<Scalar> {
    let wrong = |detail: &str| Err(Error::invalid(path, detail));
    match (field, Scalar::of(value)) {
        (Field::Text(TextField::Kind), Some(Scalar::Text(name))) if Kind::from_wire(&name).is_some() => {
            Ok(Scalar::Text(name))
        }
        (Field::Text(TextField::Kind), _) => wrong("kind is one of semantic, episodic, procedural"),
        (Field::Text(TextField::Column(_)) | Field::Entities, Some(text @ Scalar::Text(_))) => Ok(text),
        (Field::Text(TextField::Column(_)) | Field::Entities, _) => wrong("this field is compared with text"),
        (Field::Importance, Some(Scalar::Number(number))) => Ok(Scalar::Number(as_stored(number))),
        (Field::Importance, _) => wrong("importance is compared with a number from 0 to 1"),
        (Field::Pinned, Some(flag @ Scalar::Bool(_))) => Ok(flag),
        (Field::Pinned, _) => wrong("pinned is compared with true or false"),
        (Field::Time(_), Some(Scalar::Text(text))) => time(&text, path),
        (Field::Time(_), _) => wrong("a time is text in RFC 3339 with a zone, such as 2026-11-30T08:00:00Z"),
        (Field::Metadata(_), Some(scalar)) => Ok(scalar),
        (Field::Metadata(_), None) => {
            wrong("metadata is compared with text, a number, true or false; $exists asks whether it is there")
        }
    }
}

/// Importance is stored in 32 bits: .7 must equal what became of .7 there.
fn as_stored(number: Number) -> Number {
    #[allow(clippy::cast_possible_truncation)]
    let rounded = number.to_f64() as f32;
    Number::Float(f64::from(rounded))
}

fn time(text: &str, path: &str) -> Result<Scalar> {
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => Ok(Scalar::Number(Number::Int(time.as_microsecond().into()))),
        Err(error) => {
            let detail = format!("a time is RFC 3339 with a zone, such as 2026-11-30T08:00:00Z: {error}");
            Err(Error::invalid(path, detail))
        }
    }
}

fn ordered(order: Ordered, field: &Field, value: &Value, path: &str) -> Result<Test> {
    let wrong = |detail: &str| Err(Error::invalid(path, detail));
    match field {
        Field::Text(TextField::Kind) => wrong("kind has no order; use $eq, $ne, $in or $nin"),
        Field::Entities => wrong("a list has no order; use $contains, $in or $nin"),
        Field::Pinned => wrong("true and false have no order; use $eq or $ne"),
        Field::Text(_) | Field::Time(_) | Field::Importance | Field::Metadata(_) => {
            match scalar_of(field, value, path)? {
                Scalar::Bool(_) => wrong("true and false have no order; use $eq or $ne"),
                scalar => Ok(Test::Ordered(order, scalar)),
            }
        }
    }
}

fn contains(field: &Field, value: &Value, path: &str) -> Result<Test> {
    match field {
        Field::Text(TextField::Column(_)) | Field::Entities | Field::Metadata(_) => {
            scalar_of(field, value, path).map(Test::Contains)
        }
        Field::Text(TextField::Kind) | Field::Time(_) | Field::Importance | Field::Pinned => {
            Err(Error::invalid(path, "$contains looks into lists and text, which this field is not"))
        }
    }
}
