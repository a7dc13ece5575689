//! The place of a request among those that are worked on, and the memory that its body takes.

use super::{Answer, Problem};
use crate::shared::Shared;
use holdfast_core::ErrorCode;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// Bodies are counted in pieces of this many bytes.
pub(crate) const BODY_PIECE_BYTES: usize = 1024;

/// What a request holds until it is answered. A clone travels in the request's extensions.
///
/// While its body arrives a request holds no place: a caller that sends slowly, or not at all, must
/// not keep others out. What it has announced is reserved first, so that bodies on their way are
/// bounded in bytes.
#[derive(Clone, Default)]
pub(crate) struct Slot(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    place: Option<OwnedSemaphorePermit>,
    body: Option<OwnedSemaphorePermit>,
}

impl Slot {
    /// Takes a place, if one is free.
    pub(crate) fn enter(&self, shared: &Shared) -> Answer<()> {
        let Ok(place) = shared.in_flight.clone().try_acquire_owned() else {
            return Err(full("this router works on as many requests as it may"));
        };
        self.0.lock().place = Some(place);
        Ok(())
    }

    /// Gives the place back for as long as the body arrives, and reserves `bytes` for it.
    pub(crate) fn receive(&self, shared: &Shared, bytes: usize) -> Answer<()> {
        let pieces = u32::try_from(bytes.div_ceil(BODY_PIECE_BYTES)).unwrap_or(u32::MAX);
        let Ok(body) = shared.bodies.clone().try_acquire_many_owned(pieces) else {
            return Err(full("the bodies of requests take up all the memory that they may"));
        };
        let mut held = self.0.lock();
        held.place = None;
        held.body = Some(body);
        Ok(())
    }
}

fn full(why: &str) -> Problem {
    let detail = format!("{why}; retry after a moment, or ask another router");
    Problem::new(ErrorCode::Overloaded, detail)
}
