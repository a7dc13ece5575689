//! Active spaces: the index.
//!
//! An idle space is rows on disk and costs no memory. The first recall loads its [`Image`], columns
//! in memory built from the index rows alone, and later recalls scan that: every visible row, so
//! the answer is exact. Larger ones get a graph of their vectors, and the largest have these in a file, in
//! lists. [`Spaces`] keeps the images in use, bounded in bytes, and up to date.
//!
//! The images are a cache of the state. Two invariants, each held by a test:
//! - **An image is the state.** Whatever puts and removes made it, it answers as one freshly built
//!   from the stored rows; [`verify()`] compares the two.
//! - **A recall that starts after a write was acknowledged sees it**, and no recall ever sees a
//!   part of a batch. [`Spaces`] says how.

mod files;
mod graph;
mod image;
mod intern;
mod lists;
mod postings;
mod search;
mod settings;
mod spaces;
mod vectors;
mod verify;

#[cfg(test)]
mod tests;

pub use image::{Image, LiveImage, SharedImage};
pub use search::{
    Answer, AsOf, Beside, Conflicts, Hit, Preference, Query, Ranks, RelevanceMode, Sight, Standing, Trace,
};
pub use settings::{CHOSEN_FROM, IndexChoice, IndexSettings};
pub use spaces::{Batch, LoadError, Spaces, Usage};
pub use verify::{Difference, Report, Verifier, verify};
