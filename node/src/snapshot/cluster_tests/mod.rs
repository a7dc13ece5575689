//! Real replicas with real logs and states: files between them, and crashes at every step.

mod crashes;
mod harness;
mod scheduling;
mod transfers;
