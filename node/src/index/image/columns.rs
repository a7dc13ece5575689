use super::super::vectors::Place;
use super::{Names, TopicNumbers};
use holdfast_core::memory::{IndexRow, Kind, Status};
use holdfast_core::score::flag;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// One array for each column of the index rows. All have the same length.
#[derive(Debug, Default)]
pub(in super::super) struct Columns {
    pub(in super::super) seq: Vec<u64>,
    pub(in super::super) id: Vec<Box<str>>,
    /// Decides which rows stand for all in the statistics of the cosine.
    pub(in super::super) id_hash: Vec<u64>,
    /// [`flag`], before it is known what a query may see.
    pub(in super::super) flags: Vec<u8>,
    pub(in super::super) kind: Vec<Kind>,
    pub(in super::super) status: Vec<Status>,
    pub(in super::super) pinned: Vec<bool>,
    pub(in super::super) importance: Vec<f32>,
    pub(in super::super) strength_milli: Vec<u16>,
    pub(in super::super) access_count: Vec<u32>,
    pub(in super::super) created_us: Vec<i64>,
    pub(in super::super) event_us: Vec<i64>,
    pub(in super::super) last_access_us: Vec<i64>,
    /// [`NEVER`] where there is no expiry.
    pub(in super::super) expires_us: Vec<i64>,
    /// [`i64::MIN`] where nothing is stated.
    pub(in super::super) valid_from_us: Vec<i64>,
    /// [`NEVER`] where it still holds.
    pub(in super::super) valid_to_us: Vec<i64>,
    /// [`NEVER`] where it was not retracted.
    pub(in super::super) retracted_us: Vec<i64>,
    /// Whether a newer memory may say otherwise.
    pub(in super::super) older: Vec<bool>,
    pub(in super::super) role: Vec<u32>,
    pub(in super::super) speaker: Vec<u32>,
    pub(in super::super) session: Vec<u32>,
    pub(in super::super) agent: Vec<u32>,
    pub(in super::super) sentiment: Vec<u32>,
    pub(in super::super) entities: Vec<Box<[u32]>>,
    pub(in super::super) metadata: Vec<Box<str>>,
    pub(in super::super) terms_len: Vec<u32>,
    pub(in super::super) place: Vec<Place>,
    pub(in super::super) topics: Vec<Box<[TopicNumbers]>>,
    /// What the rows of each 64 have in common. Not a column: one for each [`BLOCK_ROWS`].
    pub(in super::super) blocks: Vec<Block>,
    /// Bytes of ids, entities and metadata.
    heap_bytes: usize,
}

/// When a memory expires that does not: 292,277 years after 1970.
pub(in super::super) const NEVER: i64 = i64::MAX;

/// Does the same with every column.
macro_rules! each_column {
    ($columns:ident, $do:ident) => {
        $do!($columns: seq id id_hash flags kind status pinned importance strength_milli access_count
            created_us event_us last_access_us expires_us valid_from_us valid_to_us retracted_us older role speaker session agent sentiment entities
            metadata terms_len place topics)
    };
}

macro_rules! bytes_of {
    ($columns:ident: $($name:ident)+) => {
        0 $(+ allocated(&$columns.$name))+
    };
}

macro_rules! shrink {
    ($columns:ident: $($name:ident)+) => {
        $($columns.$name.shrink_to_fit();)+
    };
}

impl Columns {
    /// Rows, dead ones included.
    pub(in super::super) fn len(&self) -> usize {
        self.seq.len()
    }

    pub(super) fn push(&mut self, seq: u64, row: &IndexRow, names: &Names, place: Place) {
        self.heap_bytes += row.id.len() + heap_of(row);
        self.seq.push(seq);
        self.id.push(row.id.as_str().into());
        self.id_hash.push(xxh3_64(row.id.as_bytes()));
        self.flags.push(flags(row));
        self.kind.push(row.kind);
        self.status.push(row.status);
        self.pinned.push(row.pinned);
        self.importance.push(row.importance);
        self.strength_milli.push(row.strength_milli);
        self.access_count.push(row.access_count);
        self.created_us.push(row.created_us);
        self.event_us.push(row.event_us);
        self.last_access_us.push(row.last_access_us);
        self.expires_us.push(row.expires_us.unwrap_or(NEVER));
        self.valid_from_us.push(row.valid_from_us.unwrap_or(i64::MIN));
        self.valid_to_us.push(row.valid_to_us.unwrap_or(NEVER));
        self.retracted_us.push(row.retracted_us.unwrap_or(NEVER));
        self.older.push(row.older);
        self.role.push(names.role);
        self.speaker.push(names.speaker);
        self.session.push(names.session);
        self.agent.push(names.agent);
        self.sentiment.push(names.sentiment);
        self.entities.push(names.entities.clone());
        self.metadata.push(row.metadata.as_str().into());
        self.terms_len.push(row.terms_len);
        self.place.push(place);
        self.topics.push(names.topics.clone());
        let at = self.len() - 1;
        let mut block =
            if at.is_multiple_of(BLOCK_ROWS) { None } else { self.blocks.pop() }.unwrap_or_default();
        block.add(self, at);
        self.blocks.push(block);
    }

    /// Sets what may change in place: the session, the event time, the terms and the vector stay.
    pub(super) fn set(&mut self, at: usize, row: &IndexRow, names: &Names) {
        self.heap_bytes -= self.heap_at(at);
        self.heap_bytes += row.id.len() + heap_of(row);
        if *self.id[at] != *row.id {
            self.id[at] = row.id.as_str().into();
            self.id_hash[at] = xxh3_64(row.id.as_bytes());
        }
        self.flags[at] = flags(row);
        self.kind[at] = row.kind;
        self.status[at] = row.status;
        self.pinned[at] = row.pinned;
        self.importance[at] = row.importance;
        self.strength_milli[at] = row.strength_milli;
        self.access_count[at] = row.access_count;
        self.created_us[at] = row.created_us;
        self.last_access_us[at] = row.last_access_us;
        self.expires_us[at] = row.expires_us.unwrap_or(NEVER);
        self.valid_from_us[at] = row.valid_from_us.unwrap_or(i64::MIN);
        self.valid_to_us[at] = row.valid_to_us.unwrap_or(NEVER);
        self.retracted_us[at] = row.retracted_us.unwrap_or(NEVER);
        self.older[at] = row.older;
        self.role[at] = names.role;
        self.speaker[at] = names.speaker;
        self.agent[at] = names.agent;
        self.sentiment[at] = names.sentiment;
        if *self.entities[at] != *names.entities {
            self.entities[at] = names.entities.clone();
        }
        if *self.topics[at] != *names.topics {
            self.topics[at] = names.topics.clone();
        }
        if *self.metadata[at] != *row.metadata {
            self.metadata[at] = row.metadata.as_str().into();
        }
        self.summarise_anew(at);
    }

    /// Masks a row and frees its texts. Event time, seq and session stay: they hold the row's place
    /// in its session, which its neighbours are found across.
    pub(super) fn kill(&mut self, at: usize) {
        self.heap_bytes -= self.heap_at(at);
        self.flags[at] = 0;
        self.id[at] = Box::default();
        self.entities[at] = Box::default();
        self.metadata[at] = Box::default();
        self.topics[at] = Box::default();
        self.summarise_anew(at);
    }

    /// Memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.heap_bytes + each_column!(self, bytes_of) + allocated(&self.blocks)
    }

    pub(super) fn shrink(&mut self) {
        each_column!(self, shrink);
        self.blocks.shrink_to_fit();
    }

    /// The rows of a block.
    pub(in super::super) fn rows_of(&self, block: usize) -> Range<usize> {
        let first = block * BLOCK_ROWS;
        first..(first + BLOCK_ROWS).min(self.len())
    }

    fn summarise_anew(&mut self, at: usize) {
        let number = at / BLOCK_ROWS;
        let anew = self.block_of(number);
        if let Some(block) = self.blocks.get_mut(number) {
            *block = anew;
        }
    }

    /// The first row of each block of which something else is known than what its rows have: of none, unless the index
    /// is damaged.
    pub(in super::super) fn broken_blocks(&self) -> impl Iterator<Item = usize> {
        let numbers = 0..self.blocks.len().max(self.len().div_ceil(BLOCK_ROWS));
        let first = |number: usize| number * BLOCK_ROWS;
        numbers.filter(|number| self.blocks.get(*number) != Some(&self.block_of(*number))).map(first)
    }

    fn block_of(&self, number: usize) -> Block {
        let mut block = Block::default();
        for at in self.rows_of(number) {
            block.add(self, at);
        }
        block
    }

    fn heap_at(&self, at: usize) -> usize {
        self.id[at].len()
            + self.entities[at].len() * size_of::<u32>()
            + self.metadata[at].len()
            + self.topics[at].len() * size_of::<TopicNumbers>()
    }
}

/// Rows of a block: as many as a word has bits.
pub(in super::super) const BLOCK_ROWS: usize = 64;

/// What 64 rows that came one after the other have in common, by which a search may pass over all of them. It says
/// what is so now: a change of a row makes it anew.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct Block {
    /// Rows that not every query of the present sees: dead, expiring, ended, superseded or in doubt.
    pub(in super::super) special: u32,
    /// Of all rows.
    pub(in super::super) terms_len: u64,
    /// The latest; this and what follows is of the rows that are alive.
    pub(in super::super) last_access_us: i64,
    /// The most.
    pub(in super::super) access_count: u32,
    /// The highest; infinite if one is not a number.
    pub(in super::super) importance: f32,
    /// The highest.
    pub(in super::super) strength_milli: u16,
    /// Where the vectors of all of its rows are.
    pub(in super::super) arena: BlockArena,
    /// Whether one of its rows states something.
    pub(in super::super) states: bool,
}

/// Where the vectors of a block are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum BlockArena {
    /// It has no rows yet.
    Empty,
    /// All in this one.
    One(u32),
    /// In several, or some rows have none.
    Several,
}

impl Default for Block {
    fn default() -> Self {
        Self {
            special: 0,
            terms_len: 0,
            last_access_us: i64::MIN,
            access_count: 0,
            importance: 0.0,
            strength_milli: 0,
            arena: BlockArena::Empty,
            states: false,
        }
    }
}

impl Block {
    fn add(&mut self, columns: &Columns, at: usize) {
        let is_plain = columns.flags[at] & flag::LIVE != 0
            && columns.status[at] == Status::Active
            && !columns.older[at]
            && columns.expires_us[at] == NEVER
            && columns.valid_to_us[at] == NEVER;
        self.special += u32::from(!is_plain);
        self.terms_len += u64::from(columns.terms_len[at]);
        if columns.flags[at] & flag::LIVE == 0 {
            return;
        }
        self.last_access_us = self.last_access_us.max(columns.last_access_us[at]);
        self.access_count = self.access_count.max(columns.access_count[at]);
        let importance = columns.importance[at];
        self.importance = if importance.is_nan() { f32::INFINITY } else { self.importance.max(importance) };
        self.strength_milli = self.strength_milli.max(columns.strength_milli[at]);
        let arena = columns.place[at].arena;
        self.arena = match self.arena {
            BlockArena::Empty if arena != Place::NOWHERE.arena => BlockArena::One(arena),
            BlockArena::One(before) if before == arena => BlockArena::One(arena),
            _ => BlockArena::Several,
        };
        self.states |= columns.valid_from_us[at] > i64::MIN;
    }
}

fn heap_of(row: &IndexRow) -> usize {
    row.entities.len() * size_of::<u32>() + row.metadata.len() + row.topics.len() * size_of::<TopicNumbers>()
}

fn flags(row: &IndexRow) -> u8 {
    let bit = |set: bool, bit: u8| if set { bit } else { 0 };
    flag::LIVE
        | bit(row.question, flag::QUESTION)
        | bit(row.role.as_deref() == Some("user"), flag::USER)
        | bit(row.vector.is_some(), flag::VECTOR)
        | bit(row.unsure, flag::UNSURE)
}

fn allocated<T>(column: &Vec<T>) -> usize {
    column.capacity() * size_of::<T>()
}
