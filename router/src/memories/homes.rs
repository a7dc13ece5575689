//! In which partition of its space each memory of a write is stored.
//!
//! Invariant: an id is one memory of its collection. What else a memory says, such as its session, would lead two writes
//! of one id to two partitions. So an id that is new is claimed first, where the id itself leads to; what would be stored
//! there anyway needs no claim, and is refused there if another write has one.

use super::batch::{Batch, within};
use super::locate::locate;
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
    /// First it is looked where ids are, then kept what a request with a key of its caller's concerns, then claimed; and
    /// nothing is stored elsewhere than where the claims say.
    ///
    /// # Errors
    /// If a partition does not answer, an id was just used elsewhere than where its fact must lie, or a repetition cannot
    /// be answered as it was the first time.
    pub(super) async fn homes(self, batch: &Batch, claims_all: bool) -> Answer<Vec<SpaceKey>> {
        let spaces = self.place.partitions()?;
        let Some(collection) = self.place.collection().filter(|_| spaces.len() > 1) else {
            return Ok(vec![self.place.first()?; batch.items.len()]);
        };
        // What cannot be stored goes nowhere; it counts as in the first one.
        let memories = batch.items.iter().map(|item| item.as_ref().ok().map(|item| &item.memory));
        let memories: Vec<Option<&NewMemory>> = memories.collect();
        let known = self.known(&spaces, &memories).await?;
        let wishes = memories.iter().zip(&known);
        let wishes: Vec<u8> =
            wishes.map(|(memory, known)| known.unwrap_or_else(|| wanted(collection, *memory))).collect();
        let targets = self.kept(&wishes, &known).await?;
        // A part that is refused alone has done nothing, so that all may be tried again.
        let is_one = |targets: &[u8]| targets.windows(2).all(|pair| pair[0] == pair[1]);
        let all = claims_all || batch.partial || self.identity.is_given || !is_one(&targets);
        let mut homes = self.claimed(collection, &memories, &targets, all).await?;
        if !all && !is_one(&homes) {
            homes = self.claimed(collection, &memories, &targets, true).await?;
        }
        self.check_moved(&spaces, &memories, &known, &homes).await?;
        for (at, (home, (memory, known))) in homes.iter().zip(memories.iter().zip(&known)).enumerate() {
            if *home > 0 && *known != Some(*home) && memory.is_some_and(is_stated) {
                return Err(within(at, used_elsewhere()).into());
            }
        }
        let space = |home: &u8| spaces.get(usize::from(*home)).cloned();
        let homes = homes.iter().map(space).collect::<Option<Vec<_>>>();
        homes.ok_or_else(|| wrong("a partition was named that the collection does not have"))
    }

    /// Where a request with a key of its caller's goes: to the same partitions each time.
    async fn kept(self, wishes: &[u8], known: &[Option<u8>]) -> Answer<Vec<u8>> {
        let Self { shared, access, place, identity, deadline } = self;
        let numbers = wishes.iter().map(|wish| u64::from(*wish)).collect();
        let kept = keep(shared, access, place, identity, numbers, deadline).await?;
        let kept: Vec<u8> = kept.into_iter().filter_map(|home| u8::try_from(home).ok()).collect();
        if kept.len() != wishes.len() {
            return Err(wrong("a request was answered for another number of memories than it has"));
        }
        // It would be stored beside the one that has its id by now.
        if known.iter().zip(&kept).any(|(known, kept)| known.is_some_and(|known| known != *kept)) {
            return Err(moved_since().into());
        }
        Ok(kept)
    }

    /// Claims the ids that may come to another partition than they themselves lead to; answers where each item goes.
    async fn claimed(
        self,
        collection: &CollectionRow,
        memories: &[Option<&NewMemory>],
        targets: &[u8],
        all: bool,
    ) -> Answer<Vec<u8>> {
        let chosen = |memory: &Option<&NewMemory>| memory.filter(|memory| memory.id_chosen).map(id_of);
        let claims = memories.iter().zip(targets).filter_map(|(memory, target)| {
            // A repetition goes nowhere else, and a fact lies where facts are.
            let obeys = !self.identity.is_given && !memory.is_some_and(is_stated);
            Some(Claim { id: chosen(memory)?, partition: *target, obeys })
        });
        let needed = |claim: &Claim| all || home_of(collection, &claim.id) != claim.partition;
        let claims: Vec<Claim> = claims.filter(needed).collect();
        let belongs = claim(self.shared, self.access, collection, claims, self.deadline).await?;
        let mut homes = Vec::with_capacity(targets.len());
        for (memory, target) in memories.iter().zip(targets) {
            let home = chosen(memory).and_then(|id| belongs.get(&id).copied()).unwrap_or(*target);
            if home != *target && self.identity.is_given {
                return Err(moved_since().into());
            }
            homes.push(home);
        }
        Ok(homes)
    }

    /// Looks once more where a claim leads elsewhere than where a memory was found: it may be gone from there by now.
    async fn check_moved(
        self,
        spaces: &[SpaceKey],
        memories: &[Option<&NewMemory>],
        known: &[Option<u8>],
        homes: &[u8],
    ) -> Answer<()> {
        let is_elsewhere = |known: &[Option<u8>]| {
            known.iter().zip(homes).any(|(known, home)| known.is_some_and(|known| known != *home))
        };
        if is_elsewhere(known) && is_elsewhere(&self.known(spaces, memories).await?) {
            let detail = "other writes of these ids are under way; nothing was done; retry after a moment";
            return Err(Problem::new(ErrorCode::Unavailable, detail));
        }
        Ok(())
    }

    /// Where the memories lie whose ids the caller chose.
    async fn known(self, spaces: &[SpaceKey], memories: &[Option<&NewMemory>]) -> Answer<Vec<Option<u8>>> {
        let chosen = memories.iter().flatten().filter(|memory| memory.id_chosen);
        let ids: Vec<String> = chosen.map(|memory| id_of(memory)).collect();
        if ids.is_empty() {
            return Ok(vec![None; memories.len()]);
        }
        let wish = ReadWish { level: Level::Linearizable, token: Token::new(&self.access.tenant) };
        let places = locate(self.shared, self.access, spaces, &ids, &wish, self.deadline).await?;
        let of = |memory: &Option<&NewMemory>| {
            let at = places.of(&memory.filter(|memory| memory.id_chosen)?.index.id)?;
            u8::try_from(at).ok()
        };
        Ok(memories.iter().map(of).collect())
    }
}

fn id_of(memory: &NewMemory) -> String {
    memory.index.id.clone()
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
    let detail = "another write has taken an id of this request to another partition of the collection, or had it there \
                  within the last twenty minutes; nothing was done; read the memory, and make a new key; if it is \
                  gone, write it without a key, or later";
    Error::new(ErrorCode::Conflict, detail).at("Idempotency-Key")
}

fn wrong(detail: &str) -> Problem {
    Problem::new(ErrorCode::Internal, detail)
}
