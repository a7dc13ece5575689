//! Vectors that callers bring.

use holdfast_core::limits::EMBEDDING_DIMS_MAX;
use holdfast_core::{Error, Result, vector};
use holdfast_models::decode_base64_f32_le;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use std::fmt;

/// The model of vectors whose caller names none.
pub(crate) const CLIENT_MODEL: &str = "client";

/// An embedding in JSON: an array of numbers, or base64 of little-endian f32.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EmbeddingBody(pub(crate) Vec<f32>);

impl<'de> Deserialize<'de> for EmbeddingBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(Numbers)
    }
}

struct Numbers;

impl<'de> Visitor<'de> for Numbers {
    type Value = EmbeddingBody;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of numbers or base64 of little-endian f32")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<EmbeddingBody, E> {
        decode_base64_f32_le(text)
            .map(EmbeddingBody)
            .map_err(|error| E::custom(format_args!("is refused: {error}")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<EmbeddingBody, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element::<f64>()? {
            if values.len() == EMBEDDING_DIMS_MAX {
                return Err(de::Error::custom(format_args!("has more than {EMBEDDING_DIMS_MAX} dimensions")));
            }
            #[allow(clippy::cast_possible_truncation)]
            let narrow = value as f32;
            if !narrow.is_finite() {
                let at = values.len();
                return Err(de::Error::custom(format_args!(
                    "number {at} is beyond the range of single precision"
                )));
            }
            values.push(narrow);
        }
        Ok(EmbeddingBody(values))
    }
}

impl EmbeddingBody {
    /// The vector at unit length: 1 to 4,096 finite dimensions, not all zero.
    pub(crate) fn unit(&self, field: &str) -> Result<Vec<f32>> {
        vector::normalise(&self.0).map_err(|error| error.at(field))
    }
}

/// The name of the model of a vector, checked; it is an error to name one without a vector.
pub(crate) fn model_name(has_vector: bool, name: Option<String>) -> Result<Option<String>> {
    match (has_vector, name) {
        (true, name) => {
            let name = name.unwrap_or_else(|| CLIENT_MODEL.to_owned());
            holdfast_core::limits::check_id("embedding_model", &name)?;
            Ok(Some(name))
        }
        (false, None) => Ok(None),
        (false, Some(_)) => {
            let detail = "embedding_model names the model of embedding; give both or neither";
            Err(Error::invalid("embedding_model", detail))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    fn read(json: &str) -> Result<EmbeddingBody> {
        crate::http::json::part(json, "embedding")
    }

    #[test]
    fn numbers_and_base64_are_one() {
        let values = [0.5f32, -1.0, 3e38];
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let text = format!("\"{}\"", STANDARD.encode(bytes));
        assert_eq!(read(&text).unwrap(), read("[0.5, -1, 3e38]").unwrap());
    }

    #[test]
    fn odd_vectors_are_refused_with_their_field() {
        let nan = STANDARD.encode(f32::NAN.to_le_bytes());
        let long = format!("[{}1]", "1,".repeat(4096));
        for bad in ["[1, null]", "[1, \"2\"]", "[1e300]", "7", "{}", "\"!!\"", "\"AAA=\"", &long] {
            let error = read(bad).unwrap_err();
            assert!(error.field.unwrap_or_default().starts_with("embedding"), "{bad}");
        }
        for bad in ["[]", "[0, 0]", "\"\"", &format!("\"{nan}\"")] {
            let error = read(bad).and_then(|body| body.unit("embedding")).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("embedding"), "{bad}");
        }
        assert_eq!(read("[3, 4]").unwrap().unit("e").unwrap(), [0.6, 0.8]);
    }

    #[test]
    fn a_model_without_a_vector_is_an_error() {
        assert_eq!(model_name(true, None).unwrap().as_deref(), Some("client"));
        assert_eq!(model_name(false, None).unwrap(), None);
        assert!(model_name(false, Some("m".into())).is_err());
        assert!(model_name(true, Some("a\0".into())).is_err());
    }
}
