//! What load to apply, how long, and when each operation is meant to start.

use std::time::Duration;

use anyhow::{Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

/// How operations arrive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Arrivals {
    /// Independent users: a Poisson process of this mean rate, whatever the server does. A server
    /// that stalls finds a queue afterwards, as it would in production.
    Open {
        /// Operations per second, all clients together.
        rate_per_s: f64,
    },
    /// Each client sends its next operation when the last is answered: measures capacity, and
    /// hides stalls from the latencies (coordinated omission).
    Closed,
}

/// A bounded run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// How operations arrive.
    pub arrivals: Arrivals,
    /// Operations in flight at most.
    pub clients: usize,
    /// Load before the measurement, not counted.
    #[serde(serialize_with = "seconds")]
    pub warm_up: Duration,
    /// The measurement.
    #[serde(serialize_with = "seconds")]
    pub duration: Duration,
    /// Operations at most, warm-up included; the run ends early when they are used up.
    pub operations_max: u64,
    /// Seed of the arrival times.
    pub seed: u64,
}

fn seconds<S: serde::Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(value.as_secs_f64())
}

impl Plan {
    /// Most clients: each is a task and a connection.
    pub const CLIENTS_MAX: usize = 4096;
    /// Highest open-loop rate that one dispatching thread times well.
    pub const RATE_PER_S_MAX: f64 = 1e6;
    /// Longest warm-up or measurement.
    pub const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);

    /// Checks the bounds.
    ///
    /// # Errors
    /// Names the value that is out of range.
    pub fn check(&self) -> Result<()> {
        ensure!(
            (1..=Self::CLIENTS_MAX).contains(&self.clients),
            "clients must be 1..{}, not {}",
            Self::CLIENTS_MAX,
            self.clients
        );
        if let Arrivals::Open { rate_per_s } = self.arrivals {
            ensure!(
                rate_per_s > 0.0 && rate_per_s <= Self::RATE_PER_S_MAX,
                "the rate must be above 0 and at most {}, not {rate_per_s}",
                Self::RATE_PER_S_MAX
            );
        }
        ensure!(
            !self.duration.is_zero() && self.duration <= Self::DURATION_MAX,
            "the measurement must last between 1 s and a day"
        );
        ensure!(self.warm_up <= Self::DURATION_MAX, "the warm-up must be shorter than a day");
        ensure!(self.operations_max > 0, "at least one operation is needed");
        Ok(())
    }

    /// Warm-up and measurement together.
    pub fn length(&self) -> Duration {
        self.warm_up + self.duration
    }
}

/// Start times of a Poisson process, as offsets from the start of the run: the gaps are
/// exponentially distributed.
#[derive(Debug)]
pub(super) struct Schedule {
    rng: StdRng,
    rate_per_s: f64,
    next_s: f64,
}

impl Schedule {
    pub(super) fn new(rate_per_s: f64, seed: u64) -> Self {
        Self { rng: StdRng::seed_from_u64(seed), rate_per_s, next_s: 0.0 }
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // 1 - u lies in (0, 1], so the logarithm is finite.
        let u: f64 = self.rng.random();
        self.next_s += -(1.0 - u).ln() / self.rate_per_s;
        Some(Duration::from_secs_f64(self.next_s))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    pub(crate) fn plan() -> Plan {
        Plan {
            arrivals: Arrivals::Closed,
            clients: 1,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(1),
            operations_max: 1,
            seed: 1,
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        assert!(plan().check().is_ok());
        let open = |rate_per_s| Arrivals::Open { rate_per_s };
        for bad in [
            Plan { clients: 0, ..plan() },
            Plan { clients: 5000, ..plan() },
            Plan { arrivals: open(0.0), ..plan() },
            Plan { arrivals: open(-1.0), ..plan() },
            Plan { arrivals: open(f64::NAN), ..plan() },
            Plan { arrivals: open(f64::INFINITY), ..plan() },
            Plan { duration: Duration::ZERO, ..plan() },
            Plan { warm_up: Duration::MAX, ..plan() },
            Plan { operations_max: 0, ..plan() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn arrivals_are_poisson_and_repeatable() {
        let take = |seed| -> Vec<Duration> { Schedule::new(1000.0, seed).take(20_000).collect() };
        let times = take(7);
        assert_eq!(times, take(7));
        assert_ne!(times, take(8));
        assert!(times.is_sorted());
        let rate = times.len() as f64 / times[times.len() - 1].as_secs_f64();
        assert!((rate - 1000.0).abs() < 30.0, "{rate}");
        // The standard deviation of exponential gaps equals their mean (regular ones: 0).
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05);
    }
}
