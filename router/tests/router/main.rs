//! The router against nodes that run the real state machine. One binary, so that it links once.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod admin;
mod bad_input;
mod blocks;
mod bodies;
mod chunks;
mod collections;
mod common;
mod context;
mod facts;
mod failover;
mod graph;
mod lifecycle;
mod memories;
mod procedures;
mod reads;
mod recall;
mod scoring;
mod sessions;
mod tasks;
mod tenants;
