//! A Holdfast node: Raft groups, their states, the active spaces and the service that routers call.
//!
//! The path of a write: [`NodeService`] checks it, [`raft`] makes it durable on a majority,
//! [`shard`] applies it and [`index`] shows it; only then is it answered.

pub mod index;
mod metrics;
mod node;
pub mod raft;
mod service;
pub mod shard;
pub mod snapshot;
mod sweeper;

pub use node::{Identity, InitError, Node, NodeConfig, StartError};
pub use service::NodeService;
