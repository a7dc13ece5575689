//! What an erasure takes out next, looked up in the rows of the leader.

use crate::shard::ShardState;
use holdfast_core::codec::{CodecError, Stored};
use holdfast_core::erasure::{ERASE_ROWS_MAX, ERASE_STEP_MAX, EraseStep, ErasureRow, Selection};
use holdfast_core::filter::{Filter, IndexRowView};
use holdfast_core::keys::{self, Family};
use holdfast_core::limits::HISTORY_VERSIONS_MAX;
use holdfast_core::memory::{HistoryRow, IndexRow, MemoryRow, Source};
use holdfast_core::space::SpaceKey;
use holdfast_core::state::{Reader, StateError};

/// Rows that one step looks at, so that a filter that few match neither holds up others nor begins anew
/// after a change of leader.
const LOOKED_AT_MAX: usize = 1_024;
/// Rows read at once.
const SCAN_STEP: usize = 128;

/// Why there is no next step.
#[derive(Debug, thiserror::Error)]
pub(super) enum SelectError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("the filter of an erasure cannot be read: {0}")]
    Filter(String),
}

/// The next step of an erasure whose rows are not gone yet.
pub(super) fn next_step(
    state: &ShardState,
    space: &SpaceKey,
    id: &str,
    row: &ErasureRow,
) -> Result<EraseStep, SelectError> {
    let id = id.to_owned();
    match &row.selection {
        Some(Selection::All) => Ok(EraseStep::Drop { id, limit: ERASE_ROWS_MAX }),
        Some(Selection::Ids(ids)) => {
            let at = usize::try_from(row.after).unwrap_or(usize::MAX).min(ids.len());
            let memories: Vec<String> = ids[at..].iter().take(ERASE_STEP_MAX).cloned().collect();
            let next = at + memories.len();
            Ok(EraseStep::Remove { id, memories, after: next as u64, ended: next == ids.len() })
        }
        Some(selection) => scan(state, space, id, row, selection),
        None => Ok(EraseStep::Remove { id, memories: Vec::new(), after: row.after, ended: true }),
    }
}

fn scan(
    state: &ShardState,
    space: &SpaceKey,
    id: String,
    row: &ErasureRow,
    selection: &Selection,
) -> Result<EraseStep, SelectError> {
    let filter = match selection {
        Selection::Filter(text) => {
            Some(Filter::parse_text(text).map_err(|error| SelectError::Filter(error.to_string()))?)
        }
        _ => None,
    };
    let reader = state.reader();
    let prefix = keys::family_prefix(space, Family::IndexRow);
    let (mut after, mut memories, mut looked_at) = (row.after, Vec::new(), 0);
    while looked_at < LOOKED_AT_MAX {
        let rows = reader.scan(&prefix, Some(&keys::index_row::key(space, after)), SCAN_STEP)?;
        let at_end = rows.len() < SCAN_STEP;
        for (key, value) in rows {
            let seq = keys::index_row::seq(&key).unwrap_or(u64::MAX);
            if seq > row.upto_seq {
                return Ok(EraseStep::Remove { id, memories, after, ended: true });
            }
            (after, looked_at) = (seq, looked_at + 1);
            let index = IndexRow::decode(&value)?;
            let name = index.id.clone();
            let Some((index, source)) = as_begun(&reader, space, index, row.begun_us)? else { continue };
            let matches = match (selection, &filter) {
                (Selection::Session(session), _) => index.session.as_ref() == Some(session),
                (Selection::Source(wanted), _) => source.is_some_and(|source| {
                    source.uri.iter().chain(&source.message_ids).any(|id| id == wanted)
                }),
                (_, Some(filter)) => filter.matches(&IndexRowView::new(&index)),
                _ => false,
            };
            if matches {
                memories.push(name);
            }
            if memories.len() == ERASE_STEP_MAX {
                return Ok(EraseStep::Remove { id, memories, after, ended: false });
            }
        }
        if at_end {
            return Ok(EraseStep::Remove { id, memories, after, ended: true });
        }
    }
    Ok(EraseStep::Remove { id, memories, after, ended: false })
}

/// A memory as it was when the erasure began: one that was changed since is judged by the version of then,
/// so that what counts is one point of the log. `None` if it was deleted meanwhile.
fn as_begun(
    reader: &dyn Reader,
    space: &SpaceKey,
    index: IndexRow,
    begun_us: i64,
) -> Result<Option<(IndexRow, Option<Source>)>, SelectError> {
    let Some(value) = reader.get(&keys::memory::key(space, &index.id))? else { return Ok(None) };
    let memory = MemoryRow::decode(&value)?;
    if memory.updated_us <= begun_us {
        return Ok(Some((index, memory.source)));
    }
    let most = usize::try_from(HISTORY_VERSIONS_MAX).unwrap_or(usize::MAX).saturating_add(1);
    for (_, value) in reader.scan(&keys::history::prefix(space, &index.id), None, most)? {
        let version = HistoryRow::decode(&value)?;
        if version.replaced_us > begun_us {
            return Ok(Some((version.index, version.memory.source)));
        }
    }
    Ok(Some((index, memory.source)))
}
