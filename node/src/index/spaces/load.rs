use super::LoadError;
use super::batches::Batches;
use super::table::Table;
use crate::index::image::{Image, SharedImage};
use holdfast_core::codec::Stored;
use holdfast_core::event::Event;
use holdfast_core::keys::{Family, family_prefix, index_row};
use holdfast_core::memory::IndexRow;
use holdfast_core::space::SpaceKey;
use holdfast_core::state::Reader;
use parking_lot::{Condvar, Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Rows read from the store in one step.
const PAGE_ROWS: usize = 512;
/// Most events that a load buffers.
const BUFFERED_MAX: usize = 16_384;
/// After so many rounds of applying what came meanwhile, the rest is applied under the lock of the
/// table, so that a space under constant writing is loaded too. A round takes microseconds.
const ROUNDS_MAX: usize = 16;

/// One load that is under way, which others can wait for.
#[derive(Debug)]
pub(super) struct Load {
    space: SpaceKey,
    state: Mutex<State>,
    done: Condvar,
    /// Bytes that the table counts for it; changed under the table's lock only.
    reserved: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    events: Vec<Event>,
    overrun: bool,
    result: Option<Result<SharedImage, LoadError>>,
}

impl Load {
    pub(super) fn new(space: SpaceKey) -> Self {
        Self { space, state: Mutex::default(), done: Condvar::new(), reserved: AtomicUsize::new(0) }
    }

    pub(super) fn space(&self) -> &SpaceKey {
        &self.space
    }

    pub(super) fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    pub(super) fn set_reserved(&self, bytes: usize) {
        self.reserved.store(bytes, Ordering::Relaxed);
    }

    /// Keeps an event for the image that is being made.
    pub(super) fn buffer(&self, event: &Event) {
        let mut state = self.state.lock();
        if state.events.len() < BUFFERED_MAX {
            state.events.push(event.clone());
        } else {
            state.overrun = true;
        }
    }

    /// The first result counts; a cancelled load stays cancelled.
    pub(super) fn finish(&self, result: Result<SharedImage, LoadError>) {
        self.state.lock().result.get_or_insert(result);
        self.done.notify_all();
    }

    pub(super) fn wait(&self, deadline: Instant) -> Result<SharedImage, LoadError> {
        let mut state = self.state.lock();
        loop {
            if let Some(result) = &state.result {
                return result.clone();
            }
            if self.done.wait_until(&mut state, deadline).timed_out() {
                return state.result.clone().unwrap_or(Err(LoadError::Deadline));
            }
        }
    }

    fn buffered(&self) -> Result<Vec<Event>, LoadError> {
        let mut state = self.state.lock();
        if state.overrun { Err(LoadError::Overrun) } else { Ok(std::mem::take(&mut state.events)) }
    }
}

/// Gives a load up unless it was finished, even if its thread panics: nobody waits in vain.
struct Guard<'a> {
    table: &'a Mutex<Table>,
    load: &'a Arc<Load>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.table.lock().give_up(self.load);
        self.load.finish(Err(LoadError::Abandoned));
    }
}

/// Loads a space that was registered with [`Table::begin`], and tells all who wait.
pub(super) fn run(
    table: &Mutex<Table>,
    batches: &Batches,
    load: &Arc<Load>,
    state: &dyn Reader,
    deadline: Instant,
) -> Result<SharedImage, LoadError> {
    let guard = Guard { table, load };
    let result = scan(table, load, state).and_then(|image| {
        if batches.settle(deadline) { publish(table, load, image) } else { Err(LoadError::Deadline) }
    });
    if result.is_err() {
        table.lock().give_up(load);
    }
    load.finish(result);
    drop(guard);
    load.wait(deadline)
}

/// Builds an image from the rows of the store, a page at a time.
fn scan(table: &Mutex<Table>, load: &Arc<Load>, state: &dyn Reader) -> Result<Image, LoadError> {
    let prefix = family_prefix(&load.space, Family::IndexRow);
    let mut image = Image::new();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let mut page = state.scan(&prefix, after.as_deref(), PAGE_ROWS)?;
        for (key, value) in &page {
            let seq = index_row::seq(key).ok_or(LoadError::Key)?;
            image.put(seq, &IndexRow::decode(value)?);
        }
        let last = page.len() < PAGE_ROWS;
        if last {
            image.shrink();
        }
        reserve(&mut table.lock(), load, image.bytes())?;
        match page.pop() {
            Some((key, _)) if !last => after = Some(key),
            _ => return Ok(image),
        }
    }
}

/// Applies what came while the store was scanned, until nothing is left, and makes the image live.
fn publish(table: &Mutex<Table>, load: &Arc<Load>, mut image: Image) -> Result<SharedImage, LoadError> {
    for round in 0.. {
        for event in load.buffered()? {
            apply(&mut image, &event);
        }
        let mut table = table.lock();
        // Under this lock no event comes: if none is left, the image has all of them.
        let left = load.buffered()?;
        if !left.is_empty() && round < ROUNDS_MAX {
            drop(table);
            for event in &left {
                apply(&mut image, event);
            }
            continue;
        }
        for event in &left {
            apply(&mut image, event);
        }
        let size = image.size();
        reserve(&mut table, load, size.bytes)?;
        let image = Arc::new(RwLock::new(image));
        table.publish(load, image.clone(), size);
        return Ok(image);
    }
    Err(LoadError::Overrun)
}

fn reserve(table: &mut Table, load: &Arc<Load>, bytes: usize) -> Result<(), LoadError> {
    if !table.is_current(load) {
        return Err(LoadError::Cancelled);
    }
    if table.reserve(load, bytes) {
        Ok(())
    } else {
        Err(LoadError::Memory { needed: bytes, budget: table.budget() })
    }
}

/// Brings an image up to date with one change of its space.
pub(super) fn apply(image: &mut Image, event: &Event) {
    match event {
        Event::Put { seq, row, .. } => image.put(*seq, row),
        Event::Remove { seq, .. } => image.remove(*seq),
    }
}
