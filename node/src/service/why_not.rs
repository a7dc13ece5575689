//! What became of one memory in a recall, for those who miss it. It is looked for in the one space
//! that the caller may read, where an id of another space is as unknown as any other.

use super::reads::{Rows, read};
use super::recall::scored;
use crate::index::{Answer, Sight, Trace};
use holdfast_core::keys;
use holdfast_core::memory::{IndexRow, MemoryRow, TombstoneRow};
use holdfast_proto::{Refused, v1};

/// Most memories that are named as standing in the place of another.
const BY_MAX: usize = 100;

/// A memory that is asked about, as it was before the search.
pub(super) struct Traced {
    id: String,
    rows: Option<(MemoryRow, IndexRow)>,
}

impl Traced {
    pub(super) fn find(rows: &Rows<'_>, id: &str) -> Result<Self, Refused> {
        Ok(Self { id: id.to_owned(), rows: rows.rows(id)? })
    }

    /// What the index knows it by.
    pub(super) fn seq(&self) -> Option<u64> {
        self.rows.as_ref().map(|(memory, _)| memory.seq)
    }

    /// What became of it in the search.
    pub(super) fn tell(self, rows: &Rows<'_>, answer: &Answer) -> Result<v1::Traced, Refused> {
        let (Some((memory, index)), Some(trace)) = (&self.rows, &answer.trace) else {
            return gone(rows, &self.id);
        };
        let of = |fate: v1::Fate, at_us: Option<i64>, by: Vec<String>| v1::Traced {
            fate: fate.into(),
            at_us,
            by,
            ..v1::Traced::default()
        };
        let by = |ids: &[String]| ids.iter().take(BY_MAX).cloned().collect::<Vec<_>>();
        Ok(match trace.sight {
            Sight::Seen => self.seen(rows, trace)?,
            Sight::Absent if index.chunked => of(v1::Fate::Chunked, None, by(&memory.chunks)),
            // It was deleted since its rows were read.
            Sight::Absent => gone(rows, &self.id)?,
            Sight::Expired => of(v1::Fate::Expired, index.expires_us, Vec::new()),
            Sight::NotThen => of(v1::Fate::NotThen, None, Vec::new()),
            Sight::Archived => of(v1::Fate::Archived, None, Vec::new()),
            Sight::Merged => of(v1::Fate::Merged, None, rows.merged_into(index)?.into_iter().collect()),
            Sight::Superseded => {
                let fate = match index.retracted_us {
                    Some(_) => v1::Fate::Retracted,
                    None => v1::Fate::Superseded,
                };
                of(
                    fate,
                    index.retracted_us.or(index.valid_to_us),
                    memory.superseded_by.iter().cloned().collect(),
                )
            }
            Sight::Over => {
                of(v1::Fate::Over, index.valid_to_us, memory.superseded_by.iter().cloned().collect())
            }
            Sight::Older => of(v1::Fate::Older, None, newer(rows, memory, index)?),
        })
    }

    fn seen(&self, rows: &Rows<'_>, trace: &Trace) -> Result<v1::Traced, Refused> {
        // Deleted while it was scored.
        let Some(hit) = &trace.hit else { return gone(rows, &self.id) };
        let Some(memory) = rows.memory(&self.id)? else { return gone(rows, &self.id) };
        let unmet = trace
            .faults
            .iter()
            .map(|fault| v1::Unmet { condition: fault.condition.clone(), found: fault.found.clone() });
        Ok(v1::Traced {
            fate: v1::Fate::Scored.into(),
            unmet: unmet.collect(),
            scored: Some(scored(hit, memory)),
            rank: trace.rank,
            passing: trace.passing,
            ..v1::Traced::default()
        })
    }
}

/// A memory that is not there: deleted, as long as that is remembered, or never known here.
fn gone(rows: &Rows<'_>, id: &str) -> Result<v1::Traced, Refused> {
    let tombstone: Option<TombstoneRow> = read(rows.state(), &keys::tombstone::key(rows.space(), id))?;
    let fate = if tombstone.is_some() { v1::Fate::Deleted } else { v1::Fate::Unknown };
    let at_us = tombstone.map(|tombstone| tombstone.deleted_us);
    Ok(v1::Traced { fate: fate.into(), at_us, ..v1::Traced::default() })
}

/// The memories that may contradict one and were said later.
fn newer(rows: &Rows<'_>, memory: &MemoryRow, index: &IndexRow) -> Result<Vec<String>, Refused> {
    let said_us = |row: &IndexRow| row.valid_from_us.unwrap_or(row.event_us);
    let mut newer = Vec::new();
    for id in memory.possible_conflicts.iter().take(BY_MAX) {
        let Some((other, other_index)) = rows.rows(id)? else { continue };
        if (said_us(&other_index), other.seq) > (said_us(index), memory.seq) {
            newer.push(id.clone());
        }
    }
    Ok(newer)
}
