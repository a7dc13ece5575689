//! Looks a second time for what a memory may contradict, where the first look was at a memory that had
//! changed by the time of the write. Runs on leaders, for what stands in `due`.

use crate::integrity::Versions;
use crate::nearest::most_like;
use crate::service::Replica;
use crate::shard::ShardState;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, Hint, SpaceCommand, Write};
use holdfast_core::facts::similar::{self, may_contradict};
use holdfast_core::keys::due::{self, Due, DueKind};
use holdfast_core::keys::{index_row, memory};
use holdfast_core::memory::{IndexRow, MemoryRow};
use holdfast_core::state::Reader;
use holdfast_core::text::normalize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows at the front of `due` that are looked at in one turn.
const ROWS_MAX: usize = 64;
/// Time for one proposal.
const TIMEOUT: Duration = Duration::from_secs(5);

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Looks again for all memories of a group that wait for it by `now_us`, bounded by [`ROWS_MAX`]. One that fails
/// does not hold up the others.
///
/// # Errors
/// The first failure.
pub(crate) async fn recheck(replica: &Replica, now_us: i64, versions: &Versions) -> Result<(), Fault> {
    let rows = replica.state.reader().scan(&due::prefix(), None, ROWS_MAX)?;
    let waiting = rows.iter().filter_map(|(key, _)| Due::parse(key));
    let waiting = waiting.filter(|due| due.kind == DueKind::Recheck && due.at_us <= now_us);
    let mut ended = Ok(());
    for due in waiting.collect::<Vec<_>>() {
        let one = one(replica, due, versions).await;
        ended = ended.and(one);
    }
    ended
}

async fn one(replica: &Replica, due: Due, versions: &Versions) -> Result<(), Fault> {
    let (state, asked) = (Arc::clone(&replica.state), due.clone());
    let found = tokio::task::spawn_blocking(move || look(&state, &asked)).await??;
    let Due { at_us, space, id, .. } = due;
    let write = Write::Relink { id, due_us: at_us, conflicts: found };
    let command = Command::Space(Box::new(SpaceCommand { space, idempotency: None, write }));
    versions.none_is_older(command.known_since())?;
    replica.propose(command.encode()?.into(), Instant::now() + TIMEOUT).await?;
    Ok(())
}

/// The memories that the one that is due may contradict, as they are now.
fn look(state: &ShardState, due: &Due) -> Result<Vec<Hint>, Fault> {
    let store = state.reader();
    let Some(value) = store.get(&memory::key(&due.space, &due.id))? else { return Ok(Vec::new()) };
    let newer = MemoryRow::decode(&value)?;
    let Some(value) = store.get(&index_row::key(&due.space, newer.seq))? else { return Ok(Vec::new()) };
    let row = IndexRow::decode(&value)?;
    let like = most_like(state, &due.space, (&newer, &row), true, due.at_us, similar::CANDIDATES)?;
    let own = normalize(&newer.content);
    let mut found = Vec::new();
    for other in like.into_iter().filter(|other| other.seq < newer.seq) {
        let Some(value) = store.get(&memory::key(&due.space, &other.id))? else { continue };
        let older = MemoryRow::decode(&value)?;
        if normalize(&older.content) != own && may_contradict(&newer.content, &older.content, other.cosine) {
            found.push(Hint { id: other.id, version: older.version });
        }
    }
    found.truncate(similar::HINTS_MAX);
    Ok(found)
}
