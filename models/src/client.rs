//! Vectors that a client brings instead of text to embed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_core::limits::EMBEDDING_DIMS_MAX;

/// Most dimensions of a vector.
pub const VECTOR_DIMS_MAX: usize = EMBEDDING_DIMS_MAX;

/// Why a client's vector is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    /// No dimensions, or more than [`VECTOR_DIMS_MAX`].
    #[error("the vector has {dims} dimensions; give 1 to {VECTOR_DIMS_MAX}")]
    Dims {
        /// Dimensions of the vector.
        dims: usize,
    },
    /// Not the dimensions that the space's vectors have.
    #[error("the vector has {dims} dimensions, but this space holds vectors of {expected}")]
    WrongDims {
        /// Dimensions of the vector.
        dims: usize,
        /// Dimensions of the space.
        expected: usize,
    },
    /// NaN or infinity.
    #[error("element {index} of the vector is not a finite number")]
    NotFinite {
        /// Position of the first such element.
        index: usize,
    },
    /// Every element is zero, or so small that single precision has no length for it.
    #[error("the vector has no length, so it is similar to nothing; leave it out instead")]
    Zero,
    /// So large that single precision has no length for it.
    #[error("the vector's length is above the range of single precision; scale it to length 1")]
    TooLong,
    /// The text is not standard base64 with padding.
    #[error("the vector is not valid base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The bytes are no whole number of floats.
    #[error("the vector has {bytes} bytes, which is not a multiple of 4")]
    Bytes {
        /// Number of bytes.
        bytes: usize,
    },
}

/// Checks that `vector` can be compared with others: 1 to [`VECTOR_DIMS_MAX`] dimensions, as
/// many as `expected_dims` where given, every element finite, and a length that single
/// precision can hold and divide by. It need not have length 1.
///
/// # Errors
/// The first of these conditions that does not hold.
pub fn validate_vector(vector: &[f32], expected_dims: Option<usize>) -> Result<(), VectorError> {
    let dims = vector.len();
    if dims == 0 || dims > VECTOR_DIMS_MAX {
        return Err(VectorError::Dims { dims });
    }
    if let Some(expected) = expected_dims
        && expected != dims
    {
        return Err(VectorError::WrongDims { dims, expected });
    }
    if let Some(index) = vector.iter().position(|value| !value.is_finite()) {
        return Err(VectorError::NotFinite { index });
    }
    // The index divides by the length in single precision: its square must be a normal number.
    let square: f32 = vector.iter().map(|value| value * value).sum();
    if square < f32::MIN_POSITIVE {
        return Err(VectorError::Zero);
    }
    if square.is_infinite() {
        return Err(VectorError::TooLong);
    }
    Ok(())
}

/// Decodes a vector given as standard base64, with padding, of little-endian f32.
///
/// The elements are not checked: [`validate_vector`] does that.
///
/// # Errors
/// Not base64, not a multiple of 4 bytes, or more than [`VECTOR_DIMS_MAX`] elements, which is
/// found before anything is decoded.
pub fn decode_base64_f32_le(text: &str) -> Result<Vec<f32>, VectorError> {
    // Four characters are at most three bytes.
    let dims_least = text.len().saturating_sub(3) / 4 * 3 / 4;
    if dims_least > VECTOR_DIMS_MAX {
        return Err(VectorError::Dims { dims: dims_least });
    }
    let bytes = STANDARD.decode(text)?;
    let (chunks, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(VectorError::Bytes { bytes: bytes.len() });
    }
    Ok(chunks.iter().map(|c| f32::from_le_bytes(*c)).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn encoded(values: &[f32]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        STANDARD.encode(bytes)
    }

    #[test]
    fn accepts_what_can_be_compared() {
        assert_eq!(validate_vector(&[1.0], None), Ok(()));
        assert_eq!(validate_vector(&[0.0, -2.5], Some(2)), Ok(()));
        assert_eq!(validate_vector(&vec![0.1; VECTOR_DIMS_MAX], None), Ok(()));
        assert_eq!(validate_vector(&[1e18, 1e18], None), Ok(()));
    }

    #[test]
    fn refuses_what_cannot() {
        assert_eq!(validate_vector(&[], None), Err(VectorError::Dims { dims: 0 }));
        assert_eq!(validate_vector(&vec![0.1; 4097], None), Err(VectorError::Dims { dims: 4097 }));
        assert_eq!(
            validate_vector(&[1.0, 2.0], Some(3)),
            Err(VectorError::WrongDims { dims: 2, expected: 3 })
        );
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(validate_vector(&[1.0, bad], None), Err(VectorError::NotFinite { index: 1 }));
        }
        for zero in [0.0, -0.0, f32::MIN_POSITIVE, 1e-40] {
            assert_eq!(validate_vector(&[zero; 3], None), Err(VectorError::Zero));
        }
        assert_eq!(validate_vector(&[f32::MAX, 1.0], None), Err(VectorError::TooLong));
    }

    #[test]
    fn decodes_base64() {
        let values = [1.0, -0.5, f32::MIN_POSITIVE, 3.4e38];
        assert_eq!(decode_base64_f32_le(&encoded(&values)), Ok(values.to_vec()));
        assert_eq!(decode_base64_f32_le(""), Ok(vec![]));
        let most = vec![0.25; VECTOR_DIMS_MAX];
        assert_eq!(decode_base64_f32_le(&encoded(&most)), Ok(most));
    }

    #[test]
    fn refuses_bad_base64() {
        for bad in ["AAAA=", "辣辣", "AAA AAA=", "AAAAAA", "====", "AA\n=="] {
            assert!(matches!(decode_base64_f32_le(bad), Err(VectorError::Base64(_))), "{bad:?}");
        }
        assert_eq!(decode_base64_f32_le("AAAA"), Err(VectorError::Bytes { bytes: 3 }));
        let huge = "A".repeat(16 << 20);
        assert!(matches!(decode_base64_f32_le(&huge), Err(VectorError::Dims { .. })));
    }

    proptest::proptest! {
        #[test]
        fn every_vector_survives_base64(values: Vec<f32>) {
            let decoded = decode_base64_f32_le(&encoded(&values)).unwrap();
            let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            proptest::prop_assert_eq!(bits(&decoded), bits(&values));
        }
    }
}
