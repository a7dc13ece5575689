//! Tenants that are being erased: nobody reads or writes for them any more, whatever key a router has let them in by.
//! Each node goes by its own replica of the meta group, and looks at its rows again only when that has moved on. A node
//! that is behind, or cannot read its replica, still answers reads; what is written is refused by the shards themselves.

use super::turns::TurnCache;
use crate::erasing::tenants_going;
use crate::shard::ShardState;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::Refused;
use parking_lot::RwLock;
use std::collections::BTreeSet;

/// See the module.
#[derive(Default)]
pub(super) struct Going(RwLock<Known>);

#[derive(Default)]
struct Known {
    /// Up to where the rows were read; `None` if they never were.
    upto: Option<Option<u64>>,
    tenants: BTreeSet<String>,
}

impl Going {
    /// Refuses a tenant that is being erased.
    pub(super) fn check(&self, meta: &ShardState, tenant: &str, turns: &TurnCache) -> Result<(), Refused> {
        let visible = meta.visible();
        let known = self.0.read();
        if known.upto == Some(visible) {
            return refuse(&known.tenants, tenant);
        }
        drop(known);
        let mut known = self.0.write();
        // What is read is at least as new as what was visible before.
        if known.upto != Some(visible) {
            known.upto = Some(visible);
            match tenants_going(meta) {
                Ok(going) => {
                    let tenants: BTreeSet<String> = going.into_keys().collect();
                    for new in tenants.difference(&known.tenants) {
                        turns.forget_tenant(new);
                    }
                    known.tenants = tenants;
                }
                // Nobody else is to be kept out by it. It is looked at again when there is something new.
                Err(error) => tracing::error!(%error, "which tenants are being erased cannot be read"),
            }
        }
        refuse(&known.tenants, tenant)
    }
}

fn refuse(going: &BTreeSet<String>, tenant: &str) -> Result<(), Refused> {
    if !going.contains(tenant) {
        return Ok(());
    }
    let detail = "this tenant is being erased: nothing of it can be read or written any more";
    Err(Error::new(ErrorCode::NotFound, detail).at("tenant").into())
}
