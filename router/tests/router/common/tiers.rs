//! Reads of the tiers beside memories, in the plainest way that is right.

use holdfast_core::codec::Stored;
use holdfast_core::keys::{block, procedure, task};
use holdfast_core::space::SpaceKey;
use holdfast_core::state::{BTreeState, Reader};
use holdfast_core::tiers::procedure::ProcedureRow;
use holdfast_proto::v1;

pub fn read(state: &BTreeState, space: &SpaceKey, request: &v1::ReadTierRequest) -> Vec<v1::TierEntry> {
    let id = request.id.as_str();
    match (request.tier(), id) {
        (v1::Tier::Block, "") => named(state, &block::prefix(space)),
        (v1::Tier::Block, _) => {
            let versions = request.parts.then(|| block::versions_of(space, id));
            whole(state, id, &block::key(space, id), versions)
        }
        (v1::Tier::Task, "") => named(state, &task::prefix(space)),
        (v1::Tier::Task, _) => {
            let steps = request.parts.then(|| task::steps_of(space, id));
            whole(state, id, &task::key(space, id), steps)
        }
        (v1::Tier::Procedure, "") => {
            let all = named(state, &procedure::prefix(space)).into_iter();
            all.flat_map(|entry| {
                let row = ProcedureRow::decode(&entry.row).unwrap();
                let active = row.active.filter(|_| request.parts).map(|active| {
                    let part = one(state, &entry.id, &procedure::version(space, &entry.id, active)).unwrap();
                    v1::TierEntry { part: Some(active), ..part }
                });
                std::iter::once(entry).chain(active)
            })
            .collect()
        }
        (v1::Tier::Procedure, _) => {
            let versions = request.parts.then(|| procedure::versions_of(space, id));
            whole(state, id, &procedure::key(space, id), versions)
        }
    }
}

fn whole(state: &BTreeState, id: &str, key: &[u8], parts: Option<Vec<u8>>) -> Vec<v1::TierEntry> {
    let Some(thing) = one(state, id, key) else { return Vec::new() };
    let rows = parts.map(|prefix| state.scan(&prefix, None, 1000).unwrap()).unwrap_or_default();
    let number = |key: &[u8]| key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes));
    let parts =
        rows.into_iter().map(|(key, row)| v1::TierEntry { id: id.to_owned(), row, part: number(&key) });
    std::iter::once(thing).chain(parts).collect()
}

fn one(state: &BTreeState, id: &str, key: &[u8]) -> Option<v1::TierEntry> {
    state.get(key).unwrap().map(|row| v1::TierEntry { id: id.to_owned(), row, part: None })
}

fn named(state: &BTreeState, prefix: &[u8]) -> Vec<v1::TierEntry> {
    let rows = state.scan(prefix, None, 1000).unwrap().into_iter();
    let name = |key: &[u8]| String::from_utf8(key[prefix.len()..].to_vec()).unwrap();
    rows.map(|(key, row)| v1::TierEntry { id: name(&key), row, part: None }).collect()
}
