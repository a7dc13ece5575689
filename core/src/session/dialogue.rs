//! Where a dialogue stands: idle, processing, waiting or responding, with what is known so far.
//!
//! ```text
//!            user speaks              answer begins
//!    idle ───────────────► processing ─────────────► responding
//!     ▲ ▲                   │      ▲                  │ │ │
//!     │ └── given up ───────┤      └── user breaks in ┘ │ │
//!     │                     ▼                           │ │
//!     │                  waiting ◄── asks back ─────────┘ │
//!     └──── done ─────────────────────────────────────────┘
//! ```
//! From `waiting` it goes on to `processing` (what was waited for came) or to `idle` (given up).

use crate::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Nothing is open.
    #[default]
    Idle,
    /// The user has spoken, and the answer is being made.
    Processing,
    /// Something is needed first: an answer of the user or of a tool.
    Waiting,
    /// The answer is being given.
    Responding,
}

impl Phase {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Processing, Self::Waiting, Self::Responding];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Processing => "processing",
            Self::Waiting => "waiting",
            Self::Responding => "responding",
        }
    }

    /// Finds a state by its wire name.
    pub fn from_wire(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == name)
    }

    /// The states that may follow this one.
    pub const fn next(self) -> &'static [Self] {
        match self {
            Self::Idle => &[Self::Processing],
            Self::Processing => &[Self::Waiting, Self::Responding, Self::Idle],
            Self::Waiting => &[Self::Processing, Self::Idle],
            Self::Responding => &[Self::Idle, Self::Waiting, Self::Processing],
        }
    }

    /// The state after a step to `to`; to stay is no step.
    ///
    /// # Errors
    /// [`ErrorCode::Conflict`] that names the states that may follow.
    pub fn step(self, to: Self) -> Result<Self> {
        if self == to || self.next().contains(&to) {
            return Ok(to);
        }
        let names: Vec<&str> = self.next().iter().map(|phase| phase.as_str()).collect();
        let detail = format!(
            "the dialogue is {} and cannot become {}; from there it becomes {}",
            self.as_str(),
            to.as_str(),
            names.join(" or ")
        );
        Err(Error::new(ErrorCode::Conflict, detail).at("state"))
    }

    /// The state after a turn. A user's turn is to be answered, whatever was going on; an answer ends
    /// the exchange, or waits for the user if it asks. Other turns, such as a tool's, change nothing.
    #[must_use]
    pub fn after_turn(self, role: &str, asks: bool) -> Self {
        match role {
            "user" => Self::Processing,
            "assistant" if asks => Self::Waiting,
            "assistant" => Self::Idle,
            _ => self,
        }
    }
}

/// Where a dialogue stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dialogue {
    /// The state.
    pub phase: Phase,
    /// What the user is after.
    pub intent: Option<String>,
    /// What is known for it: names, and values as JSON.
    pub slots: BTreeMap<String, String>,
    /// What the user has confirmed, in the order of confirmation.
    pub confirmed: Vec<String>,
    /// What the user's last turn did.
    pub user_act: Option<String>,
    /// What the system's last turn did.
    pub system_act: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_legal_steps_are_taken() {
        let legal = [
            (Phase::Idle, Phase::Processing),
            (Phase::Processing, Phase::Waiting),
            (Phase::Processing, Phase::Responding),
            (Phase::Processing, Phase::Idle),
            (Phase::Waiting, Phase::Processing),
            (Phase::Waiting, Phase::Idle),
            (Phase::Responding, Phase::Idle),
            (Phase::Responding, Phase::Waiting),
            (Phase::Responding, Phase::Processing),
        ];
        for from in Phase::ALL {
            assert_eq!(Phase::from_wire(from.as_str()), Some(from));
            for to in Phase::ALL {
                let expected = from == to || legal.contains(&(from, to));
                assert_eq!(from.step(to).is_ok(), expected, "{from:?} {to:?}");
            }
        }
        let error = Phase::Idle.step(Phase::Responding).expect_err("not legal");
        assert_eq!(error.code, ErrorCode::Conflict);
        assert!(error.detail.contains("becomes processing"), "{}", error.detail);
    }

    /// What a turn does by itself is what a caller could do step by step.
    #[test]
    fn turns_take_legal_ways() {
        let reaches = |from: Phase, to: Phase| {
            from == to
                || from.next().contains(&to)
                || from.next().iter().any(|via| via.next().contains(&to))
                || from.next().iter().flat_map(|via| via.next()).any(|via| via.next().contains(&to))
        };
        for from in Phase::ALL {
            for (role, asks) in [("user", true), ("assistant", true), ("assistant", false), ("tool", false)] {
                assert!(reaches(from, from.after_turn(role, asks)));
            }
        }
        assert_eq!(Phase::Processing.after_turn("tool", false), Phase::Processing);
        assert_eq!(Phase::Processing.after_turn("assistant", true), Phase::Waiting);
    }
}
