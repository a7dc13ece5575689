//! Faults that are built in on purpose, to see whether the tests find them (`make sabotage`).
//!
//! A default build has none of this: [`is`] is `false` at compile time there, so that the code behind
//! it is not compiled in, and nothing can switch it on. A test looks for the names in the program.

/// What is done wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A write is acknowledged before it is synced.
    AckBeforeFsync,
    /// A write is acknowledged before other replicas have it.
    AckBeforeQuorum,
    /// The log is purged up to a snapshot file that is not on disk yet.
    PurgeBeforeSnapshot,
    /// A deletion leaves nothing behind.
    NoTombstone,
    /// Keys do not begin with the tenant.
    NoTenantPrefix,
    /// A read does not look at what its token stands for.
    TokenIgnored,
}

/// Whether this fault was chosen.
#[cfg(not(feature = "sabotage"))]
#[must_use]
pub const fn is(_fault: Fault) -> bool {
    false
}

#[cfg(feature = "sabotage")]
pub use chosen::{choose, is};

#[cfg(feature = "sabotage")]
mod chosen {
    use super::Fault;
    use std::sync::OnceLock;

    const NAMES: [(&str, Fault); 6] = [
        ("sabotage:ack-before-fsync", Fault::AckBeforeFsync),
        ("sabotage:ack-before-quorum", Fault::AckBeforeQuorum),
        ("sabotage:purge-before-snapshot", Fault::PurgeBeforeSnapshot),
        ("sabotage:no-tombstone", Fault::NoTombstone),
        ("sabotage:no-tenant-prefix", Fault::NoTenantPrefix),
        ("sabotage:token-ignored", Fault::TokenIgnored),
    ];

    static CHOSEN: OnceLock<Fault> = OnceLock::new();

    /// Chooses a fault by its name, once in the life of the process.
    ///
    /// # Errors
    /// If there is none of this name, or another one was chosen.
    pub fn choose(name: &str) -> Result<(), String> {
        let known = NAMES.iter().find(|(known, _)| known.strip_prefix("sabotage:") == Some(name));
        let (_, fault) = known.ok_or_else(|| format!("there is no fault {name:?}"))?;
        if CHOSEN.get_or_init(|| *fault) == fault { Ok(()) } else { Err("another fault was chosen".into()) }
    }

    /// Whether this fault was chosen.
    #[must_use]
    pub fn is(fault: Fault) -> bool {
        CHOSEN.get() == Some(&fault)
    }
}
