//! Key: `… . 0x32 . 0x01 . task id`. Value: [`crate::tiers::task::TaskRow`]. The tasks of a space are
//! one short range, without their steps.
//!
//! Beside them `… . 0x32 . 0x02 . task id \0 number u64 BE`, with [`crate::tiers::task::StepRow`]: the
//! steps of a task, the newest [`crate::limits::TASK_STEPS_MAX`]; and `… . 0x32 . 0x00`, with
//! [`crate::tiers::TierRow`]: how many tasks there are. A task has one row in [`super::due`].
//!
//! An export writes the rows of [`prefix`] and those of [`steps_of`] for each; the row of [`tier`]
//! and those of `due` follow from them. An erasure of the space drops the range of the family.

use super::{Family, row};
use crate::space::SpaceKey;

const TASK: u8 = 0x01;
const STEP: u8 = 0x02;

/// The key of the row that counts the tasks.
pub fn tier(space: &SpaceKey) -> Vec<u8> {
    row(space, Family::Task, &[0])
}

/// The prefix of all tasks, without their steps.
pub fn prefix(space: &SpaceKey) -> Vec<u8> {
    row(space, Family::Task, &[TASK])
}

/// The key of a task.
pub fn key(space: &SpaceKey, id: &str) -> Vec<u8> {
    let mut key = prefix(space);
    key.extend_from_slice(id.as_bytes());
    key
}

/// The prefix of the steps of all tasks.
pub fn steps(space: &SpaceKey) -> Vec<u8> {
    row(space, Family::Task, &[STEP])
}

/// The prefix of the steps of a task. Ids hold no `\0`.
pub fn steps_of(space: &SpaceKey, id: &str) -> Vec<u8> {
    let mut key = steps(space);
    key.extend_from_slice(id.as_bytes());
    key.push(0);
    key
}

/// The key of a step.
pub fn step(space: &SpaceKey, id: &str, number: u64) -> Vec<u8> {
    let mut key = steps_of(space, id);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The number of a step; `None` if the key is damaged.
pub fn number(key: &[u8]) -> Option<u64> {
    key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}
