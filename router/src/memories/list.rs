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
    let (access, space) = caller.require(Rights::READ)?;
    let params: ListParams = query::parse(&uri)?;
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIST_ITEMS_MAX).contains(&limit) {
        return Err(Problem::invalid("limit", format!("limit is {limit}; give 1 to {LIST_ITEMS_MAX}")));
    }
    let filter = params.filter()?;
    let after_seq = match &params.cursor {
        Some(text) => parse_cursor(text, &space, &filter)?,
        None => 0,
    };
    let wish = tokens::wish(
        &access.tenant,
        params.token.as_deref(),
        &headers,
        params.consistency,
        params.max_staleness_ms,
    )?;
    let deadline = Deadline::after(shared.config.read_timeout);
    let ask = |mut client: Client, read| {
        let request = v1::ListRequest {
            access: Some(access.clone().into()),
            space: Some((&space).into()),
            read: Some(read),
            filter: filter.clone(),
            limit,
            after_seq,
        };
        async move { client.list(request).await }
    };
    let response = shared.nodes.read_space(ReadKind::Point, &space, &wish, deadline, ask).await?;
    let seen = shared.nodes.observe(response.seen);
    let memories: Answer<Vec<MemoryView>> = response.memories.into_iter().map(MemoryView::new).collect();
    let page = Page {
        memories: memories?,
        next_cursor: response.next_after_seq.map(|seq| cursor(seq, &space, &filter)),
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

/// Bound to the space and the filter, so that a cursor is not taken for a place in another list.
fn cursor(seq: u64, space: &SpaceKey, filter: &str) -> String {
    let bytes = [seq.to_be_bytes(), list_hash(seq, space, filter)].concat();
    URL_SAFE_NO_PAD.encode(bytes)
}

fn list_hash(seq: u64, space: &SpaceKey, filter: &str) -> [u8; 8] {
    let mut hash = Xxh3::new();
    hash.update(&seq.to_be_bytes());
    hash.update(&space.path());
    hash.update(filter.as_bytes());
    hash.digest().to_be_bytes()
}

fn parse_cursor(text: &str, space: &SpaceKey, filter: &str) -> Answer<u64> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok().filter(|bytes| bytes.len() == 16);
    let seq = bytes.and_then(|bytes| {
        let (seq, hash) = bytes.split_first_chunk::<8>()?;
        let seq = u64::from_be_bytes(*seq);
        (hash == list_hash(seq, space, filter)).then_some(seq)
    });
    let detail = "this is not a cursor of this list with these filters; start again without one";
    seq.ok_or_else(|| Problem::invalid("cursor", detail))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_cursor_belongs_to_its_list() {
        let ann = SpaceKey::user("t", "ann").unwrap();
        let bob = SpaceKey::user("t", "bob").unwrap();
        let text = cursor(7, &ann, "");
        assert_eq!(parse_cursor(&text, &ann, "").unwrap(), 7);
        for (text, space, filter) in
            [(text.as_str(), &bob, ""), (&text, &ann, "{}"), ("", &ann, ""), ("光标", &ann, "")]
        {
            assert_eq!(parse_cursor(text, space, filter).unwrap_err().error.field.as_deref(), Some("cursor"));
        }
    }
}
