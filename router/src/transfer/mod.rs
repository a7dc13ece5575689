//! A space as JSON Lines: out and back in. One kind of line for each kind of thing
//! ([`holdfast_core::transfer::FAMILIES`] says which rows are in which).

pub(crate) mod export;
pub(crate) mod import;
mod line;
mod record;
mod stalled;
mod statement;

use crate::http::problem::{Answer, Problem};
use crate::shared::Shared;
use holdfast_core::ErrorCode;
use tokio::sync::OwnedSemaphorePermit;

/// A place among the exports and imports of this router.
fn enter(shared: &Shared) -> Answer<OwnedSemaphorePermit> {
    shared.streams.clone().try_acquire_owned().map_err(|_| {
        let detail = "this router works on as many exports and imports as it may; retry after a moment";
        Problem::new(ErrorCode::Overloaded, detail)
    })
}
