//! The wire protocol of Holdfast.

/// Version 1 of the protocol, as generated from `proto/holdfast/v1/*.proto`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("holdfast.v1");
}
