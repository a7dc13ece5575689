//! Facts as they are stored: lists of them, and which held at a time by what was believed.

use super::reads::{read, scan};
use super::{NodeService, refusals};
use crate::shard::ShardState;
use holdfast_core::access::Rights;
use holdfast_core::codec::Stored;
use holdfast_core::facts::timeline::{Place, as_of, timeline};
use holdfast_core::keys::{self, Family, fact};
use holdfast_core::limits::{FACT_NAME_BYTES_MAX, LIST_ITEMS_MAX};
use holdfast_core::memory::{FactRow, MemoryRow};
use holdfast_core::space::SpaceKey;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::{Refused, fact_of_statement, v1};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Rows read from the store in one step.
const SCAN_STEP: usize = 256;
/// Rows that one page of a list looks at.
const LIST_ROWS_SCANNED_MAX: usize = 20_000;
/// Most facts of a space in which a recall of the past is answered.
const AS_OF_ROWS_MAX: usize = 200_000;

/// The rows of one group with their keys.
type Group = Vec<(Vec<u8>, FactRow)>;

impl NodeService {
    pub(super) async fn read_facts(
        &self,
        request: v1::ListFactsRequest,
    ) -> Result<v1::ListFactsResponse, Refused> {
        let access = (request.access.clone(), request.space.clone());
        let owner = request.read.and_then(|read| read.owner);
        let (space, group, replica) = self.enter(access.0, access.1, Rights::READ, owner)?;
        for (field, name) in [("subject", &request.subject), ("predicate", &request.predicate)] {
            if name.len() > FACT_NAME_BYTES_MAX || name.contains('\0') {
                return Err(Error::invalid(field, format!("{field} is too long, or no name")).into());
            }
        }
        let deadline = self.ready(group, replica, request.read.as_ref()).await?;
        let seen = Some(self.seen(group, &replica.state));
        let state = Arc::clone(&replica.state);
        self.on_search_pool(deadline, move || {
            let (facts, next) = page(&state, &space, &request)?;
            Ok(v1::ListFactsResponse { facts, next, seen })
        })
        .await
    }
}

fn page(
    state: &ShardState,
    space: &SpaceKey,
    request: &v1::ListFactsRequest,
) -> Result<(Vec<v1::StoredFact>, Option<Vec<u8>>), Refused> {
    let family = keys::family_prefix(space, Family::Fact);
    let prefix = match (request.subject.as_str(), request.predicate.as_str()) {
        ("", _) => family.clone(),
        (subject, "") => fact::subject_prefix(space, subject),
        (subject, predicate) => fact::predicate_prefix(space, subject, predicate),
    };
    // A page may end inside of a group, whose rows are then read again: what one of them means
    // follows from all of them.
    let last = (!request.after.is_empty()).then(|| [family.as_slice(), &request.after].concat());
    let start = last.as_deref().and_then(fact::group_of).unwrap_or(&prefix).to_vec();
    let limit = request.limit.clamp(1, LIST_ITEMS_MAX) as usize;
    let mut facts = Vec::new();
    let mut next = None;
    let ended = each_group(state, &prefix, start, LIST_ROWS_SCANNED_MAX, |group| {
        for (key, row, place) in shown(&group, request) {
            if last.as_ref().is_some_and(|last| *key <= *last) {
                continue;
            }
            if facts.len() == limit {
                return Ok(false);
            }
            facts.extend(show(state, space, row, place)?);
            next = key.strip_prefix(family.as_slice()).map(<[u8]>::to_vec);
        }
        // Groups without anything to show are not looked at again either.
        next = group.last().and_then(|(key, _)| key.strip_prefix(family.as_slice())).map(<[u8]>::to_vec);
        Ok(true)
    })?;
    Ok((facts, next.filter(|_| !ended)))
}

/// The rows of a group that a list shows, with their places.
fn shown<'a>(group: &'a Group, request: &v1::ListFactsRequest) -> Vec<(&'a Vec<u8>, &'a FactRow, Place)> {
    let rows: Vec<FactRow> = group.iter().map(|(_, row)| row.clone()).collect();
    let places = match &request.as_of {
        Some(at) => as_of(&rows, at.valid_us, at.recorded_us),
        None => {
            let places = timeline(&rows, request.now_us).into_iter().enumerate();
            let over = |place: &Place| place.until_us.is_some_and(|until_us| until_us <= request.now_us);
            places
                .filter(|(_, place)| request.include_deprecated || !place.superseded && !over(place))
                .collect()
        }
    };
    places.into_iter().map(|(at, place)| (&group[at].0, &group[at].1, place)).collect()
}

/// A fact in the words of its memory; `None` if that was deleted meanwhile.
fn show(
    state: &ShardState,
    space: &SpaceKey,
    row: &FactRow,
    place: Place,
) -> Result<Option<v1::StoredFact>, Refused> {
    let memory: Option<MemoryRow> = read(state, &keys::memory::key(space, &row.id))?;
    let Some(memory) = memory else { return Ok(None) };
    let Some(statement) = memory.statements.get(usize::from(row.ordinal)) else { return Ok(None) };
    Ok(Some(v1::StoredFact {
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
    }))
}

/// For each memory with statements whether one of them held at `at`, by what was believed then.
pub(super) fn held(
    state: &ShardState,
    space: &SpaceKey,
    at: v1::AsOf,
    deadline: Instant,
) -> Result<HashMap<u64, bool>, Refused> {
    let mut held: HashMap<u64, bool> = HashMap::new();
    let prefix = keys::family_prefix(space, Family::Fact);
    let ended = each_group(state, &prefix, prefix.clone(), AS_OF_ROWS_MAX, |group| {
        if Instant::now() > deadline {
            return Err(refusals::too_late("reading facts"));
        }
        let rows: Vec<FactRow> = group.into_iter().map(|(_, row)| row).collect();
        for row in &rows {
            held.entry(row.seq).or_default();
        }
        for (row, _) in as_of(&rows, at.valid_us, at.recorded_us) {
            held.insert(rows[row].seq, true);
        }
        Ok(true)
    })?;
    if ended {
        return Ok(held);
    }
    let detail =
        format!("the space has more than {AS_OF_ROWS_MAX} facts; ask GET …/facts with as_of for one subject");
    Err(Error::new(ErrorCode::TooLarge, detail).at("as_of").into())
}

/// Calls `take` with one group after the other, until it answers `false`. Answers whether the end
/// was reached.
fn each_group(
    state: &ShardState,
    prefix: &[u8],
    mut after: Vec<u8>,
    rows_max: usize,
    mut take: impl FnMut(Group) -> Result<bool, Refused>,
) -> Result<bool, Refused> {
    let mut group: Group = Vec::new();
    for _ in 0..rows_max.div_ceil(SCAN_STEP) {
        let rows = scan(state, prefix, &after, SCAN_STEP)?;
        let at_end = rows.len() < SCAN_STEP;
        for (key, value) in rows {
            let row = FactRow::decode(&value).map_err(|error| refusals::corrupted(&error))?;
            after.clone_from(&key);
            let another = group.last().is_some_and(|(last, _)| fact::group_of(last) != fact::group_of(&key));
            if another && !take(std::mem::take(&mut group))? {
                return Ok(false);
            }
            group.push((key, row));
        }
        if at_end {
            return if group.is_empty() { Ok(true) } else { take(group) };
        }
    }
    Ok(false)
}
