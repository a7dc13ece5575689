//! Real processes under faults: killed, paused, cut off, on disks that fail or are full, with clocks
//! that jump, without power. After each fault: nothing acknowledged is lost, nothing is there twice,
//! nobody who shows a token sees less than it stands for, and all replicas hold the same rows.
//!
//! Each test has a short version, which runs with the others, and a long one (`make test-cluster`);
//! `docs/testing.md` says how to run them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cells;
mod clocks;
#[path = "../common/mod.rs"]
mod common;
mod disk;
mod disks;
mod kills;
mod load;
mod net;
mod own;
mod power;
mod rig;
mod sabotage;
mod settings;
