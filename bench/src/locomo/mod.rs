//! LoCoMo: ten very long conversations between two people, with questions whose evidence turns
//! are marked (Maharana et al., 2024, <https://arxiv.org/abs/2402.17753>).
//!
//! The dataset's licence (CC BY-NC 4.0) forbids commercial use, so no part of it is in this
//! repository; the path of a copy is an argument.

pub mod dataset;
mod evidence;
mod metric;
mod questions;
mod run;

pub use dataset::{Conversation, Dataset, Question};
pub use metric::{Counts, Measure, Report};
pub use questions::{AskedQuestion, QuestionsArgs, pick};
pub use run::{LocomoArgs, run};
