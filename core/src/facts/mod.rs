//! Facts: what memories state in the form subject, predicate, object, and how such statements
//! contradict each other.
//!
//! - [`timeline`](mod@timeline): what the statements of one group say together; used by apply and
//!   by readers, on stored rows alone.
//! - [`mod@extract`]: what a text states, by rules.
//! - [`asked`]: which facts a question asks for.
//! - [`own`]: the rules of a tenant.
//! - [`similar`]: whether a plain text may contradict an older one.
//! - [`constraint`]: which statements are hard constraints.
//! - [`normal`], [`registry`], [`statement`]: from words to a [`crate::memory::Statement`]. These are
//!   tables and rules that change from version to version, so they run before the proposal, and
//!   apply compares what they made byte for byte.

pub mod asked;
pub mod constraint;
pub mod extract;
pub mod normal;
pub mod own;
pub mod registry;
pub mod similar;
pub mod statement;
pub mod timeline;
