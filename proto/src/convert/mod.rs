//! One file per message.

mod access;
pub(crate) mod graph;
pub(crate) mod memory;
pub(crate) mod refusal;
mod seen;
mod space;
