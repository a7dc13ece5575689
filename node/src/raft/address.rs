//! Where nodes are reached.

use std::collections::HashMap;

use parking_lot::RwLock;

use super::types::NodeId;

/// Looks up node addresses. Asked before each call, so that a node may move.
pub trait AddressBook: Send + Sync + 'static {
    /// The URI of the node's internal listener, such as `http://10.0.0.3:7400`.
    fn address(&self, node: NodeId) -> Option<String>;
}

/// An address book held in memory.
#[derive(Debug, Default)]
pub struct StaticAddresses(RwLock<HashMap<NodeId, String>>);

impl StaticAddresses {
    /// A book with the given entries.
    pub fn new(addresses: impl IntoIterator<Item = (NodeId, String)>) -> Self {
        StaticAddresses(RwLock::new(addresses.into_iter().collect()))
    }

    /// Adds or replaces a node's address.
    pub fn set(&self, node: NodeId, address: String) {
        self.0.write().insert(node, address);
    }
}

impl AddressBook for StaticAddresses {
    fn address(&self, node: NodeId) -> Option<String> {
        self.0.read().get(&node).cloned()
    }
}
