use super::{Held, Stage, broken};
use std::collections::BTreeMap;

/// A read that carries a token never sees an older state than the token's: neither an older index of
/// the group nor, of any memory, an earlier stage than its session has written or read.
#[derive(Debug, Clone, Default)]
pub struct TokenFloor(BTreeMap<(u64, String), Stage>);

impl TokenFloor {
    /// The name of the invariant.
    pub const NAME: &str = "a token is never older";

    /// A session was told of a stage of a memory, with a token that it keeps.
    pub fn told(&mut self, session: u64, memory: &str, stage: Stage) {
        let known = self.0.entry((session, memory.to_owned())).or_default();
        *known = stage.max(*known);
    }

    /// What it means that a session finds no memory whose deletion somebody has asked for: that it
    /// was deleted, if the session knew it, and else that it was not made yet.
    pub fn missing(&self, session: u64, memory: &str) -> Stage {
        match self.0.get(&(session, memory.to_owned())) {
            None | Some(Stage::Absent) => Stage::Absent,
            Some(Stage::Version(_) | Stage::Deleted) => Stage::Deleted,
        }
    }

    /// A read of the session with its token found this stage; the token named `token`, and the
    /// answer says that it is of `answer` (indices of the same life of the memory's group).
    ///
    /// # Errors
    /// If the answer is older than the token.
    pub fn read(
        &mut self,
        session: u64,
        memory: &str,
        found: Stage,
        token: Option<u64>,
        answer: u64,
    ) -> Held {
        let known = self.0.get(&(session, memory.to_owned())).copied().unwrap_or_default();
        let is_absent = found == Stage::Absent;
        let kept = found >= known || (is_absent && known == Stage::Deleted);
        if !kept || token.is_some_and(|token| answer < token) {
            let observed = format!(
                "session {session} knew {known:?} of {memory} at index {token:?} and was answered {found:?} at {answer}"
            );
            return broken(Self::NAME, observed);
        }
        self.told(session, memory, found);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_version_or_index_is_found() {
        let mut floor = TokenFloor::default();
        assert!(floor.read(1, "记忆", Stage::Absent, None, 3).is_ok());
        floor.told(1, "记忆", Stage::Version(2));
        assert!(floor.read(1, "记忆", Stage::Version(2), Some(4), 4).is_ok());
        assert!(floor.read(2, "记忆", Stage::Version(1), None, 3).is_ok(), "another session");
        assert!(floor.read(1, "记忆", Stage::Version(1), Some(4), 4).is_err());
        assert!(floor.read(1, "记忆", Stage::Absent, Some(4), 4).is_err());
        assert!(floor.read(1, "记忆", Stage::Version(3), Some(4), 3).is_err());
        assert_eq!(floor.missing(2, "无"), Stage::Absent);
        assert_eq!(floor.missing(1, "记忆"), Stage::Deleted);
        floor.told(1, "记忆", Stage::Deleted);
        assert!(floor.read(1, "记忆", Stage::Absent, Some(5), 5).is_ok());
        assert!(floor.read(1, "记忆", Stage::Version(9), Some(5), 5).is_err());
    }
}
