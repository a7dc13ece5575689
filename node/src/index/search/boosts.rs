//! What rows gain beside the parts of their score.

use super::super::image::{Image, RowView};
use super::asked::AskedFacts;
use super::query::Preference;
use super::{Query, RelevanceMode};
use holdfast_core::score::{BOOST_MAX, BOOST_SUM_MAX, CorpusStats, boost_sum, flag};
use holdfast_core::situation::{self, Situation};
use holdfast_core::text::query_ids;
use holdfast_core::when::When;
use std::collections::{HashMap, HashSet};

/// What a row gains that has an id of the question whole.
const ID_LIFT: f64 = 0.05;

/// An id is rare enough if so many rows have it, or
const ID_ROWS_MIN: u64 = 8;
/// one of so many; counted over all partitions of a recall, so that how they are cut changes nothing.
const ID_PART: u64 = 50;

/// The boosts of one query. Every one is at most [`holdfast_core::score::BOOST_MAX`], all of a row
/// together at most [`holdfast_core::score::BOOST_SUM_MAX`]: what cannot be seen cannot gain more.
///
/// Where relevance is plain cosine or plain words, as published formulas have it, only what the caller
/// asks for by name counts: an intent that was not guessed, and the situation.
pub(super) struct Boosts<'a> {
    image: &'a Image,
    now_us: i64,
    asked: AskedFacts<'a>,
    times: &'a [When],
    /// The first of the question's ids that a row has, by row.
    ids: HashMap<u32, usize>,
    named_ids: Vec<String>,
    preference: Option<Preference>,
    situation: Option<&'a Situation>,
    /// The entities that are the place of the situation.
    places: HashSet<u32>,
    /// What each row gains by the situation; empty without one.
    shared: Vec<f32>,
}

impl<'a> Boosts<'a> {
    pub(super) fn new(image: &'a Image, query: &Query<'a>, corpus: &CorpusStats) -> Self {
        let understands = query.relevance == RelevanceMode::Fused;
        let situation = query.situation.filter(|situation| !situation.is_empty());
        let mut boosts = Self {
            image,
            now_us: query.now_us,
            asked: AskedFacts::new(image, query),
            times: if understands { query.times } else { &[] },
            ids: HashMap::new(),
            named_ids: if understands { query_ids(query.text) } else { Vec::new() },
            preference: query.intent.filter(|preference| understands || !preference.guessed),
            situation,
            places: HashSet::new(),
            shared: Vec::new(),
        };
        for (number, id) in boosts.named_ids.iter().enumerate() {
            let having = query.terms.iter().zip(&corpus.df).find(|(term, _)| *term == id).map(|(_, df)| *df);
            // What many have says little.
            if having.is_none_or(|having| having > ID_ROWS_MIN.max(corpus.rows / ID_PART)) {
                continue;
            }
            for (row, _) in image.postings.rows(id) {
                boosts.ids.entry(*row).or_insert(number);
            }
        }
        if let Some(situation) = situation {
            boosts.places =
                image.labels.iter().filter(|(_, name)| situation.is_place(name)).map(|(id, _)| id).collect();
            // Metadata is read once, not at each of the looks at a row.
            boosts.shared = (0..image.columns.len()).map(|at| boosts.sharing(at)).collect();
        }
        boosts
    }

    /// No less than the sum for any row.
    pub(super) fn most(&self) -> f64 {
        let any = |has_any: bool, most: f64| if has_any { most } else { 0.0 };
        let time = self.times.iter().map(When::lift).fold(0.0, f64::max);
        let shared = self.shared.iter().copied().fold(0.0, f32::max);
        let sum = any(!self.asked.is_nothing(), BOOST_MAX)
            + time
            + any(!self.ids.is_empty(), ID_LIFT)
            + self.preference.map_or(0.0, |preference| preference.weight() * BOOST_MAX)
            + f64::from(shared);
        sum.min(BOOST_SUM_MAX)
    }

    /// Whether no row gains anything.
    #[inline]
    fn is_nothing(&self) -> bool {
        self.times.is_empty()
            && self.ids.is_empty()
            && self.preference.is_none()
            && self.shared.is_empty()
            && self.asked.is_nothing()
    }

    /// The sum for a row.
    #[inline]
    pub(super) fn of(&self, at: usize) -> f64 {
        if self.is_nothing() {
            return 0.0;
        }
        boost_sum([
            self.asked.boost(at),
            self.time(at).map_or(0.0, When::lift),
            self.id(at).map_or(0.0, |_| ID_LIFT),
            self.intent(at),
            self.shared.get(at).copied().map_or(0.0, f64::from),
        ])
    }

    /// Why a row gains something: a sentence for each gain.
    pub(super) fn why(&self, at: usize) -> impl Iterator<Item = String> {
        let time = self.time(at).map(|time| {
            format!(
                "time: it happened at the time of \"{}\", which lifts it by {:.2}",
                time.words,
                time.lift()
            )
        });
        let id = self.id(at).map(|id| format!("id: it has {id} whole, which lifts it by {ID_LIFT:.2}"));
        let lift = self.intent(at);
        let intent = self.preference.filter(|_| lift != 0.0).map(|Preference { intent, guessed }| {
            let how = if guessed { "by its words" } else { "as told" };
            let (kind, name) = (self.image.columns.kind[at].as_str(), intent.name());
            if lift < 0.0 {
                let loss = -lift;
                return format!("intent: the question is {name} {how}, and its source was unsure, which lowers it by {loss:.2}");
            }
            format!("intent: the question is {name} {how}, and it is {kind}, which lifts it by {lift:.2}")
        });
        let shared = self.parts(at);
        let situation = (!shared.is_empty()).then(|| {
            let lift = situation::LIFT * shared.len() as f64;
            format!("situation: it shares {}, which lifts it by {lift:.2}", shared.join(", "))
        });
        [self.asked.why(at), time, id, intent, situation].into_iter().flatten()
    }

    fn time(&self, at: usize) -> Option<&When> {
        let event_us = *self.image.columns.event_us.get(at)?;
        let then = self.times.iter().filter(|time| time.holds(event_us));
        then.max_by(|one, other| one.lift().total_cmp(&other.lift()))
    }

    fn id(&self, at: usize) -> Option<&str> {
        if self.ids.is_empty() {
            return None;
        }
        let number = self.ids.get(&u32::try_from(at).ok()?)?;
        self.named_ids.get(*number).map(String::as_str)
    }

    #[inline]
    fn intent(&self, at: usize) -> f64 {
        let columns = &self.image.columns;
        self.preference.map_or(0.0, |preference| {
            let age_us = self.now_us.saturating_sub(columns.event_us[at]);
            let unsure = columns.flags[at] & flag::UNSURE != 0;
            preference.weight() * preference.intent.boost(columns.kind[at], age_us, unsure)
        })
    }

    fn sharing(&self, at: usize) -> f32 {
        let lift = situation::LIFT * self.parts(at).len() as f64;
        // At most .09.
        #[allow(clippy::cast_possible_truncation)]
        let lift = lift as f32;
        lift
    }

    /// The parts of the situation that a row shares.
    fn parts(&self, at: usize) -> Vec<&'static str> {
        let columns = &self.image.columns;
        let Some(situation) = self.situation else { return Vec::new() };
        let is_live = columns.flags[at] & flag::LIVE != 0;
        let is_there = || columns.entities[at].iter().any(|entity| self.places.contains(entity));
        if !is_live || !is_there() && !situation.may_be_told(&columns.metadata[at]) {
            return Vec::new();
        }
        situation.shared(&RowView::new(self.image, at))
    }
}
