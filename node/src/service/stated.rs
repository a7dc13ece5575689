//! Memories with what they state, and whether that still holds: what a context is assembled from.

use super::reads::{Rows, read};
use super::recall::scored;
use crate::index::Hit;
use holdfast_core::keys::fact;
use holdfast_core::memory::{Cardinality, FactRow, MemoryRow, Statement};
use holdfast_proto::{Refused, fact_of_statement, v1};

/// The hits with their texts and statements. One that was deleted since the scan is left out.
pub(super) fn show(
    rows: &Rows<'_>,
    hits: &[Hit],
    request: &v1::RecallRequest,
) -> Result<Vec<v1::Scored>, Refused> {
    let mut results = Vec::with_capacity(hits.len());
    for hit in hits {
        let Some((memory, index)) = rows.rows(&hit.id)? else { continue };
        let mut stated = Vec::with_capacity(memory.statements.len());
        for (ordinal, statement) in (0u8..).zip(&memory.statements) {
            stated.extend(standing(rows, &memory, ordinal, statement, request)?);
        }
        let shown = rows.show(&memory, &index)?;
        results.push(v1::Scored { stated, whole: memory.whole, ..scored(hit, shown) });
    }
    Ok(results)
}

/// How a statement stands at the time of the query. `None` if it is in no group any more, because
/// its memory was changed since it was read.
fn standing(
    rows: &Rows<'_>,
    memory: &MemoryRow,
    ordinal: u8,
    statement: &Statement,
    request: &v1::RecallRequest,
) -> Result<Option<v1::Stated>, Refused> {
    let group = fact::group_prefix(rows.space(), statement);
    let row: Option<FactRow> = read(rows.state(), &fact::key(&group, memory.seq, ordinal))?;
    let Some(row) = row else { return Ok(None) };
    let now_us = request.now_us;
    // What has yet to begin is shown as recall shows it, with its time.
    let holds = !row.superseded
        && row.retracted_us.is_none()
        && row.until_us.is_none_or(|until_us| now_us < until_us);
    Ok(Some(v1::Stated {
        fact: Some(fact_of_statement(statement)),
        ordinal: ordinal.into(),
        subject: statement.subject.clone(),
        predicate: statement.predicate.clone(),
        about: statement.about.clone(),
        value: statement.value.clone(),
        // Of the past the search has said already which memories held.
        current: request.as_of.is_some() || holds,
        from_us: row.from_us,
        until_us: row.until_us,
        exclusive: statement.cardinality == Cardinality::Single,
    }))
}
