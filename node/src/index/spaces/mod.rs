//! The images in use: loaded once, kept up to date, bounded in bytes.
//!
//! # Why a recall sees every write that was acknowledged before it began
//! The apply thread opens a [`Batch`] before it writes to the store and delivers the batch's events
//! to it before it answers the writers. Delivery changes every live image, and is buffered by every
//! load that is under way. [`Spaces::get`] answers
//! - a live image: it took the events of each batch that was delivered, hence of each write that
//!   was acknowledged, or they wait beside it because somebody looked at it, and `get` puts them in first; or
//! - an image loaded now. The load registers first and scans the store then. A batch delivered
//!   before it registered is in the store, so the scan finds it; one delivered after is in the
//!   buffer, which is applied before the image is published.
//!
//! # Why no recall sees a part of a batch
//! A live image takes all of a batch under its write lock, at once or late. The scan of a load is not of one point in
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
//! Locks, in the order in which they may be taken: files or image, then table, then load; the batches' alone, and
//! what waits beside an image after the image. Nothing waits under the lock of the table, and what leaves it is freed when it is open again.

mod batches;
mod choices;
mod error;
mod load;
mod table;

use super::files::Files;
use super::graph::Upkeep;
use super::image::{Image, SharedImage, TimedOut};
use super::settings::{IndexChoice, IndexSettings};
use batches::{Batches, OpenBatch};
use holdfast_core::event::Event;
use holdfast_core::keys::next_space;
use holdfast_core::space::SpaceKey;
use holdfast_core::state::Reader;
use load::{Load, Loader};
use parking_lot::RwLockWriteGuard;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use table::Entry;

pub(super) use choices::Choices;
pub(super) use table::Tables;

pub use error::LoadError;

/// So long [`Spaces::get`] waits for who looks at an image that has changes to take. Recalls of this node share few
/// threads, which must not all wait for one that reads the disk.
const FREE_WITHIN: Duration = Duration::from_millis(20);

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
    /// Graphs that were read from their files so far.
    pub graphs_loaded: u64,
    /// Sets of vectors that are in files, in lists.
    pub lists: usize,
    /// Memory that goes with them, in bytes. It is a part of `bytes`.
    pub list_bytes: usize,
    /// Files of lists that were made so far, without those of vectors in no order.
    pub lists_built: u64,
    /// Lists given up so far for want of room on the disk, or of files.
    pub lists_refused: u64,
    /// Time that making lists took so far, on all threads together.
    pub list_time: Duration,
    /// Files of graphs and lists that were damaged, or that could not be written, so far.
    pub files_failed: u64,
}

/// The active spaces of a node.
#[derive(Debug)]
pub struct Spaces {
    table: Arc<Tables>,
    loader: Loader,
    upkeep: Upkeep,
    choices: Arc<Choices>,
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
        Self::with_files(budget_bytes, settings, Files::none())
    }

    /// The same, with files of indices in a folder: graphs are saved there, and the vectors of very large spaces
    /// are there and not in memory.
    ///
    /// # Errors
    /// If the folder cannot be made or read.
    pub fn open(budget_bytes: usize, settings: IndexSettings, dir: &Path) -> io::Result<Self> {
        Ok(Self::with_files(budget_bytes, settings, Files::at(dir)?))
    }

    fn with_files(budget_bytes: usize, settings: IndexSettings, files: Files) -> Self {
        let (table, files) = (Arc::new(Tables::new(budget_bytes)), Arc::new(files));
        let settings = settings.within(budget_bytes);
        let choices = Arc::new(Choices::default());
        let upkeep = Upkeep::new(settings, Arc::clone(&choices), Arc::clone(&table), Arc::clone(&files));
        let loader = Loader {
            table: Arc::clone(&table),
            batches: Batches::default(),
            files,
            settings,
            choices: Arc::clone(&choices),
            files_failed: AtomicUsize::new(0),
        };
        Self { table, loader, upkeep, choices }
    }

    /// Chooses an index for a space. Of two choices the one with the higher version counts, whichever comes first. Where
    /// it changes something, the image is loaded anew with the next recall, for vectors may have to move.
    pub fn choose(&self, space: &SpaceKey, choice: IndexChoice, version: u64) {
        if self.choices.note(space, choice, version) {
            self.forgotten(space);
        }
    }

    /// Announces a batch, before it is written to the store.
    pub fn open_batch(&self) -> Batch<'_> {
        Batch { spaces: self, _open: self.loader.batches.open() }
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
        let mut is_second = false;
        let load = loop {
            let mut table = self.table.lock();
            match table.touch(space) {
                Some(Entry::Live(live)) if !live.is_damaged() => {
                    let image = live.image.clone();
                    drop(table);
                    let soon = deadline.min(Instant::now() + FREE_WITHIN);
                    match self.catch_up(space, &image, soon) {
                        Err(LoadError::Deadline) if Instant::now() < deadline => return Err(LoadError::Held),
                        caught_up => caught_up?,
                    }
                    return Ok(image);
                }
                Some(Entry::Live(_)) if is_second => {
                    return Err(LoadError::Damaged("they failed twice in a moment".into()));
                }
                Some(Entry::Live(_)) => {}
                Some(Entry::Loading(load)) => {
                    let load = load.clone();
                    drop(table);
                    return load.wait(deadline);
                }
                None => {
                    let load = Arc::new(Load::new(space.clone()));
                    table.begin(load.clone());
                    break load;
                }
            }
            drop(table);
            // The next image reads the rows of the store, and no file. Others may have seen to it meanwhile.
            let forget = || self.is_damaged(space) && self.forgotten(space);
            self.loader.files.remove(space, forget).map_err(|error| LoadError::Damaged(error.to_string()))?;
            is_second = true;
        };
        let image = self.loader.run(&load, state, deadline)?;
        if image.read().wants_upkeep(&self.upkeep.settings_of(space)) {
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

    /// Whether changes of a space wait because a recall looks at its image: [`Spaces::get`] would have to wait, too.
    pub fn is_held(&self, space: &SpaceKey) -> bool {
        self.peek(space).is_some_and(|image| image.is_held())
    }

    /// As [`Spaces::forget`] for one space, whose files go too, and those that are being written: when it was erased, or when
    /// they are wrong. When this returns, nothing here has what the space held before.
    ///
    /// # Errors
    /// If files cannot be removed. The image is gone all the same.
    pub fn erase(&self, space: &SpaceKey) -> io::Result<()> {
        self.loader.files.remove(space, || self.forgotten(space))
    }

    /// The same for all spaces of tenants that are gone, of which no row tells any more. Files that are of no space that
    /// has rows in one of the `states` go as well: nothing says whose they were. These are all that the images are of.
    ///
    /// # Errors
    /// As [`Spaces::erase`], and if the rows or the folder cannot be read.
    pub fn erase_tenants(&self, is_gone: impl Fn(&str) -> bool, states: &[&dyn Reader]) -> io::Result<()> {
        let files = &self.loader.files;
        let mut folders = files.folders()?;
        for state in states {
            let mut last = None;
            while !folders.is_empty()
                && let Some(space) = next_space(*state, last.as_ref()).map_err(io::Error::other)?
            {
                if !is_gone(space.tenant()) {
                    folders.remove(&Files::folder(&space));
                }
                last = Some(space);
            }
        }
        files.remove_folders(folders, || {
            self.forget(|space| is_gone(space.tenant()));
            self.live()
        })
    }

    fn forgotten(&self, space: &SpaceKey) -> bool {
        self.forget(|gone| gone == space);
        true
    }

    fn is_damaged(&self, space: &SpaceKey) -> bool {
        matches!(self.table.lock().find(space), Some(Entry::Live(live)) if live.is_damaged())
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
        let loads_failed = self.loader.files_failed.load(Ordering::Relaxed) as u64;
        Usage {
            graphs_built: done.built,
            graphs_refused: done.refused,
            graphs_loaded: done.loaded,
            graph_time: done.adding,
            lists_built: done.listed,
            lists_refused: done.lists_refused,
            list_time: done.listing,
            files_failed: done.files_failed + loads_failed,
            ..usage
        }
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
            if let Some(writing) = image.deliver(&events) {
                self.count(space, &image, writing);
            }
        }
    }

    /// Puts in what came while somebody looked at an image.
    ///
    /// # Errors
    /// [`LoadError::Deadline`] if somebody still does then.
    pub(crate) fn catch_up(
        &self,
        space: &SpaceKey,
        image: &SharedImage,
        deadline: Instant,
    ) -> Result<(), LoadError> {
        if let Some(writing) = image.catch_up(deadline).map_err(|TimedOut| LoadError::Deadline)? {
            self.count(space, image, writing);
        }
        Ok(())
    }

    /// Counts what an image has after a change, and sees to its indices.
    fn count(&self, space: &SpaceKey, image: &SharedImage, writing: RwLockWriteGuard<'_, Image>) {
        let wants_upkeep = writing.wants_upkeep(&self.upkeep.settings_of(space));
        // Under the image's lock: what is counted last is what it has.
        let mut table = self.table.lock();
        table.resize(space, image, writing.size(), writing.is_wasteful());
        let left = table.unlock();
        drop(writing);
        drop(left);
        if wants_upkeep {
            self.upkeep.ask(space, image);
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
