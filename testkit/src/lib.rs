//! What the tests of several crates share. Nothing that ships depends on it.

pub mod history;
pub mod invariants;
