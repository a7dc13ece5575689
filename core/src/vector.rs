//! Embeddings as they are stored: unit length, quantised to i8 for the first pass and to f16 for
//! the exact one. Quantising happens before the proposal; apply only moves the bytes.

use crate::limits::EMBEDDING_DIMS_MAX;
use crate::{Error, Result};
use half::f16;
use serde::{Deserialize, Serialize};

/// One embedding, normalised to unit length and quantised twice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Vector {
    /// Which of the space's models made it: an index into [`crate::memory::SpaceRow::models`].
    pub model: u8,
    /// Symmetric i8 codes, one a dimension; the value is `code * scale`.
    #[serde(with = "serde_bytes")]
    pub codes: Vec<u8>,
    /// Value of one step of `codes`.
    pub scale: f32,
    /// Euclidean norm of the f16 vector minus the i8 vector: by Cauchy-Schwarz it bounds how far a
    /// dot product with a unit vector can be off.
    pub code_error: f32,
    /// The vector in f16, little-endian, two bytes a dimension.
    #[serde(with = "serde_bytes")]
    pub halves: Vec<u8>,
}

impl Vector {
    /// Normalises and quantises an embedding of 1 to [`EMBEDDING_DIMS_MAX`] finite numbers that
    /// are not all zero. `model` is filled in by apply, which knows the space's models.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] that says which rule was broken.
    pub fn quantise(values: &[f32]) -> Result<Self> {
        let unit = normalise(values)?;
        Ok(Self::of(unit.iter().map(|v| f16::from_f32(*v)).collect()))
    }

    /// The vector whose f16 form this is, little-endian: what [`Vector::halves`] holds. Everything else
    /// follows from it.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] if it is no vector of unit length.
    pub fn from_halves(bytes: &[u8]) -> Result<Self> {
        let (pairs, rest) = bytes.as_chunks::<2>();
        let halves: Vec<f16> = pairs.iter().map(|pair| f16::from_le_bytes(*pair)).collect();
        let norm: f32 = halves.iter().map(|half| half.to_f32().powi(2)).sum::<f32>().sqrt();
        let is_unit = (0.99..1.01).contains(&norm);
        if !rest.is_empty() || halves.len() > EMBEDDING_DIMS_MAX || !is_unit {
            let detail =
                format!("the f16 form of an embedding has 1 to {EMBEDDING_DIMS_MAX} numbers and unit length");
            return Err(Error::invalid("embedding", detail));
        }
        Ok(Self::of(halves))
    }

    fn of(halves: Vec<f16>) -> Self {
        let peak = halves.iter().fold(0f32, |peak, h| peak.max(h.to_f32().abs()));
        let scale = if peak > 0.0 { peak / 127.0 } else { 1.0 };
        let mut codes = Vec::with_capacity(halves.len());
        let mut error = 0f64;
        for half in &halves {
            let value = half.to_f32();
            // In -127..=127 by the choice of `scale`.
            #[allow(clippy::cast_possible_truncation)]
            let code = (value / scale).round().clamp(-127.0, 127.0) as i8;
            error += f64::from(value - f32::from(code) * scale).powi(2);
            codes.push(code.cast_unsigned());
        }
        #[allow(clippy::cast_possible_truncation)]
        let code_error = error.sqrt() as f32;
        let halves = halves.iter().flat_map(|h| h.to_le_bytes()).collect();
        Self { model: 0, codes, scale, code_error, halves }
    }

    /// Number of dimensions.
    pub fn dims(&self) -> usize {
        self.codes.len()
    }

    /// The vector in f16.
    pub fn to_halves(&self) -> impl Iterator<Item = f16> + '_ {
        self.halves.chunks_exact(2).map(|pair| f16::from_le_bytes([pair[0], pair[1]]))
    }

    /// Whether the parts agree with each other and hold nothing that would poison a scan; commands
    /// come over the wire, so this is checked again before they are proposed.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] if they do not.
    pub fn check(&self) -> Result<()> {
        let whole = !self.codes.is_empty()
            && self.codes.len() <= EMBEDDING_DIMS_MAX
            && self.halves.len() == 2 * self.codes.len();
        let finite = self.scale.is_finite()
            && self.scale > 0.0
            && self.code_error.is_finite()
            && self.to_halves().all(f16::is_finite);
        if whole && finite {
            Ok(())
        } else {
            Err(Error::invalid("embedding", "the stored vector is inconsistent"))
        }
    }
}

/// Scales an embedding to unit length, in f64 so that neither huge nor tiny numbers overflow.
///
/// # Errors
/// [`crate::ErrorCode::InvalidArgument`] if it is empty, too long, not finite or zero.
pub fn normalise(values: &[f32]) -> Result<Vec<f32>> {
    let field = "embedding";
    if values.is_empty() || values.len() > EMBEDDING_DIMS_MAX {
        let detail =
            format!("an embedding has 1 to {EMBEDDING_DIMS_MAX} numbers; this one has {}", values.len());
        return Err(Error::invalid(field, detail));
    }
    if let Some(at) = values.iter().position(|v| !v.is_finite()) {
        return Err(Error::invalid(field, format!("number {at} of the embedding is not finite")));
    }
    let norm = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
    if norm == 0.0 {
        return Err(Error::invalid(field, "the embedding is all zeros and has no direction; leave it out"));
    }
    #[allow(clippy::cast_possible_truncation)]
    Ok(values.iter().map(|v| (f64::from(*v) / norm) as f32).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_what_has_no_direction() {
        for bad in [vec![], vec![0.0; 4], vec![1.0, f32::NAN], vec![f32::INFINITY], vec![1.0; 4097]] {
            assert!(Vector::quantise(&bad).is_err(), "{} numbers", bad.len());
        }
        for good in [vec![1.0], vec![1e-38; 3], vec![3e38; 4096], vec![-1.0, 0.0]] {
            let vector = Vector::quantise(&good).expect("has a direction");
            vector.check().expect("is consistent");
            let norm: f32 = vector.to_halves().map(|h| h.to_f32().powi(2)).sum::<f32>().sqrt();
            assert!((norm - 1.0).abs() < 2e-3, "{norm}");
        }
    }

    #[test]
    fn a_vector_comes_back_from_its_halves() {
        let vector = Vector::quantise(&[0.3, -0.7, 0.1, 1e-6]).expect("has a direction");
        assert_eq!(Vector::from_halves(&vector.halves), Ok(vector));
        for bad in [&b""[..], b"\0", b"\0\0", &[0, 0x7c], &[0, 0x7e], &[0, 0x40]] {
            assert!(Vector::from_halves(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn the_code_error_bounds_the_dot_product(
            a in proptest::collection::vec(-1f32..1.0, 24),
            b in proptest::collection::vec(-1f32..1.0, 24),
        ) {
            let (Ok(a), Ok(b)) = (Vector::quantise(&a), normalise(&b)) else { return Ok(()) };
            let exact: f64 = a.to_halves().zip(&b).map(|(x, y)| f64::from(x.to_f32()) * f64::from(*y)).sum();
            let coarse: f64 = a.codes.iter().zip(&b)
                .map(|(x, y)| f64::from(x.cast_signed()) * f64::from(a.scale) * f64::from(*y)).sum();
            prop_assert!((exact - coarse).abs() <= f64::from(a.code_error) + 1e-5);
        }
    }
}
