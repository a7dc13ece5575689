//! Looks a second time for what a memory may contradict, where the first look was at a memory that had
//! changed by the time of the write. Runs on leaders, for what stands in `due`.

use crate::index::Query;
use crate::integrity::Versions;
use crate::service::Replica;
use crate::shard::ShardState;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Command, Hint, SpaceCommand, Write};
use holdfast_core::facts::similar::{self, may_contradict};
use holdfast_core::filter::Filter;
use holdfast_core::keys::due::{self, Due, DueKind};
use holdfast_core::keys::{index_row, memory};
use holdfast_core::memory::{IndexRow, MemoryRow};
use holdfast_core::score::Profile;
use holdfast_core::state::Reader;
use holdfast_core::text::{analyze_query, normalize};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows at the front of `due` that are looked at in one turn.
const ROWS_MAX: usize = 64;
/// Time for one look, and for one proposal.
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
    let speaker = match &row.speaker {
        Some(speaker) => serde_json::json!({"speaker": {"$eq": speaker}}),
        None => serde_json::json!({"speaker": {"$exists": false}}),
    };
    let filter = Filter::parse(&speaker)?;
    let terms = analyze_query(&newer.content).terms;
    let vector: Option<Vec<f32>> =
        row.vector.as_ref().map(|vector| vector.to_halves().map(f32::from).collect());
    let query = Query {
        text: &newer.content,
        terms: &terms,
        vector: vector.as_deref(),
        vector_model: row.vector.as_ref().map_or(0, |vector| vector.model),
        profile: Profile::Relevance,
        filter: Some(&filter),
        now_us: due.at_us,
        log_now_us: due.at_us,
        top_k: similar::CANDIDATES,
        deadline: Some(Instant::now() + TIMEOUT),
        ..Query::default()
    };
    let image = state.spaces().get(&due.space, &store, Instant::now() + TIMEOUT)?;
    let answer = image.read().search(&query)?;
    let own = normalize(&newer.content);
    let mut found = Vec::new();
    for hit in answer.hits.iter().filter(|hit| hit.seq < newer.seq) {
        let Some(value) = store.get(&memory::key(&due.space, &hit.id))? else { continue };
        let older = MemoryRow::decode(&value)?;
        // A row without a vector says nothing by its cosine of 0.
        #[allow(clippy::cast_possible_truncation)]
        let cosine = (hit.parts.cosine > 0.0).then_some(hit.parts.cosine as f32);
        if normalize(&older.content) != own && may_contradict(&newer.content, &older.content, cosine) {
            found.push(Hint { id: hit.id.clone(), version: older.version });
        }
    }
    found.truncate(similar::HINTS_MAX);
    Ok(found)
}
