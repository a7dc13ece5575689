use super::super::graph::Nearest;
use super::super::image::Image;
use super::super::vectors::Probe;
use super::Query;
use holdfast_core::score::flag;

/// Rows that a graph is asked for. More of them leave fewer rows that could be nearer than the graph knows,
/// and fewer cost less to find: measured.
const NEAREST: usize = 128;

/// What is known of the cosines of the rows: by the index of the image.
pub(super) struct Cosines<'a> {
    probe: Option<Probe<'a>>,
    /// What a graph found, if one answers.
    nearest: Option<Nearest>,
}

fn compared(flags: u8) -> bool {
    flags & (flag::LIVE | flag::VECTOR) == flag::LIVE | flag::VECTOR
}

impl<'a> Cosines<'a> {
    pub(super) fn new(probe: Option<Probe<'a>>) -> Self {
        Self { probe, nearest: None }
    }

    /// Takes the flag of a vector from rows whose vector cannot be compared. No cosine is known yet.
    pub(super) fn begin(&self, image: &Image, flags: &mut [u8], out: &mut Vec<f32>) {
        out.clear();
        out.resize(flags.len(), f32::NAN);
        let arena = self.probe.as_ref().and_then(Probe::arena);
        for (flags, place) in flags.iter_mut().zip(&image.columns.place) {
            if Some(place.arena) != arena {
                *flags &= !flag::VECTOR;
            }
        }
    }

    /// Compares the rows: all, or those that the graph found and those that are not in it.
    pub(super) fn compare(&mut self, image: &Image, query: &Query<'_>, flags: &[u8], out: &mut [f32]) {
        let Some(probe) = &self.probe else { return };
        self.nearest = if query.explains() { None } else { ask(image, probe) };
        if let Some(nearest) = &mut self.nearest {
            nearest.rows.retain(|row| (*row as usize) < flags.len());
        }
        let unknown = self.nearest.as_ref().map_or(0, |nearest| nearest.upto as usize);
        let mut compare = |at: usize| {
            if let (Some(flags), Some(out)) = (flags.get(at), out.get_mut(at))
                && compared(*flags)
                && let Some(cosine) = probe.cosine(image.columns.place[at])
            {
                *out = cosine;
            }
        };
        (unknown..flags.len()).for_each(&mut compare);
        let found = self.nearest.iter().flat_map(|nearest| &nearest.rows);
        found.for_each(|row| compare(*row as usize));
    }

    /// The cosine of a row, compared now if it was not before; NaN if there is none.
    #[inline]
    pub(super) fn of(&self, image: &Image, known: &mut [f32], at: usize) -> f32 {
        let Some(known) = known.get_mut(at) else { return f32::NAN };
        if known.is_nan()
            && let (Some(probe), Some(place)) = (&self.probe, image.columns.place.get(at))
        {
            *known = probe.cosine(*place).unwrap_or(f32::NAN);
        }
        *known
    }

    /// The most that a cosine can be which is not known.
    pub(super) fn ceiling(&self) -> f32 {
        self.nearest.as_ref().map_or(1.0, |nearest| nearest.ceiling)
    }

    /// The rows that the graph found.
    pub(super) fn found(&self) -> &[u32] {
        self.nearest.as_ref().map_or(&[], |nearest| &nearest.rows)
    }

    /// Whether all cosines were compared.
    pub(super) fn is_exact(&self) -> bool {
        self.nearest.is_none()
    }

    /// The name of the index.
    pub(super) fn index(&self) -> &'static str {
        if self.is_exact() { "exact" } else { "hnsw" }
    }
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
