//! PrecisionMemBench: does the right belief come, and that one alone (35 beliefs with scopes, aliases and a chain of
//! supersessions, 77 cases; <https://arxiv.org/abs/2605.11325>, data under the MIT licence).
//!
//! Each belief is stored as one memory: its names, then its text. Scope, type and whether it is settled are metadata, and
//! what supersedes what is told by `facts:resolve`, as a caller of the API would. A case is asked by recalls with
//! filters: what is pinned, open questions and universal preferences are read beside what matters for the query, as the
//! cases have it. Nothing is tuned to the file: a memory counts as recalled from the middle of the scale of relevance on
//! (`--min-score`).

mod asked;
mod dataset;
mod measured;
mod run;

pub use dataset::{Belief, Case, Dataset, Expected, Tier};
pub use measured::{CaseReport, Latency, Report};
pub use run::{PrecisionMemArgs, run};
