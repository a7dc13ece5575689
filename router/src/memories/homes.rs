//! In which partition of its space each memory of a write is stored.
//!
//! Invariant: an id is one memory of its collection. What else a memory says, such as its session, would lead two writes
//! of one id to two partitions. So an id that is new is claimed first, where the id itself leads to; what would be stored
//! there anyway needs no claim, and is refused there if another write has one.

use super::batch::{Batch, within};
use super::locate::{Places, locate};
use crate::auth::Place;
use crate::collections::agreed::{claim, home_of, keep};
use crate::collections::placing::{is_stated, partition_of};
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::write::WriteIdentity;
use crate::nodes::{Level, ReadWish};
use crate::shared::Shared;
use holdfast_core::access::Access;
use holdfast_core::collection::CollectionRow;
use holdfast_core::command::{Claim, NewMemory};
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Token;
use holdfast_core::{Error, ErrorCode};
use std::collections::HashMap;

/// Who writes, and where.
#[derive(Clone, Copy)]
pub(super) struct Writing<'a> {
    pub(super) shared: &'a Shared,
    pub(super) access: &'a Access,
    pub(super) place: &'a Place,
    pub(super) identity: &'a WriteIdentity,
    pub(super) deadline: Deadline,
}

impl Writing<'_> {
    /// The partition of each item of a batch, in their order. Where `claims_all`, no claim is saved.
    ///
    /// # Errors
    /// If a partition does not answer, or an id was just used elsewhere than where its fact must lie.
    pub(super) async fn homes(self, batch: &Batch, claims_all: bool) -> Answer<Vec<SpaceKey>> {
        let spaces = self.place.partitions()?;
        let Some(collection) = self.place.collection().filter(|_| spaces.len() > 1) else {
            return Ok(vec![self.place.first()?; batch.items.len()]);
        };
        // What cannot be stored goes nowhere; it counts as in the first one.
        let memories = batch.items.iter().map(|item| item.as_ref().ok().map(|item| &item.memory));
        let memories: Vec<Option<&NewMemory>> = memories.collect();
        let wanted: Vec<u8> = memories.iter().map(|memory| wanted(collection, *memory)).collect();
        // A part that is refused alone has done nothing, so that all may be tried again.
        let is_one = wanted.windows(2).all(|pair| pair[0] == pair[1]);
        let claims_all = claims_all || batch.partial || self.identity.is_given || !is_one;
        let belongs = self.claims(collection, &memories, &wanted, claims_all).await?;
        let places = self.places(&spaces, &memories).await?;
        let (mut homes, mut fixed) = (Vec::with_capacity(wanted.len()), Vec::with_capacity(wanted.len()));
        for (at, (memory, wanted)) in memories.iter().zip(&wanted).enumerate() {
            let known = memory.and_then(|memory| places.of(&memory.index.id));
            let claimed = memory.and_then(|memory| belongs.get(&memory.index.id));
            // Where it is, or where another write is taking it.
            let elsewhere = known.or(claimed.filter(|claimed| *claimed != wanted).map(|at| usize::from(*at)));
            let home = elsewhere.unwrap_or_else(|| usize::from(*wanted));
            if known.is_none() && home > 0 && memory.is_some_and(is_stated) {
                return Err(within(at, used_elsewhere()).into());
            }
            fixed.push(elsewhere.is_some());
            homes.push(home as u64);
        }
        let kept =
            keep(self.shared, self.access, self.place, self.identity, homes.clone(), self.deadline).await?;
        let has_moved =
            homes.iter().zip(&kept).zip(&fixed).any(|((home, kept), fixed)| *fixed && home != kept);
        if has_moved {
            return Err(moved_since().into());
        }
        if kept.len() != batch.items.len() {
            return Err(wrong("a request was answered for another number of memories than it has"));
        }
        let space = |home: u64| usize::try_from(home).ok().and_then(|home| spaces.get(home)).cloned();
        let homes = kept.into_iter().map(space).collect::<Option<Vec<_>>>();
        homes.ok_or_else(|| wrong("a partition was named that the collection does not have"))
    }

    /// Where the ids belong that may come to another partition than they themselves lead to.
    async fn claims(
        self,
        collection: &CollectionRow,
        memories: &[Option<&NewMemory>],
        wanted: &[u8],
        all: bool,
    ) -> Answer<HashMap<String, u8>> {
        let chosen = memories.iter().zip(wanted).filter_map(|(memory, partition)| {
            let id = memory.filter(|memory| memory.id_chosen)?.index.id.clone();
            Some(Claim { id, partition: *partition })
        });
        let needed = |claim: &Claim| all || home_of(collection, &claim.id) != claim.partition;
        let claims: Vec<Claim> = chosen.filter(needed).collect();
        claim(self.shared, self.access, collection, claims, self.deadline).await
    }

    /// Where the memories lie whose ids the caller chose.
    async fn places(self, spaces: &[SpaceKey], memories: &[Option<&NewMemory>]) -> Answer<Places> {
        let chosen = memories.iter().flatten().filter(|memory| memory.id_chosen);
        let ids: Vec<String> = chosen.map(|memory| memory.index.id.clone()).collect();
        if ids.is_empty() {
            return Ok(Places::default());
        }
        let wish = ReadWish { level: Level::Session, token: Token::new(&self.access.tenant) };
        locate(self.shared, self.access, spaces, &ids, &wish, self.deadline).await
    }
}

fn wanted(collection: &CollectionRow, memory: Option<&NewMemory>) -> u8 {
    memory.map_or(0, |memory| partition_of(collection, memory, is_stated(memory)))
}

/// The answer to a fact, which lies in the first partition, under an id that another write has taken to another one.
fn used_elsewhere() -> Error {
    let detail = "a memory of this id was written to another partition of the collection a moment ago, where no facts \
                  are; choose another id, or retry in twenty minutes";
    Error::new(ErrorCode::Conflict, detail).at("id")
}

/// The answer to a repetition that would store a memory where it belonged when the request was made first.
fn moved_since() -> Error {
    let detail = "another write has taken an id of this request elsewhere since it was made first, so that it cannot be \
                  answered as then; read the memory, and make a new key";
    Error::new(ErrorCode::Conflict, detail).at("Idempotency-Key")
}

fn wrong(detail: &str) -> Problem {
    Problem::new(ErrorCode::Internal, detail)
}
