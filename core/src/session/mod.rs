//! Short-term memory: the turns of a conversation, and what follows from them.
//!
//! - [`rows`]: what is stored of a session.
//! - [`window`]: which of its turns stand in the window as they are.
//! - [`mod@summary`]: what is kept of the turns that have left it, word for word.
//! - [`dialogue`]: the state machine of a dialogue.
//! - [`labels`]: act, topics and names of a turn, by rules in English and Chinese.
//!
//! All of it is pure. What depends on tables of words is computed before a proposal and travels in the
//! command; apply looks only at numbers of turns, counts of tokens, and states.

pub mod dialogue;
pub mod labels;
pub mod rows;
pub mod summary;
pub mod window;

pub use dialogue::{Dialogue, Phase};
pub use rows::{SessionRow, Tool, TurnRow, turn_reference};
pub use summary::{Summary, SummaryLine};
