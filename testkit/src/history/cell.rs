//! The object that histories are compared with: one memory under an id that its client chose.

use todc_utils::specifications::Specification;

/// A memory as a reader sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cell {
    /// 1 at its creation, one more with each change. A memory that is made anew under the id of a
    /// deleted one counts on from there.
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

/// What is behind an id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Stored {
    /// The last version that it had, 0 before the first.
    version: u64,
    value: Option<String>,
}

impl Stored {
    fn holds(&self, found: Option<&Cell>) -> bool {
        match (&self.value, found) {
            (None, None) => true,
            (Some(value), Some(cell)) => cell.version == self.version && cell.value == *value,
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    /// What a change makes of it; `None` if the change is refused.
    fn changed(&self, change: &Change) -> Option<Self> {
        let next = |value: &String| Self { version: self.version + 1, value: Some(value.clone()) };
        match (change, &self.value) {
            (Change::Create { value }, None) => Some(next(value)),
            (Change::Replace { if_version, value }, Some(_)) if self.version == *if_version => {
                Some(next(value))
            }
            (Change::Delete, Some(_)) => Some(Self { value: None, ..self.clone() }),
            (Change::Create { .. } | Change::Replace { .. } | Change::Delete, _) => None,
        }
    }
}

/// The object itself.
pub(super) struct Memory;

impl Specification for Memory {
    type State = Stored;
    type Operation = Operation;

    fn init() -> Self::State {
        Stored::default()
    }

    fn apply(operation: &Operation, state: &Self::State) -> (bool, Self::State) {
        match operation {
            Operation::Read { found } => {
                (found.as_ref().is_none_or(|found| state.holds(found.as_ref())), state.clone())
            }
            Operation::Write { change, answer } => {
                let made = state.changed(change);
                match (answer, made) {
                    (Answer::Done | Answer::Unknown, Some(after)) => (true, after),
                    (Answer::Done, None) | (Answer::Refused, Some(_)) => (false, state.clone()),
                    (Answer::Refused | Answer::Unknown, None) => (true, state.clone()),
                }
            }
        }
    }
}
