/// Which index answers recalls over a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexChoice {
    /// By the number of the space's vectors.
    Auto,
    /// The exact scan, however many there are.
    Exact,
    /// A graph, from [`CHOSEN_FROM`] vectors on.
    Graph,
    /// Lists in a file, from [`CHOSEN_FROM`] vectors on.
    Lists,
}

/// Vectors of one model from which a space gets the index that was chosen for it: fewer are scanned in less time than
/// any index takes, and their scan is exact.
pub const CHOSEN_FROM: usize = 1_000;

/// When a space gets another index than the exact scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexSettings {
    /// Which index is wanted.
    pub choice: IndexChoice,
    /// With [`IndexChoice::Auto`]: vectors of one model from which a space gets a graph; 0 for none. It keeps the
    /// graph until it has fewer than half as many, so that a space at the border does not go to and fro.
    pub graph_from: usize,
    /// The same for lists in a file, in place of the graph and of vectors in memory; 0 for none, whatever memory
    /// they need.
    pub lists_from: usize,
    /// Vectors of one model that take more memory than this, in bytes, are in lists although they are fewer. Never
    /// more than half of what all images may have: with the other columns, and those of other spaces, more would
    /// not fit.
    pub vectors_bytes_max: usize,
}

impl Default for IndexSettings {
    /// A graph from 20,000 vectors on, where it answers in less time than a scan; lists, which trade time for
    /// memory, from 500,000 on, or from half of the memory.
    fn default() -> Self {
        Self {
            choice: IndexChoice::Auto,
            graph_from: 20_000,
            lists_from: 500_000,
            vectors_bytes_max: usize::MAX,
        }
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

    /// For a space for which an index was chosen.
    pub(super) fn chosen(self, choice: IndexChoice) -> Self {
        match choice {
            IndexChoice::Auto => self,
            IndexChoice::Exact => Self { choice, ..self },
            IndexChoice::Graph => {
                Self { choice: IndexChoice::Auto, graph_from: CHOSEN_FROM, lists_from: 0, ..self }
            }
            IndexChoice::Lists => {
                Self { choice: IndexChoice::Auto, graph_from: 0, lists_from: CHOSEN_FROM, ..self }
            }
        }
    }

    /// With so much memory for all images.
    pub(super) fn within(self, budget_bytes: usize) -> Self {
        Self { vectors_bytes_max: self.vectors_bytes_max.min(budget_bytes / 2), ..self }
    }

    /// Whether so many vectors of so many numbers are worth lists.
    pub(super) fn wants_lists(&self, vectors: usize, dims: usize) -> bool {
        self.wants(self.lists_from, vectors) || self.is_too_large(vectors, dims)
    }

    /// Whether lists of so many are worth keeping.
    pub(super) fn keeps_lists(&self, vectors: usize, dims: usize) -> bool {
        self.keeps(self.lists_from, vectors) || self.is_too_large(vectors.saturating_mul(2), dims)
    }

    /// Whether a space may have lists at all.
    pub(super) fn may_have_lists(&self) -> bool {
        self.choice == IndexChoice::Auto && self.lists_from > 0
    }

    fn is_too_large(&self, vectors: usize, dims: usize) -> bool {
        let bytes = vectors.saturating_mul(dims).saturating_mul(size_of::<numkong::f16>());
        self.may_have_lists() && bytes > self.vectors_bytes_max
    }

    fn wants(&self, from: usize, vectors: usize) -> bool {
        self.choice == IndexChoice::Auto && from > 0 && vectors >= from
    }

    fn keeps(&self, from: usize, vectors: usize) -> bool {
        self.choice == IndexChoice::Auto && from > 0 && vectors >= from / 2
    }
}
