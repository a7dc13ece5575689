//! The result of a run, as written by `--json`.

use serde::{Deserialize, Serialize};

use super::sets::{Mode, Shape};

/// What was run, where, and what came out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) version: String,
    pub(super) command: String,
    pub(super) setup: Setup,
    pub(super) sets: Vec<SetResult>,
}

/// Where it ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) day: String,
    pub(super) cores: usize,
    pub(super) processor: Option<String>,
    pub(super) kernel: Option<String>,
    pub(super) debug_build: bool,
    pub(super) measured: String,
    pub(super) seconds: u32,
}

/// The figures of one set of spaces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SetResult {
    pub(super) shape: Shape,
    pub(super) dims: usize,
    pub(super) spaces: usize,
    pub(super) memories: usize,
    /// Memories stored a second, by 8 clients in batches of 100.
    pub(super) stored_per_s: f64,
    /// Bytes on the disk of one replica for a memory: state, snapshot file and log.
    pub(super) disk_bytes_per_memory: f64,
    /// Resident memory of the three nodes after a restart, before the first question.
    pub(super) idle_bytes: u64,
    /// What it grew by when every space that is asked was active, for each of their memories: the images, and what
    /// a process takes once for its first work, as caches of its state and stacks of threads.
    pub(super) grown_bytes_per_memory: Option<f64>,
    /// What the images of these spaces take by themselves, as the nodes count it, for each of their memories.
    pub(super) image_bytes_per_memory: Option<f64>,
    /// First questions to spaces that were not in memory.
    pub(super) cold: Latency,
    pub(super) arms: Vec<Arm>,
    /// Of the largest single space of a scale.
    pub(super) curves: Vec<Curve>,
}

/// What a curve is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Over {
    /// How many hits are asked for.
    TopK,
    /// How many memories in 1,000 pass the filter; 1,000 is no filter.
    PerMille,
    /// How many ask at once.
    Clients,
}

/// The same questions, asked in another way from point to point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Curve {
    pub(super) mode: Mode,
    pub(super) over: Over,
    pub(super) points: Vec<Point>,
}

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Point {
    pub(super) at: usize,
    #[serde(flatten)]
    pub(super) closed: Closed,
}

/// Latencies in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Latency {
    pub(super) count: u64,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
    pub(super) max_us: u64,
}

/// The figures of one kind of recall.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Arm {
    pub(super) mode: Mode,
    /// The indices that answered.
    pub(super) indices: Vec<String>,
    /// Share of answers that said so.
    pub(super) exact: f64,
    pub(super) bound_met: f64,
    /// Of vectors: against all of them, compared by brute force. Of the composite score: against the
    /// same cluster without graphs; absent where every answer was exact.
    pub(super) recall_at_10: Option<f64>,
    /// Memories scored for an answer, on average.
    pub(super) scored: f64,
    pub(super) closed: Vec<Closed>,
    pub(super) open: Open,
}

/// Each client asks when its last question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Closed {
    pub(super) clients: usize,
    pub(super) per_s: f64,
    pub(super) failed: u64,
    pub(super) latency: Latency,
    /// Processor time of the router for an answer, microseconds.
    pub(super) router_us: f64,
    /// And of the three nodes together.
    pub(super) nodes_us: f64,
}

/// Questions arrive at half of the rate that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Open {
    pub(super) per_s: f64,
    pub(super) failed: u64,
    pub(super) not_sent: u64,
    pub(super) latency: Latency,
}
