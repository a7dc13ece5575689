//! One file per message.

mod access;
pub(crate) mod graph;
pub(crate) mod memory;
mod pool;
pub(crate) mod refusal;
mod seen;
pub(crate) mod session;
mod space;
