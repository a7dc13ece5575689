//! The reads of a node, in the plainest way that is right.

use holdfast_core::codec::Stored;
use holdfast_core::facts::timeline::{as_of, timeline};
use holdfast_core::filter::{Filter, IndexRowView};
use holdfast_core::keys::{self, Family};
use holdfast_core::memory::{
    Cardinality, FactRow, HARD_CONSTRAINT, HistoryRow, IndexRow, MemoryRow, SpaceRow, Status, TombstoneRow,
};
use holdfast_core::session::{SessionRow, Summary, TurnRow};
use holdfast_core::space::SpaceKey;
use holdfast_core::state::{BTreeState, Reader};
use holdfast_core::text::analyze_query;
use holdfast_core::{Error, Result};
use holdfast_proto::{
    View, fact_of_statement, memory_from_rows, session_from_row, turn_from_row, v1, window_from_parts,
};
use std::collections::BTreeMap;

fn row<T: Stored>(state: &BTreeState, key: &[u8]) -> Option<T> {
    state.get(key).unwrap().map(|value| T::decode(&value).unwrap())
}

fn model_of(state: &BTreeState, space: &SpaceKey, index: &IndexRow) -> Option<String> {
    let settings: SpaceRow = row(state, &keys::space_row::key(space))?;
    let vector = index.vector.as_ref()?;
    Some(settings.models[usize::from(vector.model)].id.clone())
}

fn view(state: &BTreeState, space: &SpaceKey, memory: &MemoryRow, index: &IndexRow) -> v1::Memory {
    let model = model_of(state, space, index);
    let (embedding_model, merged, merged_into) = (model.as_deref(), Vec::new(), None);
    memory_from_rows(View { space, memory, index, embedding_model, merged, merged_into })
}

pub fn get(state: &BTreeState, space: &SpaceKey, id: &str) -> Result<Option<v1::Memory>> {
    let Some(memory) = row::<MemoryRow>(state, &keys::memory::key(space, id)) else { return Ok(None) };
    let index: IndexRow = row(state, &keys::index_row::key(space, memory.seq)).unwrap();
    Ok(Some(view(state, space, &memory, &index)))
}

fn rows(state: &BTreeState, space: &SpaceKey) -> Vec<(u64, IndexRow)> {
    let prefix = keys::family_prefix(space, Family::IndexRow);
    let rows = state.scan(&prefix, None, 100_000).unwrap().into_iter();
    rows.map(|(key, value)| (keys::index_row::seq(&key).unwrap(), IndexRow::decode(&value).unwrap()))
        .collect()
}

/// The ids of all memories.
pub fn ids(state: &BTreeState, space: &SpaceKey) -> Vec<String> {
    rows(state, space).into_iter().map(|(_, index)| index.id).collect()
}

/// Where ids are there, or were deleted.
pub fn locate(state: &BTreeState, space: &SpaceKey, request: &v1::LocateRequest) -> v1::LocateResponse {
    let mut found = v1::LocateResponse::default();
    for (at, id) in (0..).zip(&request.ids) {
        if let Some(memory) = row::<MemoryRow>(state, &keys::memory::key(space, id)) {
            let index: IndexRow = row(state, &keys::index_row::key(space, memory.seq)).unwrap();
            found.there.push(at);
            found.created_us.extend(request.times.then_some(index.created_us));
        } else if let Some(grave) = row::<TombstoneRow>(state, &keys::tombstone::key(space, id)) {
            found.deleted.push(at);
            found.deleted_us.extend(request.times.then_some(grave.deleted_us));
        }
    }
    found
}

/// How many spaces of a tenant there are.
pub fn spaces_of(state: &BTreeState, tenant: &str) -> u32 {
    let (mut count, mut last) = (0, None);
    while let Some(space) = keys::next_space(state, last.as_ref()).unwrap() {
        count += u32::from(space.tenant() == tenant);
        last = Some(space);
    }
    count
}

pub fn list(
    state: &BTreeState,
    space: &SpaceKey,
    request: &v1::ListRequest,
) -> Result<(Vec<v1::Memory>, Option<u64>)> {
    let filter = Filter::parse_text(&request.filter)?;
    let mut found = Vec::new();
    for (seq, index) in rows(state, space) {
        if seq <= request.after_seq || !filter.matches(&IndexRowView::new(&index)) {
            continue;
        }
        if found.len() == request.limit as usize {
            let last: &v1::Memory = found.last().unwrap();
            let next = last.seq;
            return Ok((found, Some(next)));
        }
        found.extend(get(state, space, &index.id)?);
    }
    Ok((found, None))
}

/// All facts on one page.
pub fn facts(state: &BTreeState, space: &SpaceKey, request: &v1::ListFactsRequest) -> Vec<v1::StoredFact> {
    let prefix = match (request.subject.as_str(), request.predicate.as_str()) {
        ("", _) => keys::family_prefix(space, Family::Fact),
        (subject, "") => keys::fact::subject_prefix(space, subject),
        (subject, predicate) => keys::fact::predicate_prefix(space, subject, predicate),
    };
    let mut groups: BTreeMap<Vec<u8>, Vec<FactRow>> = BTreeMap::new();
    for (key, value) in state.scan(&prefix, None, 10_000).unwrap() {
        let group = keys::fact::group_of(&key).unwrap().to_vec();
        groups.entry(group).or_default().push(FactRow::decode(&value).unwrap());
    }
    let mut facts = Vec::new();
    for rows in groups.values() {
        let places = match &request.as_of {
            Some(at) => as_of(rows, at.valid_us, at.recorded_us),
            None => timeline(rows, request.now_us).into_iter().enumerate().collect(),
        };
        for (at, place) in places {
            let row = &rows[at];
            if request.as_of.is_none() && place.superseded && !request.include_deprecated {
                continue;
            }
            let memory: MemoryRow = self::row(state, &keys::memory::key(space, &row.id)).unwrap();
            let statement = &memory.statements[usize::from(row.ordinal)];
            facts.push(v1::StoredFact {
                memory_id: row.id.clone(),
                ordinal: row.ordinal.into(),
                fact: Some(fact_of_statement(statement)),
                superseded: place.superseded,
                valid_from_us: row.from_us,
                valid_to_us: place.until_us,
                recorded_us: row.recorded_us,
                retracted_us: row.retracted_us,
                superseded_by: place.superseded_by,
                supersedes: place.supersedes,
                overrides: place.overrides,
                possible_conflicts: place.conflicts,
            });
        }
    }
    facts
}

pub fn history(state: &BTreeState, space: &SpaceKey, id: &str) -> Result<Vec<v1::Memory>> {
    let Some(current) = get(state, space, id)? else { return Ok(Vec::new()) };
    let earlier = state.scan(&keys::history::prefix(space, id), None, 1000).unwrap();
    let mut versions: Vec<v1::Memory> = earlier
        .into_iter()
        .map(|(_, value)| {
            let old = HistoryRow::decode(&value).unwrap();
            view(state, space, &old.memory, &old.index)
        })
        .collect();
    versions.push(current);
    Ok(versions)
}

/// All turns of a session.
pub fn turns(state: &BTreeState, space: &SpaceKey, session: &str) -> Vec<v1::Turn> {
    let rows = state.scan(&keys::turn::prefix(space, session), None, 100_000).unwrap();
    rows.into_iter()
        .map(|(key, value)| {
            turn_from_row(keys::turn::number(&key).unwrap(), &TurnRow::decode(&value).unwrap())
        })
        .collect()
}

pub fn session(
    state: &BTreeState,
    space: &SpaceKey,
    session: &str,
) -> Option<(v1::Session, v1::SessionWindow)> {
    let row: SessionRow = row(state, &keys::session::key(space, session)).filter(SessionRow::is_there)?;
    let start = row.window_start();
    let stored = state.scan(&keys::turn::prefix(space, session), None, 100_000).unwrap();
    let left: Vec<(u64, TurnRow)> = stored
        .iter()
        .map(|(key, value)| (keys::turn::number(key).unwrap(), TurnRow::decode(value).unwrap()))
        .filter(|(number, _)| *number < start)
        .collect();
    let summary = Summary::default().fold(left.iter().map(|(number, row)| (*number, row)));
    let all = turns(state, space, session);
    let window = all.iter().filter(|turn| turn.number >= start).cloned().collect();
    let pinned = all.iter().filter(|turn| turn.number < start && turn.pinned).cloned().collect();
    let through = summary.through;
    Some((session_from_row(session, &row), window_from_parts(window, pinned, summary, through)))
}

pub fn sessions(
    state: &BTreeState,
    space: &SpaceKey,
    request: &v1::ListSessionsRequest,
) -> (Vec<v1::Session>, Option<String>) {
    let prefix = keys::family_prefix(space, Family::Session);
    let after = keys::session::key(space, &request.after);
    let mut sessions: Vec<_> = state
        .scan(&prefix, Some(&after), 10_000)
        .unwrap()
        .into_iter()
        .map(|(key, value)| {
            let row = SessionRow::decode(&value).unwrap();
            session_from_row(keys::session::id(space, &key).unwrap(), &row)
        })
        .collect();
    let more = sessions.len() > request.limit as usize;
    sessions.truncate(request.limit as usize);
    let next = sessions.last().filter(|_| more).map(|session| session.id.clone());
    (sessions, next)
}

/// Counts as a node does; the scores here need none, so the sums are those of nothing.
pub fn stats(state: &BTreeState, space: &SpaceKey, request: &v1::RecallRequest) -> v1::RecallStatsResponse {
    let terms = analyze_query(&request.query).terms;
    let all = rows(state, space);
    match &request.pool {
        None => {
            let df = |term: &String| {
                let has = |index: &IndexRow| index.terms.iter().any(|(known, _)| known == term);
                all.iter().filter(|(_, index)| has(index)).count() as u64
            };
            let total_len = all.iter().map(|(_, index)| u64::from(index.terms_len)).sum();
            let corpus = v1::Corpus { rows: all.len() as u64, total_len, df: terms.iter().map(df).collect() };
            v1::RecallStatsResponse { corpus: Some(corpus), ..v1::RecallStatsResponse::default() }
        }
        Some(pool) => {
            assert_eq!(pool.corpus.as_ref().unwrap().df.len(), terms.len(), "counts of the same words");
            v1::RecallStatsResponse { sums: Some(v1::Sums::default()), ..v1::RecallStatsResponse::default() }
        }
    }
}

fn is_visible(index: &IndexRow, request: &v1::RecallRequest) -> bool {
    let current = index.status == Status::Active
        && index.valid_to_us.is_none_or(|to_us| to_us > request.now_us)
        && !(index.older
            && index.importance < HARD_CONSTRAINT
            && request.conflicts() == v1::Conflicts::Latest);
    let shown = request.conflicts() == v1::Conflicts::All && index.status != Status::Merged;
    request.include_deprecated || shown || current
}

/// Ranks by shared terms and cosine: enough to see that the right things arrive.
pub fn recall(
    state: &BTreeState,
    space: &SpaceKey,
    request: &v1::RecallRequest,
) -> Result<v1::RecallResponse> {
    let filter = Filter::parse_text(&request.filter)?;
    let settings: SpaceRow = row(state, &keys::space_row::key(space)).unwrap_or_default();
    let asked = request.model.as_ref();
    if let (Some(asked), Some(held), true) = (asked, settings.models.last(), request.vector_given)
        && (asked.id != held.id || asked.dims != u32::from(held.dims))
    {
        return Err(Error::invalid(
            "embedding",
            "this space holds vectors of another model; send matching ones",
        ));
    }
    let terms = analyze_query(&request.query).terms;
    let beside = request.beside.unwrap_or_default();
    let (mut results, mut constraints, mut stating) = (Vec::new(), Vec::new(), Vec::new());
    let traced = request.trace.as_ref().map(|id| traced(state, space, id));
    let all = rows(state, space);
    let scored = all.len() as u64;
    for (_, index) in all {
        if index.chunked {
            continue;
        }
        if !is_visible(&index, request) {
            continue;
        }
        let found = score(state, space, request, &terms, &index);
        if index.importance >= HARD_CONSTRAINT {
            constraints.push(found.clone());
        }
        if !filter.matches(&IndexRowView::new(&index))
            || request.min_score.is_some_and(|min| found.score < min)
        {
            continue;
        }
        if index.valid_from_us.is_some() {
            stating.push(found.clone());
        }
        results.push(found);
    }
    let constraints_total = if beside.constraints > 0 { constraints.len() as u64 } else { 0 };
    let first = |mut found: Vec<v1::Scored>, k: u32| {
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found.truncate(k as usize);
        found
    };
    let standing = request.above.map(|score| v1::Standing {
        above: results.iter().filter(|found| found.score > score).count() as u64,
        passing: results.len() as u64,
    });
    let traced = traced.map(|traced| {
        let of =
            |found: &&v1::Scored| found.memory.as_ref().map(|memory| &memory.id) == request.trace.as_ref();
        let scored = results.iter().find(of).cloned();
        let fate = if scored.is_some() { v1::Fate::Scored.into() } else { traced.fate };
        v1::Traced { rank: 1, passing: results.len() as u64, scored, fate, ..traced }
    });
    Ok(v1::RecallResponse {
        results: first(results, request.top_k),
        exact: true,
        bound_met: true,
        index: "exact".into(),
        scored,
        search_us: 1,
        seen: None,
        constraints: first(constraints, beside.constraints),
        constraints_total,
        stating: first(stating, beside.stating),
        traced,
        standing,
    })
}

/// What is known of a memory that is not found.
fn traced(state: &BTreeState, space: &SpaceKey, id: &str) -> v1::Traced {
    let grave: Option<TombstoneRow> = row(state, &keys::tombstone::key(space, id));
    let fate = if grave.is_some() { v1::Fate::Deleted } else { v1::Fate::Unknown };
    v1::Traced { fate: fate.into(), at_us: grave.map(|grave| grave.deleted_us), ..v1::Traced::default() }
}

fn score(
    state: &BTreeState,
    space: &SpaceKey,
    request: &v1::RecallRequest,
    terms: &[String],
    index: &IndexRow,
) -> v1::Scored {
    let hits = terms.iter().filter(|term| index.terms.iter().any(|(known, _)| known == *term)).count();
    let keyword = hits as f64 / terms.len().max(1) as f64;
    let cosine = index.vector.as_ref().filter(|vector| vector.dims() == request.vector.len()).map(|vector| {
        vector
            .to_halves()
            .zip(&request.vector)
            .map(|(half, value)| f64::from(half.to_f32() * value))
            .sum::<f64>()
    });
    let score = 0.5 * keyword + 0.5 * cosine.unwrap_or(0.0);
    let parts = v1::Parts {
        relevance: score as f32,
        cosine: cosine.map(|cosine| cosine as f32),
        keyword: keyword as f32,
        ..v1::Parts::default()
    };
    let why = if request.explain { vec![format!("{hits} words in common")] } else { Vec::new() };
    let row: MemoryRow = self::row(state, &keys::memory::key(space, &index.id)).unwrap();
    let stated = if request.beside.is_some() { stated(state, space, request, &row) } else { Vec::new() };
    let memory = get(state, space, &index.id).unwrap();
    v1::Scored {
        memory,
        score,
        parts: Some(parts),
        why,
        stated,
        whole: row.whole,
        ranks: None,
        vector: Vec::new(),
    }
}

fn stated(
    state: &BTreeState,
    space: &SpaceKey,
    request: &v1::RecallRequest,
    memory: &MemoryRow,
) -> Vec<v1::Stated> {
    let each = (0u8..).zip(&memory.statements).map(|(ordinal, statement)| {
        let group = keys::fact::group_prefix(space, statement);
        let row: FactRow = row(state, &keys::fact::key(&group, memory.seq, ordinal)).unwrap();
        v1::Stated {
            fact: Some(fact_of_statement(statement)),
            ordinal: ordinal.into(),
            subject: statement.subject.clone(),
            predicate: statement.predicate.clone(),
            about: statement.about.clone(),
            value: statement.value.clone(),
            current: !row.superseded
                && row.retracted_us.is_none()
                && row.until_us.is_none_or(|until_us| request.now_us < until_us),
            from_us: row.from_us,
            until_us: row.until_us,
            exclusive: statement.cardinality == Cardinality::Single,
        }
    });
    each.collect()
}
