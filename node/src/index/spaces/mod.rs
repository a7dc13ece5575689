//! The images in use: loaded once, kept up to date, bounded in bytes.
//!
//! # Why a recall sees every write that was acknowledged before it began
//! The apply thread opens a [`Batch`] before it writes to the store and delivers the batch's events
//! to it before it answers the writers. Delivery changes every live image, and is buffered by every
//! load that is under way. [`Spaces::get`] answers
//! - a live image: it took the events of each batch that was delivered, hence of each write that
//!   was acknowledged; or
//! - an image loaded now. The load registers first and scans the store then. A batch delivered
//!   before it registered is in the store, so the scan finds it; one delivered after is in the
//!   buffer, which is applied before the image is published.
//!
//! # Why no recall sees a part of a batch
//! A live image takes all of a batch under its write lock. The scan of a load is not of one point in
//! time: it may find one row of a batch and have missed another. Such a batch was open when the
//! scan ended or delivered during it; the load waits until every batch that was open then is
//! delivered, and applies them all. Events carry whole rows, so taking one twice changes nothing.
//!
//! # Eviction
//! The least recently used images go when all together exceed the budget. An image that is evicted
//! lives as long as somebody holds it, but takes no more events. So **hold what `get` answered for
//! one recall only, and call `get` after the recall's wait for its token**: then the promise above
//! holds for the evicted too, since they took every batch that was delivered before `get`.
//!
//! Locks, in the order in which they may be taken: image, then table, then load; the batches' alone. Nothing
//! waits under the lock of the table.

mod batches;
mod error;
mod load;
mod table;

use super::graph::Upkeep;
use super::image::SharedImage;
use super::settings::IndexSettings;
use batches::{Batches, OpenBatch};
use holdfast_core::event::Event;
use holdfast_core::space::SpaceKey;
use holdfast_core::state::Reader;
use load::Load;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use table::Entry;

pub(super) use table::Table;

pub use error::LoadError;

/// What the images take up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Live images.
    pub images: usize,
    /// Loads under way.
    pub loading: usize,
    /// Memory of both, in bytes.
    pub bytes: usize,
    /// Images evicted so far for want of memory.
    pub evicted: u64,
    /// Images dropped so far because too many of their rows were dead.
    pub worn: u64,
    /// Graphs that answer.
    pub graphs: usize,
    /// Memory of the graphs, those that are being built included, in bytes. It is a part of `bytes`.
    pub graph_bytes: usize,
    /// Graphs that were built so far.
    pub graphs_built: u64,
    /// Graphs given up so far for want of memory.
    pub graphs_refused: u64,
    /// Time that adding vectors to graphs took so far, on all threads together.
    pub graph_time: Duration,
}

/// The active spaces of a node.
#[derive(Debug)]
pub struct Spaces {
    table: Arc<Mutex<Table>>,
    batches: Batches,
    upkeep: Upkeep,
}

/// A batch on its way into the store. Between opening it and delivering its events no load
/// publishes an image that could hold a part of it. Dropped without delivery, as when the write to
/// the store failed, it leaves the images as they are: the replica has to stop then.
#[derive(Debug)]
#[must_use = "a batch that is not delivered is missing in the images"]
pub struct Batch<'a> {
    spaces: &'a Spaces,
    _open: OpenBatch<'a>,
}

impl Batch<'_> {
    /// Brings the images up to date. Called when the batch is in the store and before its writers
    /// are answered. The events of a space are delivered in log order: by one thread at a time.
    pub fn deliver(self, events: &[Event]) {
        self.spaces.take(events);
    }
}

impl Spaces {
    /// No images yet, and at most `budget_bytes` of them, which get graphs by the default settings.
    pub fn new(budget_bytes: usize) -> Self {
        Self::with_indices(budget_bytes, IndexSettings::default())
    }

    /// The same with other settings.
    pub fn with_indices(budget_bytes: usize, settings: IndexSettings) -> Self {
        let table = Arc::new(Mutex::new(Table::new(budget_bytes)));
        let upkeep = Upkeep::new(settings, Arc::clone(&table));
        Self { table, batches: Batches::default(), upkeep }
    }

    /// Announces a batch, before it is written to the store.
    pub fn open_batch(&self) -> Batch<'_> {
        Batch { spaces: self, _open: self.batches.open() }
    }

    /// The image of a space, loaded from `state` if it is not live. Many callers of one space share
    /// one load: the first one loads, on its own thread and to the end, the others wait for it until
    /// `deadline`. The first one waits so long too, but only for batches that are on their way: a
    /// thread that has a batch open must not call this.
    ///
    /// # Errors
    /// [`LoadError`]; never an image that is not whole.
    pub fn get(
        &self,
        space: &SpaceKey,
        state: &dyn Reader,
        deadline: Instant,
    ) -> Result<SharedImage, LoadError> {
        let load = {
            let mut table = self.table.lock();
            match table.touch(space) {
                Some(Entry::Live(live)) => return Ok(live.image.clone()),
                Some(Entry::Loading(load)) => {
                    let load = load.clone();
                    drop(table);
                    return load.wait(deadline);
                }
                None => {
                    let load = Arc::new(Load::new(space.clone()));
                    table.begin(load.clone());
                    load
                }
            }
        };
        let image = load::run(&self.table, &self.batches, &load, state, deadline)?;
        if image.read().wants_upkeep(self.upkeep.settings()) {
            self.upkeep.ask(space, &image);
        }
        Ok(image)
    }

    /// Drops the images of the spaces that `gone` names and cancels their loads: when a replica, or
    /// a slot of it, leaves the node or is replaced by a snapshot.
    pub fn forget(&self, gone: impl Fn(&SpaceKey) -> bool) {
        let cancelled = self.table.lock().forget(gone);
        for load in cancelled {
            load.finish(Err(LoadError::Cancelled));
        }
    }

    /// The spaces whose images are live, in the order of their keys.
    pub fn live(&self) -> Vec<SpaceKey> {
        self.table.lock().live()
    }

    /// The image of a space if it is live. It does not count as used.
    pub fn peek(&self, space: &SpaceKey) -> Option<SharedImage> {
        match self.table.lock().find(space) {
            Some(Entry::Live(live)) => Some(live.image.clone()),
            _ => None,
        }
    }

    /// What the images take up now.
    pub fn usage(&self) -> Usage {
        let usage = self.table.lock().usage();
        let done = self.upkeep.done();
        Usage { graphs_built: done.built, graphs_refused: done.refused, graph_time: done.adding, ..usage }
    }

    /// Waits until no graph has anything to catch up with.
    #[cfg(test)]
    pub(super) fn settle_graphs(&self) {
        while !self.upkeep.is_idle() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Evicts one image as if memory were short; false if none is live.
    #[cfg(test)]
    pub(super) fn evict_oldest(&self) -> bool {
        self.table.lock().evict_oldest()
    }

    fn take(&self, events: &[Event]) {
        let changed = self.distribute(events);
        if changed.is_empty() {
            return;
        }
        for (space, (image, events)) in changed {
            let mut writing = image.write();
            for event in events {
                load::apply(&mut writing, event);
            }
            let wants_upkeep = writing.wants_upkeep(self.upkeep.settings());
            // Under the image's lock: what is counted last is what it has.
            self.table.lock().resize(space, &image, writing.size(), writing.is_wasteful());
            drop(writing);
            if wants_upkeep {
                self.upkeep.ask(space, &image);
            }
        }
    }

    /// Buffers events for loads, and finds the live images of the others. Only active spaces cost
    /// anything.
    fn distribute<'e>(&self, events: &'e [Event]) -> HashMap<&'e SpaceKey, (SharedImage, Vec<&'e Event>)> {
        let mut changed: HashMap<&SpaceKey, (SharedImage, Vec<&Event>)> = HashMap::new();
        let table = self.table.lock();
        for event in events {
            match table.find(event.space()) {
                None => {}
                Some(Entry::Loading(load)) => load.buffer(event),
                Some(Entry::Live(live)) => {
                    let entry = changed.entry(event.space());
                    entry.or_insert_with(|| (live.image.clone(), Vec::new())).1.push(event);
                }
            }
        }
        changed
    }
}
