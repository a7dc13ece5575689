use super::Usage;
use super::load::Load;
use crate::index::image::{SharedImage, Size};
use holdfast_core::space::SpaceKey;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The table behind its lock. Freeing an image can take many milliseconds, so that those which leave the table are
/// freed when its lock is open again.
#[derive(Debug)]
pub(in crate::index) struct Tables(Mutex<Table>);

/// The table, while it is locked. Fields are dropped in their order: the lock first.
pub(in crate::index) struct Locked<'a> {
    table: MutexGuard<'a, Table>,
    left: Left,
}

/// Images that left the table, to be freed when nothing is locked.
pub(in crate::index) type Left = Vec<SharedImage>;

/// Every active space, and the order in which the live ones were used.
#[derive(Debug)]
pub(in crate::index) struct Table {
    entries: HashMap<SpaceKey, Entry>,
    /// The live spaces by the time of their last use, the least recent first.
    by_use: BTreeMap<u64, SpaceKey>,
    clock: u64,
    budget: usize,
    /// Bytes of the live images and of those being loaded.
    bytes: usize,
    evicted: u64,
    worn: u64,
    left: Left,
}

#[derive(Debug)]
pub(super) enum Entry {
    Live(Live),
    Loading(Arc<Load>),
}

#[derive(Debug)]
pub(super) struct Live {
    pub(super) image: SharedImage,
    size: Size,
    used: u64,
    /// A vector of it could not be read.
    damaged: Arc<AtomicBool>,
}

impl Live {
    pub(super) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }
}

impl Tables {
    pub(super) fn new(budget: usize) -> Self {
        Self(Mutex::new(Table::new(budget)))
    }

    pub(in crate::index) fn lock(&self) -> Locked<'_> {
        Locked { table: self.0.lock(), left: Left::new() }
    }

    /// Counts what an image has after a change.
    pub(in crate::index) fn resize(&self, space: &SpaceKey, image: &SharedImage) {
        // Under the image's lock: what is counted last is what it has.
        let reading = image.read();
        let mut table = self.lock();
        table.resize(space, image, reading.size(), false);
        let left = table.unlock();
        drop(reading);
        drop(left);
    }
}

impl Locked<'_> {
    /// Unlocks the table; answers what left it.
    pub(super) fn unlock(mut self) -> Left {
        std::mem::take(&mut self.table.left)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.left = std::mem::take(&mut self.table.left);
    }
}

impl Deref for Locked<'_> {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Table {
        &mut self.table
    }
}

impl Table {
    pub(super) fn new(budget: usize) -> Self {
        Self {
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
            clock: 0,
            budget,
            bytes: 0,
            evicted: 0,
            worn: 0,
            left: Left::new(),
        }
    }

    pub(super) fn find(&self, space: &SpaceKey) -> Option<&Entry> {
        self.entries.get(space)
    }

    /// Finds a space and notes that it is used.
    pub(super) fn touch(&mut self, space: &SpaceKey) -> Option<&Entry> {
        let entry = self.entries.get_mut(space)?;
        if let Entry::Live(live) = entry {
            self.clock += 1;
            if let Some(space) = self.by_use.remove(&live.used) {
                self.by_use.insert(self.clock, space);
            }
            live.used = self.clock;
        }
        Some(entry)
    }

    /// Registers a load: from now on its space's events are buffered.
    pub(super) fn begin(&mut self, load: Arc<Load>) {
        self.entries.insert(load.space().clone(), Entry::Loading(load));
    }

    /// Whether this load is still the one that its space waits for.
    pub(super) fn is_current(&self, load: &Arc<Load>) -> bool {
        matches!(self.entries.get(load.space()), Some(Entry::Loading(current)) if Arc::ptr_eq(current, load))
    }

    /// Whether this image is the live one of its space.
    pub(in crate::index) fn is_live(&self, space: &SpaceKey, image: &SharedImage) -> bool {
        matches!(self.entries.get(space), Some(Entry::Live(live)) if Arc::ptr_eq(&live.image, image))
    }

    /// Counts the growth of an image that is being loaded, evicting others for it. False, and
    /// nothing counted, if there is not enough memory even so.
    pub(super) fn reserve(&mut self, load: &Load, bytes: usize) -> bool {
        let grown = bytes.saturating_sub(load.reserved());
        self.bytes += grown;
        self.evict();
        if self.bytes > self.budget {
            self.bytes -= grown;
            return false;
        }
        load.set_reserved(load.reserved() + grown);
        true
    }

    /// Makes the image of a load live, if the load is current.
    pub(super) fn publish(
        &mut self,
        load: &Arc<Load>,
        image: SharedImage,
        size: Size,
        damaged: Arc<AtomicBool>,
    ) {
        self.bytes = self.bytes.saturating_sub(load.reserved()) + size.bytes;
        load.set_reserved(0);
        self.clock += 1;
        self.by_use.insert(self.clock, load.space().clone());
        let live = Live { image, size, used: self.clock, damaged };
        self.entries.insert(load.space().clone(), Entry::Live(live));
        self.evict();
    }

    /// Takes back what a load that failed has reserved and registered.
    pub(super) fn give_up(&mut self, load: &Arc<Load>) {
        self.bytes = self.bytes.saturating_sub(load.reserved());
        load.set_reserved(0);
        if self.is_current(load) {
            self.entries.remove(load.space());
        }
    }

    /// Counts what an image has after a change, if it is still live, and drops one that is worn out: the
    /// next recall loads it anew, off the apply thread.
    pub(in crate::index) fn resize(&mut self, space: &SpaceKey, image: &SharedImage, size: Size, worn: bool) {
        if let Some(Entry::Live(live)) = self.entries.get_mut(space)
            && Arc::ptr_eq(&live.image, image)
        {
            self.bytes = self.bytes.saturating_sub(live.size.bytes) + size.bytes;
            live.size = size;
            if worn {
                self.drop_live(space);
                self.worn += 1;
            }
        }
        self.evict();
    }

    /// Drops the live images of spaces that are gone; their loads, which are to be cancelled.
    pub(super) fn forget(&mut self, gone: impl Fn(&SpaceKey) -> bool) -> Vec<Arc<Load>> {
        let spaces: Vec<SpaceKey> = self.entries.keys().filter(|space| gone(space)).cloned().collect();
        let mut cancelled = Vec::new();
        for space in spaces {
            if let Some(Entry::Loading(load)) = self.entries.get(&space) {
                // What it reserved, it gives back itself when it learns of it.
                cancelled.push(load.clone());
                self.entries.remove(&space);
            } else {
                self.drop_live(&space);
            }
        }
        cancelled
    }

    pub(super) fn live(&self) -> Vec<SpaceKey> {
        let mut live: Vec<SpaceKey> = self.by_use.values().cloned().collect();
        live.sort();
        live
    }

    pub(in crate::index) fn budget(&self) -> usize {
        self.budget
    }

    pub(super) fn usage(&self) -> Usage {
        let images = self.by_use.len();
        let loading = self.entries.len() - images;
        let sizes = self.entries.values().filter_map(|entry| match entry {
            Entry::Live(live) => Some(live.size),
            Entry::Loading(_) => None,
        });
        let all = sizes.fold(Size::default(), |all, size| Size {
            bytes: all.bytes + size.bytes,
            graphs: all.graphs + size.graphs,
            graph_bytes: all.graph_bytes + size.graph_bytes,
            lists: all.lists + size.lists,
            list_bytes: all.list_bytes + size.list_bytes,
        });
        Usage {
            images,
            loading,
            bytes: self.bytes,
            evicted: self.evicted,
            worn: self.worn,
            graphs: all.graphs,
            graph_bytes: all.graph_bytes,
            lists: all.lists,
            list_bytes: all.list_bytes,
            ..Usage::default()
        }
    }

    fn evict(&mut self) {
        while self.bytes > self.budget && self.evict_oldest() {}
    }

    /// Evicts the live image that was not used for the longest time; false if none is live.
    pub(super) fn evict_oldest(&mut self) -> bool {
        let Some((_, space)) = self.by_use.first_key_value() else { return false };
        let space = space.clone();
        self.drop_live(&space);
        self.evicted += 1;
        true
    }

    fn drop_live(&mut self, space: &SpaceKey) {
        if let Some(Entry::Live(live)) = self.entries.remove(space) {
            self.by_use.remove(&live.used);
            self.bytes = self.bytes.saturating_sub(live.size.bytes);
            self.left.push(live.image);
        }
    }
}
