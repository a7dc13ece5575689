//! Metrics of other parts of the process, such as nodes that run beside the router.

use parking_lot::Mutex;
use prometheus::Registry;
use prometheus::proto::MetricFamily;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Registries that `/metrics` shows beside the router's own, each under a name. They may come and go
/// while the router runs. Clones share them.
#[derive(Clone, Default)]
pub struct Registries(Arc<Mutex<BTreeMap<String, Registry>>>);

impl Registries {
    /// Shows a registry from now on, in place of an earlier one of the same name.
    pub fn insert(&self, name: impl Into<String>, registry: Registry) {
        self.0.lock().insert(name.into(), registry);
    }

    /// Shows it no longer.
    pub fn remove(&self, name: &str) {
        self.0.lock().remove(name);
    }

    /// What all of them hold now. Blocks as long as the registries' collectors do.
    pub(crate) fn gather(&self) -> Vec<MetricFamily> {
        let registries: Vec<Registry> = self.0.lock().values().cloned().collect();
        registries.iter().flat_map(Registry::gather).collect()
    }
}

impl fmt::Debug for Registries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.lock().keys()).finish()
    }
}
