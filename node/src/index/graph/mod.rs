//! Graphs over the vectors of an image (HNSW, by usearch).
//!
//! A graph knows rows by their numbers. Rows are appended to an image and never renumbered, so the rows below
//! [`Graph::upto`] are in the graph and those behind it, the *tail*, are not yet: a recall compares the tail
//! row by row. A row that dies stays in the graph, behind the mask of the live rows, until the graph is built
//! anew.
//!
//! A graph that was built is saved in a file. The next image of its space numbers its rows in another way, so the
//! nodes get the numbers of the rows that have the same memory and the same vector; what has no row any more is
//! dead, and what has no node yet is added.
//!
//! # Locks
//! usearch lets threads search while another adds, but not while it grows: that ends in a crash. Its lists of
//! neighbours are read without synchronisation, too. So whatever changes the graph holds the write side of
//! its lock, one vector at a time (well below a millisecond), and searches hold the read side.

mod file;
mod slots;
mod upkeep;

use super::vectors::ROUNDING;
use numkong::f16;
use parking_lot::RwLock;
pub(super) use slots::{Graphs, Step};
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
pub(super) use upkeep::Upkeep;
use usearch::{IndexOptions, MetricKind, ScalarKind};

/// M: links of a node. (On the lowest level twice as many.)
const LINKS: usize = 16;
/// Nodes that are looked at when a node is linked.
const EXPANSION_ADD: usize = 128;
/// Searches that one graph serves at a time; one more is answered by a scan. Each costs a few kilobytes.
const SEARCHES_MAX: usize = 64;
/// Nodes that a graph has room for at least.
const CAPACITY_MIN: usize = 1_024;
/// What a node takes beside its vector, in bytes, as measured: its links, key and places in the tables.
const NODE_BYTES: usize = 350;

/// A graph over the vectors of one model.
pub(super) struct Graph {
    index: RwLock<usearch::Index>,
    dims: usize,
    /// How often it was loaded from a file: the upper half of the keys of the nodes that have a row.
    generation: u32,
    /// Rows below this are in the graph, as far as they have a vector of its model and were alive.
    upto: AtomicU32,
    /// Rows below this are in it or on their way.
    claimed: AtomicU32,
    size: AtomicUsize,
    capacity: AtomicUsize,
    dead: AtomicUsize,
    bytes: AtomicUsize,
    /// Nodes that are in its file.
    saved: AtomicUsize,
}

/// Why a graph cannot be made or used. The scan answers in its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the graph of vectors: {0}")]
pub(super) struct GraphError(String);

/// What a graph found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Nearest {
    /// Rows, the nearest first; dead ones among them.
    pub(super) rows: Vec<u32>,
    /// By the order of the graph, no row that is in it and not in `rows` has a larger cosine.
    pub(super) ceiling: f32,
    /// Rows below this are in the graph.
    pub(super) upto: u32,
}

impl Graph {
    /// An empty graph for vectors of `dims` numbers.
    pub(super) fn new(dims: usize) -> Result<Self, GraphError> {
        let options = IndexOptions {
            dimensions: dims,
            metric: MetricKind::IP,
            quantization: ScalarKind::F16,
            connectivity: LINKS,
            expansion_add: EXPANSION_ADD,
            ..IndexOptions::default()
        };
        let graph = Self {
            index: RwLock::new(usearch::Index::new(&options).map_err(failed)?),
            dims,
            generation: 0,
            upto: AtomicU32::new(0),
            claimed: AtomicU32::new(0),
            size: AtomicUsize::new(0),
            capacity: AtomicUsize::new(0),
            dead: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            saved: AtomicUsize::new(0),
        };
        Ok(graph)
    }

    /// What the graph takes with so many vectors, in bytes.
    pub(super) fn bytes_at(&self, vectors: usize) -> usize {
        vectors.saturating_mul(self.dims * size_of::<f16>() + NODE_BYTES)
    }

    /// Nodes that it has room for.
    pub(super) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Nodes in it, dead ones included.
    pub(super) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// Memory in use, in bytes, by an estimate for each node.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Rows below this are in the graph.
    pub(super) fn upto(&self) -> u32 {
        self.upto.load(Ordering::Acquire)
    }

    /// Whether three tenths of the nodes are dead, so that it should be built anew.
    pub(super) fn is_worn(&self) -> bool {
        let dead = self.dead.load(Ordering::Relaxed);
        dead > 0 && dead * 10 >= self.size() * 3
    }

    /// Notes that a row died.
    pub(super) fn died(&self, row: u32) {
        if row < self.claimed.load(Ordering::Acquire) {
            self.dead.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that rows below this are on their way, so that those that die meanwhile are counted. Called
    /// while the image is locked.
    pub(super) fn claim(&self, upto: u32) {
        self.claimed.store(upto, Ordering::Release);
    }

    /// Makes room for `capacity` nodes.
    pub(super) fn grow(&self, capacity: usize) -> Result<(), GraphError> {
        let capacity = capacity.max(CAPACITY_MIN);
        let index = self.index.write();
        index.reserve_capacity_and_threads(capacity, SEARCHES_MAX).map_err(failed)?;
        self.capacity.store(capacity, Ordering::Relaxed);
        Ok(())
    }

    /// Adds the rows up to `upto`; there must be room for them. By one thread at a time: several leave
    /// nodes that no search reaches.
    pub(super) fn add(&self, rows: &[(u32, Vec<i16>)], upto: u32) -> Result<(), GraphError> {
        for (row, values) in rows {
            if values.len() != self.dims {
                return Err(GraphError(format!(
                    "a vector of {} numbers among those of {}",
                    values.len(),
                    self.dims
                )));
            }
            self.index.write().add(self.key(*row), usearch::f16::from_i16s(values)).map_err(failed)?;
            self.size.fetch_add(1, Ordering::Relaxed);
        }
        self.bytes.store(self.bytes_at(self.size()), Ordering::Relaxed);
        self.upto.store(upto, Ordering::Release);
        Ok(())
    }

    /// The `count` rows nearest to a vector of unit length.
    pub(super) fn nearest(&self, query: &[f16], count: usize) -> Result<Nearest, GraphError> {
        if query.len() != self.dims {
            return Err(GraphError(format!(
                "a query of {} numbers for vectors of {}",
                query.len(),
                self.dims
            )));
        }
        // Before the search: what is added during it is compared twice, not left out.
        let upto = self.upto();
        let halves = bits(query);
        let found = self.index.read().search(usearch::f16::from_i16s(&halves), count).map_err(failed)?;
        let last = found.distances.last().copied().unwrap_or(f32::NAN);
        // A graph of fewer nodes answers them all, but those that it does not reach.
        let ceiling = if last.is_finite() { (1.0 - last + ROUNDING).min(1.0) } else { 1.0 };
        let rows = found.keys.into_iter().filter_map(|key| self.row(key)).collect();
        Ok(Nearest { rows, ceiling, upto })
    }

    /// Whether a row is in the graph.
    pub(super) fn holds(&self, row: u32) -> bool {
        self.index.read().contains(self.key(row))
    }

    /// Whether it came from a file.
    pub(super) fn is_loaded(&self) -> bool {
        self.generation > 0
    }

    /// Whether an eighth of the nodes are not in its file.
    pub(super) fn is_unsaved(&self) -> bool {
        let size = self.size();
        size > 0 && size.saturating_sub(self.saved.load(Ordering::Relaxed)) * 8 >= size
    }

    /// Notes that its file has so many nodes.
    pub(super) fn note_saved(&self, nodes: usize) {
        self.saved.store(nodes, Ordering::Relaxed);
    }

    fn key(&self, row: u32) -> u64 {
        u64::from(self.generation) << 32 | u64::from(row)
    }

    /// The row of a node; none of one that was dead when the graph was loaded.
    fn row(&self, key: u64) -> Option<u32> {
        let row = u32::try_from(key & u64::from(u32::MAX)).ok()?;
        (key >> 32 == u64::from(self.generation)).then_some(row)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("dims", &self.dims).field("size", &self.size()).finish_non_exhaustive()
    }
}

/// The bits of halves, as usearch takes them.
pub(super) fn bits(values: &[f16]) -> Vec<i16> {
    values.iter().map(|value| value.0.cast_signed()).collect()
}

fn failed(error: impl fmt::Display) -> GraphError {
    GraphError(error.to_string())
}
