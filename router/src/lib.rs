//! The stateless front of a Holdfast cluster.
//!
//! A request passes, in this order: `http` layers (id, metrics, bounds), authentication
//! (the tenant comes from the API key alone), strict reading of the body, derivation (everything
//! that needs a library, a model or a clock: normal form, terms, vectors, ids), and the call of the
//! node that leads the space's shard. Nothing is kept here but caches: any number of routers may
//! run side by side.
//!
//! Where to look:
//! - `app`: listeners and routes. `config`: settings with their defaults.
//! - `http/`: bodies, strict JSON, problem answers, identities of writes.
//! - `auth`, `api_key`: from a header to an access.
//! - `nodes/`: who leads what, and calls that find the leader, retry, and end honestly.
//! - `memories/`, `recall/`, `context/`, `feedback`, `facts/`, `blocks/`, `tasks/`, `procedures/` (`tiers`: what those beside
//!   memories share), `admin/`, `health`, `error_pages`: one file per call.
//! - `sensory`: what of an input is kept. `sessions/`: short-term memory, one file per call.
//! - `collections/`: shared collections, and which partition what lies in; `recall/fan_out` asks all of them.
//! - `lifecycle/`, `transfer/`: erasures and their receipts; exports and imports.
//! - `work`: analysis and embedding on bounded threads. `tokenizer`: counting tokens.

mod admin;
mod api_key;
mod app;
mod auth;
mod blocks;
mod collections;
mod config;
mod context;
mod drain;
mod error_pages;
mod fact_rules;
mod facts;
mod feedback;
mod filters;
mod graph;
mod health;
mod http;
mod lifecycle;
mod memories;
mod metrics;
mod nodes;
mod procedures;
mod recall;
mod registries;
mod scoring;
mod sensory;
mod sessions;
mod shared;
mod tasks;
mod tiers;
mod tokenizer;
mod tokens;
mod transfer;
mod work;

pub use api_key::{api_key_row, new_api_key};
pub use app::{Readiness, Router, RouterError};
pub use config::{NodeControl, RouterConfig};
pub use registries::Registries;
