//! The result of a run, as written by `--json`.

use serde::{Deserialize, Serialize};

use super::arm::Measured;
use super::failover::{Failover, median};
use super::texts::Kind;

/// What was run, where, and what came out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) version: String,
    pub(super) command: String,
    pub(super) setup: Setup,
    /// In the order of the clients.
    pub(super) loads: Vec<Load>,
    pub(super) failover: Option<Failover>,
    pub(super) checked: Checked,
}

/// Where and how it ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) day: String,
    pub(super) cores: usize,
    pub(super) processor: Option<String>,
    pub(super) kernel: Option<String>,
    pub(super) debug_build: bool,
    pub(super) shards: u16,
    pub(super) content_bytes: usize,
    /// What contents are made of.
    #[serde(default)]
    pub(super) contents: Kind,
    pub(super) users: u64,
    pub(super) seconds: f64,
    pub(super) warm_up_seconds: f64,
    pub(super) rounds: u32,
    /// Version of etcd, if there was one.
    pub(super) etcd: Option<String>,
    /// One write and sync of 2 KiB on this disk, the median.
    pub(super) sync_us: u64,
}

/// The rounds with one number of clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) clients: u32,
    pub(super) holdfast: Vec<Measured>,
    /// Empty where there is no etcd.
    pub(super) etcd: Vec<Measured>,
}

impl Load {
    /// Holdfast's writes a second over etcd's, the median of the rounds: the two ran one after the
    /// other in each, so that what else the machine did hit both.
    pub(super) fn ratio(&self) -> Option<f64> {
        let rounds = self.holdfast.iter().zip(&self.etcd);
        let mut ratios: Vec<f64> =
            rounds.map(|(ours, theirs)| ours.writes_per_s / theirs.writes_per_s).collect();
        ratios.sort_by(f64::total_cmp);
        (!ratios.is_empty()).then(|| median(&ratios))
    }
}

/// The median of one figure over the rounds.
pub(super) fn middle(rounds: &[Measured], figure: impl Fn(&Measured) -> f64) -> Option<f64> {
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    (!figures.is_empty()).then(|| median(&figures))
}

/// What was looked for at the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checked {
    /// Writes that Holdfast acknowledged.
    pub(super) acknowledged: u64,
    /// Of those, how many were read back.
    pub(super) read_back: u64,
    /// Of those, how many were not there or had another content.
    pub(super) lost: u64,
    /// Whether all replicas held the same rows.
    pub(super) replicas_equal: bool,
    /// Writes that etcd acknowledged, and keys that it then had.
    pub(super) etcd: Option<(u64, u64)>,
}
