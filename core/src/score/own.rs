//! How the memories of a tenant are scored where a call says nothing else: its default profile, and weights and tau of
//! its own for each.

use super::profile::{Profile, Recency, Weights};
use crate::codec::stored;
use crate::limits::check_id;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Parts of a whole in which weights are stored.
const WHOLE: u32 = 1_000_000;
/// Shortest and longest tau, in thousandths of an hour: 3.6 seconds to some eleven years.
const TAU_MILLI_HOURS: std::ops::RangeInclusive<u32> = 1..=100_000_000;

/// The settings of a tenant. Key: see [`crate::keys::meta::scoring`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScoringRow {
    /// Whose they are.
    pub tenant: String,
    /// Counts the changes, from 1; 0 where nothing was ever set. Apply sets it.
    pub version: u64,
    /// When they were changed last, in log time. Apply sets it.
    pub updated_us: i64,
    /// The profile of calls that name none; the built-in default, if missing.
    pub profile: Option<Profile>,
    /// What differs from the built-in profiles, at most once for each.
    pub profiles: Vec<OwnProfile>,
}

stored!(ScoringRow);

/// What a tenant has set for a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnProfile {
    /// Which.
    pub profile: Profile,
    /// The weights of relevance, recency, importance and frequency in millionths, together a million.
    pub weights: Option<[u32; 4]>,
    /// Tau in thousandths of an hour.
    pub tau_milli_hours: Option<u32>,
}

impl OwnProfile {
    /// Settings from numbers as callers give them.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] if tau is out of bounds, or the profile has none.
    pub fn new(profile: Profile, weights: Option<Weights>, tau_hours: Option<f64>) -> Result<Self> {
        let tau_milli_hours = tau_hours.map(|hours| tau(profile, hours)).transpose()?;
        Ok(Self { profile, weights: weights.map(millionths), tau_milli_hours })
    }

    /// The weights.
    pub fn weights(&self) -> Option<Weights> {
        let [s, r, i, f] = self.weights?.map(|part| f64::from(part) / f64::from(WHOLE));
        Some(Weights { s, r, i, f })
    }

    /// Tau in hours.
    pub fn tau_hours(&self) -> Option<f64> {
        self.tau_milli_hours.map(|milli| f64::from(milli) / 1_000.0)
    }
}

impl ScoringRow {
    /// What is set for a profile.
    pub fn of(&self, profile: Profile) -> Option<&OwnProfile> {
        self.profiles.iter().find(|own| own.profile == profile)
    }

    /// Checks what came over the wire.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] that names the field.
    pub fn check(&self) -> Result<()> {
        check_id("tenant", &self.tenant)?;
        for (at, own) in self.profiles.iter().enumerate() {
            if self.profiles.iter().take(at).any(|before| before.profile == own.profile) {
                return Err(Error::invalid("profiles", "a profile is set once"));
            }
            let sum = own.weights.map(|parts| parts.iter().map(|part| u64::from(*part)).sum::<u64>());
            if sum.is_some_and(|sum| sum != u64::from(WHOLE)) {
                return Err(Error::invalid("weights", "weights are millionths that sum to a million"));
            }
            if own.tau_milli_hours.is_some_and(|milli| !TAU_MILLI_HOURS.contains(&milli)) {
                return Err(Error::invalid("tau_hours", "tau_hours is out of bounds"));
            }
        }
        Ok(())
    }
}

/// Checked weights as millionths: what rounding leaves goes to the largest.
fn millionths(weights: Weights) -> [u32; 4] {
    let Weights { s, r, i, f } = weights;
    // Each is within 0..=1.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let mut parts = [s, r, i, f].map(|part| (part * f64::from(WHOLE)).round() as u32);
    let others = |parts: &[u32; 4], at: usize| -> u32 {
        parts.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, part)| part).sum()
    };
    let largest = (0..parts.len()).max_by_key(|at| parts[*at]).unwrap_or(0);
    parts[largest] = WHOLE.saturating_sub(others(&parts, largest));
    parts
}

fn tau(profile: Profile, hours: f64) -> Result<u32> {
    if profile.recency() == Recency::Hourly {
        let detail = format!("the profile {} has no tau: it fades by the hour", profile.name());
        return Err(Error::invalid("tau_hours", detail));
    }
    let milli = (hours * 1_000.0).round();
    let (least, most) = (f64::from(*TAU_MILLI_HOURS.start()), f64::from(*TAU_MILLI_HOURS.end()));
    if !(least..=most).contains(&milli) {
        let detail = format!("tau_hours is {hours}; give {} to {}", least / 1_000.0, most / 1_000.0);
        return Err(Error::invalid("tau_hours", detail));
    }
    // Within the bounds of the type.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(milli as u32)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn weights_stay_whole_and_read_back() {
        for (s, r, i, f) in
            [(0.333, 0.333, 0.333, 0.0), (1.0, 0.0, 0.0, 0.0), (0.25, 0.25, 0.25, 0.25), (0.1, 0.2, 0.3, 0.4)]
        {
            let weights = Weights::new(s, r, i, f).unwrap();
            let own = OwnProfile::new(Profile::Spaced, Some(weights), Some(1.5)).unwrap();
            assert_eq!(own.weights.unwrap().iter().sum::<u32>(), WHOLE);
            let back = own.weights().unwrap();
            for (one, other) in
                [(back.s, weights.s), (back.r, weights.r), (back.i, weights.i), (back.f, weights.f)]
            {
                assert!((one - other).abs() < 3e-6, "{back:?} {weights:?}");
            }
            assert_eq!(own.tau_hours(), Some(1.5));
        }
    }

    #[test]
    fn bounds_are_checked() {
        let of = |profile, hours| OwnProfile::new(profile, None, Some(hours)).map(|own| own.tau_milli_hours);
        assert_eq!(of(Profile::Ebbinghaus, 72.0), Ok(Some(72_000)));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9, 100_001.0] {
            assert!(of(Profile::Adaptive, bad).is_err(), "{bad}");
        }
        assert_eq!(of(Profile::Generative, 1.0).unwrap_err().field.as_deref(), Some("tau_hours"));
        let own = |weights| OwnProfile { profile: Profile::Spaced, weights, tau_milli_hours: None };
        let row = |profiles| ScoringRow { tenant: "t".into(), profiles, ..ScoringRow::default() };
        assert!(row(vec![own(None)]).check().is_ok());
        for bad in [vec![own(None), own(None)], vec![own(Some([1, 1, 1, 1]))], vec![own(Some([u32::MAX; 4]))]]
        {
            assert!(row(bad).check().is_err());
        }
        assert!(ScoringRow::default().check().is_err());
    }
}
