//! Sessions of a space: one file per call, and what they share.

pub(crate) mod append;
pub(crate) mod change;
pub(crate) mod delete;
pub(crate) mod read;
mod turn;
mod view;

use crate::http::problem::Problem;
use holdfast_core::{Error, ErrorCode};

/// The one answer to an id that is not there, whether it ever was or is somebody else's.
fn not_found() -> Problem {
    Error::new(ErrorCode::NotFound, "there is no session with this id in this space").at("id").into()
}
