use super::super::image::{Image, TopicNumbers};
use super::{Query, RelevanceMode};
use holdfast_core::facts::asked::{Asked, boost};
use std::collections::{HashMap, HashSet};

/// What the facts of an image gain for a question that asks for them. Where relevance is plain cosine
/// or plain words, as published formulas have it, they gain nothing.
pub(super) struct AskedFacts<'a> {
    image: &'a Image,
    /// The subjects of the image that the question names.
    subjects: HashSet<u32>,
    /// Of each predicate that they have, how much of it the question asks for.
    shares: HashMap<u32, f64>,
}

impl<'a> AskedFacts<'a> {
    pub(super) fn new(image: &'a Image, query: &Query<'_>) -> Self {
        let mut asked = Self { image, subjects: HashSet::new(), shares: HashMap::new() };
        let nothing = image.subjects.is_empty() || query.text.trim().is_empty();
        if nothing || query.relevance != RelevanceMode::Fused {
            return asked;
        }
        let question = Asked::new(query.text);
        asked.subjects = question.names().filter_map(|name| image.subjects.find(name)).collect();
        if asked.subjects.is_empty() {
            return asked;
        }
        for topic in image.columns.topics.iter().flatten() {
            if asked.subjects.contains(&topic.subject) && !asked.shares.contains_key(&topic.predicate) {
                let share = image.predicates.name(topic.predicate).map_or(0.0, |name| question.share(name));
                asked.shares.insert(topic.predicate, share);
            }
        }
        asked
    }

    /// Whether the question asks for none of the facts.
    #[inline]
    pub(super) fn is_nothing(&self) -> bool {
        self.subjects.is_empty()
    }

    /// What a row gains: the most that one of its facts does.
    #[inline]
    pub(super) fn boost(&self, at: usize) -> f64 {
        if self.subjects.is_empty() {
            return 0.0;
        }
        self.best(at).map_or(0.0, |(_, boost)| boost)
    }

    fn best(&self, at: usize) -> Option<(&TopicNumbers, f64)> {
        let topics = self.image.columns.topics.get(at)?.iter();
        let asked = topics.filter(|topic| self.subjects.contains(&topic.subject));
        let boosts = asked.map(|topic| {
            let share = self.shares.get(&topic.predicate).copied().unwrap_or(0.0);
            (topic, boost(share, topic.own))
        });
        boosts.filter(|(_, boost)| *boost > 0.0).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Why a row gains something.
    pub(super) fn why(&self, at: usize) -> Option<String> {
        let (topic, boost) = self.best(at).filter(|_| !self.subjects.is_empty())?;
        let subject = self.image.subjects.name(topic.subject)?;
        let predicate = self.image.predicates.name(topic.predicate)?;
        Some(format!("fact: {predicate} of {subject}, whom the query names, lifts it by {boost:.2}"))
    }
}
