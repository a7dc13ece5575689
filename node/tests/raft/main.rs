//! Raft groups of three in-process nodes over loopback, with real logs.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod cluster;
mod failures;
mod handover;
mod harness;
mod reversion;
