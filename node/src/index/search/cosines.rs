use super::super::files::FileError;
use super::super::graph::Nearest;
use super::super::image::{BlockArena, Image};
use super::super::vectors::Probe;
use super::Query;
use super::listed::Probed;
use holdfast_core::score::flag;
use holdfast_core::{Error, ErrorCode, Result};
use std::cell::Cell;

/// Rows that a graph is asked for, and that are read first of those in lists. More of them leave fewer rows that
/// could be nearer than is known, and fewer cost less to find: measured.
pub(super) const NEAREST: usize = 128;
/// Vectors that one search reads from a file one by one, at the most.
const READS_MAX: usize = 32_768;

/// What is known of the cosines of the rows: by the index of the image.
pub(super) struct Cosines<'a> {
    probe: Option<Probe<'a>>,
    known: Known,
    /// Vectors that were read from a file one by one.
    reads: Cell<usize>,
    /// One could not be read: there is no answer.
    failed: Cell<bool>,
}

enum Known {
    /// All of them.
    All,
    /// What a graph found.
    Graph(Nearest),
    /// What the lists say.
    Lists(Probed),
}

pub(super) fn compared(flags: u8) -> bool {
    flags & (flag::LIVE | flag::VECTOR) == flag::LIVE | flag::VECTOR
}

impl<'a> Cosines<'a> {
    pub(super) fn new(probe: Option<Probe<'a>>) -> Self {
        Self { probe, known: Known::All, reads: Cell::new(0), failed: Cell::new(false) }
    }

    /// Takes the flag of a vector from rows whose vector cannot be compared. No cosine is known yet.
    pub(super) fn begin(&self, image: &Image, flags: &mut [u8], out: &mut Vec<f32>) {
        out.clear();
        out.resize(flags.len(), f32::NAN);
        let arena = self.probe.as_ref().and_then(Probe::arena);
        let columns = &image.columns;
        for (number, block) in columns.blocks.iter().enumerate() {
            let is_compared = match block.arena {
                BlockArena::Empty => true,
                BlockArena::One(one) => Some(one) == arena,
                BlockArena::Several => false,
            };
            if is_compared {
                continue;
            }
            let rows = columns.rows_of(number);
            for (flags, place) in flags[rows.clone()].iter_mut().zip(&columns.place[rows]) {
                if Some(place.arena) != arena {
                    *flags &= !flag::VECTOR;
                }
            }
        }
    }

    /// Compares the rows: all, or those that the index found and those that are not in it.
    pub(super) fn compare(&mut self, image: &Image, query: &Query<'_>, flags: &[u8], out: &mut [f32]) {
        let Some(probe) = &self.probe else { return };
        if probe.listed().is_some() {
            let compared = if query.explains() {
                let ends = query.deadline.map(super::best::soon);
                super::listed::compare_all(image, probe, flags, out, ends).map(|is_whole| {
                    if is_whole {
                        return Known::All;
                    }
                    // Out of time: no more is read, and the others can be anything.
                    self.reads.set(READS_MAX);
                    Known::Lists(Probed::of_compared(out))
                })
            } else {
                Probed::new(image, probe, flags, out).map(Known::Lists)
            };
            match compared {
                Ok(known) => self.known = known,
                Err(error) => self.fail(image, &error),
            }
            return;
        }
        let mut nearest = if query.explains() { None } else { ask(image, probe) };
        if let Some(nearest) = &mut nearest {
            nearest.rows.retain(|row| (*row as usize) < flags.len());
        }
        let unknown = nearest.as_ref().map_or(0, |nearest| nearest.upto as usize);
        let found = nearest.iter().flat_map(|nearest| &nearest.rows).map(|row| *row as usize);
        for at in (unknown..flags.len()).chain(found) {
            if flags.get(at).is_some_and(|flags| compared(*flags)) {
                self.of(image, out, at);
            }
        }
        self.known = nearest.map_or(Known::All, Known::Graph);
    }

    /// The cosine of a row, compared now if it was not before; NaN if there is none.
    #[inline]
    pub(super) fn of(&self, image: &Image, known: &mut [f32], at: usize) -> f32 {
        let Some(known) = known.get_mut(at) else { return f32::NAN };
        if known.is_nan()
            && let (Some(probe), Some(place)) = (&self.probe, image.columns.place.get(at))
        {
            if probe.is_far(*place) {
                self.reads.set(self.reads.get() + 1);
            }
            match probe.cosine(*place) {
                Ok(cosine) => *known = cosine.unwrap_or(f32::NAN),
                Err(error) => self.fail(image, &error),
            }
        }
        *known
    }

    /// The most that the cosine of a row can be which is not known.
    #[inline]
    pub(super) fn most(&self, at: usize) -> f32 {
        match &self.known {
            Known::All => 1.0,
            Known::Graph(nearest) => nearest.ceiling,
            Known::Lists(probed) => probed.most(at),
        }
    }

    /// The most that any cosine can be which is not known, if that is one number for all rows.
    pub(super) fn ceiling(&self) -> Option<f32> {
        match &self.known {
            Known::All => Some(1.0),
            Known::Graph(nearest) => Some(nearest.ceiling),
            Known::Lists(_) => None,
        }
    }

    /// The rows that the index found.
    pub(super) fn found(&self) -> &[u32] {
        match &self.known {
            Known::All => &[],
            Known::Graph(nearest) => &nearest.rows,
            Known::Lists(probed) => &probed.found,
        }
    }

    /// Whether the vector of a row has to be read from a file, which costs more than a look at its other columns.
    #[inline]
    pub(super) fn is_far(&self, image: &Image, at: usize) -> bool {
        let place = image.columns.place.get(at);
        place.zip(self.probe.as_ref()).is_some_and(|(place, probe)| probe.is_far(*place))
    }

    /// Vectors that were read from a file one by one so far.
    pub(super) fn reads(&self) -> usize {
        self.reads.get()
    }

    /// Whether no more may be read.
    pub(super) fn is_spent(&self) -> bool {
        self.failed.get() || self.reads.get() >= READS_MAX
    }

    /// Whether all cosines were compared.
    pub(super) fn is_exact(&self) -> bool {
        matches!(self.known, Known::All)
    }

    /// The name of the index.
    pub(super) fn index(&self) -> &'static str {
        match &self.known {
            Known::All => "exact",
            Known::Graph(_) => "hnsw",
            Known::Lists(_) => "ivf",
        }
    }

    /// Whether every vector could be read that was looked for.
    ///
    /// # Errors
    /// [`ErrorCode::Unavailable`] if one could not: the image is given up, and the next one is loaded without the
    /// file.
    pub(super) fn check(&self) -> Result<()> {
        if self.failed.get() { Err(unreadable()) } else { Ok(()) }
    }

    fn fail(&self, image: &Image, error: &FileError) {
        note(image, error);
        self.failed.set(true);
    }
}

/// Gives an image up whose file cannot be read.
pub(super) fn note(image: &Image, error: &FileError) {
    tracing::error!(%error, "the vectors of a space cannot be read from their file; it is loaded anew");
    image.vectors.note_damage();
}

/// What a search answers then.
pub(super) fn unreadable() -> Error {
    Error::new(ErrorCode::Unavailable, "the file of the space's vectors is damaged; it is made anew, retry")
}

/// What the graph of the query's model finds, if there is one. A graph that fails is as if there was none.
fn ask(image: &Image, probe: &Probe<'_>) -> Option<Nearest> {
    let graph = image.graphs.serving(probe.arena()?)?;
    match graph.nearest(probe.values(), NEAREST) {
        Ok(nearest) => Some(nearest),
        Err(error) => {
            tracing::debug!(%error, "a scan answers in place of a graph");
            None
        }
    }
}
