//! Which stored memories a new text may contradict, where neither states a fact: looked up before
//! the proposal, by vector and words, and only for texts that tell of a change.
//!
//! A hint is a hint: apply drops it where the memory has changed since. A look-up that fails costs
//! the link and not the write.

use super::batch::Batch;
use crate::auth::own_reads;
use crate::http::time::{Deadline, now_us};
use crate::nodes::{Client, Level, ReadKind, ReadWish};
use crate::shared::Shared;
use holdfast_core::access::Access;
use holdfast_core::command::{Hint, NewMemory};
use holdfast_core::facts::similar::{CANDIDATES, HINTS_MAX, may_contradict};
use holdfast_core::space::SpaceKey;
use holdfast_core::text::normalize;
use holdfast_core::token::Token;
use holdfast_proto::v1;
use serde_json::json;
use std::time::Duration;

/// Most texts of one request that are looked up.
const LOOKED_UP_MAX: usize = 8;
/// How long a write waits for a look-up.
const PATIENCE: Duration = Duration::from_millis(300);

/// Gives the texts of a batch that tell of a change their hints, each from the partition that it goes to, one of `homes`
/// for each item.
pub(super) async fn look_up(
    shared: &Shared,
    access: &Access,
    homes: &[SpaceKey],
    batch: &mut Batch,
    deadline: Deadline,
) {
    let model = batch.model();
    let access = &own_reads(access);
    for (memory, space) in batch.telling_of_change(homes).take(LOOKED_UP_MAX) {
        let within = Deadline::after(PATIENCE.min(deadline.left()));
        match candidates(shared, access, space, memory, model.clone(), within).await {
            Ok(found) => memory.conflicts = hints(memory, found),
            Err(error) => {
                tracing::debug!(%error, "no possible conflicts were looked up");
                return;
            }
        }
    }
}

/// What the same speaker said that is nearest.
async fn candidates(
    shared: &Shared,
    access: &Access,
    space: &SpaceKey,
    memory: &NewMemory,
    model: Option<v1::Model>,
    deadline: Deadline,
) -> Result<Vec<v1::Scored>, holdfast_core::Error> {
    let speaker = match &memory.index.speaker {
        Some(speaker) => json!({"speaker": {"$eq": speaker}}),
        None => json!({"speaker": {"$exists": false}}),
    };
    let vector = memory.index.vector.as_ref();
    let request = v1::RecallRequest {
        access: Some(access.clone().into()),
        space: Some(space.into()),
        query: memory.content.clone(),
        vector: vector.map(|vector| vector.to_halves().map(f32::from).collect()).unwrap_or_default(),
        model: model.filter(|_| vector.is_some()),
        top_k: u32::try_from(CANDIDATES).unwrap_or(u32::MAX),
        profile: "relevance".to_owned(),
        filter: speaker.to_string(),
        now_us: now_us(),
        ..v1::RecallRequest::default()
    };
    let wish = ReadWish { level: Level::Session, token: Token::new(&access.tenant) };
    let ask = |mut client: Client, read| {
        let request = v1::RecallRequest { read: Some(read), ..request.clone() };
        async move { client.recall(request).await }
    };
    let response = shared.nodes.read_space(ReadKind::Scan, space, &wish, deadline, ask).await;
    Ok(response.map_err(|problem| problem.error)?.results)
}

fn hints(memory: &NewMemory, found: Vec<v1::Scored>) -> Vec<Hint> {
    let own = normalize(&memory.content);
    let contradicted = found.into_iter().filter_map(|scored| {
        let cosine = scored.parts.and_then(|parts| parts.cosine);
        let older = scored.memory?;
        let other = normalize(&older.content) != own;
        (other && may_contradict(&memory.content, &older.content, cosine))
            .then_some(Hint { id: older.id, version: older.version })
    });
    contradicted.take(HINTS_MAX).collect()
}
