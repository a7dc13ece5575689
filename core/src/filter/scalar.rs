//! The values that filters compare: text, numbers, true and false.

use serde_json::Value;
use std::cmp::Ordering;

/// A value that a filter was given.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Text(String),
    Number(Number),
    Bool(bool),
}

/// A value as a row holds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ScalarRef<'a> {
    Text(&'a str),
    Number(Number),
    Bool(bool),
}

/// A JSON number: an integer keeps all its digits. Floats here are never NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

impl Scalar {
    pub(super) fn of(value: &Value) -> Option<Self> {
        ScalarRef::of(value).map(|scalar| match scalar {
            ScalarRef::Text(text) => Self::Text(text.to_owned()),
            ScalarRef::Number(number) => Self::Number(number),
            ScalarRef::Bool(flag) => Self::Bool(flag),
        })
    }

    pub(super) fn as_ref(&self) -> ScalarRef<'_> {
        match self {
            Self::Text(text) => ScalarRef::Text(text),
            Self::Number(number) => ScalarRef::Number(*number),
            Self::Bool(flag) => ScalarRef::Bool(*flag),
        }
    }
}

impl<'a> ScalarRef<'a> {
    /// The scalar of a JSON value; none for null, lists and objects.
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text)),
            Value::Bool(flag) => Some(Self::Bool(*flag)),
            Value::Number(number) => Number::of(number).map(Self::Number),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// The order of two scalars of one type; none across types.
    pub(super) fn compare(self, other: ScalarRef<'_>) -> Option<Ordering> {
        match (self, other) {
            (Self::Text(a), ScalarRef::Text(b)) => Some(a.cmp(b)),
            (Self::Number(a), ScalarRef::Number(b)) => Some(a.compare(b)),
            (Self::Bool(a), ScalarRef::Bool(b)) => Some(a.cmp(&b)),
            _ => None,
        }
    }

    fn rank(self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Number(_) => 1,
            Self::Text(_) => 2,
        }
    }

    /// An order over all scalars, in which each type stands together.
    fn total(self, other: ScalarRef<'_>) -> Ordering {
        self.compare(other).unwrap_or_else(|| self.rank().cmp(&other.rank()))
    }
}

/// A list in the order that [`is_one_of`] searches by.
pub(super) fn sorted(mut list: Vec<Scalar>) -> Vec<Scalar> {
    list.sort_by(|a, b| a.as_ref().total(b.as_ref()));
    list
}

/// Whether a value is in a [`sorted`] list.
pub(super) fn is_one_of(value: ScalarRef<'_>, list: &[Scalar]) -> bool {
    list.binary_search_by(|item| item.as_ref().total(value)).is_ok()
}

impl Number {
    fn of(number: &serde_json::Number) -> Option<Self> {
        if let Some(int) = number.as_i128() {
            return Some(Self::Int(int));
        }
        number.as_f64().filter(|float| !float.is_nan()).map(Self::Float)
    }

    pub(super) fn to_f64(self) -> f64 {
        match self {
            // The nearest float is what is wanted where floats are compared.
            #[allow(clippy::cast_precision_loss)]
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }

    /// Exact, also between integers and floats: neither is rounded to the other.
    fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(&b),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (Self::Int(a), Self::Float(b)) => int_with_float(a, b),
            (Self::Float(a), Self::Int(b)) => int_with_float(b, a).reverse(),
        }
    }
}

/// Integers of JSON lie within 64 bits; a float beyond ±2^100 is beyond them all, and one within
/// has a whole part that an i128 holds.
fn int_with_float(int: i128, float: f64) -> Ordering {
    if float.abs() >= 2f64.powi(100) {
        return if float > 0.0 { Ordering::Less } else { Ordering::Greater };
    }
    let floor = float.floor();
    #[allow(clippy::cast_possible_truncation)]
    let whole = floor as i128;
    let fraction = if float > floor { Ordering::Less } else { Ordering::Equal };
    int.cmp(&whole).then(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_exactly() {
        let int = |n| Number::Int(n);
        let float = |x| Number::Float(x);
        let big = i128::from(u64::MAX);
        for (a, b, want) in [
            (int(1), float(1.0), Ordering::Equal),
            (int(0), float(-0.0), Ordering::Equal),
            (int(1), float(1.5), Ordering::Less),
            (int(2), float(1.5), Ordering::Greater),
            (int(-1), float(-1.5), Ordering::Greater),
            (int(-2), float(-1.5), Ordering::Less),
            // 2^53 + 1 has no float of its own.
            (int(9_007_199_254_740_993), float(9_007_199_254_740_992.0), Ordering::Greater),
            (int(big), float(18_446_744_073_709_551_616.0), Ordering::Less),
            (int(big), float(1e300), Ordering::Less),
            (int(-big), float(-1e300), Ordering::Greater),
            (int(0), float(5e-324), Ordering::Less),
        ] {
            assert_eq!(a.compare(b), want, "{a:?} {b:?}");
            assert_eq!(b.compare(a), want.reverse(), "{b:?} {a:?}");
        }
    }

    #[test]
    fn lists_are_found_in_whatever_their_order() {
        let json = serde_json::json!(["b", 2, true, "a", 1.5, "", -3, "记"]);
        let list: Vec<Scalar> = json.as_array().into_iter().flatten().filter_map(Scalar::of).collect();
        let list = sorted(list);
        assert_eq!(list.len(), 8);
        for item in json.as_array().into_iter().flatten() {
            assert!(ScalarRef::of(item).is_some_and(|item| is_one_of(item, &list)), "{item}");
        }
        for other in
            [serde_json::json!("2"), serde_json::json!(false), serde_json::json!(1), serde_json::json!("c")]
        {
            assert!(ScalarRef::of(&other).is_some_and(|item| !is_one_of(item, &list)), "{other}");
        }
    }
}
