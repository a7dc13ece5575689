//! `holdfast bench baseline`: the comparison that started this project, on one generated workload.
//!
//! Two arms run for real, with the same texts, embedder, machine and token counter: a *flat* store
//! ([`flat`]) and the system itself behind its router ([`holdfast`]). The workload ([`workload`]) is
//! made from a seed; its gold labels exist before its words do ([`plan`]) and reach only the
//! scoring ([`score`]).
//!
//! # How the parameters were fixed
//!
//! The published flat baseline put 8,420 tokens into the prompt per session, found 62.4% of the key
//! memories, and 28.6% of the key memories that it found were superseded. The generator's parameters
//! and the flat arm's k ([`params::Parameters::FIXED`]) were set before the holdfast arm first ran,
//! by running the flat arm alone on the seeds 1, 2 and 3 with the phrasings `train` and `held-out`:
//! the exchanges of a session and the length of answers until the history had about 8,420 tokens;
//! the mix of questions and k until about 62.4% of the key memories were found, the two sets of
//! phrasings lying on either side of it; the rates of changes, exceptions and corrections until about
//! 28.6% of the key memories found were stale. A test holds the flat arm within 15% of all three on
//! the seeds 4, 5 and 6.
//!
//! One of them was moved after the holdfast arm had run, again by the flat arm alone: seed 12 had
//! shown that the first three seeds hold more superseded memories than most, so that the flat
//! arm's stale share lay near .267 on average. The chance of a change went from .26 to .30, which
//! makes the workload harder for both arms. Figures are published for seeds above 12. The parameters
//! are not to be moved to suit another arm; whoever has to move them fixes them again by the flat
//! arm alone (`--flat-only`).
//!
//! # Held-out phrasings
//!
//! What users say comes in two sets that share no phrasing ([`texts`]). Rules of the system may be
//! written against `train`; nobody writes one against `held-out`, and it is the default, so that a
//! figure that is published without a thought is of phrasings that nothing was fitted to.

use anyhow::Result;

pub mod dialogue;
pub mod flat;
pub mod holdfast;
pub mod params;
pub mod plan;
mod plot;
pub mod questions;
pub mod random;
mod report;
pub mod result;
mod run;
pub mod score;
pub mod texts;
pub mod tokens;
pub mod workload;

pub use run::BaselineArgs;

/// Runs the benchmark.
///
/// # Errors
/// The model is not there, the server cannot be started or refuses something, a file cannot be
/// written, or a memory of another user was answered.
pub async fn run(args: &BaselineArgs) -> Result<()> {
    args.run().await
}
