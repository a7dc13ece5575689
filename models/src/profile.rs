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
    ///
    /// The priors are measured by `cargo run -p holdfast-models --example cosine_prior` between
    /// questions and dialogue turns that have nothing to do with each other: LoCoMo questions
    /// (conversations 1-3) against turns of conversations 7-9, MemoryBank questions against
    /// turns of other users, English, Chinese and across, 0.9 million pairs. Means, by pair of
    /// files: .046 to .159, average .093. Deviations: .078 to .111, average .091.
    pub const USE_MULTILINGUAL: Self = Self { wd: 0.7, z0: Z0, cos_mean_prior: 0.09, cos_dev_prior: 0.09 };

    /// Vectors that a client brings. Nothing is known of their model, so the cosine weighs as
    /// much as the keywords, and the priors lie between those of models whose unrelated texts
    /// are almost orthogonal and those that keep all texts close together. Rows of the space
    /// outweigh them soon.
    pub const CLIENT: Self = Self { wd: 1.0, z0: Z0, cos_mean_prior: 0.2, cos_dev_prior: 0.1 };
}

/// Among unrelated memories the sum of the standardised scores has mean 0 and deviation
/// sqrt(1 + wd^2), 1.2 to 1.4; a memory more than two of these above the mean is more likely
/// related than not.
const Z0: f32 = 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_can_be_divided_by_and_are_cosines() {
        for profile in [ModelProfile::USE_MULTILINGUAL, ModelProfile::CLIENT] {
            assert!(profile.wd > 0.0 && profile.z0.is_finite());
            assert!(profile.cos_dev_prior > 0.01 && profile.cos_dev_prior < 1.0);
            assert!(profile.cos_mean_prior.abs() < 1.0);
        }
    }
}
