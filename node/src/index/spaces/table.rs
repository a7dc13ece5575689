use super::Usage;
use super::load::Load;
use crate::index::image::SharedImage;
use holdfast_core::space::SpaceKey;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Every active space, and the order in which the live ones were used.
#[derive(Debug)]
pub(super) struct Table {
    entries: HashMap<SpaceKey, Entry>,
    /// The live spaces by the time of their last use, the least recent first.
    by_use: BTreeMap<u64, SpaceKey>,
    clock: u64,
    budget: usize,
    /// Bytes of the live images and of those being loaded.
    bytes: usize,
    evicted: u64,
    worn: u64,
}

#[derive(Debug)]
pub(super) enum Entry {
    Live(Live),
    Loading(Arc<Load>),
}

#[derive(Debug)]
pub(super) struct Live {
    pub(super) image: SharedImage,
    bytes: usize,
    used: u64,
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
    pub(super) fn publish(&mut self, load: &Arc<Load>, image: SharedImage, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(load.reserved()) + bytes;
        load.set_reserved(0);
        self.clock += 1;
        self.by_use.insert(self.clock, load.space().clone());
        let live = Live { image, bytes, used: self.clock };
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

    /// Counts what an image has after a change, and drops one that is worn out: the next recall
    /// loads it anew, off the apply thread.
    pub(super) fn resize(&mut self, space: &SpaceKey, bytes: usize, worn: bool) {
        // The entry may be another image by now, loaded since: the size of either is near enough,
        // as its own next change counts it again.
        if let Some(Entry::Live(live)) = self.entries.get_mut(space) {
            self.bytes = self.bytes.saturating_sub(live.bytes) + bytes;
            live.bytes = bytes;
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

    pub(super) fn budget(&self) -> usize {
        self.budget
    }

    pub(super) fn usage(&self) -> Usage {
        let images = self.by_use.len();
        let loading = self.entries.len() - images;
        Usage { images, loading, bytes: self.bytes, evicted: self.evicted, worn: self.worn }
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
            self.bytes = self.bytes.saturating_sub(live.bytes);
        }
    }
}
