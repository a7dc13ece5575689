//! The wire protocol of Holdfast: what `.proto` files define, and one conversion file per message
//! between it and the model of [`holdfast_core`].

mod convert;

pub use convert::graph::{check_graph, graph_of};
pub use convert::memory::{View, fact_of_statement, memory_from_rows};
pub use convert::refusal::{Refused, refusal_of};
pub use convert::session::{session_from_row, turn_from_row, window_from_parts};

/// Version 1 of the protocol, as generated from `proto/holdfast/v1/*.proto`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("holdfast.v1");
}

/// Largest message between two processes of a cluster, in bytes: a request of a client at its limit
/// and the envelope around it.
pub const MESSAGE_BYTES_MAX: usize = holdfast_core::limits::REQUEST_BYTES_MAX + 1024 * 1024;
