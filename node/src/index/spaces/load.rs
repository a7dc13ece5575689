use super::LoadError;
use super::batches::Batches;
use super::table::{Table, Tables};
use crate::index::files::{FileError, Files};
use crate::index::image::{Image, LiveImage, SharedImage};
use crate::index::lists::{self, Lists, Writer};
use crate::index::settings::IndexSettings;
use crate::index::spaces::Choices;
use holdfast_core::codec::Stored;
use holdfast_core::event::Event;
use holdfast_core::keys::{Family, family_prefix, index_row};
use holdfast_core::memory::IndexRow;
use holdfast_core::space::SpaceKey;
use holdfast_core::state::Reader;
use parking_lot::{Condvar, Mutex};
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
    table: &'a Tables,
    load: &'a Arc<Load>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.table.lock().give_up(self.load);
        self.load.finish(Err(LoadError::Abandoned));
    }
}

/// Vectors that a file of lists may lack for which it is still taken: others would fill the memory.
const TAIL_MAX: usize = 1 << 16;

/// What loads of all spaces share.
#[derive(Debug)]
pub(super) struct Loader {
    pub(super) table: Arc<Tables>,
    pub(super) batches: Batches,
    pub(super) files: Arc<Files>,
    pub(super) settings: IndexSettings,
    pub(super) choices: Arc<Choices>,
    /// Files of lists that were of no use.
    pub(super) files_failed: AtomicUsize,
}

/// What became of reading the rows.
enum Scanned {
    Whole(Box<Image>),
    /// The files of the space were of no use, and are removed.
    OnceMoreWithoutOld,
    /// Files are of no use here.
    OnceMoreInMemory,
}

/// Where the vectors of a very large space may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Vectors {
    /// In the file of before, or a new one.
    OldFile,
    /// In a new file.
    NewFile,
    Memory,
}

impl Loader {
    /// Loads a space that was registered with [`Table::begin`], and tells all who wait.
    pub(super) fn run(
        &self,
        load: &Arc<Load>,
        state: &dyn Reader,
        deadline: Instant,
    ) -> Result<SharedImage, LoadError> {
        let guard = Guard { table: &self.table, load };
        let result = self.read(load, state).and_then(|image| {
            if self.batches.settle(deadline) {
                publish(&self.table, load, image)
            } else {
                Err(LoadError::Deadline)
            }
        });
        if result.is_err() {
            self.table.lock().give_up(load);
        }
        load.finish(result);
        drop(guard);
        load.wait(deadline)
    }

    /// Builds an image from the rows of the store, with the vectors in a file if there are very many.
    fn read(&self, load: &Arc<Load>, state: &dyn Reader) -> Result<Image, LoadError> {
        let mut vectors = if self.files.are_kept() { Vectors::OldFile } else { Vectors::Memory };
        loop {
            vectors = match (self.scan(load, state, vectors)?, vectors) {
                (Scanned::Whole(image), _) => return Ok(*image),
                (Scanned::OnceMoreWithoutOld, Vectors::OldFile) => Vectors::NewFile,
                (_, Vectors::Memory) => return Err(LoadError::Abandoned),
                _ => Vectors::Memory,
            };
        }
    }

    /// Reads the rows, a page at a time.
    fn scan(&self, load: &Arc<Load>, state: &dyn Reader, vectors: Vectors) -> Result<Scanned, LoadError> {
        let prefix = family_prefix(&load.space, Family::IndexRow);
        let mut image = Image::new();
        if vectors == Vectors::OldFile {
            self.offer(load, &mut image);
        }
        let mut after: Option<Vec<u8>> = None;
        loop {
            let mut page = state.scan(&prefix, after.as_deref(), PAGE_ROWS)?;
            for (key, value) in &page {
                let seq = index_row::seq(key).ok_or(LoadError::Key)?;
                image.put(seq, &IndexRow::decode(value)?);
            }
            let is_last = page.len() < PAGE_ROWS;
            if vectors != Vectors::Memory {
                // What was allocated counts, which may be twice what is used.
                let is_short = image.bytes() > self.table.lock().budget();
                match self.move_to_files(load, &mut image, is_last, is_short) {
                    Ok(true) => {}
                    Ok(false) => {
                        self.discard_all(load);
                        return Ok(Scanned::OnceMoreWithoutOld);
                    }
                    Err(error @ FileError::Damaged(_)) => {
                        self.note_failure(load, &error);
                        self.discard_all(load);
                        return Ok(Scanned::OnceMoreWithoutOld);
                    }
                    Err(error) => {
                        self.note_failure(load, &error);
                        return Ok(Scanned::OnceMoreInMemory);
                    }
                }
            }
            if is_last {
                image.shrink();
            }
            reserve(&mut self.table.lock(), load, image.bytes())?;
            match page.pop() {
                Some((key, _)) if !is_last => after = Some(key),
                _ => return Ok(Scanned::Whole(Box::new(image))),
            }
        }
    }

    /// Opens the files of the space, so that vectors in them are not taken into memory. One that is of no use
    /// is removed.
    fn offer(&self, load: &Arc<Load>, image: &mut Image) {
        let names = self.files.names(&load.space, lists::EXTENSION).unwrap_or_else(|error| {
            self.note_failure(load, &error.into());
            Vec::new()
        });
        let settings = self.settings_of(load);
        for name in names {
            let opened = self.files.path(&load.space, &name).and_then(|path| Lists::open(&path, &load.space));
            match opened {
                Ok((lists, seqs)) if settings.keeps_lists(lists.len(), lists.dims) => {
                    image.vectors.offer(lists, &seqs);
                }
                Ok(_) => self.discard(load, &name),
                Err(error) => {
                    self.note_failure(load, &error);
                    self.discard(load, &name);
                }
            }
        }
    }

    /// The settings for the space of a load.
    fn settings_of(&self, load: &Load) -> IndexSettings {
        self.settings.chosen(self.choices.of(&load.space))
    }

    fn discard_all(&self, load: &Arc<Load>) {
        for name in self.files.names(&load.space, lists::EXTENSION).unwrap_or_default() {
            self.discard(load, &name);
        }
    }

    fn discard(&self, load: &Arc<Load>, name: &str) {
        if let Err(error) = self.files.discard(&load.space, name) {
            tracing::warn!(space = %load.space, name, %error, "a file of lists cannot be removed");
        }
    }

    fn note_failure(&self, load: &Arc<Load>, error: &FileError) {
        if !matches!(error, FileError::GivenUp) {
            tracing::warn!(space = %load.space, %error, "a file of lists is of no use");
            self.files_failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Moves vectors to a file, if there are so many or memory is short, and ends the files with the last row. False
    /// if the files of before are of no use: there are so few vectors by now that they belong into memory, or too
    /// many that are not in them.
    fn move_to_files(
        &self,
        load: &Arc<Load>,
        image: &mut Image,
        is_last: bool,
        is_short: bool,
    ) -> Result<bool, FileError> {
        let is_wanted = || self.table.lock().is_current(load);
        let settings = self.settings_of(load);
        let Image { vectors, columns, .. } = image;
        for arena in 0..vectors.arenas() {
            let (live, dims, is_listed) =
                (vectors.live(arena), vectors.dims(arena), vectors.listed(arena).is_some());
            // Of another time: little of it is still right.
            let is_old = vectors.tail(arena) > if is_short { 0 } else { TAIL_MAX };
            if is_listed && (is_old || (is_last && !settings.keeps_lists(live, dims))) {
                return Ok(false);
            }
            let is_short = is_short && settings.may_have_lists();
            if !is_short && !vectors.is_spilling(arena) && !settings.wants_lists(live, dims) {
                continue;
            }
            let seq_of = |row: u32| columns.seq.get(row as usize).copied().unwrap_or_default();
            let now = is_short || (is_last && vectors.is_spilling(arena));
            vectors.spill(arena, now, seq_of, |kind, live| {
                Writer::new(&self.files, &load.space, kind, live, is_wanted)
            })?;
        }
        if is_last {
            vectors.spilled(&self.files, &is_wanted)?;
            vectors.claimed();
            for arena in 0..vectors.arenas() {
                image.keep_residents(arena)?;
            }
        }
        Ok(true)
    }
}

/// Applies what came while the store was scanned, until nothing is left, and makes the image live.
fn publish(table: &Tables, load: &Arc<Load>, mut image: Image) -> Result<SharedImage, LoadError> {
    for round in 0.. {
        for event in load.buffered()? {
            image.apply(&event);
        }
        let mut table = table.lock();
        // Under this lock no event comes: if none is left, the image has all of them.
        let left = load.buffered()?;
        if !left.is_empty() && round < ROUNDS_MAX {
            drop(table);
            for event in &left {
                image.apply(event);
            }
            continue;
        }
        for event in &left {
            image.apply(event);
        }
        let size = image.size();
        reserve(&mut table, load, size.bytes)?;
        let damaged = Arc::clone(image.vectors.damage());
        let image = Arc::new(LiveImage::new(image));
        table.publish(load, image.clone(), size, damaged);
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
