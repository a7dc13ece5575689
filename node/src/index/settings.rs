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
    /// With [`IndexChoice::Auto`]: vectors of one model from which a space gets a graph; 0 for none. It keeps the
    /// graph until it has fewer than half as many, so that a space at the border does not go to and fro.
    pub graph_from: usize,
    /// The same for lists in a file, in place of the graph and of vectors in memory.
    pub lists_from: usize,
}

impl Default for IndexSettings {
    /// A graph from 20,000 vectors on, where it answers in less time than a scan, and no lists, which trade time
    /// for memory.
    fn default() -> Self {
        Self { choice: IndexChoice::Auto, graph_from: 20_000, lists_from: 0 }
    }
}

impl IndexSettings {
    /// Whether so many vectors are worth a graph.
    pub(super) fn wants_graph(&self, vectors: usize) -> bool {
        self.wants(self.graph_from, vectors)
    }

    /// Whether a graph over so many is worth keeping.
    pub(super) fn keeps_graph(&self, vectors: usize) -> bool {
        self.keeps(self.graph_from, vectors)
    }

    /// Whether so many vectors are worth lists.
    pub(super) fn wants_lists(&self, vectors: usize) -> bool {
        self.wants(self.lists_from, vectors)
    }

    /// Whether lists of so many are worth keeping.
    pub(super) fn keeps_lists(&self, vectors: usize) -> bool {
        self.keeps(self.lists_from, vectors)
    }

    fn wants(&self, from: usize, vectors: usize) -> bool {
        self.choice == IndexChoice::Auto && from > 0 && vectors >= from
    }

    fn keeps(&self, from: usize, vectors: usize) -> bool {
        self.choice == IndexChoice::Auto && from > 0 && vectors >= from / 2
    }
}
