//! The memories of a space that are most like one of them, by words and by its vector.

use crate::index::Query;
use crate::shard::ShardState;
use holdfast_core::filter::Filter;
use holdfast_core::memory::{IndexRow, MemoryRow};
use holdfast_core::score::Profile;
use holdfast_core::space::SpaceKey;
use holdfast_core::text::analyze_query;
use std::time::{Duration, Instant};

/// Time for one look.
const TIMEOUT: Duration = Duration::from_secs(5);

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// A memory that is like another one.
pub(crate) struct Like {
    pub(crate) id: String,
    pub(crate) seq: u64,
    /// The cosine of their vectors; none where one of them has no vector.
    pub(crate) cosine: Option<f32>,
}

/// The memories that are most like `memory`, of all or of those that the same speaker said, the most alike first,
/// itself among them. Blocks: it reads the image of the space.
///
/// # Errors
/// If the image cannot be read in time.
pub(crate) fn most_like(
    state: &ShardState,
    space: &SpaceKey,
    (memory, row): (&MemoryRow, &IndexRow),
    of_speaker: bool,
    now_us: i64,
    top_k: usize,
) -> Result<Vec<Like>, Fault> {
    let speaker = match &row.speaker {
        Some(speaker) => serde_json::json!({"speaker": {"$eq": speaker}}),
        None => serde_json::json!({"speaker": {"$exists": false}}),
    };
    let filter = of_speaker.then(|| Filter::parse(&speaker)).transpose()?;
    let terms = analyze_query(&memory.content).terms;
    let vector: Option<Vec<f32>> =
        row.vector.as_ref().map(|vector| vector.to_halves().map(f32::from).collect());
    let deadline = Instant::now() + TIMEOUT;
    let query = Query {
        text: &memory.content,
        terms: &terms,
        vector: vector.as_deref(),
        vector_model: row.vector.as_ref().map_or(0, |vector| vector.model),
        profile: Profile::Relevance,
        filter: filter.as_ref(),
        now_us,
        log_now_us: now_us,
        top_k,
        deadline: Some(deadline),
        ..Query::default()
    };
    let image = state.spaces().get(space, &state.reader(), deadline)?;
    let answer = image.read().search(&query)?;
    let like = answer.hits.into_iter().map(|hit| Like {
        id: hit.id,
        seq: hit.seq,
        // A row without a vector says nothing by its cosine of 0.
        #[allow(clippy::cast_possible_truncation)]
        cosine: (hit.parts.cosine > 0.0).then_some(hit.parts.cosine as f32),
    });
    Ok(like.collect())
}
