use super::{Held, Stage, broken};
use std::collections::BTreeMap;

/// What a write was acknowledged with is never lost: from then on the memory is at that stage or at a
/// later one.
#[derive(Debug, Clone, Default)]
pub struct AcknowledgedKept(BTreeMap<String, Stage>);

impl AcknowledgedKept {
    /// The name of the invariant.
    pub const NAME: &str = "no acknowledged write is lost";

    /// A write that brought a memory to a stage was acknowledged.
    pub fn acknowledged(&mut self, memory: &str, stage: Stage) {
        let known = self.0.entry(memory.to_owned()).or_default();
        *known = stage.max(*known);
    }

    /// What was acknowledged, by memory.
    pub fn memories(&self) -> impl Iterator<Item = (&str, Stage)> {
        self.0.iter().map(|(memory, stage)| (memory.as_str(), *stage))
    }

    /// A replica that has caught up holds this stage.
    ///
    /// # Errors
    /// If a later one was acknowledged.
    pub fn holds(&self, node: u64, memory: &str, stage: Stage) -> Held {
        let known = self.0.get(memory).copied().unwrap_or_default();
        if stage >= known {
            return Ok(());
        }
        broken(Self::NAME, format!("{memory} was acknowledged as {known:?}; node {node} holds {stage:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_stage_is_found() {
        let mut kept = AcknowledgedKept::default();
        kept.acknowledged("a", Stage::Version(3));
        kept.acknowledged("a", Stage::Version(2));
        assert!(kept.holds(1, "a", Stage::Version(4)).is_ok());
        assert!(kept.holds(1, "a", Stage::Deleted).is_ok());
        assert!(kept.holds(1, "a", Stage::Version(2)).is_err());
        assert!(kept.holds(1, "a", Stage::Absent).is_err());
        assert!(kept.holds(1, "b", Stage::Absent).is_ok());
    }
}
