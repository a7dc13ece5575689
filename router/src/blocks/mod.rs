//! `…/blocks`: the core blocks of a space.

mod edit;
mod patch;
mod read;
mod write;

pub(crate) use edit::edit;
pub(crate) use read::{get, history, list};
pub(crate) use write::{delete, put};

use crate::http::problem::{Answer, Problem};
use crate::http::time::{Deadline, Time};
use crate::nodes::ReadWish;
use crate::shared::Shared;
use crate::tiers::{What, decode, rows};
use holdfast_core::access::Access;
use holdfast_core::space::SpaceKey;
use holdfast_core::tiers::block::BlockRow;
use holdfast_core::token::Seen;
use holdfast_core::{Error, ErrorCode};
use holdfast_proto::v1;
use serde::Serialize;

/// A block as callers see it.
#[derive(Debug, Serialize)]
pub(crate) struct BlockView {
    pub(crate) label: String,
    pub(crate) value: String,
    pub(crate) description: String,
    /// Characters of the value.
    pub(crate) chars: usize,
    pub(crate) limit_chars: u32,
    pub(crate) read_only: bool,
    pub(crate) version: u64,
    pub(crate) created_at: Time,
    pub(crate) updated_at: Time,
}

impl BlockView {
    fn new(entry: v1::TierEntry) -> Answer<Self> {
        let row: BlockRow = decode(&entry)?;
        Ok(Self {
            label: entry.id,
            chars: row.value.chars().count(),
            value: row.value,
            description: row.description,
            limit_chars: row.limit_chars,
            read_only: row.read_only,
            version: row.version,
            created_at: Time(row.created_us),
            updated_at: Time(row.updated_us),
        })
    }
}

/// Every block of a space, in the order of their labels, in one call of a node.
pub(crate) async fn fetch_all(
    shared: &Shared,
    access: &Access,
    space: &SpaceKey,
    wish: &ReadWish,
    deadline: Deadline,
) -> Answer<(Vec<BlockView>, Option<Seen>)> {
    let what = What { tier: v1::Tier::Block, id: "", parts: false };
    let (entries, seen) = rows(shared, access, space, wish, deadline, what).await?;
    let blocks: Answer<Vec<BlockView>> = entries.into_iter().map(BlockView::new).collect();
    Ok((blocks?, seen))
}

fn not_found() -> Problem {
    Error::new(ErrorCode::NotFound, "there is no block with this label in this space").at("label").into()
}
