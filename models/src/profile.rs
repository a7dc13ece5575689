//! What scoring must know of a model's cosines.

/// Constants per embedding model, used in
/// `S = logistic(wd (c - mean_c) / dev_c + (L - mean_L) / dev_L + m - z0)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelProfile {
    /// Weight of the standardised cosine beside the standardised keyword score.
    pub wd: f32,
    /// The sum of standardised scores at which a memory counts as half relevant.
    pub z0: f32,
    /// Mean cosine of unrelated texts, the prior before a space has rows of its own.
    pub cos_mean_prior: f32,
    /// Standard deviation of the cosine of unrelated texts, likewise.
    pub cos_dev_prior: f32,
}

impl ModelProfile {
    /// Universal Sentence Encoder multilingual v3.
    pub const USE_MULTILINGUAL: Self = Self { wd: 0.7, z0: 3.0, cos_mean_prior: 0.05, cos_dev_prior: 0.1 };

    /// Vectors that a client brings, of a model that is not known.
    pub const CLIENT: Self = Self { wd: 1.0, z0: 3.0, cos_mean_prior: 0.1, cos_dev_prior: 0.15 };
}
