//! What of a filter a row does not meet, in the words of the filter: for those who ask why a memory
//! was left out.

use super::row::{FilterRow, TextColumn};
use super::scalar::{Number, Scalar};
use super::{Condition, Field, Filter, Node, Ordered, Test, TextField, TimeField, matches};
use serde_json::{Map, Value, json};

/// Most conditions that are told of one row.
const FAULTS_MAX: usize = 8;
/// Most characters of a condition, and of a value, that are told.
const TOLD_CHARS_MAX: usize = 500;

/// One condition that a row does not meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The condition as JSON in the syntax of filters, cut behind 500 characters.
    pub condition: String,
    /// What the row has in the field instead, as JSON, cut likewise. None if it has nothing there, or
    /// the condition asks for more than one field.
    pub found: Option<String>,
}

impl Filter {
    /// The conditions that a row does not meet, of those that must all hold: at most eight. None are
    /// told exactly if the row [passes](Filter::matches).
    pub fn faults(&self, row: &impl FilterRow) -> Vec<Fault> {
        let all = match &self.root {
            Node::All(nodes) => nodes.as_slice(),
            node => std::slice::from_ref(node),
        };
        let unmet = all.iter().filter(|node| !matches::node(node, row)).take(FAULTS_MAX);
        unmet.map(|node| fault(node, row)).collect()
    }
}

fn fault(node: &Node, row: &impl FilterRow) -> Fault {
    let found = field(node).and_then(|field| value(field, row));
    Fault { condition: told(&shown(node)), found: found.filter(|found| !found.is_null()).as_ref().map(told) }
}

fn told(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(TOLD_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The one field that a condition is about.
fn field(node: &Node) -> Option<&Field> {
    match node {
        Node::Condition(condition) => Some(&condition.field),
        Node::Not(node) => field(node),
        Node::All(_) | Node::Any(_) => None,
    }
}

/// The syntax that reads as this node.
fn shown(node: &Node) -> Value {
    match node {
        Node::All(nodes) if nodes.is_empty() => json!({}),
        Node::All(nodes) => json!({"and": list(nodes)}),
        Node::Any(nodes) => json!({"or": list(nodes)}),
        Node::Not(inner) => match &**inner {
            Node::Condition(Condition { field, test: Test::Exists }) => asks(field, "$exists", false.into()),
            Node::Condition(Condition { field, test: Test::Equals(of) }) => {
                asks(field, "$ne", json_of(field, of))
            }
            Node::Condition(Condition { field, test: Test::OneOf(of) }) => {
                asks(field, "$nin", all_of(field, of))
            }
            Node::Any(nodes) => json!({"not": list(nodes)}),
            node => json!({"not": [shown(node)]}),
        },
        Node::Condition(Condition { field, test }) => match test {
            Test::Exists => asks(field, "$exists", true.into()),
            Test::Equals(of) => asks(field, "$eq", json_of(field, of)),
            Test::OneOf(of) => asks(field, "$in", all_of(field, of)),
            Test::Ordered(order, of) => asks(field, operator(*order), json_of(field, of)),
            Test::Contains(of) => asks(field, "$contains", json_of(field, of)),
        },
    }
}

fn list(nodes: &[Node]) -> Value {
    nodes.iter().map(shown).collect()
}

fn asks(field: &Field, operator: &str, operand: Value) -> Value {
    let mut condition = Map::new();
    condition.insert(name(field), json!({operator: operand}));
    Value::Object(condition)
}

fn operator(order: Ordered) -> &'static str {
    match order {
        Ordered::Greater => "$gt",
        Ordered::GreaterOrEqual => "$gte",
        Ordered::Less => "$lt",
        Ordered::LessOrEqual => "$lte",
    }
}

fn name(field: &Field) -> String {
    let name = match field {
        Field::Text(TextField::Kind) => "kind",
        Field::Text(TextField::Column(TextColumn::Role)) => "role",
        Field::Text(TextField::Column(TextColumn::Speaker)) => "speaker",
        Field::Text(TextField::Column(TextColumn::Session)) => "session",
        Field::Text(TextField::Column(TextColumn::Agent)) => "agent",
        Field::Text(TextField::Column(TextColumn::Sentiment)) => "sentiment",
        Field::Time(TimeField::Created) => "created_at",
        Field::Time(TimeField::Event) => "event_time",
        Field::Importance => "importance",
        Field::Pinned => "pinned",
        Field::Entities => "entities",
        Field::Metadata(path) => return format!("metadata.{path}"),
    };
    name.to_owned()
}

fn all_of(field: &Field, scalars: &[Scalar]) -> Value {
    scalars.iter().map(|scalar| json_of(field, scalar)).collect()
}

/// A value as the caller wrote it: times and importances are kept in other forms.
fn json_of(field: &Field, scalar: &Scalar) -> Value {
    match (field, scalar) {
        (Field::Time(_), Scalar::Number(Number::Int(us))) => i64::try_from(*us).map_or(Value::Null, time),
        (Field::Importance, Scalar::Number(number)) => short(number.to_f64()),
        (_, Scalar::Text(text)) => text.as_str().into(),
        (_, Scalar::Bool(flag)) => (*flag).into(),
        (_, Scalar::Number(Number::Float(float))) => (*float).into(),
        (_, Scalar::Number(Number::Int(int))) => {
            // Integers of JSON lie within 64 bits.
            i64::try_from(*int)
                .map_or_else(|_| u64::try_from(*int).map_or(Value::Null, Value::from), Value::from)
        }
    }
}

/// What a row has in a field; null if nothing.
fn value(field: &Field, row: &impl FilterRow) -> Option<Value> {
    Some(match field {
        Field::Text(TextField::Kind) => row.kind().as_str().into(),
        Field::Text(TextField::Column(column)) => row.text(*column)?.into(),
        Field::Time(TimeField::Created) => time(row.created_us()),
        Field::Time(TimeField::Event) => time(row.event_us()),
        Field::Importance => short(row.importance().into()),
        Field::Pinned => row.pinned().into(),
        Field::Entities => {
            let entities: Vec<&str> = row.entities().collect();
            if entities.is_empty() { Value::Null } else { entities.into() }
        }
        Field::Metadata(path) => row.metadata(path)?.into_owned(),
    })
}

fn time(us: i64) -> Value {
    jiff::Timestamp::from_microsecond(us).map_or(Value::Null, |time| time.to_string().into())
}

/// A number of single precision in its shortest form: .7, not .699999988.
fn short(number: f64) -> Value {
    #[allow(clippy::cast_possible_truncation)]
    let single = number as f32;
    single.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::IndexRowView;
    use super::*;
    use crate::memory::{IndexRow, Kind};
    use proptest::prelude::*;

    fn row() -> IndexRow {
        IndexRow {
            kind: Kind::Episodic,
            importance: 0.7,
            event_us: 1_683_554_160_000_000,
            speaker: Some("小明".into()),
            entities: vec!["Ann".into(), "猫".into()],
            metadata: json!({"n": 10, "city": "北京", "nothing": null, "tags": ["red"]}).to_string(),
            ..IndexRow::default()
        }
    }

    fn faults(filter: &Value) -> Vec<(String, Option<String>)> {
        let row = row();
        let filter = Filter::parse(filter).unwrap();
        let told = filter.faults(&IndexRowView::new(&row)).into_iter();
        told.map(|fault| (fault.condition, fault.found)).collect()
    }

    #[test]
    fn what_is_not_met_is_told_with_what_is_there() {
        for (filter, condition, found) in [
            (json!({"kind": "semantic"}), r#"{"kind":{"$eq":"semantic"}}"#, Some(r#""episodic""#)),
            (json!({"importance": {"$gt": 0.7}}), r#"{"importance":{"$gt":0.7}}"#, Some("0.7")),
            (json!({"agent": {"$exists": true}}), r#"{"agent":{"$exists":true}}"#, None),
            (json!({"speaker": {"$exists": false}}), r#"{"speaker":{"$exists":false}}"#, Some(r#""小明""#)),
            (json!({"speaker": {"$ne": "小明"}}), r#"{"speaker":{"$ne":"小明"}}"#, Some(r#""小明""#)),
            (
                json!({"entities": {"$contains": "Bob"}}),
                r#"{"entities":{"$contains":"Bob"}}"#,
                Some(r#"["Ann","猫"]"#),
            ),
            (
                json!({"metadata.city": {"$nin": ["上海", "北京"]}}),
                r#"{"metadata.city":{"$nin":["上海","北京"]}}"#,
                Some(r#""北京""#),
            ),
            (json!({"metadata.n": {"$lte": 9}}), r#"{"metadata.n":{"$lte":9}}"#, Some("10")),
            (
                json!({"metadata.nothing": {"$exists": true}}),
                r#"{"metadata.nothing":{"$exists":true}}"#,
                None,
            ),
            (
                json!({"event_time": {"$gte": "2024-01-01T00:00:00Z"}}),
                r#"{"event_time":{"$gte":"2024-01-01T00:00:00Z"}}"#,
                Some(r#""2023-05-08T13:56:00Z""#),
            ),
            (
                json!({"or": [{"kind": "semantic"}, {"role": "user"}]}),
                r#"{"or":[{"kind":{"$eq":"semantic"}},{"role":{"$eq":"user"}}]}"#,
                None,
            ),
            (
                json!({"not": [{"kind": "episodic"}, {"role": "user"}]}),
                r#"{"not":[{"kind":{"$eq":"episodic"}},{"role":{"$eq":"user"}}]}"#,
                None,
            ),
        ] {
            assert_eq!(faults(&filter), [(condition.to_owned(), found.map(str::to_owned))], "{filter}");
        }
    }

    #[test]
    fn all_that_must_hold_is_looked_at_and_what_is_told_is_bounded() {
        let two = faults(&json!({"kind": "semantic", "role": "user", "metadata.n": 10}));
        assert_eq!(two.len(), 2);
        let long = "长".repeat(10_000);
        let (condition, _) = faults(&json!({"agent": long})).pop().unwrap();
        assert_eq!(condition.chars().count(), TOLD_CHARS_MAX + 1);
        let many: Vec<Value> = (0..50).map(|n| json!({"session": format!("s{n}")})).collect();
        assert_eq!(faults(&json!({"and": many})).len(), FAULTS_MAX);
    }

    fn filters() -> impl Strategy<Value = Value> {
        let leaf = prop::sample::select(vec![
            json!({"kind": "semantic"}),
            json!({"kind": {"$nin": ["episodic"]}}),
            json!({"importance": {"$gte": 0.2, "$lt": 0.7}}),
            json!({"metadata.tags": {"$contains": "red"}}),
            json!({"metadata.n": {"$in": [1, 10.0]}}),
            json!({"event_time": {"$lt": "2023-05-08T13:56:00.5Z"}}),
            json!({"pinned": {"$ne": true}}),
            json!({}),
        ]);
        leaf.prop_recursive(3, 12, 3, |inner| {
            let word = prop::sample::select(vec!["and", "or", "not"]);
            (word, prop::collection::vec(inner, 1..3)).prop_map(|(word, list)| json!({word: list}))
        })
    }

    proptest! {
        /// What is told can be asked again, and is not met either; a row that passes has no faults.
        #[test]
        fn faults_are_filters_that_the_row_fails(filter in filters()) {
            let row = row();
            let view = IndexRowView::new(&row);
            let parsed = Filter::parse(&filter).unwrap();
            let faults = parsed.faults(&view);
            prop_assert_eq!(faults.is_empty(), parsed.matches(&view));
            for fault in faults {
                let again = Filter::parse_text(&fault.condition).unwrap();
                prop_assert!(!again.matches(&view), "{}", fault.condition);
            }
        }
    }
}
