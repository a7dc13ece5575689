//! How a cluster is founded: once, and never a second time from the same nodes.
//!
//! A node whose volume is empty makes a random *instance id* there ([`Volume`]) and waits. The
//! founding ([`found`], behind `holdfast ctl init`) makes a [`Plan`]: the cluster's id, its number of
//! shards, and which instance gets which node id. Every node stores the plan on its volume before
//! it says yes, and takes one plan in its life.
//!
//! Invariants:
//! 1. *One plan for one set of nodes.* The plan is given first to the node with the smallest
//!    address, which decides: of two foundings at once, the later one finds the other's plan there
//!    and carries that out instead.
//! 2. *No groups before all have the plan*, so a plan that a node refused has done nothing.
//! 3. *An id belongs to a volume*, by its instance id, never to a host name or an address: a node
//!    that comes back with an empty disk is another instance, and no plan names it. It must not vote
//!    under the old id: it has forgotten its votes and what it acknowledged.
//! 4. *Each step may be repeated*: a founding that was cut off is carried on by the next one.

mod client;
mod founder;
mod moves;
mod plan;
mod service;
mod volume;

pub use client::{FoundError, Founded, Founding, found};
pub use founder::{Founder, InitError};
pub use moves::Moves;
pub use plan::{Plan, PlanError, PlanMember};
pub use service::{FoundingService, wait_for_plan};
pub use volume::{AdoptError, Volume, VolumeError};

#[cfg(test)]
mod tests;
