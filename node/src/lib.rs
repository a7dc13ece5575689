//! A Holdfast node: Raft groups, their states, the active spaces and the service that routers call.
//!
//! The path of a write: [`NodeService`] checks it, [`raft`] makes it durable on a majority,
//! [`shard`] applies it and [`index`] shows it; only then is it answered.

pub mod admin;
mod config;
mod crash;
pub mod durable;
mod erasing;
pub mod founding;
mod guard;
mod health;
mod identity;
pub mod index;
mod integrity;
mod jobs;
mod metrics;
mod nearest;
mod node;
mod open;
pub mod process;
pub mod raft;
mod rechecker;
mod service;
pub mod shard;
#[cfg(test)]
mod sim;
pub mod snapshot;
mod sweeper;

pub use config::NodeConfig;
pub use erasing::{EraseSettings, Forgotten};
pub use health::Health;
pub use identity::Identity;
pub use integrity::IntegritySettings;
pub use jobs::{JobEmbedder, JobSettings, OpenEmbedder};
pub use node::{Node, StartError};
pub use service::NodeService;
