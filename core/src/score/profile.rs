//! The named ways to weigh relevance, recency, importance and frequency.

use serde::{Deserialize, Serialize};
use std::f64::consts::LN_2;

/// A named scoring profile: weights, and which recency and frequency go with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Forgetting curve that adopted recalls flatten (after Ebbinghaus 1885): the default.
    #[default]
    Ebbinghaus,
    /// Recency 0.995 an hour (Park et al. 2023, "Generative Agents").
    Generative,
    /// Fast decay with frequency, for tasks at hand.
    Adaptive,
    /// Spaced repetition: frequency from the strength that outcomes built.
    Spaced,
    /// Relevance alone.
    Relevance,
}

impl Profile {
    /// All profiles, in the order of their declaration.
    pub const ALL: [Self; 5] =
        [Self::Ebbinghaus, Self::Generative, Self::Adaptive, Self::Spaced, Self::Relevance];

    /// The name in the public interface.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ebbinghaus => "ebbinghaus",
            Self::Generative => "generative",
            Self::Adaptive => "adaptive",
            Self::Spaced => "spaced",
            Self::Relevance => "relevance",
        }
    }

    /// The profile of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// The weights, where a tenant or a call sets no others.
    pub fn weights(self) -> Weights {
        let (s, r, i, f) = match self {
            Self::Ebbinghaus => (0.55, 0.25, 0.20, 0.0),
            Self::Generative => (0.3, 0.4, 0.3, 0.0),
            Self::Adaptive => (0.3, 0.6, 0.0, 0.1),
            Self::Spaced => (0.5, 0.2, 0.1, 0.2),
            Self::Relevance => (1.0, 0.0, 0.0, 0.0),
        };
        Weights { s, r, i, f }
    }

    /// The recency, where a tenant sets no tau.
    pub fn recency(self) -> Recency {
        match self {
            Self::Ebbinghaus | Self::Spaced | Self::Relevance => {
                Recency::Forgetting { tau_hours: Recency::TAU_HOURS }
            }
            Self::Generative => Recency::Hourly,
            Self::Adaptive => Recency::Exponential { tau_hours: 4.0 },
        }
    }

    /// What frequency is taken from.
    pub fn frequency(self) -> Frequency {
        match self {
            Self::Spaced => Frequency::Strength,
            _ => Frequency::Count,
        }
    }
}

/// The weights of S, R, I and F: each in 0..=1, together 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// Relevance.
    pub s: f64,
    /// Recency.
    pub r: f64,
    /// Importance.
    pub i: f64,
    /// Frequency.
    pub f: f64,
}

/// Weights that do not divide a whole.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum WeightsError {
    /// A weight is not a number from 0 to 1.
    #[error("the weight of {part} is {value}, not a number from 0 to 1")]
    OutOfRange {
        /// Which: `relevance`, `recency`, `importance` or `frequency`.
        part: &'static str,
        /// The weight given.
        value: f64,
    },
    /// They do not sum to 1.
    #[error("the weights sum to {0}, not to 1")]
    Sum(f64),
}

impl Weights {
    /// Weights may miss 1 by this: three thirds written with three digits do.
    pub const SUM_TOLERANCE: f64 = 2e-3;

    /// Checks weights from outside and scales away what they miss of 1.
    ///
    /// # Errors
    /// If one is not in 0..=1 or the sum is further than [`Self::SUM_TOLERANCE`] from 1.
    pub fn new(s: f64, r: f64, i: f64, f: f64) -> Result<Self, WeightsError> {
        let parts = [("relevance", s), ("recency", r), ("importance", i), ("frequency", f)];
        for (part, value) in parts {
            if !(0.0..=1.0).contains(&value) {
                return Err(WeightsError::OutOfRange { part, value });
            }
        }
        let sum = s + r + i + f;
        if (sum - 1.0).abs() > Self::SUM_TOLERANCE {
            return Err(WeightsError::Sum(sum));
        }
        Ok(Self { s: s / sum, r: r / sum, i: i / sum, f: f / sum })
    }
}

/// R, recency, from the time since the last access.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recency {
    /// `exp(-dt / (tau (1 + ln(1 + k))))`, k = times recalled and adopted.
    Forgetting {
        /// Hours in which a memory that was never adopted fades to 1/e.
        tau_hours: f64,
    },
    /// `0.995 ^ hours`.
    Hourly,
    /// `exp(-dt / tau)`.
    Exponential {
        /// Hours in which a memory fades to 1/e.
        tau_hours: f64,
    },
}

impl Recency {
    /// The default tau of the forgetting curve, in hours.
    pub const TAU_HOURS: f64 = 72.0;

    /// A tau below this (or none at all) is taken as this: a fraction of a second, at which
    /// everything but the present is forgotten, still divides.
    const TAU_HOURS_MIN: f64 = 1e-6;

    /// R in 0..=1 after `hours` (below 0 or not a number: 0 hours) and `adopted` adoptions.
    #[inline]
    pub fn of(self, hours: f64, adopted: u32) -> f64 {
        let stretch = match adopted {
            0 => 1.0,
            k => 1.0 + f64::from(k).ln_1p(),
        };
        (-self.exponent(hours, stretch)).exp()
    }

    /// No less than [`Self::of`], by a logarithm and a power less: with b bits in k, `ln(1 + k) <= b ln 2`,
    /// and `exp(-x) <= 1 / (1 + x + x^2 / 2 + x^3 / 6)` for x from 0 on.
    #[inline]
    pub fn at_most(self, hours: f64, adopted: u32) -> f64 {
        let bits = u32::BITS - adopted.leading_zeros();
        let x = self.exponent(hours, 1.0 + f64::from(bits) * LN_2);
        // An x that is too large for its powers is infinite there, and the answer 0.
        1.0 / (1.0 + x * (1.0 + x * (0.5 + x / 6.0)))
    }

    /// What `exp(-x)` is taken of, with `1 + ln(1 + k)` as `stretch`.
    #[inline]
    fn exponent(self, hours: f64, stretch: f64) -> f64 {
        let hours = hours.max(0.0);
        match self {
            Self::Forgetting { tau_hours } => hours / (tau_hours.max(Self::TAU_HOURS_MIN) * stretch),
            // -ln .995 = .005012541823544286
            Self::Hourly => hours * 0.005_012_541_823_544_286,
            Self::Exponential { tau_hours } => hours / tau_hours.max(Self::TAU_HOURS_MIN),
        }
    }

    /// The same recency with another tau. [`Self::Hourly`] has none.
    pub fn with_tau_hours(self, tau_hours: f64) -> Self {
        match self {
            Self::Forgetting { .. } => Self::Forgetting { tau_hours },
            Self::Hourly => Self::Hourly,
            Self::Exponential { .. } => Self::Exponential { tau_hours },
        }
    }
}

/// F, frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frequency {
    /// `min(1, ln(1 + f) / ln 101)`, f = times recalled and adopted: 1 at 100.
    Count,
    /// `(strength - .1) / 4.9`, strength in .1..=5.
    Strength,
}

impl Frequency {
    /// No less than [`Self::of`], without a logarithm: with b bits in f, `ln(1 + f) <= b ln 2`.
    #[inline]
    pub fn at_most(self, adopted: u32, strength: f32) -> f64 {
        match self {
            Self::Strength => self.of(adopted, strength),
            Self::Count => {
                let bits = u32::BITS - adopted.leading_zeros();
                (f64::from(bits) * LN_2 / 101f64.ln()).min(1.0)
            }
        }
    }

    /// F in 0..=1. A strength that is not a number counts as 1, what every memory begins with.
    #[inline]
    pub fn of(self, adopted: u32, strength: f32) -> f64 {
        match self {
            Self::Count => (f64::from(adopted).ln_1p() / 101f64.ln()).min(1.0),
            Self::Strength => {
                let strength = if strength.is_nan() { 1.0 } else { strength };
                ((f64::from(strength) - 0.1) / 4.9).clamp(0.0, 1.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_go_both_ways_and_weights_are_whole() {
        for profile in Profile::ALL {
            assert_eq!(Profile::from_name(profile.name()), Some(profile));
            let Weights { s, r, i, f } = profile.weights();
            assert!(Weights::new(s, r, i, f).is_ok(), "{profile:?}");
            let json = serde_json::to_string(&profile).unwrap();
            assert_eq!(json, format!("\"{}\"", profile.name()));
        }
        assert_eq!(Profile::from_name("Ebbinghaus"), None);
        assert_eq!(Profile::default(), Profile::Ebbinghaus);
    }

    #[test]
    fn weights_are_checked() {
        let thirds = Weights::new(0.333, 0.333, 0.333, 0.0).unwrap();
        assert!((thirds.s + thirds.r + thirds.i - 1.0).abs() < 1e-12);
        assert!(matches!(Weights::new(0.5, 0.4, 0.0, 0.0), Err(WeightsError::Sum(_))));
        for bad in [f64::NAN, -0.1, 1.1, f64::INFINITY] {
            let got = Weights::new(bad, 0.5, 0.5, 0.0);
            assert!(matches!(got, Err(WeightsError::OutOfRange { part: "relevance", .. })));
        }
    }

    #[test]
    fn every_part_is_in_range_for_any_input() {
        let recencies = [
            Recency::Forgetting { tau_hours: 72.0 },
            Recency::Forgetting { tau_hours: 0.0 },
            Recency::Exponential { tau_hours: f64::NAN },
            Recency::Exponential { tau_hours: -5.0 },
            Recency::Hourly,
        ];
        for recency in recencies {
            for hours in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
                for adopted in [0, 1, u32::MAX] {
                    let r = recency.of(hours, adopted);
                    assert!((0.0..=1.0).contains(&r), "{recency:?} {hours} {adopted}: {r}");
                }
            }
        }
        for strength in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, 0.1, 5.0, 9.0] {
            for frequency in [Frequency::Count, Frequency::Strength] {
                let f = frequency.of(u32::MAX, strength);
                assert!((0.0..=1.0).contains(&f), "{frequency:?} {strength}: {f}");
            }
        }
    }
}
