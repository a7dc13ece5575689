//! `GET …/export`: a space as JSON Lines, as it is read.
//!
//! All that was written up to the log index in the first line is in it; of what is written meanwhile, some
//! may be. Pieces are read as the client takes them, so a router holds three of them at most.

use super::line::{End, FORMAT, Head, Line, Position, left_out};
use super::stalled::{self, Out};
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
use futures::future::try_join_all;
use holdfast_core::ErrorCode;
use holdfast_core::access::{Access, Rights};
use holdfast_core::codec::Stored;
use holdfast_core::space::SpaceKey;
use holdfast_core::token::Seen;
use holdfast_core::transfer::Item;
use holdfast_proto::v1;
use std::sync::Arc;

pub(crate) async fn export(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let (access, home) = caller.require_place(Rights::READ)?;
    let wish = query::parse::<ReadParams>(&uri)?.wish(&access, &headers)?;
    let place = super::enter(&shared)?;
    let (spaces, level) = (home.partitions()?, wish.level);
    let mut export = Export { shared, access, spaces, at: 0, level, wish, end: End::default() };
    let partitions = match home.collection() {
        Some(_) => export.positions().await?,
        None => Vec::new(),
    };
    // The first piece is read before anything is answered: what is refused is refused as usual.
    let first = export.piece(None).await?;
    let token = tokens::write(&export.wish.token)?;
    let head = Line::Export(Head {
        format: FORMAT,
        space: home.first()?.label().to_owned(),
        exported_at: Time(now_us()),
        log_index: first.seen.map_or(0, |seen| seen.index),
        shard: first.seen.map_or(0, |seen| seen.shard.0),
        partitions,
        left_out: left_out(),
    });
    let mut bytes = Vec::new();
    write_line(&mut bytes, &head)?;
    bytes.extend_from_slice(&first.lines);
    let idle_max = export.shared.config.body_timeout;
    let body = stalled::guarded(idle_max, place, move |out: Out| async move {
        out.send(bytes.into()).await?;
        let mut next = first.next;
        while let Next::Piece(cursor) = next {
            let piece = export.piece(cursor).await.map_err(cut)?;
            out.send(piece.lines.into()).await?;
            next = piece.next;
        }
        let mut bytes = Vec::new();
        write_line(&mut bytes, &Line::End(export.end)).map_err(cut)?;
        out.send(bytes.into()).await
    });
    let mut response = Response::new(Body::from_stream(body));
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
    /// All partitions, and which of them is being read.
    spaces: Vec<SpaceKey>,
    at: usize,
    /// How fresh the first piece of each partition must be.
    level: Level,
    wish: ReadWish,
    end: End,
}

struct Piece {
    lines: Vec<u8>,
    next: Next,
    seen: Option<Seen>,
}

/// What comes behind a piece.
enum Next {
    /// Another one of the same partition, or with no cursor the first of the next one.
    Piece(Option<v1::ExportCursor>),
    End,
}

impl Export {
    /// Where each partition stands; no later piece of it is older.
    async fn positions(&mut self) -> Answer<Vec<Position>> {
        let deadline = Deadline::after(self.shared.config.read_timeout);
        let (shared, access, wish) = (&*self.shared, &self.access, &self.wish);
        let ask = |space: SpaceKey| async move {
            let ask = |mut client: Client, read| {
                let request = v1::SpaceStatsRequest {
                    access: Some(access.clone().into()),
                    space: Some((&space).into()),
                    read: Some(read),
                };
                async move { client.space_stats(request).await }
            };
            let response = shared.nodes.read_space(ReadKind::Point, &space, wish, deadline, ask).await?;
            Ok::<_, Problem>(shared.nodes.observe(response.seen))
        };
        let seen = try_join_all(self.spaces.iter().cloned().map(ask)).await?;
        seen.iter().flatten().for_each(|seen| self.wish.token.observe(*seen));
        let position = |seen: &Option<Seen>| Position {
            shard: seen.map_or(0, |seen| seen.shard.0),
            log_index: seen.map_or(0, |seen| seen.index),
        };
        Ok(seen.iter().map(position).collect())
    }

    async fn piece(&mut self, cursor: Option<v1::ExportCursor>) -> Answer<Piece> {
        let deadline = Deadline::after(self.shared.config.read_timeout);
        let missing = || Problem::new(ErrorCode::Internal, "an export has no more partitions");
        let (access, space) = (&self.access, self.spaces.get(self.at).ok_or_else(missing)?);
        if cursor.is_none() {
            self.wish.level = self.level;
        }
        let end = self.end.clone();
        let ask = |mut client: Client, read| {
            let request = v1::ExportRequest {
                access: Some(access.clone().into()),
                space: Some(space.into()),
                read: Some(read),
                cursor: cursor.clone(),
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
        if !response.beside {
            let detail = "a node of an older version answered, which exports memories alone; repeat this when all \
                          nodes run this version";
            return Err(Problem::new(ErrorCode::Unavailable, detail));
        }
        let items = response.items;
        let mut end = end;
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
        let next = match response.next {
            Some(cursor) => Next::Piece(Some(cursor)),
            None => {
                self.at += 1;
                if self.at < self.spaces.len() { Next::Piece(None) } else { Next::End }
            }
        };
        Ok(Piece { lines, next, seen })
    }
}

fn write_line(bytes: &mut Vec<u8>, line: &Line) -> Answer<()> {
    serde_json::to_writer(&mut *bytes, line)
        .map_err(|error| Problem::new(ErrorCode::Internal, format!("a line cannot be written: {error}")))?;
    bytes.push(b'\n');
    Ok(())
}
