use super::super::image::Image;
use super::Query;
use super::asked::AskedFacts;
use holdfast_core::score::boost_sum;

/// What rows gain beside the parts of their score. Every gain is at most
/// [`holdfast_core::score::BOOST_MAX`], all of a row together at most
/// [`holdfast_core::score::BOOST_SUM_MAX`].
pub(super) struct Boosts<'a> {
    asked: AskedFacts<'a>,
}

impl<'a> Boosts<'a> {
    pub(super) fn new(image: &'a Image, query: &Query<'_>) -> Self {
        Self { asked: AskedFacts::new(image, query) }
    }

    /// The sum for a row.
    #[inline]
    pub(super) fn of(&self, at: usize) -> f64 {
        boost_sum([self.asked.boost(at)])
    }

    /// Why a row gains something: a sentence for each gain.
    pub(super) fn why(&self, at: usize) -> impl Iterator<Item = String> {
        self.asked.why(at).into_iter()
    }
}
