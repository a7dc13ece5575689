//! `GET …/export`: a space as JSON Lines, as it is read.
//!
//! All that was written up to the log index in the first line is in it; of what is written meanwhile, some
//! may be. Pieces are read as the client takes them, so a router holds two of them at most.

use super::line::{End, FORMAT, Head, Line, left_out};
use crate::auth::InSpace;
use crate::http::problem::{Answer, Problem};
use crate::http::query;
use crate::http::time::{Deadline, Time, now_us};
use crate::memories::get::ReadParams;
use crate::nodes::{Client, Level, ReadKind, ReadWish};
use crate::shared::Shared;
use crate::tokens;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use holdfast_core::ErrorCode;
use holdfast_core::access::{Access, Rights};
use holdfast_core::codec::Stored;
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Seen;
use holdfast_core::transfer::Item;
use holdfast_proto::v1;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

pub(crate) async fn export(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let (access, space) = caller.require(Rights::READ)?;
    let params: ReadParams = query::parse(&uri)?;
    let wish = tokens::wish(
        &access.tenant,
        params.token.as_deref(),
        &headers,
        params.consistency,
        params.max_staleness_ms,
    )?;
    let place = super::enter(&shared)?;
    let mut export = Export { shared, access, space, wish, end: End::default(), _place: place };
    // The first piece is read before anything is answered: what is refused is refused as usual.
    let (first, seen) = export.piece(None).await?;
    let token = tokens::text(&export.access.tenant, seen)?;
    let head = Line::Export(Head {
        format: FORMAT,
        space: export.space.space().to_owned(),
        exported_at: Time(now_us()),
        log_index: seen.map_or(0, |seen| seen.index),
        shard: seen.map_or(0, |seen| seen.shard.0),
        left_out: left_out(),
    });
    let mut bytes = Vec::new();
    write_line(&mut bytes, &head)?;
    bytes.extend_from_slice(&first.lines);
    let begin = stream::once(async move { Ok::<_, std::io::Error>(Bytes::from(bytes)) });
    let rest = stream::try_unfold((export, Some(first.next)), |(mut export, cursor)| async move {
        match cursor {
            None => Ok(None),
            Some(None) => {
                let mut bytes = Vec::new();
                write_line(&mut bytes, &Line::End(export.end)).map_err(cut)?;
                Ok(Some((Bytes::from(bytes), (export, None))))
            }
            Some(cursor) => {
                let (piece, _) = export.piece(cursor).await.map_err(cut)?;
                Ok(Some((Bytes::from(piece.lines), (export, Some(piece.next)))))
            }
        }
    });
    let mut response = Response::new(Body::from_stream(begin.chain(rest)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    if let Ok(token) = HeaderValue::from_str(&token) {
        headers.insert(tokens::HEADER, token);
    }
    Ok(response)
}

/// The connection is cut: the last line is missing then, which tells the client.
fn cut(problem: Problem) -> std::io::Error {
    tracing::warn!(code = problem.error.code.as_str(), "an export was cut off: {}", problem.error.detail);
    std::io::Error::other(problem.error.detail)
}

struct Export {
    shared: Arc<Shared>,
    access: Access,
    space: SpaceKey,
    wish: ReadWish,
    end: End,
    _place: OwnedSemaphorePermit,
}

struct Piece {
    lines: Vec<u8>,
    next: Option<v1::ExportCursor>,
}

impl Export {
    async fn piece(&mut self, cursor: Option<v1::ExportCursor>) -> Answer<(Piece, Option<Seen>)> {
        let deadline = Deadline::after(self.shared.config.read_timeout);
        let (access, space) = (&self.access, &self.space);
        let ask = |mut client: Client, read| {
            let request = v1::ExportRequest {
                access: Some(access.clone().into()),
                space: Some(space.into()),
                read: Some(read),
                cursor,
            };
            async move { client.export(request).await }
        };
        let response = self.shared.nodes.read_space(ReadKind::Scan, space, &self.wish, deadline, ask).await?;
        let seen = self.shared.nodes.observe(response.seen);
        // No later piece may be older than this one.
        if let Some(seen) = seen {
            self.wish.token.observe(seen);
        }
        self.wish.level = Level::Session;
        let items = response.items;
        let mut end = self.end;
        let work = move || {
            let mut lines = Vec::new();
            for item in &items {
                let corrupted =
                    |error| Problem::new(ErrorCode::Corrupted, format!("an item cannot be read: {error}"));
                let item = Item::decode(item).map_err(corrupted)?;
                end.count(&item);
                write_line(&mut lines, &Line::of(item)?)?;
            }
            Ok::<_, Problem>((lines, end))
        };
        let (lines, end) = self.shared.work.run(deadline, work).await??;
        self.end = end;
        Ok((Piece { lines, next: response.next }, seen))
    }
}

fn write_line(bytes: &mut Vec<u8>, line: &Line) -> Answer<()> {
    serde_json::to_writer(&mut *bytes, line)
        .map_err(|error| Problem::new(ErrorCode::Internal, format!("a line cannot be written: {error}")))?;
    bytes.push(b'\n');
    Ok(())
}
