use super::{EntityRow, label};
use crate::codec::{CodecError, Stored};
use crate::facts::timeline::as_of;
use crate::keys::{self, edge, fact};
use crate::limits::FACT_GROUP_MAX;
use crate::memory::FactRow;
use crate::space::SpaceKey;
use crate::state::{Reader, StateError};

/// Rows read from the store in one step.
const SCAN_STEP: usize = 128;

/// The graph cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The store cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// A row cannot be decoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// A row leads to none.
    #[error("a relation of {0} leads to a fact that does not exist")]
    Dangling(String),
}

/// Which relations of an entity are meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Direction {
    /// Those of which it is the subject.
    Out,
    /// Those of which it is the object.
    In,
    /// All.
    #[default]
    Both,
}

/// At which time relations must hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct When {
    /// Time of the query, in microseconds since 1970.
    pub now_us: i64,
    /// Valid time and record time of a question about the past.
    pub as_of: Option<(i64, i64)>,
    /// Whether those count that hold no longer.
    pub include_deprecated: bool,
}

/// One relation: a fact between two entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The entity that the fact is about, by its canonical name.
    pub subject: String,
    /// What the relation is called.
    pub relation: String,
    /// The entity that it is related to, by its canonical name.
    pub object: String,
    /// The fact.
    pub fact: FactRow,
}

/// An entity and what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// Its canonical name.
    pub name: String,
    /// Its other names.
    pub aliases: Vec<String>,
}

/// A view of the graph of one partition of a space. It reads at most a given number of rows.
pub struct Graph<'a> {
    store: &'a dyn Reader,
    space: &'a SpaceKey,
    when: When,
    rows_left: usize,
}

impl<'a> Graph<'a> {
    /// A view that reads at most `rows_max` rows.
    pub fn new(store: &'a dyn Reader, space: &'a SpaceKey, when: When, rows_max: usize) -> Self {
        Self { store, space, when, rows_left: rows_max }
    }

    /// Whether there are no rows left to read: then an answer may not be all.
    pub fn is_spent(&self) -> bool {
        self.rows_left == 0
    }

    /// The entity that a name, in normal form, stands for.
    ///
    /// # Errors
    /// [`Fault`] if the store cannot be read.
    pub fn entity(&mut self, name: &str) -> Result<Entity, Fault> {
        let row = self.entity_row(name)?;
        let (name, row) = match row.same_as {
            Some(canonical) => {
                let row = self.entity_row(&canonical)?;
                (canonical, row)
            }
            None => (name.to_owned(), row),
        };
        Ok(Entity { name, aliases: row.aliases })
    }

    fn entity_row(&mut self, name: &str) -> Result<EntityRow, Fault> {
        self.rows_left = self.rows_left.saturating_sub(1);
        let value = self.store.get(&keys::entity::key(self.space, name))?;
        Ok(value.map(|value| EntityRow::decode(&value)).transpose()?.unwrap_or_default())
    }

    /// The relations of an entity, at most `limit`, in the order of their keys, and whether there are
    /// more. With several names those of each follow another.
    ///
    /// # Errors
    /// [`Fault`] if the store cannot be read.
    pub fn edges(
        &mut self,
        entity: &Entity,
        direction: Direction,
        wanted: &dyn Fn(&str) -> bool,
        limit: usize,
    ) -> Result<(Vec<Edge>, bool), Fault> {
        let mut edges: Vec<Edge> = Vec::new();
        for name in std::iter::once(&entity.name).chain(&entity.aliases) {
            for out in [true, false] {
                let skipped = if out { Direction::In } else { Direction::Out };
                if direction == skipped {
                    continue;
                }
                if self.scan(entity, name, out, wanted, limit, &mut edges)? {
                    return Ok((edges, true));
                }
            }
        }
        Ok((edges, false))
    }

    /// Takes the relations of one name in one direction. Answers whether there are more than can be
    /// taken.
    fn scan(
        &mut self,
        entity: &Entity,
        name: &str,
        out: bool,
        wanted: &dyn Fn(&str) -> bool,
        limit: usize,
        edges: &mut Vec<Edge>,
    ) -> Result<bool, Fault> {
        let prefix =
            if out { fact::subject_prefix(self.space, name) } else { edge::object_prefix(self.space, name) };
        let mut after: Option<Vec<u8>> = None;
        loop {
            let step = SCAN_STEP.min(self.rows_left);
            if step == 0 {
                return Ok(true);
            }
            let rows = self.store.scan(&prefix, after.as_deref(), step)?;
            self.rows_left -= rows.len();
            let is_last = rows.len() < step;
            for (key, value) in rows {
                let found = if out {
                    self.out(entity, &prefix, &key, &value)?
                } else {
                    self.back(entity, &prefix, &key)?
                };
                after = Some(key);
                // One that leads from an entity to itself is met both ways, and counts once.
                let Some(edge) = found.filter(|edge| wanted(&edge.relation)) else { continue };
                let again =
                    |known: &Edge| (known.fact.seq, known.fact.ordinal) == (edge.fact.seq, edge.fact.ordinal);
                if edge.subject == edge.object && edges.iter().any(again) {
                    continue;
                }
                if edges.len() == limit {
                    return Ok(true);
                }
                edges.push(edge);
            }
            if is_last {
                return Ok(false);
            }
        }
    }

    fn out(
        &mut self,
        entity: &Entity,
        prefix: &[u8],
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Edge>, Fault> {
        let row = FactRow::decode(value)?;
        if row.object.is_empty() || !self.holds(key, &row)? {
            return Ok(None);
        }
        let predicate = key.strip_prefix(prefix).and_then(text_before_nul).unwrap_or_default();
        let relation = label(&predicate, &row).to_owned();
        let object = self.entity(&row.object)?.name;
        Ok(Some(Edge { subject: entity.name.clone(), relation, object, fact: row }))
    }

    fn back(&mut self, entity: &Entity, prefix: &[u8], key: &[u8]) -> Result<Option<Edge>, Fault> {
        let dangling = || Fault::Dangling(entity.name.clone());
        let fact_key = edge::fact(self.space, prefix, key).ok_or_else(dangling)?;
        self.rows_left = self.rows_left.saturating_sub(1);
        // A reader of a store that changes may meet a row whose fact has just gone.
        let Some(value) = self.store.get(&fact_key)? else { return Ok(None) };
        let row = FactRow::decode(&value)?;
        if !self.holds(&fact_key, &row)? {
            return Ok(None);
        }
        let rest = key.strip_prefix(prefix).unwrap_or_default();
        let subject = text_before_nul(rest).ok_or_else(dangling)?;
        let predicate = text_before_nul(&rest[subject.len() + 1..]).unwrap_or_default();
        let relation = label(&predicate, &row).to_owned();
        let subject = self.entity(&subject)?.name;
        Ok(Some(Edge { subject, relation, object: entity.name.clone(), fact: row }))
    }

    /// Whether a fact holds at the time that is meant.
    fn holds(&mut self, key: &[u8], row: &FactRow) -> Result<bool, Fault> {
        let Some((valid_us, recorded_us)) = self.when.as_of else {
            let now_us = self.when.now_us;
            let over = row.retracted_us.is_some() || row.until_us.is_some_and(|until_us| until_us <= now_us);
            return Ok(self.when.include_deprecated || !over && row.from_us <= now_us);
        };
        // What was believed follows from all rows of the group.
        let group = fact::group_of(key).unwrap_or(key);
        let rows = self.store.scan(group, None, FACT_GROUP_MAX)?;
        self.rows_left = self.rows_left.saturating_sub(rows.len());
        let rows: Vec<FactRow> =
            rows.iter().map(|(_, value)| FactRow::decode(value)).collect::<Result<_, _>>()?;
        let held = as_of(&rows, valid_us, recorded_us);
        Ok(held.iter().any(|(at, _)| (rows[*at].seq, rows[*at].ordinal) == (row.seq, row.ordinal)))
    }

    /// Whether anything is known of an entity, be it that it holds no longer.
    ///
    /// # Errors
    /// [`Fault`] if the store cannot be read.
    pub fn is_known(&mut self, entity: &Entity) -> Result<bool, Fault> {
        if !entity.aliases.is_empty() {
            return Ok(true);
        }
        for prefix in
            [fact::subject_prefix(self.space, &entity.name), edge::object_prefix(self.space, &entity.name)]
        {
            if !self.store.scan(&prefix, None, 1)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn text_before_nul(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    String::from_utf8(bytes[..end].to_vec()).ok()
}
