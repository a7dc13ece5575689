use super::{Graph, GraphError, bits};
use crate::index::image::{Columns, Image};
use crate::index::lists::Built;
use crate::index::settings::IndexSettings;
use crate::index::vectors::Arena;
use holdfast_core::score::flag;
use std::sync::Arc;

/// Vectors added in one step, between two looks at the image.
const STEP_VECTORS: usize = 64;
/// Rows looked at in one step.
const STEP_ROWS: u32 = 4_096;
/// A tail of so many rows is added to a graph; a shorter one costs a recall less than it would cost to look.
const TAIL_ROWS: u32 = 256;

/// The graphs of an image: for each of its models one that serves, and one that is being built.
#[derive(Debug, Default)]
pub(in crate::index) struct Graphs {
    slots: Vec<Slot>,
    /// There was no memory for a graph: it is not tried again before the image is loaded anew.
    refused: bool,
    /// The same for lists, and for want of room on the disk.
    lists_refused: bool,
}

/// The graphs of one model.
#[derive(Debug, Default)]
pub(in crate::index) struct Slot {
    serving: Option<Arc<Graph>>,
    building: Option<Arc<Graph>>,
}

/// What is to be done next for the graphs of an image. Models are known by the numbers of their arenas.
#[derive(Debug)]
pub(in crate::index) enum Step {
    /// Begin a new graph.
    Begin(usize),
    /// Add rows, up to a row.
    Add(Arc<Graph>, Vec<(u32, Vec<i16>)>, u32),
    /// The new graph has caught up.
    Serve(usize),
    /// The space became too small for a graph, or has lists.
    Drop(usize),
    /// Save the graph that serves.
    Save(usize, Arc<Graph>),
    /// Put the vectors into lists, in a file.
    List(usize),
}

impl Graphs {
    /// The graph that serves an arena.
    pub(in crate::index) fn serving(&self, arena: u32) -> Option<&Arc<Graph>> {
        self.slots.get(arena as usize)?.serving.as_ref()
    }

    /// Graphs that serve.
    pub(in crate::index) fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.serving.is_some()).count()
    }

    /// Notes that a row of an arena died.
    pub(in crate::index) fn died(&self, arena: u32, row: u32) {
        if let Some(slot) = self.slots.get(arena as usize) {
            slot.serving.iter().chain(&slot.building).for_each(|graph| graph.died(row));
        }
    }

    /// Memory of all of them, in bytes.
    pub(in crate::index) fn bytes(&self) -> usize {
        let graphs = self.slots.iter().flat_map(|slot| slot.serving.iter().chain(&slot.building));
        self.slots.capacity() * size_of::<Slot>() + graphs.map(|graph| graph.bytes()).sum::<usize>()
    }

    /// Gives up whatever is being built, for good.
    pub(in crate::index) fn refuse(&mut self) {
        self.refused = true;
        self.slots.iter_mut().for_each(|slot| slot.building = None);
    }

    /// Makes no lists, for good.
    pub(in crate::index) fn refuse_lists(&mut self) {
        self.lists_refused = true;
    }
}

impl Image {
    /// Whether the graphs have something to catch up with.
    pub(in crate::index) fn wants_upkeep(&self, settings: &IndexSettings) -> bool {
        (0..self.vectors.arenas()).any(|arena| !matches!(self.due(arena, settings), Due::Nothing))
    }

    /// The next step for the graphs. Rows that a step adds are claimed with it.
    pub(in crate::index) fn next_step(&self, settings: &IndexSettings) -> Option<Step> {
        let due = |arena| match self.due(arena, settings) {
            Due::Nothing => None,
            Due::Begin => Some(Step::Begin(arena)),
            Due::Serve => Some(Step::Serve(arena)),
            Due::Drop => Some(Step::Drop(arena)),
            Due::Add(graph) => Some(self.rows_for(arena, graph)),
            Due::Save(graph) => Some(Step::Save(arena, Arc::clone(graph))),
            Due::List => Some(Step::List(arena)),
        };
        (0..self.vectors.arenas()).find_map(due)
    }

    /// An empty graph for an arena, and for how many vectors it needs room: those that are there and an
    /// eighth more.
    pub(in crate::index) fn new_graph(&self, arena: usize) -> Result<(Arc<Graph>, usize), GraphError> {
        let live = self.vectors.live(arena);
        Ok((Arc::new(Graph::new(self.vectors.dims(arena))?), live + live / 8))
    }

    /// Begins to fill a graph.
    pub(in crate::index) fn begin(&mut self, arena: usize, graph: Arc<Graph>) {
        let slots = &mut self.graphs.slots;
        if slots.len() <= arena {
            slots.resize_with(arena + 1, Slot::default);
        }
        if let Some(slot) = slots.get_mut(arena) {
            slot.building = Some(graph);
        }
    }

    /// Lets the graph that was filled serve. Answers the one before, which is to be freed when nobody waits, and
    /// whether the new one was built here, not loaded.
    #[must_use]
    pub(in crate::index) fn serve(&mut self, arena: usize) -> (Option<Arc<Graph>>, bool) {
        let Some(slot) = self.graphs.slots.get_mut(arena) else { return (None, false) };
        let Some(graph) = slot.building.take() else { return (None, false) };
        let is_built = !graph.is_loaded();
        (slot.serving.replace(graph), is_built)
    }

    /// Takes away what an arena has, to be freed when nobody waits.
    #[must_use]
    pub(in crate::index) fn drop_graphs(&mut self, arena: usize) -> Slot {
        self.graphs.slots.get_mut(arena).map(std::mem::take).unwrap_or_default()
    }

    /// Lets lists serve. Answers the vectors that were there before, which are to be freed when nobody waits;
    /// `None` if the lists do not have every vector.
    #[must_use]
    pub(in crate::index) fn adopt(&mut self, arena: usize, built: Built) -> Option<Arena> {
        let Columns { place, flags, .. } = &mut self.columns;
        let is_live = |row: u32| flags.get(row as usize).is_some_and(|flags| flags & flag::LIVE != 0);
        let before = self.vectors.adopt(arena, built.lists, built.rows, place, is_live)?;
        self.vectors.keep(arena, built.resident);
        Some(before)
    }

    /// Whether the graph of a row's vector has the row, or leaves it to the tail.
    pub(in crate::index) fn is_findable(&self, row: u32) -> bool {
        let place = self.columns.place.get(row as usize);
        let graph = place.and_then(|place| self.graphs.serving(place.arena));
        graph.is_none_or(|graph| row >= graph.upto() || graph.holds(row))
    }

    /// Builds the graphs of all models on the spot.
    #[cfg(test)]
    #[allow(clippy::unwrap_used)]
    pub(in crate::index) fn build_graphs(&mut self) {
        for arena in 0..self.vectors.arenas() {
            let (graph, vectors) = self.new_graph(arena).unwrap();
            graph.grow(vectors).unwrap();
            while graph.upto() < self.rows_count() {
                let Step::Add(graph, rows, upto) = self.rows_for(arena, &graph) else { return };
                graph.add(&rows, upto).unwrap();
            }
            self.begin(arena, graph);
            let _ = self.serve(arena);
        }
    }

    fn due(&self, arena: usize, settings: &IndexSettings) -> Due<'_> {
        let live = self.vectors.live(arena);
        let slot = self.graphs.slots.get(arena);
        let (serving, building) =
            slot.map_or((None, None), |slot| (slot.serving.as_ref(), slot.building.as_ref()));
        let rows = self.rows_count();
        let tail = |graph: &Graph| rows.saturating_sub(graph.upto());
        if let Some(due) = self.lists_due(arena, live, settings) {
            return due;
        }
        match (serving, building) {
            (None, None) if !settings.wants_graph(live) || self.graphs.refused => Due::Nothing,
            (None, None) => Due::Begin,
            _ if !settings.keeps_graph(live) => Due::Drop,
            (_, Some(graph)) if tail(graph) < TAIL_ROWS => Due::Serve,
            (_, Some(graph)) => Due::Add(graph),
            (Some(graph), None) if graph.is_worn() && !self.graphs.refused => Due::Begin,
            (Some(graph), None) if tail(graph) >= TAIL_ROWS && !self.graphs.refused => Due::Add(graph),
            (Some(graph), None) if graph.is_unsaved() => Due::Save(graph),
            (Some(_), None) => Due::Nothing,
        }
    }

    /// What is to be done for the lists of an arena. `None` if it has none and needs none.
    fn lists_due(&self, arena: usize, live: usize, settings: &IndexSettings) -> Option<Due<'_>> {
        let is_refused = self.graphs.lists_refused;
        let Some(listed) = self.vectors.listed(arena) else {
            let dims = self.vectors.dims(arena);
            return (settings.wants_lists(live, dims) && !is_refused).then_some(Due::List);
        };
        let has_graph = self.graphs.slots.get(arena).is_some_and(Slot::is_used);
        Some(match () {
            () if has_graph => Due::Drop,
            // Without vectors there is nothing to put in order.
            () if is_refused || live == 0 => Due::Nothing,
            () if listed.lists().is_plain() || listed.is_worn(self.vectors.tail(arena)) => Due::List,
            () => Due::Nothing,
        })
    }

    fn rows_for(&self, arena: usize, graph: &Arc<Graph>) -> Step {
        let mut upto = graph.upto();
        let end = self.rows_count().min(upto.saturating_add(STEP_ROWS));
        let mut rows = Vec::with_capacity(STEP_VECTORS);
        while upto < end && rows.len() < STEP_VECTORS {
            // One that came from a file has most of them.
            let is_new = !graph.is_loaded() || !graph.holds(upto);
            if let Some(values) = self.vector_in(arena, upto).filter(|_| is_new) {
                rows.push((upto, bits(values)));
            }
            upto += 1;
        }
        graph.claim(upto);
        Step::Add(Arc::clone(graph), rows, upto)
    }
}

enum Due<'a> {
    Nothing,
    Begin,
    Add(&'a Arc<Graph>),
    Serve,
    Drop,
    Save(&'a Arc<Graph>),
    List,
}

impl Slot {
    fn is_used(&self) -> bool {
        self.serving.is_some() || self.building.is_some()
    }
}
