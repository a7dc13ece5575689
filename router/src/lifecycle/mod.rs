//! A space as a whole: its numbers, its erasure, the receipts.

pub(crate) mod erase;
pub(crate) mod receipt;
pub(crate) mod stats;
