//! `GET …/memories`: page by page in record order.

use super::view::MemoryView;
use crate::auth::InSpace;
use crate::filters;
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::{answer, query};
use crate::nodes::{Client, ReadKind};
use crate::shared::Shared;
use crate::tokens::{self, Consistency};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_core::access::Rights;
use holdfast_core::limits::LIST_ITEMS_MAX;
use holdfast_core::space::SpaceKey;
use holdfast_proto::v1;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

const LIMIT_DEFAULT: u32 = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    kind: Option<String>,
    session: Option<String>,
    role: Option<String>,
    agent: Option<String>,
    speaker: Option<String>,
    /// A filter as recall takes it, in JSON.
    filter: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
    token: Option<String>,
    consistency: Option<Consistency>,
    max_staleness_ms: Option<u64>,
}

#[derive(Serialize)]
struct Page {
    memories: Vec<MemoryView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    token: String,
}

pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let (access, place) = caller.require_place(Rights::READ)?;
    let spaces = place.partitions()?;
    let params: ListParams = query::parse(&uri)?;
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIST_ITEMS_MAX).contains(&limit) {
        return Err(Problem::invalid("limit", format!("limit is {limit}; give 1 to {LIST_ITEMS_MAX}")));
    }
    let filter = params.filter()?;
    let mut at = match &params.cursor {
        Some(text) => At::parse(text, &spaces, &filter)?,
        None => At::default(),
    };
    let wish = tokens::wish(
        &access.tenant,
        params.token.as_deref(),
        &headers,
        params.consistency,
        params.max_staleness_ms,
    )?;
    let deadline = Deadline::after(shared.config.read_timeout);
    // Partition by partition, until the page is full.
    let (mut memories, mut seen, mut next) = (Vec::new(), Vec::new(), None);
    while let Some(space) = spaces.get(usize::from(at.partition)) {
        let left = limit.saturating_sub(u32::try_from(memories.len()).unwrap_or(u32::MAX));
        if left == 0 {
            next = Some(at);
            break;
        }
        let ask = |mut client: Client, read| {
            let request = v1::ListRequest {
                access: Some(access.clone().into()),
                space: Some(space.into()),
                read: Some(read),
                filter: filter.clone(),
                limit: left,
                after_seq: at.after_seq,
            };
            async move { client.list(request).await }
        };
        let response = shared.nodes.read_space(ReadKind::Point, space, &wish, deadline, ask).await?;
        seen.extend(shared.nodes.observe(response.seen));
        for memory in response.memories {
            memories.push(MemoryView::new(memory)?);
        }
        if let Some(after_seq) = response.next_after_seq {
            next = Some(At { after_seq, ..at });
            break;
        }
        at = At { partition: at.partition + 1, after_seq: 0 };
    }
    let page = Page {
        memories,
        next_cursor: next.map(|at| at.cursor(&spaces, &filter)),
        token: tokens::text(&access.tenant, seen)?,
    };
    answer(StatusCode::OK, &page)
}

impl ListParams {
    /// All conditions as one filter in JSON; empty if there are none.
    fn filter(&self) -> Answer<String> {
        let named = [
            ("kind", &self.kind),
            ("session", &self.session),
            ("role", &self.role),
            ("agent", &self.agent),
            ("speaker", &self.speaker),
        ];
        let mut all: Vec<Value> = Vec::new();
        for (field, value) in named {
            if let Some(value) = value {
                filters::check_value(field, value)?;
                all.push(json!({ field: { "$eq": value } }));
            }
        }
        if let Some(text) = &self.filter {
            all.push(filters::parse(crate::http::json::part(text, "filter")?)?);
        }
        Ok(filters::all(all)?)
    }
}

/// A place in a list: the last memory of the pages before, by partition and number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct At {
    partition: u8,
    after_seq: u64,
}

impl At {
    /// Bound to the space and the filter, so that a cursor is not taken for a place in another list.
    fn cursor(self, spaces: &[SpaceKey], filter: &str) -> String {
        URL_SAFE_NO_PAD.encode([self.bytes().as_slice(), &self.hash(spaces, filter)].concat())
    }

    fn bytes(self) -> [u8; 9] {
        let mut bytes = [self.partition; 9];
        bytes[1..].copy_from_slice(&self.after_seq.to_be_bytes());
        bytes
    }

    fn hash(self, spaces: &[SpaceKey], filter: &str) -> [u8; 8] {
        let mut hash = Xxh3::new();
        hash.update(&self.bytes());
        for space in spaces {
            hash.update(&space.path());
        }
        hash.update(filter.as_bytes());
        hash.digest().to_be_bytes()
    }

    fn parse(text: &str, spaces: &[SpaceKey], filter: &str) -> Answer<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok().filter(|bytes| bytes.len() == 17);
        let at = bytes.and_then(|bytes| {
            let (partition, rest) = bytes.split_first()?;
            let (seq, hash) = rest.split_first_chunk::<8>()?;
            let at = Self { partition: *partition, after_seq: u64::from_be_bytes(*seq) };
            (hash == at.hash(spaces, filter)).then_some(at)
        });
        let detail = "this is not a cursor of this list with these filters; start again without one";
        at.ok_or_else(|| Problem::invalid("cursor", detail))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_cursor_belongs_to_its_list() {
        let ann = [SpaceKey::user("t", "ann").unwrap()];
        let bob = [SpaceKey::user("t", "bob").unwrap()];
        let shared = [SpaceKey::shared("t", "ann", 0).unwrap(), SpaceKey::shared("t", "ann", 1).unwrap()];
        let at = At { partition: 1, after_seq: 7 };
        let text = at.cursor(&shared, "");
        assert_eq!(At::parse(&text, &shared, "").unwrap(), at);
        for (text, spaces, filter) in [
            (text.as_str(), &ann[..], ""),
            (&text, &bob, ""),
            (&text, &shared[..1], ""),
            (&text, &shared, "{}"),
            ("", &shared, ""),
            ("光标", &shared, ""),
        ] {
            let problem = At::parse(text, spaces, filter).unwrap_err();
            assert_eq!(problem.error.field.as_deref(), Some("cursor"));
        }
    }
}
