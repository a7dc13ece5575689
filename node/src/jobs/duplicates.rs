//! Looks whether new memories say what older ones say, in the same words.

use super::proposal::{propose, read};
use super::{Ended, Failure, Tools};
use crate::nearest::{Like, most_like};
use crate::service::Replica;
use crate::shard::ShardState;
use holdfast_core::apply::may_merge;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Hint, Merge, Upkeep, Write};
use holdfast_core::duplicates::{CANDIDATES, Gist, TEXT_BYTES_MAX, say_the_same};
use holdfast_core::keys::work::Work;
use holdfast_core::keys::{self, Family};
use holdfast_core::limits::{MERGED_MAX, UPKEEP_MERGES_MAX};
use holdfast_core::memory::{Counters, IndexRow, MemoryRow};
use holdfast_core::outcome::{ItemStatus, Outcome};
use holdfast_core::space::SpaceKey;
use holdfast_core::state::Reader;
use holdfast_core::upkeep::UpkeepRow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Rows that one step goes through.
pub(super) const ROWS_MAX: usize = 64;
/// Memories of one step that others are looked for: each is a search.
const SEARCHES_MAX: usize = 32;

/// What a step found.
#[derive(Debug, Default)]
struct Found {
    through: u64,
    looked_at: usize,
    merges: Vec<Merge>,
}

/// One step of the work on one space.
pub(super) async fn work(
    replica: &Replica,
    work: &Work,
    now_us: i64,
    tools: &Tools,
) -> Result<Ended, Failure> {
    let (base, last_seq) = {
        let reader = replica.state.reader();
        let row = read::<UpkeepRow>(&reader, &keys::upkeep::key(&work.space))?.unwrap_or_default();
        if row.work_us != Some(work.at_us) {
            // It has moved meanwhile.
            return Ok(Ended::Done);
        }
        let counters = read::<Counters>(&reader, &keys::counters::key(&work.space))?.unwrap_or_default();
        (row.looked, counters.last_seq)
    };
    let begin = Instant::now();
    let (state, space) = (Arc::clone(&replica.state), work.space.clone());
    let looking = tokio::task::spawn_blocking(move || look(&state, &space, (base, last_seq), now_us));
    let Found { through, looked_at, merges } = looking.await??;
    let write = Write::Upkeep(Box::new(Upkeep::Duplicates { base, through, merges }));
    match propose(replica, &work.space, write).await? {
        Some(Outcome::Items { items, .. }) => {
            let merged = items.iter().filter(|item| item.status == ItemStatus::Merged).count();
            tools.metrics.done("merge", begin.elapsed());
            tools.metrics.near_duplicates(looked_at, merged, items.len() - merged);
        }
        Some(_) => return Err("no answer of a merge".into()),
        None => tools.metrics.stale("merge"),
    }
    Ok(Ended::Again)
}

/// Looks at the rows behind `base`, as many as one step may.
fn look(
    state: &ShardState,
    space: &SpaceKey,
    (base, last_seq): (u64, u64),
    now_us: i64,
) -> Result<Found, Failure> {
    let reader = state.reader();
    let prefix = keys::family_prefix(space, Family::IndexRow);
    let rows = reader.scan(&prefix, Some(&keys::index_row::key(space, base)), ROWS_MAX)?;
    let mut found =
        Found { through: if rows.len() < ROWS_MAX { last_seq } else { base }, ..Found::default() };
    // What this step merges is no place to merge anything into.
    let mut taken: HashMap<String, String> = HashMap::new();
    for (key, value) in rows {
        let seq = keys::index_row::seq(&key).ok_or("a key of the columns of a memory cannot be read")?;
        if found.merges.len() == UPKEEP_MERGES_MAX || found.looked_at == SEARCHES_MAX {
            found.through = seq - 1;
            break;
        }
        found.through = found.through.max(seq.min(last_seq));
        let row = IndexRow::decode(&value)?;
        let Some(memory) = read::<MemoryRow>(&reader, &keys::memory::key(space, &row.id))? else { continue };
        // A memory may be merged if it could be merged with its like.
        if memory.content.len() > TEXT_BYTES_MAX || !may_merge((&memory, &row), (&memory, &row)) {
            continue;
        }
        let Some(gist) = Gist::of(&memory.content) else { continue };
        found.looked_at += 1;
        let like = most_like(state, space, (&memory, &row), false, now_us, CANDIDATES + 1)?;
        let candidate = Candidate { memory: &memory, row: &row, gist: &gist };
        if let Some(merge) = candidate.earliest(&reader, space, like, &taken)? {
            taken.insert(merge.merged.id.clone(), merge.stands.id.clone());
            found.merges.push(merge);
        }
    }
    found.through = found.through.min(last_seq);
    Ok(found)
}

/// A memory that may say what another one says.
struct Candidate<'a> {
    memory: &'a MemoryRow,
    row: &'a IndexRow,
    gist: &'a Gist,
}

impl Candidate<'_> {
    /// The earliest of those that say the same and have room.
    fn earliest(
        &self,
        reader: &dyn Reader,
        space: &SpaceKey,
        mut like: Vec<Like>,
        taken: &HashMap<String, String>,
    ) -> Result<Option<Merge>, Failure> {
        like.retain(|like| like.seq < self.memory.seq && !taken.contains_key(&like.id));
        like.sort_unstable_by_key(|like| like.seq);
        for other in like {
            let Some(memory) = read::<MemoryRow>(reader, &keys::memory::key(space, &other.id))? else {
                continue;
            };
            let row: Option<IndexRow> = read(reader, &keys::index_row::key(space, memory.seq))?;
            let Some(row) = row.filter(|row| may_merge((&memory, row), (self.memory, self.row))) else {
                continue;
            };
            let Some(gist) = Gist::of(&memory.content) else { continue };
            let (older, newer) = ((&gist, row.event_us), (self.gist, self.row.event_us));
            if !say_the_same(older, newer) || !has_room(reader, space, &row, taken)? {
                continue;
            }
            return Ok(Some(Merge {
                stands: Hint { id: other.id, version: memory.version },
                merged: Hint { id: self.row.id.clone(), version: self.memory.version },
                cosine_milli: other.cosine.map(thousandths),
            }));
        }
        Ok(None)
    }
}

/// Whether a memory can take another one, what this step merges counted.
fn has_room(
    reader: &dyn Reader,
    space: &SpaceKey,
    row: &IndexRow,
    taken: &HashMap<String, String>,
) -> Result<bool, Failure> {
    let more = taken.values().filter(|stands| **stands == row.id).count();
    let merged = reader.scan(&keys::merged::prefix(space, &row.id), None, MERGED_MAX)?.len();
    Ok(merged + more < MERGED_MAX)
}

fn thousandths(cosine: f32) -> u16 {
    // Within 0..=1000.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let thousandths = (cosine.clamp(0.0, 1.0) * 1_000.0).round() as u16;
    thousandths
}
