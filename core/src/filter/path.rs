//! Reading one field of a metadata text without making the rest of it.
//!
//! A filter that few memories pass asks many rows. To parse the whole object of each is most of what that takes; here
//! what is not on the path is skipped where it stands.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// The value at a path: under the whole path as one key, or else step by step.
pub(super) fn find<'a>(mut object: &'a Map<String, Value>, mut path: &str) -> Option<&'a Value> {
    loop {
        if let Some(value) = object.get(path) {
            return Some(value);
        }
        let (key, rest) = path.split_once('.')?;
        object = object.get(key)?.as_object()?;
        path = rest;
    }
}

/// What [`find`] finds in the object that `text` is; none if it is no object, or no JSON.
pub(super) fn read(text: &str, path: &str) -> Option<Value> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Path(path).deserialize(&mut json).ok()?;
    json.end().ok().and(value)
}

/// The value at a path in whatever is read. The recursion is as deep as the path has dots, and as the text is, which
/// the parser bounds.
struct Path<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Path<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Value>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Where a key leads.
enum Step {
    /// It is the path.
    Found,
    /// It is the path's first part.
    Into,
    Aside,
}

/// Compares a key with a path where it stands.
struct Key<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Step;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Step, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Step;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Step, E> {
        Ok(if key == self.0 {
            Step::Found
        } else if self.0.split_once('.').is_some_and(|(first, _)| first == key) {
            Step::Into
        } else {
            Step::Aside
        })
    }
}

impl<'de> Visitor<'de> for Path<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Value>, A::Error> {
        let (mut whole, mut nested) = (None, None);
        while let Some(step) = map.next_key_seed(Key(self.0))? {
            match step {
                Step::Found => whole = Some(map.next_value()?),
                Step::Into => {
                    let rest = self.0.split_once('.').map_or("", |(_, rest)| rest);
                    nested = map.next_value_seed(Path(rest))?;
                }
                Step::Aside => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(whole.or(nested))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<Value>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<Value>, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn same(object: &Value, path: &str) {
        let text = object.to_string();
        assert_eq!(read(&text, path).as_ref(), find(object.as_object().unwrap(), path), "{path} of {text}");
    }

    #[test]
    fn a_field_is_read_as_it_is_found_in_the_whole() {
        let object = json!({
            "a": {"b": {"c": 1, "d.e": [1, {"f": 2}]}, "b.c": "first", "": 7},
            "a.b": {"c": "whole key", "x": null}, "名": {"字": "\u{1F600}\"\\\n"}, "n": -1.5, "empty": {}, "": {"": 3},
            "big": 18_446_744_073_709_551_615u64, "list": [[], {"a": 1}], "yes": true,
        });
        for path in [
            "a", "a.b", "a.b.c", "a.b.d.e", "a.b.x", "a.", "名.字", "名", "n", "n.x", "empty", "empty.a", "",
            ".", "big", "list", "list.a", "yes", "yes.no", "none", "a.b.c.d", "..", "名.",
        ] {
            same(&object, path);
        }
    }

    #[test]
    fn what_is_no_object_has_no_field() {
        for text in [
            "",
            " ",
            "[]",
            "[{\"a\":1}]",
            "1",
            "null",
            "\"a\"",
            "{",
            "{\"b\":1",
            "{\"b\":1,}",
            "{\"b\" 1}",
            "真",
        ] {
            assert_eq!(read(text, "a"), None, "{text}");
        }
        let deep = format!("{}1{}", "{\"a\":".repeat(500), "}".repeat(500));
        assert_eq!(read(&deep, "b"), None, "and one that is too deep is not followed");
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[ab.\"\\\\é]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("[ab.]{0,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_path_of_any_object_is_read_alike(
            fields in prop::collection::hash_map("[ab.]{0,3}", value(), 0..5),
            path in "[ab.]{0,6}",
        ) {
            same(&Value::Object(fields.into_iter().collect()), &path);
        }
    }
}
