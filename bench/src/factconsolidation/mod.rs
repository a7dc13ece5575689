//! FactConsolidation: numbered facts of which later ones contradict earlier ones, and questions
//! about them (the conflict-resolution split of MemoryAgentBench, Hu et al., 2025,
//! <https://arxiv.org/abs/2507.05257>).
//!
//! Measured is what a reader of the answers meets: whether the current fact comes first, and
//! whether a stale one is among the first five. Only single-hop questions count whose fact has an
//! older version. Which one that is, is read from the file by its answers; the server sees the
//! sentences alone.

mod dataset;
mod run;

pub use dataset::{Case, Dataset};
pub use run::{FactConsolidationArgs, Measured, Report, run};
