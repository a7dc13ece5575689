use super::{Held, broken};
use std::collections::BTreeSet;

/// A memory whose deletion was acknowledged is found by nobody who asks afterwards, whatever jobs and
/// imports bring; only its owner may say it again.
#[derive(Debug, Clone, Default)]
pub struct DeletedStaysDeleted {
    asked: BTreeSet<String>,
    deleted: BTreeSet<String>,
}

impl DeletedStaysDeleted {
    /// The name of the invariant.
    pub const NAME: &str = "deleted stays deleted";

    /// A deletion is about to be asked for.
    pub fn asks(&mut self, memory: &str) {
        self.asked.insert(memory.to_owned());
    }

    /// Whether a deletion was ever asked for, so that the memory may be gone.
    pub fn was_asked(&self, memory: &str) -> bool {
        self.asked.contains(memory)
    }

    /// A deletion was acknowledged.
    pub fn deleted(&mut self, memory: &str) {
        self.asks(memory);
        self.deleted.insert(memory.to_owned());
    }

    /// Whether a linearizable read that begins now must find nothing.
    pub fn is_deleted(&self, memory: &str) -> bool {
        self.deleted.contains(memory)
    }

    /// The memories that were deleted.
    pub fn memories(&self) -> impl Iterator<Item = &str> {
        self.deleted.iter().map(String::as_str)
    }

    /// What a read found that began when [`DeletedStaysDeleted::is_deleted`] said `was_deleted`.
    ///
    /// # Errors
    /// If it found what was deleted.
    pub fn read(&self, memory: &str, was_deleted: bool, found: bool) -> Held {
        if was_deleted && found {
            return broken(Self::NAME, format!("{memory} was found after its deletion was acknowledged"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_that_is_found_again_is_noticed() {
        let mut deleted = DeletedStaysDeleted::default();
        assert!(deleted.read("a", deleted.is_deleted("a"), true).is_ok());
        assert!(!deleted.was_asked("a"));
        deleted.asks("a");
        assert!(deleted.was_asked("a") && !deleted.is_deleted("a"));
        deleted.deleted("a");
        assert!(deleted.read("a", false, true).is_ok(), "the read began before");
        assert!(deleted.read("a", deleted.is_deleted("a"), false).is_ok());
        assert!(deleted.read("a", deleted.is_deleted("a"), true).is_err());
    }
}
