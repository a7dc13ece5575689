use super::super::image::Image;
use super::boosts::Boosts;
use super::{Query, Scratch};
use holdfast_core::score::flag;
use holdfast_core::text::Addressed;

/// Says why a row was found. Runs for the hits alone, where it was asked.
pub(super) struct Explain<'a> {
    image: &'a Image,
    query: &'a Query<'a>,
    scratch: &'a Scratch,
    addressed: Addressed,
    boosts: &'a Boosts<'a>,
}

impl<'a> Explain<'a> {
    pub(super) fn new(
        image: &'a Image,
        query: &'a Query<'a>,
        scratch: &'a Scratch,
        addressed: Addressed,
        boosts: &'a Boosts<'a>,
    ) -> Self {
        Self { image, query, scratch, addressed, boosts }
    }

    /// Sentences for one row; none for a query that asks nothing.
    pub(super) fn row(&self, row: u32) -> Vec<String> {
        let words = self.words(row);
        let vector = self.scratch.cosines.get(row as usize).filter(|cosine| cosine.is_finite());
        let vector = vector.map(|cosine| format!("vector: cosine {cosine:.3}"));
        let around = [self.speaker(row), self.question(row), self.neighbours(row)];
        let relevance = [words, vector].into_iter().chain(around).flatten();
        relevance.chain(self.boosts.why(row as usize)).collect()
    }

    fn words(&self, row: u32) -> Option<String> {
        let own = |term: &&String| self.image.postings.has(row, term);
        let terms: Vec<&str> = self.query.terms.iter().filter(own).map(String::as_str).collect();
        (!terms.is_empty()).then(|| format!("words: {}", terms.join(", ")))
    }

    fn speaker(&self, row: u32) -> Option<String> {
        let speaker = self.image.columns.speaker[row as usize];
        match self.addressed {
            Addressed::Speaker(named) if named == speaker => {
                let name = self.image.speakers.name(speaker)?;
                Some(format!("speaker: {name}, whom the query names"))
            }
            Addressed::Asker if self.flags(row) & flag::USER != 0 => {
                Some("speaker: the user, who asks about themselves".into())
            }
            Addressed::Nobody | Addressed::Speaker(_) | Addressed::Asker => None,
        }
    }

    /// What a short question keeps, or an answer gets from the question before it.
    fn question(&self, row: u32) -> Option<String> {
        let keep = self.query.neighbours.question_keep * 100.0;
        if self.flags(row) & flag::QUESTION != 0 && self.bm25(row) > 0.0 {
            return Some(format!(
                "question: it keeps {keep:.0}% of its score for its words; the answer follows"
            ));
        }
        let before = self.image.live_neighbour(self.image.links.prev(), &self.scratch.flags, row)?;
        let handed = self.flags(before) & flag::QUESTION != 0 && self.bm25(before) > 0.0;
        handed.then(|| {
            format!("answer: it follows the question {}, which has words of the query", self.id(before))
        })
    }

    fn neighbours(&self, row: u32) -> Option<String> {
        let lifted = self.scratch.lifted.get(row as usize).copied().unwrap_or(0.0);
        let question = self.flags(row) & flag::QUESTION != 0;
        let own = self.bm25(row) * if question { self.query.neighbours.question_keep } else { 1.0 };
        let lent = lifted - own;
        (lent > 1e-4)
            .then(|| format!("neighbours: the turns around it lend it {lent:.2} to its own {own:.2}"))
    }

    fn flags(&self, row: u32) -> u8 {
        self.scratch.flags.get(row as usize).copied().unwrap_or(0)
    }

    fn bm25(&self, row: u32) -> f32 {
        self.scratch.bm25.get(row as usize).copied().unwrap_or(0.0)
    }

    fn id(&self, row: u32) -> &str {
        &self.image.columns.id[row as usize]
    }
}
