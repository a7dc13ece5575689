//! What may enter a context, in the order of preference; and what may not, and why.

use super::found::Found;
use super::item::Item;
use super::parse::Request;
use super::sections::Section;
use holdfast_core::Result;
use holdfast_core::score::{diversify as mmr, overlap, words};
use holdfast_core::text::normalize;
use holdfast_proto::v1;
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// Most items that an answer names as left out.
const LEFT_OUT_MAX: usize = 100;

/// Why something is not in the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reason {
    /// It did not fit any more.
    Budget,
    /// The same is said by another item.
    Duplicate,
    /// What it states holds no longer, or a newer one says otherwise.
    Conflict,
    /// It scores less than was asked for.
    BelowMinScore,
    /// It was made of turns that are there, or they say otherwise.
    SupersededBySession,
}

impl Reason {
    pub(crate) const ALL: [Self; 5] =
        [Self::Budget, Self::Duplicate, Self::Conflict, Self::BelowMinScore, Self::SupersededBySession];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::BelowMinScore => "below_min_score",
            Self::SupersededBySession => "superseded_by_session",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Left {
    id: String,
    reason: Reason,
    /// The item that says it instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

/// The first that were left out, and how many there are.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    pub(super) first: Vec<Left>,
    pub(super) counts: [u64; Reason::ALL.len()],
    seen: HashSet<String>,
}

impl LeftOut {
    pub(super) fn note(&mut self, id: &str, reason: Reason, by: Option<&str>) {
        if !self.seen.insert(id.to_owned()) {
            return;
        }
        self.counts[reason as usize] += 1;
        if self.first.len() < LEFT_OUT_MAX {
            self.first.push(Left { id: id.to_owned(), reason, by: by.map(str::to_owned) });
        }
    }

    /// A turn that had to go after all stands for nothing: what it was to tell did not fit either.
    pub(super) fn settle(&mut self, is_there: impl Fn(&str) -> bool) {
        for left in &mut self.first {
            let by_turn = left.by.as_deref().is_some_and(|by| by.starts_with("turn:"));
            let by_session = left.reason == Reason::SupersededBySession || by_turn;
            if by_session && !left.by.as_deref().is_some_and(&is_there) {
                self.counts[left.reason as usize] -= 1;
                (left.reason, left.by) = (Reason::Budget, None);
                self.counts[left.reason as usize] += 1;
            }
        }
    }

    /// How many are not named.
    pub(super) fn more(&self) -> u64 {
        self.counts.iter().sum::<u64>().saturating_sub(self.first.len() as u64)
    }
}

#[derive(Debug, Default)]
pub(super) struct Chosen {
    pub(super) required: Vec<Item>,
    /// What goes before memories, in the order in which it matters.
    pub(super) first: Vec<Item>,
    /// What comes after everything else.
    pub(super) last: Vec<Item>,
    /// The best first.
    pub(super) memories: Vec<Item>,
    /// The facts of each memory, the best memory first.
    pub(super) facts: Vec<Item>,
    pub(super) left_out: LeftOut,
}

pub(super) fn choose(request: &Request, found: &Found) -> Result<Chosen> {
    let mut chosen = Chosen::default();
    let mut said = Said::default();
    // Constraints first: what says the same as they do need not.
    let rest = request.sections.iter().filter(|section| **section != Section::Constraints);
    for section in [Section::Constraints].iter().chain(rest) {
        for item in section.items(found, request.query.text.as_deref())? {
            // Of a conversation every turn counts: people say the same twice.
            if section.is_of_session() {
                chosen.first.push(item);
                continue;
            }
            if let Some((reason, by)) = fault(request, &item, &said) {
                // What is required is found as well, and is there already: nothing is left out.
                if by.as_deref() == Some(item.id.as_str()) {
                    continue;
                }
                chosen.left_out.note(&item.id, reason, by.as_deref());
                continue;
            }
            said.take(&item);
            let item = if latest(request) { item.rest() } else { item };
            match section {
                Section::Constraints => chosen.required.push(item),
                Section::Blocks | Section::Task | Section::Dialogue | Section::Summary | Section::Window => {
                    chosen.first.push(item)
                }
                Section::Procedures => chosen.last.push(item),
                Section::Memories => chosen.memories.push(item),
                Section::Facts => chosen.facts.push(item),
            }
        }
    }
    chosen.first.sort_by_key(|item| item.section.rank());
    newest_of_each_group(request, &mut chosen);
    diversify(&mut chosen.memories, request.diversity);
    Ok(chosen)
}

/// Why an item may not enter, if so.
fn fault(request: &Request, item: &Item, said: &Said) -> Option<(Reason, Option<String>)> {
    if item.section.is_scored() && request.min_score.is_some_and(|min_score| item.score < min_score) {
        return Some((Reason::BelowMinScore, None));
    }
    if latest(request) && item.fallen && !item.required {
        return Some((Reason::Conflict, None));
    }
    said.by(item).map(|by| (Reason::Duplicate, Some(by)))
}

/// Whether of what contradicts each other the newest is wanted, as of now.
pub(super) fn latest(request: &Request) -> bool {
    let query = &request.query;
    query.conflicts == v1::Conflicts::Latest && !query.include_deprecated && query.as_of.is_none()
}

/// What the items so far say.
#[derive(Default)]
struct Said {
    /// Text with its speaker -> item.
    texts: HashMap<String, String>,
    /// What is required, to the letter.
    exact: HashMap<String, String>,
    /// Memories that are required as they are: nothing else need stand for them.
    required: HashSet<String>,
}

impl Said {
    fn take(&mut self, item: &Item) {
        self.texts.entry(same(item)).or_insert_with(|| item.id.clone());
        if item.required {
            self.exact.entry(normalize(&item.text)).or_insert_with(|| item.id.clone());
            self.required.insert(item.memory.clone());
        }
    }

    /// The item that says the same.
    fn by(&self, item: &Item) -> Option<String> {
        if item.required {
            // "Only C#." is not "Only C.": what must not be missing is left out only where it stands
            // there to the letter.
            return self.exact.get(&normalize(&item.text)).cloned();
        }
        if self.required.contains(&item.memory) {
            return Some(item.memory.clone());
        }
        self.texts.get(&same(item)).cloned()
    }
}

/// The form in which near-identical texts of one speaker are equal: case, white space and the
/// punctuation between words do not count. What is within a word does: 3.5 is not 35.
pub(super) fn same(item: &Item) -> String {
    // What is told behind the words of a memory is not said by it.
    let words = if item.section == Section::Memories { &item.words } else { &item.text };
    let text = normalize(words).to_lowercase();
    let edge = |c: char| c.is_ascii_punctuation() && !matches!(c, '+' | '-' | '<' | '>' | '=' | '%' | '$');
    let sentence = |c: char| matches!(c, '。' | '、' | '…' | '「' | '」' | '“' | '”' | '‘' | '’' | '·');
    let mut same = String::with_capacity(text.len() + 16);
    for word in text.split(|c: char| c.is_whitespace() || sentence(c)) {
        let bare = word.trim_matches(edge);
        if !bare.is_empty() {
            same.push_str(bare);
            same.push(' ');
        }
    }
    if same.is_empty() {
        // Nothing but punctuation, which then is what is said.
        same = text;
    }
    same.push('\0');
    // A fact names of whom it is said. It is compared with the memory that states it when it is known
    // which of them fits.
    match item.section {
        Section::Constraints | Section::Window | Section::Memories => same.push_str(&item.heading.speaker),
        other => same.push_str(other.name()),
    }
    same
}

/// Where nobody knows whether two values of a group exclude each other, the newest is shown.
fn newest_of_each_group(request: &Request, chosen: &mut Chosen) {
    if !latest(request) {
        return;
    }
    let mut newest: HashMap<String, (i64, String)> = HashMap::new();
    for item in &chosen.facts {
        if let Some(group) = &item.group {
            let entry = newest.entry(group.clone()).or_insert((item.since_us, item.id.clone()));
            if item.since_us > entry.0 {
                *entry = (item.since_us, item.id.clone());
            }
        }
    }
    let left_out = &mut chosen.left_out;
    chosen.facts.retain(|item| {
        let Some((_, by)) = item.group.as_ref().and_then(|group| newest.get(group)) else { return true };
        if *by == item.id {
            return true;
        }
        left_out.note(&item.id, Reason::Conflict, Some(by));
        false
    });
}

/// Orders by maximal marginal relevance; what is alike shares words.
fn diversify(items: &mut Vec<Item>, diversity: f64) {
    if diversity == 0.0 || items.len() < 2 {
        return;
    }
    let words: Vec<Vec<u64>> = items.iter().map(|item| words(&item.text)).collect();
    let scores: Vec<f64> = items.iter().map(|item| item.score).collect();
    let order = mmr(&scores, diversity, items.len(), |one, other| overlap(&words[one], &words[other]));
    let mut taken: Vec<Option<Item>> = items.drain(..).map(Some).collect();
    items.extend(order.into_iter().filter_map(|at| taken[at].take()));
}
