//! The newest turns of the spaces in use, in memory. A turn is written once and never changed, so what is
//! here is right as long as its session is there, which every read looks up in the state.

use holdfast_core::session::TurnRow;
use holdfast_core::space::SpaceKey;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Most turns of one space.
const TURNS_OF_SPACE_MAX: usize = 500;
/// Most bytes of all spaces together.
const BYTES_MAX: usize = 32 << 20;
/// Most spaces.
const SPACES_MAX: usize = 4_096;

/// A turn: its session, when that began, and its number.
type Place = (String, i64, u64);

/// See the module.
#[derive(Default)]
pub(super) struct TurnCache(Mutex<Cache>);

#[derive(Default)]
struct Cache {
    spaces: HashMap<SpaceKey, Turns>,
    bytes: usize,
    /// Counts uses: the space with the lowest goes first.
    uses: u64,
}

#[derive(Default)]
struct Turns {
    rows: BTreeMap<Place, Arc<TurnRow>>,
    /// The oldest first.
    ages: BTreeSet<(i64, Place)>,
    used: u64,
}

impl TurnCache {
    /// Forgets all turns of a tenant.
    pub(super) fn forget_tenant(&self, tenant: &str) {
        let mut cache = self.0.lock();
        let mut freed = 0;
        cache.spaces.retain(|space, turns| {
            let stays = space.tenant() != tenant;
            freed += if stays { 0 } else { turns.rows.values().map(|row| cost(row)).sum() };
            stays
        });
        cache.bytes = cache.bytes.saturating_sub(freed);
    }

    pub(super) fn get(
        &self,
        space: &SpaceKey,
        session: &str,
        created_us: i64,
        number: u64,
    ) -> Option<Arc<TurnRow>> {
        let mut cache = self.0.lock();
        cache.uses += 1;
        let uses = cache.uses;
        let turns = cache.spaces.get_mut(space)?;
        turns.used = uses;
        turns.rows.get(&(session.to_owned(), created_us, number)).cloned()
    }

    pub(super) fn put(
        &self,
        space: &SpaceKey,
        session: &str,
        created_us: i64,
        number: u64,
        row: &Arc<TurnRow>,
    ) {
        let mut cache = self.0.lock();
        cache.uses += 1;
        let uses = cache.uses;
        let turns = cache.spaces.entry(space.clone()).or_default();
        turns.used = uses;
        let place = (session.to_owned(), created_us, number);
        let mut grown = 0;
        if turns.rows.insert(place.clone(), Arc::clone(row)).is_none() {
            turns.ages.insert((row.recorded_us, place));
            grown += cost(row);
        }
        let mut shrunk = 0;
        while turns.rows.len() > TURNS_OF_SPACE_MAX {
            let Some((_, oldest)) = turns.ages.pop_first() else { break };
            shrunk += turns.rows.remove(&oldest).map_or(0, |row| cost(&row));
        }
        cache.bytes = (cache.bytes + grown).saturating_sub(shrunk);
        while cache.bytes > BYTES_MAX || cache.spaces.len() > SPACES_MAX {
            let least =
                cache.spaces.iter().min_by_key(|(_, turns)| turns.used).map(|(space, _)| space.clone());
            let Some(turns) = least.and_then(|space| cache.spaces.remove(&space)) else { break };
            let freed: usize = turns.rows.values().map(|row| cost(row)).sum();
            cache.bytes = cache.bytes.saturating_sub(freed);
        }
    }

    /// Drops what is known of a session that is gone.
    pub(super) fn forget(&self, space: &SpaceKey, session: &str) {
        let mut cache = self.0.lock();
        let Some(turns) = cache.spaces.get_mut(space) else { return };
        let gone: Vec<Place> = turns.rows.keys().filter(|place| place.0 == session).cloned().collect();
        let mut freed = 0;
        for place in gone {
            if let Some(row) = turns.rows.remove(&place) {
                turns.ages.remove(&(row.recorded_us, place));
                freed += cost(&row);
            }
        }
        cache.bytes = cache.bytes.saturating_sub(freed);
    }
}

fn cost(row: &TurnRow) -> usize {
    /// Both maps with their keys, and the row itself.
    const FIXED: usize = 512;
    let labels = row.tags.iter().chain(&row.topics).chain(&row.entities).map(String::len).sum::<usize>();
    FIXED + row.content.len() + row.tool.as_ref().map_or(0, |tool| tool.output.len()) + labels
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn row(n: u64, bytes: usize) -> Arc<TurnRow> {
        let recorded_us = i64::try_from(n).unwrap();
        Arc::new(TurnRow { content: "x".repeat(bytes), recorded_us, ..TurnRow::default() })
    }

    #[test]
    fn the_newest_of_a_space_stay() {
        let (cache, space) = (TurnCache::default(), SpaceKey::user("t", "u").unwrap());
        for n in (1..=600).rev() {
            cache.put(&space, "s", 1, n, &row(n, 1));
        }
        assert!(cache.get(&space, "s", 1, 600).is_some() && cache.get(&space, "s", 1, 101).is_some());
        assert!(cache.get(&space, "s", 1, 100).is_none());
        assert!(cache.get(&space, "s", 2, 600).is_none(), "another session of that id");
        cache.forget(&space, "s");
        assert!(cache.get(&space, "s", 1, 600).is_none());
        assert_eq!(cache.0.lock().bytes, 0);
        cache.put(&space, "s", 1, 1, &row(1, 1));
        cache.forget_tenant("t2");
        assert!(cache.get(&space, "s", 1, 1).is_some());
        cache.forget_tenant("t");
        assert!(cache.get(&space, "s", 1, 1).is_none());
        assert_eq!(cache.0.lock().bytes, 0);
    }

    #[test]
    fn the_bytes_are_bounded_and_the_space_that_was_not_used_goes() {
        let cache = TurnCache::default();
        let space = |n: u64| SpaceKey::user("t", &n.to_string()).unwrap();
        for n in 1..=20 {
            for turn in 1..=40 {
                cache.put(&space(n), "s", 1, turn, &row(turn, 64 * 1024));
            }
            assert!(cache.get(&space(1), "s", 1, 1).is_some(), "used again and again");
        }
        assert!(cache.0.lock().bytes <= BYTES_MAX);
        assert!(cache.get(&space(2), "s", 1, 1).is_none());
    }
}
