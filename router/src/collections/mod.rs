//! Shared collections: their rows in the meta group, and where in them memories lie.

pub(crate) mod agreed;
pub(crate) mod cache;
pub(crate) mod erasure_id;
pub(crate) mod list;
pub(crate) mod manage;
pub(crate) mod placing;
pub(crate) mod receipt;
mod view;
