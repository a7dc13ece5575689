//! What a memory is worth to a query: `score = ws*S + wr*R + wi*I + wf*F + boosts`.
//!
//! Pure functions over columns. A node calls them for every row of a space in one recall, so the
//! loops are plain, allocate nothing and read each column once. In the order of use:
//!
//! 1. [`CorpusStats`] of every partition, merged: idf and average length for [`Bm25`];
//! 2. [`lift`]: a row's own BM25 and what it gets from its neighbours (L);
//! 3. [`Stats`] of every partition, merged, then [`Constants::from_stats`] once;
//! 4. [`Relevance`]: S of each row, by the constants that all partitions share;
//! 5. [`Scorer`]: S with recency, importance and frequency, by [`Profile`];
//! 6. [`Why`]: the parts, for those who ask;
//! 7. [`diversify`]: which of the best are answered, where they shall not all be alike.

mod bm25;
mod constants;
mod diversity;
mod lift;
mod neighbours;
pub mod own;
mod profile;
mod relevance;
mod rows;
mod sample;
mod scorer;
mod stats;
mod why;

pub use bm25::{Bm25, CorpusStats};
pub use constants::{Constants, PRIOR_ROWS, Prior};
pub use diversity::{diversify, overlap, words};
pub use lift::{NeighbourWeights, lift, lift_touched, set_bits};
pub use neighbours::Neighbours;
pub use profile::{Frequency, Profile, Recency, Weights, WeightsError};
pub use relevance::{Recipe, Relevance, keyword_relevance, vector_relevance};
pub use rows::{NONE, Rows, RowsError, flag};
pub use sample::{SAMPLE_ROWS_MAX, sample};
pub use scorer::{BOOST_MAX, BOOST_SUM_MAX, Parts, Scorer, Statics, boost_sum};
pub use stats::Stats;
pub use why::Why;
