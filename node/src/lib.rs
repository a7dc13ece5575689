//! placeholder

pub mod raft;
