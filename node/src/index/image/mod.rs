//! The columnar image of one partition of a space.

mod columns;
mod live;
mod view;

use super::graph::Graphs;
use super::intern::Interner;
use super::postings::Postings;
use super::vectors::{Place, Source, Vectors};
pub(super) use columns::{BLOCK_ROWS, BlockArena, Columns};
use holdfast_core::event::Event;
use holdfast_core::facts::normal;
use holdfast_core::memory::{IndexRow, Topic};
use holdfast_core::score::{NONE, Neighbours, flag};
use holdfast_core::text::SpeakerNames;
use numkong::f16;
use std::collections::HashMap;
use std::sync::OnceLock;

pub(super) use live::TimedOut;
pub use live::{LiveImage, SharedImage};
pub(super) use view::RowView;

/// The columns of one partition of a space, in memory.
///
/// Rows are numbered in the order in which they came, which at load is that of `seq`. A change that
/// moves nothing (importance, use, metadata, …) is made in place; a change of text, vector, session
/// or event time masks the old row and appends a new one. Masked rows are skipped, never reused;
/// when there are too many of them ([`Image::is_wasteful`]) the image is loaded anew.
#[derive(Debug, Default)]
pub struct Image {
    pub(super) columns: Columns,
    pub(super) postings: Postings,
    pub(super) vectors: Vectors,
    pub(super) links: Neighbours,
    /// Roles, agents, sentiments and entities.
    pub(super) labels: Interner,
    pub(super) speakers: Interner,
    pub(super) sessions: Interner,
    /// Of facts, in normal form.
    pub(super) subjects: Interner,
    pub(super) predicates: Interner,
    /// For each speaker the number of live rows, so that nobody is recognised who said nothing that
    /// is left: an image must not remember what a fresh one would not know.
    speaker_rows: Vec<u32>,
    /// Made when a query first needs it, dropped when a speaker comes or goes.
    speaker_names: OnceLock<SpeakerNames>,
    /// For each session its rows, dead ones too, by event time, then seq, then row.
    session_rows: Vec<Vec<u32>>,
    session_rows_capacity: usize,
    row_of_seq: HashMap<u64, u32>,
    pub(super) graphs: Graphs,
}

/// What an image takes up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Memory of all of it, in bytes.
    pub(super) bytes: usize,
    /// Graphs that serve.
    pub(super) graphs: usize,
    /// Memory of all graphs, in bytes.
    pub(super) graph_bytes: usize,
    /// Models whose vectors are in files of lists.
    pub(super) lists: usize,
    /// Memory that goes with these, in bytes.
    pub(super) list_bytes: usize,
}

/// Below this number of dead rows an image is not worth loading anew.
const DEAD_ROWS_MIN: usize = 256;

impl Image {
    /// An image without rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of memories, visible to a recall or not.
    pub fn len(&self) -> usize {
        self.row_of_seq.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.row_of_seq.is_empty()
    }

    /// Sets the columns of a memory. Doing it twice is doing it once.
    pub fn put(&mut self, seq: u64, row: &IndexRow) {
        if row.chunked {
            // Its chunks stand here in its place.
            self.remove(seq);
            return;
        }
        match self.row_of_seq.get(&seq).copied() {
            Some(at) if self.moves_nothing(at, row) => self.update(at, row),
            Some(at) => {
                self.kill(at);
                self.append(seq, row);
            }
            None => self.append(seq, row),
        }
    }

    /// Brings it up to date with one change of its space.
    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Put { seq, row, .. } => self.put(*seq, row),
            Event::Remove { seq, .. } => self.remove(*seq),
        }
    }

    /// Takes a memory out; one that is not there is no error.
    pub fn remove(&mut self, seq: u64) {
        if let Some(at) = self.row_of_seq.remove(&seq) {
            self.kill(at);
        }
    }

    /// Whether so many rows are dead that the image should be loaded anew: more than a third; more than a
    /// half where a graph or lists would have to be built anew with it.
    pub fn is_wasteful(&self) -> bool {
        let dead = self.columns.len() - self.len();
        let share = if self.graphs.len() > 0 || self.vectors.lists_size().1 > 0 { 2 } else { 3 };
        dead >= DEAD_ROWS_MIN && dead * share > self.columns.len()
    }

    /// Memory in use, in bytes: what the columns, lists and texts have allocated, by their
    /// capacities, without the allocator's own overhead.
    pub fn bytes(&self) -> usize {
        // Buckets of the map hold a pair and a byte of control.
        const BUCKET: usize = size_of::<(u64, u32)>() + 1;
        size_of::<Self>()
            + self.columns.bytes()
            + self.postings.bytes()
            + self.vectors.bytes()
            + [&self.labels, &self.speakers, &self.sessions, &self.subjects, &self.predicates].iter().map(|names| names.bytes()).sum::<usize>()
            // The links are two numbers a row.
            + self.links.prev().len() * 2 * size_of::<u32>()
            + self.speaker_rows.capacity() * size_of::<u32>()
            + self.session_rows.capacity() * size_of::<Vec<u32>>()
            + self.session_rows_capacity * size_of::<u32>()
            + self.row_of_seq.capacity() * BUCKET
            + self.graphs.bytes()
    }

    /// Whether a vector could not be read from its file: then the image is given up, and the next one that is
    /// loaded does without the file.
    pub fn is_damaged(&self) -> bool {
        self.vectors.damage().load(std::sync::atomic::Ordering::Relaxed)
    }

    /// What it takes up.
    pub(super) fn size(&self) -> Size {
        let (list_bytes, lists) = self.vectors.lists_size();
        let (graphs, graph_bytes) = (self.graphs.len(), self.graphs.bytes());
        Size { bytes: self.bytes(), graphs, graph_bytes, lists, list_bytes }
    }

    /// Where the vector of a row lies.
    pub(super) fn place(&self, row: u32) -> Option<Place> {
        self.columns.place.get(row as usize).copied()
    }

    /// The rows of an arena that are alive, each with the hash of its id.
    pub(super) fn rows_in(&self, arena: usize) -> Vec<(u64, u32)> {
        let columns = &self.columns;
        let rows = (0u32..).zip(columns.place.iter().zip(&columns.flags).zip(&columns.id_hash));
        rows.filter(|(_, ((place, flags), _))| place.arena as usize == arena && **flags & flag::LIVE != 0)
            .map(|(row, (_, hash))| (*hash, row))
            .collect()
    }

    /// From where the vector of a row can be read, if the row is alive and its vector in this arena.
    pub(super) fn source(&self, arena: usize, row: u32) -> Option<Source> {
        let flags = self.columns.flags.get(row as usize)?;
        self.vectors.source(arena, self.place(row)?).filter(|_| flags & flag::LIVE != 0)
    }

    /// Rows, dead ones included.
    pub(super) fn rows_count(&self) -> u32 {
        u32::try_from(self.columns.len()).unwrap_or(u32::MAX)
    }

    /// The vector of a row that is alive, if it is in this arena and in memory.
    pub(super) fn vector_in(&self, arena: usize, row: u32) -> Option<&[f16]> {
        let flags = self.columns.flags.get(row as usize)?;
        let place = self.columns.place.get(row as usize)?;
        self.vectors.in_arena(arena, *place).filter(|_| flags & flag::LIVE != 0)
    }

    /// Gives back what growing has allocated ahead.
    pub(super) fn shrink(&mut self) {
        self.columns.shrink();
        self.postings.shrink();
        self.vectors.shrink();
        self.session_rows.iter_mut().for_each(Vec::shrink_to_fit);
        self.session_rows_capacity = self.session_rows.iter().map(Vec::capacity).sum();
        self.row_of_seq.shrink_to_fit();
    }

    /// The row of a memory.
    pub(super) fn row(&self, seq: u64) -> Option<u32> {
        self.row_of_seq.get(&seq).copied()
    }

    /// All memories: their seq and row, in no order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u64, u32)> {
        self.row_of_seq.iter().map(|(seq, row)| (*seq, *row))
    }

    /// What the statements of a row are about: subject and predicate.
    pub(super) fn topics_of(&self, at: usize) -> impl Iterator<Item = (&str, &str)> {
        self.columns.topics[at].iter().filter_map(|topic| {
            Some((self.subjects.name(topic.subject)?, self.predicates.name(topic.predicate)?))
        })
    }

    /// The speakers that a query can name.
    pub(super) fn speaker_names(&self) -> &SpeakerNames {
        self.speaker_names.get_or_init(|| {
            let said_something =
                |number: &u32| self.speaker_rows.get(*number as usize).is_some_and(|rows| *rows > 0);
            SpeakerNames::new(self.speakers.iter().filter(|(number, _)| said_something(number)))
        })
    }

    /// The nearest live row in one direction of the links.
    pub(super) fn live_neighbour(&self, links: &[u32], flags: &[u8], row: u32) -> Option<u32> {
        let live = |row: u32| flags.get(row as usize).is_some_and(|flags| flags & flag::LIVE != 0);
        let mut at = *links.get(row as usize)?;
        for _ in 0..links.len() {
            if at == NONE || live(at) {
                break;
            }
            at = *links.get(at as usize)?;
        }
        (at != NONE && live(at)).then_some(at)
    }

    /// Whether all that other structures hang on stays as it is.
    fn moves_nothing(&self, at: u32, row: &IndexRow) -> bool {
        let row_index = at as usize;
        let columns = &self.columns;
        columns.event_us[row_index] == row.event_us
            && self.sessions.name(columns.session[row_index]) == row.session.as_deref()
            && columns.terms_len[row_index] == row.terms_len
            && self.postings.same(at, &row.terms)
            && self.vectors.same(columns.place[row_index], row.vector.as_ref())
    }

    fn append(&mut self, seq: u64, row: &IndexRow) {
        // 2^32 - 1 rows would take a terabyte; the budget of the images ends long before.
        let Ok(at) = u32::try_from(self.columns.len()) else { return };
        let names = self.intern(row);
        self.count_speaker(names.speaker, true);
        let place = row.vector.as_ref().map_or(Place::NOWHERE, |vector| self.vectors.push(at, seq, vector));
        self.postings.push(at, &row.terms);
        self.columns.push(seq, row, &names, place);
        self.link(at, names.session);
        self.row_of_seq.insert(seq, at);
    }

    fn update(&mut self, at: u32, row: &IndexRow) {
        let names = self.intern(row);
        let before = self.columns.speaker[at as usize];
        if before != names.speaker {
            self.count_speaker(names.speaker, true);
            self.count_speaker(before, false);
        }
        self.columns.set(at as usize, row, &names);
    }

    fn kill(&mut self, at: u32) {
        self.count_speaker(self.columns.speaker[at as usize], false);
        let place = self.columns.place[at as usize];
        self.vectors.release(place);
        self.graphs.died(place.arena, at);
        self.columns.kill(at as usize);
        self.postings.clear(at);
    }

    fn intern(&mut self, row: &IndexRow) -> Names {
        fn number(names: &mut Interner, name: Option<&String>) -> u32 {
            name.map_or(NONE, |name| names.intern(name))
        }
        Names {
            role: number(&mut self.labels, row.role.as_ref()),
            speaker: number(&mut self.speakers, row.speaker.as_ref()),
            session: number(&mut self.sessions, row.session.as_ref()),
            agent: number(&mut self.labels, row.agent.as_ref()),
            sentiment: number(&mut self.labels, row.sentiment.as_ref()),
            entities: row.entities.iter().map(|entity| self.labels.intern(entity)).collect(),
            topics: self.topics(row),
        }
    }

    fn topics(&mut self, row: &IndexRow) -> Box<[TopicNumbers]> {
        if row.topics.is_empty() {
            return Box::default();
        }
        let speaker = normal::speaker(row.speaker.as_deref());
        let number = |topic: &Topic| TopicNumbers {
            subject: self.subjects.intern(&topic.subject),
            predicate: self.predicates.intern(&topic.predicate),
            own: topic.subject == speaker,
        };
        row.topics.iter().map(number).collect()
    }

    fn count_speaker(&mut self, speaker: u32, comes: bool) {
        if speaker == NONE {
            return;
        }
        let at = speaker as usize;
        if at >= self.speaker_rows.len() {
            self.speaker_rows.resize(at + 1, 0);
        }
        let rows = &mut self.speaker_rows[at];
        let before = *rows;
        *rows = if comes { before + 1 } else { before.saturating_sub(1) };
        if (before == 0) != (*rows == 0) {
            self.speaker_names = OnceLock::new();
        }
    }

    /// Puts the newest row at its place in its session.
    fn link(&mut self, at: u32, session: u32) {
        if session == NONE {
            self.links.push(None, None);
            return;
        }
        if session as usize >= self.session_rows.len() {
            self.session_rows.resize_with(session as usize + 1, Vec::new);
        }
        let columns = &self.columns;
        let order = |row: u32| (columns.event_us[row as usize], columns.seq[row as usize], row);
        let rows = &mut self.session_rows[session as usize];
        let position = rows.partition_point(|row| order(*row) < order(at));
        let before = position.checked_sub(1).and_then(|before| rows.get(before)).copied();
        let after = rows.get(position).copied();
        let capacity = rows.capacity();
        rows.insert(position, at);
        self.session_rows_capacity += rows.capacity() - capacity;
        self.links.push(before, after);
    }
}

/// The numbers of the strings of a row.
pub(super) struct Names {
    role: u32,
    speaker: u32,
    session: u32,
    agent: u32,
    sentiment: u32,
    entities: Box<[u32]>,
    topics: Box<[TopicNumbers]>,
}

/// What a statement of a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TopicNumbers {
    pub(super) subject: u32,
    pub(super) predicate: u32,
    /// Whether the subject is who says it.
    pub(super) own: bool,
}
