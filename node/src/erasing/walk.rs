//! A walk over the erasures of a group that are not done: round and round, a bounded part at a time, so that
//! each comes up however many there are.

use crate::service::Replica;
use crate::shard::ShardState;
use holdfast_core::codec::Stored;
use holdfast_core::erasure::ErasureRow;
use holdfast_core::keys::erasure;
use holdfast_core::space::SpaceKey;
use holdfast_core::state::Reader;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Erasures of one part.
pub(super) const PART: usize = 256;

/// An erasure that is not done.
pub(super) struct Open {
    key: Vec<u8>,
    pub(super) space: SpaceKey,
    pub(super) id: String,
    /// Without its selection.
    pub(super) row: ErasureRow,
}

/// What comes next.
#[derive(Default)]
pub(super) struct Part {
    pub(super) open: Vec<Open>,
    /// Whether these are the last ones: then it begins anew.
    pub(super) ended: bool,
}

/// Where the walk stands.
#[derive(Debug, Clone, Default)]
pub(super) struct Walk {
    after: Option<Vec<u8>>,
}

impl Walk {
    /// Whether it is at its beginning.
    pub(super) fn is_at_start(&self) -> bool {
        self.after.is_none()
    }

    /// The next erasures. On a thread that may block.
    pub(super) async fn next(&mut self, replica: &Replica, most: usize) -> Result<Part, Failed> {
        let (state, after) = (replica.state.clone(), self.after.clone());
        let (part, last) = tokio::task::spawn_blocking(move || part(&state, after, most)).await??;
        self.after = last.filter(|_| !part.ended);
        Ok(part)
    }

    /// Goes on behind this one, where the rest of a part was not worked on.
    pub(super) fn go_on_behind(&mut self, open: &Open) {
        self.after = Some(open.key.clone());
    }
}

fn part(state: &ShardState, after: Option<Vec<u8>>, most: usize) -> Result<(Part, Option<Vec<u8>>), Failed> {
    let reader = state.reader();
    let rows = reader.scan(&erasure::open_prefix(), after.as_deref(), most)?;
    let (ended, mut open) = (rows.len() < most, Vec::with_capacity(rows.len()));
    let last = rows.last().map(|(key, _)| key.clone());
    for (key, _) in rows {
        let Some((space, id)) = erasure::parse_open(&key) else {
            tracing::error!(key = %key.escape_ascii(), "the row of an open erasure cannot be read");
            continue;
        };
        let Some(value) = reader.get(&erasure::key(&space, &id))? else { continue };
        // A selection may be long, and is read again by who needs it.
        let row = ErasureRow { selection: None, ..ErasureRow::decode(&value)? };
        open.push(Open { key, space, id, row });
    }
    Ok((Part { open, ended }, last))
}
