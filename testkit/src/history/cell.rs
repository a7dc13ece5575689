//! The object that histories are compared with: one memory under an id that its client chose.

use todc_utils::specifications::Specification;

/// A memory as a reader sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cell {
    /// 1 at its creation, one more with each change.
    pub version: u64,
    /// Its text, or whatever tells two values apart.
    pub value: String,
}

/// What was asked for and answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A linearizable read.
    Read {
        /// What it found: `None` if it was not answered, `Some(None)` if there is no such memory.
        found: Option<Option<Cell>>,
    },
    /// A change.
    Write {
        /// Which.
        change: Change,
        /// What its caller was told.
        answer: Answer,
    },
}

/// A change of a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Makes it, if there is none.
    Create {
        /// Its text.
        value: String,
    },
    /// Replaces it, if it has this version.
    Replace {
        /// The version that the caller has read.
        if_version: u64,
        /// The new text.
        value: String,
    },
    /// Removes it, if it is there.
    Delete,
}

/// What the caller of a change was told in the end, whatever repetitions that took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It was made.
    Done,
    /// It was not made, since the memory is not as the change wants it.
    Refused,
    /// It may have been made, or may yet be.
    Unknown,
}

impl Operation {
    /// A read that is not answered yet.
    pub fn read() -> Self {
        Self::Read { found: None }
    }

    /// A change that is not answered yet.
    pub fn write(change: Change) -> Self {
        Self::Write { change, answer: Answer::Unknown }
    }

    /// Whether the caller knows how it ended.
    pub fn is_answered(&self) -> bool {
        match self {
            Self::Read { found } => found.is_some(),
            Self::Write { answer, .. } => *answer != Answer::Unknown,
        }
    }
}

impl Change {
    /// What it makes of a memory; `None` if it is refused.
    fn apply(&self, cell: Option<&Cell>) -> Option<Option<Cell>> {
        match (self, cell) {
            (Self::Create { value }, None) => Some(Some(Cell { version: 1, value: value.clone() })),
            (Self::Replace { if_version, value }, Some(cell)) if cell.version == *if_version => {
                Some(Some(Cell { version: cell.version + 1, value: value.clone() }))
            }
            (Self::Delete, Some(_)) => Some(None),
            (Self::Create { .. } | Self::Replace { .. } | Self::Delete, _) => None,
        }
    }
}

impl Specification for Cell {
    type State = Option<Cell>;
    type Operation = Operation;

    fn init() -> Self::State {
        None
    }

    fn apply(operation: &Operation, state: &Self::State) -> (bool, Self::State) {
        match operation {
            Operation::Read { found } => (found.as_ref().is_none_or(|found| found == state), state.clone()),
            Operation::Write { change, answer } => {
                let made = change.apply(state.as_ref());
                match (answer, made) {
                    (Answer::Done | Answer::Unknown, Some(after)) => (true, after),
                    (Answer::Done, None) | (Answer::Refused, Some(_)) => (false, state.clone()),
                    (Answer::Refused | Answer::Unknown, None) => (true, state.clone()),
                }
            }
        }
    }
}
