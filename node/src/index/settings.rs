/// Which index answers recalls over a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexChoice {
    /// By the number of the space's vectors.
    Auto,
    /// The exact scan, however many there are.
    Exact,
}

/// When a space gets another index than the exact scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexSettings {
    /// Which index is wanted.
    pub choice: IndexChoice,
    /// With [`IndexChoice::Auto`]: vectors of one model from which a space gets a graph. It keeps the graph
    /// until it has fewer than half as many, so that a space at the border does not go to and fro.
    pub graph_from: usize,
}

impl Default for IndexSettings {
    /// A graph from 20,000 vectors on, where it answers in less time than a scan.
    fn default() -> Self {
        Self { choice: IndexChoice::Auto, graph_from: 20_000 }
    }
}

impl IndexSettings {
    /// Whether so many vectors are worth a graph.
    pub(super) fn wants_graph(&self, vectors: usize) -> bool {
        self.choice == IndexChoice::Auto && vectors >= self.graph_from.max(1)
    }

    /// Whether a graph over so many is worth keeping.
    pub(super) fn keeps_graph(&self, vectors: usize) -> bool {
        self.choice == IndexChoice::Auto && vectors >= self.graph_from / 2
    }
}
