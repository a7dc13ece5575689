//! `POST …/import`: brings an export in, line by line, in steps that are each stored as a whole. What is
//! there already is left as it is, and what was deleted stays deleted, so an import may be repeated.

use super::line::{End, FORMAT, Line};
use crate::auth::{InSpace, Place};
use crate::collections::agreed::claim;
use crate::collections::placing::{holds_facts, partition_of};
use crate::http::answer;
use crate::http::json;
use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::http::write::{WriteHead, WriteIdentity};
use crate::memories::locate::{Places, locate};
use crate::memories::other_model;
use crate::nodes::{Level, ReadWish};
use crate::shared::Shared;
use crate::tokens;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use holdfast_core::access::{Access, Rights};
use holdfast_core::codec::Stored;
use holdfast_core::command::{Claim, Command, Idempotency, SpaceCommand, Write};
use holdfast_core::limits::IMPORT_ITEMS_MAX;
use holdfast_core::outcome::{ItemOutcome, ItemStatus};
use holdfast_core::space::SpaceKey;
use holdfast_core::token::{Seen, Token};
use holdfast_core::transfer::Item;
use holdfast_core::transfer::beside::Beside;
use holdfast_core::{Error, ErrorCode};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Longest line, in bytes.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Lines that are read before they are worked on: by number and by bytes.
const LINES_MAX: usize = 200;
const BYTES_FULL: usize = 1 << 20;
/// Bytes of items in one step, below what one command may have.
const STEP_BYTES_FULL: usize = 700 << 10;
/// Rejected lines that an answer names; the others are counted.
const REJECTED_NAMED_MAX: usize = 1_000;

#[derive(Debug, Default, Serialize)]
struct Counts {
    created: u64,
    /// They were there already.
    duplicate: u64,
    rejected: u64,
}

#[derive(Serialize)]
struct Rejected {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    code: &'static str,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

#[derive(Serialize)]
struct Imported {
    memories: Counts,
    versions: Counts,
    links: Counts,
    /// What stands beside memories, by the kind of line.
    beside: BTreeMap<&'static str, Counts>,
    /// Lines that are no such item.
    unreadable: u64,
    rejected: Vec<Rejected>,
    /// Rejected lines that are not named.
    rejected_more: u64,
    /// Whether the last line of the export came, and counts what came before it.
    complete: bool,
    token: String,
}

pub(crate) async fn import(
    State(shared): State<Arc<Shared>>,
    caller: InSpace,
    head: WriteHead,
    request: Request,
) -> Answer<Response> {
    let (access, home) = caller.require_place(Rights::WRITE)?;
    let spaces = home.partitions()?;
    let _place = super::enter(&shared)?;
    let identity = head.identity(&[])?;
    let import = Import {
        shared: &shared,
        access: &access,
        home: &home,
        spaces: &spaces,
        identity: &identity,
        report: Report::default(),
    };
    let imported = import.run(request.into_body()).await;
    answer(StatusCode::OK, &imported.map_err(|problem| problem.with_idempotency_key(&identity.key))?)
}

/// Lines that were read, with their numbers.
type Lines = Vec<(u64, Bytes)>;

/// A line that is to be stored: its number, its kind, and what it says.
struct Given {
    line: u64,
    kind: &'static str,
    item: Item,
    bytes: usize,
}

enum Read {
    Given(Given),
    Rejected(Rejected),
    End(End),
}

struct Import<'a> {
    shared: &'a Shared,
    access: &'a Access,
    home: &'a Place,
    /// All of its partitions.
    spaces: &'a [SpaceKey],
    identity: &'a WriteIdentity,
    report: Report,
}

#[derive(Default)]
struct Report {
    memories: Counts,
    versions: Counts,
    links: Counts,
    beside: BTreeMap<&'static str, Counts>,
    unreadable: u64,
    rejected: Vec<Rejected>,
    rejected_more: u64,
    told: End,
    end: Option<End>,
    steps: usize,
    /// The last position of each shard.
    seen: Vec<Seen>,
}

/// Items of one partition that are stored together.
#[derive(Default)]
struct Step {
    given: Vec<Given>,
    bytes: usize,
}

impl Import<'_> {
    async fn run(mut self, body: Body) -> Answer<Imported> {
        let mut body = body.into_data_stream();
        let (mut buffer, mut lines, mut bytes, mut number) = (BytesMut::new(), Lines::new(), 0, 0);
        let mut at_end = false;
        // So many bytes of the buffer are known to have no line break.
        let mut searched = 0;
        while !at_end {
            match self.next_chunk(&mut body).await? {
                Some(chunk) => buffer.extend_from_slice(&chunk),
                None => {
                    at_end = true;
                    if !buffer.is_empty() {
                        buffer.extend_from_slice(b"\n");
                    }
                }
            }
            while let Some(at) = buffer[searched..].iter().position(|byte| *byte == b'\n') {
                number += 1;
                let line = buffer.split_to(searched + at + 1).freeze();
                searched = 0;
                check_length(line.len(), number)?;
                bytes += line.len();
                lines.push((number, line));
                if lines.len() == LINES_MAX || bytes >= BYTES_FULL {
                    bytes = 0;
                    self.store(std::mem::take(&mut lines)).await?;
                }
            }
            searched = buffer.len();
            check_length(searched, number + 1)?;
        }
        self.store(lines).await?;
        if number == 0 {
            return Err(not_an_export("the body is empty"));
        }
        self.finish()
    }

    async fn next_chunk(&self, body: &mut axum::body::BodyDataStream) -> Answer<Option<Bytes>> {
        let deadline = Deadline::after(self.shared.config.body_timeout);
        match tokio::time::timeout_at(deadline.at(), body.next()).await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(chunk))) => Ok(Some(chunk)),
            Ok(Some(Err(_))) => Err(self.stopped(
                Error::new(ErrorCode::InvalidArgument, "the body ended before it was complete").into(),
            )),
            Err(_) => {
                let seconds = self.shared.config.body_timeout.as_secs();
                let detail = format!("nothing of the body arrived for {seconds} s");
                Err(self.stopped(Problem::new(ErrorCode::DeadlineExceeded, detail)))
            }
        }
    }

    /// Says how far the import came.
    fn stopped(&self, mut problem: Problem) -> Problem {
        let stored = &self.report.told;
        problem.error.detail = format!(
            "{}; {} memories were dealt with before; send the import again, which stores nothing twice",
            problem.error.detail, stored.memories
        );
        problem
    }

    async fn store(&mut self, lines: Lines) -> Answer<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let deadline = Deadline::after(self.shared.config.write_timeout);
        let read = self.shared.work.run(deadline, move || read_lines(&lines)).await;
        let read = read.map_err(|problem| self.stopped(problem))??;
        let mut all: Vec<Given> = Vec::new();
        for read in read {
            match read {
                Read::Rejected(rejected) => {
                    self.report.unreadable += 1;
                    self.report.reject(rejected);
                }
                Read::End(end) => self.report.end = Some(end),
                Read::Given(given) => all.extend(self.fitting(given)),
            }
        }
        let homes = self.homes(&all, deadline).await.map_err(|problem| self.stopped(problem))?;
        let mut steps: BTreeMap<usize, Step> = BTreeMap::new();
        for (given, home) in all.into_iter().zip(homes) {
            let step = steps.entry(home).or_default();
            let is_full = step.given.len() == IMPORT_ITEMS_MAX || step.bytes + given.bytes > STEP_BYTES_FULL;
            if is_full && !step.given.is_empty() {
                let full = std::mem::take(step);
                self.propose(home, full.given).await?;
            }
            step.bytes += given.bytes;
            step.given.push(given);
        }
        for (home, step) in steps {
            self.propose(home, step.given).await?;
        }
        Ok(())
    }

    /// The item, unless it can be seen here that it does not fit.
    fn fitting(&mut self, given: Given) -> Option<Given> {
        let Some(error) = self.unfit(&given.item) else { return Some(given) };
        self.report.told.count(&given.item);
        self.report.counts(given.kind).rejected += 1;
        let id = Some(given.item.id().to_owned());
        self.report.reject(rejected(given.line, Some(given.kind), id, error));
        None
    }

    fn unfit(&self, item: &Item) -> Option<Error> {
        match (self.home.collection(), item) {
            // Its vector may be of another model than the collection has.
            (Some(collection), Item::Memory(memory)) => {
                let model = memory.model.as_ref().filter(|model| Some(*model) != collection.model.as_ref());
                model.map(|model| other_model(model, collection.model.as_ref()))
            }
            (Some(_), Item::Beside(_)) => {
                let detail = "a collection has no sessions, tasks, blocks and procedures";
                Some(Error::new(ErrorCode::InvalidArgument, detail))
            }
            (None, Item::Beside(beside)) => {
                let (Beside::Block(block) | Beside::BlockVersion(block)) = beside.as_ref() else {
                    return None;
                };
                let may = !block.block.read_only || self.access.rights.allows(Rights::ADMIN);
                let detail = "only a credential with the right admin makes a block read-only";
                (!may).then(|| Error::new(ErrorCode::PermissionDenied, detail).at("read_only"))
            }
            _ => None,
        }
    }

    /// The partition of each item: where its memory lies or was deleted, else where a new one goes.
    async fn homes(&self, all: &[Given], deadline: Deadline) -> Answer<Vec<usize>> {
        let Some(collection) = self.home.collection().filter(|_| self.spaces.len() > 1) else {
            return Ok(vec![0; all.len()]);
        };
        let ids: BTreeSet<&str> = all.iter().map(|given| given.item.id()).collect();
        let ids: Vec<String> = ids.into_iter().map(str::to_owned).collect();
        let wish = ReadWish { level: Level::Linearizable, token: Token::new(&self.access.tenant) };
        let places = match ids.is_empty() {
            true => Places::default(),
            false => locate(self.shared, self.access, self.spaces, &ids, &wish, deadline).await?,
        };
        let mut new: HashMap<&str, (u8, bool)> = HashMap::new();
        for given in all {
            let (id, Item::Memory(memory)) = (given.item.id(), &given.item) else { continue };
            if places.of_any(id).is_none() {
                let has_facts = holds_facts(&memory.memory);
                new.entry(id).or_insert((partition_of(collection, &memory.memory, has_facts), has_facts));
            }
        }
        let claims = new.iter().map(|(id, (partition, has_facts))| {
            let (id, partition) = ((*id).to_owned(), *partition);
            Claim { id, partition, obeys: !has_facts }
        });
        let belongs = claim(self.shared, self.access, collection, claims.collect(), deadline).await?;
        let moved = new.iter().find(|(id, (_, has_facts))| *has_facts && belongs.get(**id) != Some(&0));
        if let Some((id, _)) = moved {
            let detail = format!(
                "a memory of the id {id} was written to another partition of the collection a moment ago, where no \
                 facts are; send the import again in twenty minutes"
            );
            return Err(Problem::new(ErrorCode::Conflict, detail));
        }
        // The memory of anything else is nowhere, which any partition can say.
        let home = |id: &str| places.of_any(id).or_else(|| belongs.get(id).map(|at| usize::from(*at)));
        Ok(all.iter().map(|given| home(given.item.id()).unwrap_or(0)).collect())
    }

    async fn propose(&mut self, home: usize, step: Vec<Given>) -> Answer<()> {
        let Some(space) = self.spaces.get(home).filter(|_| !step.is_empty()) else { return Ok(()) };
        let (marks, items): (Vec<_>, Vec<_>) =
            step.into_iter().map(|given| ((given.line, given.kind), given.item)).unzip();
        for item in &items {
            self.report.told.count(item);
        }
        let write = Write::Import(items);
        let command = |idempotency| {
            Command::Space(Box::new(SpaceCommand { space: space.clone(), idempotency, write: write.clone() }))
        };
        let bytes =
            command(None).encode().map_err(|error| Error::new(ErrorCode::Internal, error.to_string()))?;
        let Idempotency { key_hash, .. } = self.identity.part(self.report.steps);
        let command = command(Some(Idempotency { key_hash, request_hash: xxh3_64(&bytes) }));
        self.report.steps += 1;
        let deadline = Deadline::after(self.shared.config.write_timeout);
        let written = self.shared.nodes.write(self.access, space, &command, deadline).await;
        let written = written.map_err(|problem| self.stopped(problem))?;
        if let Some(seen) = written.seen {
            self.report.seen.retain(|known| known.shard != seen.shard);
            self.report.seen.push(seen);
        }
        if written.items.len() != marks.len() {
            let detail = "an import was answered for another number of items than it has";
            return Err(Problem::new(ErrorCode::Internal, detail));
        }
        for ((line, kind), outcome) in marks.into_iter().zip(written.items) {
            self.report.take(line, kind, outcome);
        }
        Ok(())
    }

    fn finish(self) -> Answer<Imported> {
        let Report {
            memories,
            versions,
            links,
            beside,
            unreadable,
            rejected,
            rejected_more,
            told,
            end,
            seen,
            ..
        } = self.report;
        Ok(Imported {
            complete: end.as_ref() == Some(&told),
            memories,
            versions,
            links,
            beside,
            unreadable,
            rejected,
            rejected_more,
            token: tokens::text(&self.access.tenant, seen)?,
        })
    }
}

impl Report {
    fn reject(&mut self, rejected: Rejected) {
        if self.rejected.len() < REJECTED_NAMED_MAX {
            self.rejected.push(rejected);
        } else {
            self.rejected_more += 1;
        }
    }

    fn counts(&mut self, kind: &'static str) -> &mut Counts {
        match kind {
            "memory" => &mut self.memories,
            "version" => &mut self.versions,
            "links" => &mut self.links,
            kind => self.beside.entry(kind).or_default(),
        }
    }

    fn take(&mut self, line: u64, kind: &'static str, outcome: ItemOutcome) {
        let counts = self.counts(kind);
        match (outcome.status, outcome.reason) {
            (ItemStatus::Rejected, reason) => {
                counts.rejected += 1;
                let unknown = || Error::new(ErrorCode::Conflict, "rejected when this was first sent");
                let error = reason.unwrap_or_else(unknown);
                self.reject(rejected(line, Some(kind), Some(outcome.id), error));
            }
            (ItemStatus::Duplicate, _) => counts.duplicate += 1,
            _ => counts.created += 1,
        }
    }
}

fn rejected(line: u64, kind: Option<&'static str>, id: Option<String>, error: Error) -> Rejected {
    Rejected { line, kind, id, code: error.code.as_str(), reason: error.detail, field: error.field }
}

fn check_length(bytes: usize, line: u64) -> Answer<()> {
    if bytes <= LINE_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("line {line} is longer than {LINE_BYTES_MAX} bytes, which no export has");
    Err(Error::too_large("body", detail).into())
}

fn not_an_export(why: &str) -> Problem {
    let detail = format!("{why}; send what GET …/export answers, with its first line");
    Problem::invalid("body", detail)
}

/// Reads, checks and derives. The first line must say what the rest is.
fn read_lines(lines: &Lines) -> Answer<Vec<Read>> {
    let mut read = Vec::with_capacity(lines.len());
    for (number, bytes) in lines {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let line: Result<Line, Error> = json::body(bytes);
        match line {
            Ok(Line::Export(head)) if head.format == 0 || head.format > FORMAT => {
                let detail =
                    format!("this export has format {}; this version reads up to {FORMAT}", head.format);
                return Err(Problem::invalid("export.format", detail));
            }
            Ok(Line::Export(_)) => {}
            _ if *number == 1 => return Err(not_an_export("the first line is not that of an export")),
            Ok(Line::End(end)) => read.push(Read::End(end)),
            Ok(line) => read.push(item_of(*number, line)),
            Err(error) => read.push(Read::Rejected(rejected(*number, None, None, error))),
        }
    }
    Ok(read)
}

fn item_of(number: u64, line: Line) -> Read {
    let (kind, id) = (line.kind(), line.id().map(str::to_owned));
    match line.into_item() {
        Ok(Some(item)) => {
            let bytes = item.encode().map_or(0, |bytes| bytes.len());
            Read::Given(Given { line: number, kind, item, bytes })
        }
        Ok(None) => {
            let error = Error::new(ErrorCode::InvalidArgument, "this line holds nothing to store");
            Read::Rejected(rejected(number, Some(kind), id, error))
        }
        Err(error) => Read::Rejected(rejected(number, Some(kind), id, error)),
    }
}
