//! The memory model and the shard state machine of Holdfast.
//!
//! This crate is **pure**: no I/O, no async, no clock, no randomness, no threads. What it is given
//! determines what it answers, so that every replica that applies the same log holds the same
//! bytes. Libraries, models and clocks run *before* a command is proposed; their results travel in
//! the command (see [`command`]).
//!
//! Where to look:
//! - [`memory`], [`space`]: what is stored, and whose it is; [`shard_map`]: which shard keeps it.
//! - [`keys`]: where each row lives, one file per key family.
//! - [`command`], [`mod@apply`]: what may happen to it.
//! - [`erasure`], [`tenant`], [`transfer`]: how much goes at once, how a tenant goes, and how a space leaves and comes
//!   back.
//! - [`state`]: the sorted byte map below, its overlay, its hash and its conformance suite.
//! - [`session`]: conversations: window, summary, dialogue state.
//! - [`facts`]: what statements say and how they contradict each other; [`duplicates`]: whether two texts say the same.
//! - [`upkeep`]: how far jobs have come with a space.
//! - [`tiers`]: core blocks and what else is kept beside memories.
//! - [`text`], [`score`]: analysis of text and scoring, used by router and node, never by `apply`.

pub mod access;
pub mod apply;
pub mod codec;
pub mod collection;
pub mod command;
pub mod duplicates;
pub mod erasure;
pub mod error;
pub mod event;
pub mod facts;
pub mod filter;
pub mod graph;
pub mod intent;
pub mod keys;
pub mod limits;
pub mod memory;
pub mod outcome;
pub mod sabotage;
pub mod score;
pub mod session;
pub mod shard_map;
pub mod situation;
pub mod space;
pub mod state;
pub mod tenant;
pub mod text;
pub mod tiers;
pub mod token;
pub mod transfer;
pub mod upkeep;
pub mod vector;
pub mod when;

pub use error::{Error, ErrorCode, Result};
