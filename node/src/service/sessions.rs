//! Sessions as they are stored, and what stands for one in a prompt.

use super::reads::{read, scan};
use super::turns::TurnCache;
use super::{NodeService, refusals};
use crate::shard::ShardState;
use holdfast_core::access::Rights;
use holdfast_core::codec::Stored;
use holdfast_core::keys::{self, Family};
use holdfast_core::limits::{LIST_ITEMS_MAX, check_id};
use holdfast_core::session::{SessionRow, Summary, TurnRow};
use holdfast_core::space::SpaceKey;
use holdfast_proto::{Refused, session_from_row, turn_from_row, v1, window_from_parts};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Turns behind the stored summary that one read still adds to it. The job of the leader keeps their
/// number far below.
const FOLDED_MAX: u64 = 500;
/// Rows that one page of a list looks at.
const LIST_ROWS_SCANNED_MAX: usize = 4_000;
/// A page of turns ends when it holds this many bytes of text, well below the largest message.
const LIST_BYTES_FULL: usize = 8 << 20;
/// How often a session is read again that changed while it was read.
const TRIES: usize = 3;

/// Turns with their numbers.
type Numbered = Vec<(u64, Arc<TurnRow>)>;

/// The turns of one session as they are now.
struct Reader<'a> {
    state: &'a ShardState,
    cache: &'a TurnCache,
    space: &'a SpaceKey,
    id: &'a str,
    row: SessionRow,
}

impl NodeService {
    pub(super) async fn read_session(
        &self,
        request: v1::GetSessionRequest,
    ) -> Result<v1::GetSessionResponse, Refused> {
        let owner = request.read.and_then(|read| read.owner);
        let (space, group, replica) = self.enter(request.access, request.space, Rights::READ, owner)?;
        check_id("session", &request.session)?;
        let deadline = self.ready(group, replica, request.read.as_ref()).await?;
        let seen = Some(self.seen(group, &replica.state));
        let (state, inner) = (Arc::clone(&replica.state), Arc::clone(&self.inner));
        self.on_search_pool(deadline, move || {
            for _ in 0..TRIES {
                let Some(reader) = Reader::open(&state, &inner.turns, &space, &request.session)? else {
                    return Ok(v1::GetSessionResponse { session: None, window: None, seen });
                };
                if let Some(window) = reader.window()? {
                    let session = Some(session_from_row(&request.session, &reader.row));
                    return Ok(v1::GetSessionResponse { session, window: Some(window), seen });
                }
            }
            Err(refusals::corrupted(&format!("the session {} lacks turns", request.session)))
        })
        .await
    }

    pub(super) async fn read_sessions(
        &self,
        request: v1::ListSessionsRequest,
    ) -> Result<v1::ListSessionsResponse, Refused> {
        let owner = request.read.and_then(|read| read.owner);
        let (space, group, replica) = self.enter(request.access, request.space, Rights::READ, owner)?;
        let deadline = self.ready(group, replica, request.read.as_ref()).await?;
        let seen = Some(self.seen(group, &replica.state));
        let state = Arc::clone(&replica.state);
        let limit = request.limit.clamp(1, LIST_ITEMS_MAX) as usize;
        self.on_search_pool(deadline, move || {
            let (sessions, next) = page(&state, &space, &request.after, limit)?;
            Ok(v1::ListSessionsResponse { sessions, next, seen })
        })
        .await
    }

    pub(super) async fn read_turns(
        &self,
        request: v1::ListTurnsRequest,
    ) -> Result<v1::ListTurnsResponse, Refused> {
        let owner = request.read.and_then(|read| read.owner);
        let (space, group, replica) = self.enter(request.access, request.space, Rights::READ, owner)?;
        check_id("session", &request.session)?;
        let deadline = self.ready(group, replica, request.read.as_ref()).await?;
        let seen = Some(self.seen(group, &replica.state));
        let (state, inner) = (Arc::clone(&replica.state), Arc::clone(&self.inner));
        self.on_search_pool(deadline, move || {
            let limit = request.limit.clamp(1, LIST_ITEMS_MAX) as usize;
            let Some(reader) = Reader::open(&state, &inner.turns, &space, &request.session)? else {
                return Ok(v1::ListTurnsResponse { session: None, turns: Vec::new(), next: None, seen });
            };
            let (turns, next) = reader.page(request.after, limit)?;
            let session = Some(session_from_row(&request.session, &reader.row));
            Ok(v1::ListTurnsResponse { session, turns, next, seen })
        })
        .await
    }
}

fn page(
    state: &ShardState,
    space: &SpaceKey,
    after: &str,
    limit: usize,
) -> Result<(Vec<v1::Session>, Option<String>), Refused> {
    let prefix = keys::family_prefix(space, Family::Session);
    let start = if after.is_empty() { prefix.clone() } else { keys::session::key(space, after) };
    let rows = scan(state, &prefix, &start, LIST_ROWS_SCANNED_MAX)?;
    let ended = rows.len() < LIST_ROWS_SCANNED_MAX;
    let (mut sessions, mut last) = (Vec::new(), None);
    for (key, value) in &rows {
        if sessions.len() == limit {
            return Ok((sessions, last));
        }
        let id = keys::session::id(space, key).ok_or_else(|| refusals::corrupted(&"a key of a session"))?;
        let row = SessionRow::decode(value).map_err(|error| refusals::corrupted(&error))?;
        if row.is_there() {
            sessions.push(session_from_row(id, &row));
        }
        last = Some(id.to_owned());
    }
    Ok((sessions, last.filter(|_| !ended)))
}

impl<'a> Reader<'a> {
    /// `None` if there is no such session.
    fn open(
        state: &'a ShardState,
        cache: &'a TurnCache,
        space: &'a SpaceKey,
        id: &'a str,
    ) -> Result<Option<Self>, Refused> {
        let row: Option<SessionRow> = read(state, &keys::session::key(space, id))?;
        match row.filter(SessionRow::is_there) {
            Some(row) => Ok(Some(Self { state, cache, space, id, row })),
            None => {
                cache.forget(space, id);
                Ok(None)
            }
        }
    }

    /// What stands for the session in a prompt; `None` if it went away meanwhile.
    fn window(&self) -> Result<Option<v1::SessionWindow>, Refused> {
        let start = self.row.window_start();
        let stored: Summary = read(self.state, &keys::summary::key(self.space, self.id))?.unwrap_or_default();
        let from = stored.through + 1;
        let to = start.saturating_sub(1).min(stored.through.saturating_add(FOLDED_MAX));
        let (Some(left), Some(window)) = (self.turns(from..=to)?, self.turns(start..=self.row.turns)?) else {
            return Ok(None);
        };
        let mut summary = stored.fold(left.iter().map(|(number, row)| (*number, row.as_ref())));
        // One that was stored after the session was read may reach into its window.
        summary.lines.retain(|line| line.turn < start);
        let mut pinned = Vec::new();
        for number in self.row.pinned.iter().filter(|number| **number < start) {
            let Some(row) = self.turn(*number)? else { return Ok(None) };
            pinned.push(turn_from_row(*number, &row));
        }
        let window = window.iter().map(|(number, row)| turn_from_row(*number, row)).collect();
        let summarised = summary.through;
        Ok(Some(window_from_parts(window, pinned, summary, summarised)))
    }

    fn page(&self, after: u64, limit: usize) -> Result<(Vec<v1::Turn>, Option<u64>), Refused> {
        let (mut turns, mut bytes) = (Vec::new(), 0);
        for number in after.saturating_add(1)..=self.row.turns {
            // One that is missing was deleted meanwhile, and those behind it will be.
            let Some(row) = self.turn(number)? else { break };
            bytes += row.content.len() + row.tool.as_ref().map_or(0, |tool| tool.output.len());
            turns.push(turn_from_row(number, &row));
            if turns.len() == limit || bytes >= LIST_BYTES_FULL {
                return Ok((turns, Some(number).filter(|number| *number < self.row.turns)));
            }
        }
        Ok((turns, None))
    }

    fn turns(&self, numbers: RangeInclusive<u64>) -> Result<Option<Numbered>, Refused> {
        let mut turns = Vec::new();
        for number in numbers {
            let Some(row) = self.turn(number)? else { return Ok(None) };
            turns.push((number, row));
        }
        Ok(Some(turns))
    }

    fn turn(&self, number: u64) -> Result<Option<Arc<TurnRow>>, Refused> {
        let Self { state, cache, space, id, row } = self;
        if let Some(row) = cache.get(space, id, row.created_us, number) {
            return Ok(Some(row));
        }
        let found: Option<TurnRow> = read(state, &keys::turn::key(space, id, number))?;
        let found = found.map(Arc::new);
        if let Some(turn) = &found {
            cache.put(space, id, row.created_us, number, turn);
        }
        Ok(found)
    }
}
