//! Stores many memories of one user in batches, so that it is safe to run again.
//!
//! Two things make it so. Every memory has an id: its own, or one derived from its content, so
//! the server recognises it in any later run. Every batch has an idempotency key, so a retry
//! within a run is answered with the first outcome. The key also holds a number drawn per run:
//! otherwise a second run would be answered "created" from the server's memory of the first one
//! instead of being told that everything is there already.
//!
//! A text that is in the input twice under two ids is one memory, stated twice (`merged`). The
//! server keeps no trace of the second id, so a later run states it once more: nothing is created,
//! but that memory's `count` goes up.

mod read;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::client::{AddRequest, AddStatus, Client, NewMemory};

pub use read::{BadFile, LINE_BYTES_MAX, Part, json_lines, read, utf8};

/// Most memories of one batch: what the server takes atomically.
pub const BATCH_MAX: usize = 100;

/// A batch is closed when its JSON would exceed this many bytes. Below the server's 1 MiB limit
/// for an atomic write, since it counts its own encoding.
const BATCH_BYTES_MAX: usize = 768 * 1024;

/// A memory to import and where it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// What to store.
    pub memory: NewMemory,
    /// Place in the input for messages, for example `line 17`.
    pub origin: String,
}

/// A memory that the server did not store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Place in the input.
    pub origin: String,
    /// The server's reason.
    pub reason: String,
}

/// What became of an import.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// New memories.
    pub created: usize,
    /// Memories that were there, by id.
    pub duplicate: usize,
    /// Memories whose text was there under another id.
    pub merged: usize,
    /// Memories that the server refused.
    pub rejected: Vec<Rejection>,
    /// For each imported memory in order, the id it is found by (none if rejected).
    pub ids: Vec<Option<String>>,
    /// Token of the last write.
    pub token: Option<String>,
    /// Duration of the whole.
    pub elapsed: Duration,
}

impl Summary {
    /// Adds the outcome of another part of the same import.
    pub fn absorb(&mut self, other: Self) {
        self.created += other.created;
        self.duplicate += other.duplicate;
        self.merged += other.merged;
        self.rejected.extend(other.rejected);
        self.ids.extend(other.ids);
        self.token = other.token.or(self.token.take());
        self.elapsed += other.elapsed;
    }

    /// Memories that the server answered for.
    pub fn total(&self) -> usize {
        self.created + self.duplicate + self.merged + self.rejected.len()
    }

    /// One line: counts and speed.
    pub fn line(&self) -> String {
        let seconds = self.elapsed.as_secs_f64();
        format!(
            "{} created, {} duplicate, {} merged, {} rejected in {seconds:.2} s ({:.0} memories/s)",
            self.created,
            self.duplicate,
            self.merged,
            self.rejected.len(),
            self.total() as f64 / seconds.max(1e-6),
        )
    }
}

/// Stores `items` of one user, in order, `batch` at a time (1..=[`BATCH_MAX`]). `progress` is
/// called with the number of memories done after each batch.
///
/// # Errors
/// When a batch is refused as a whole or the server stays unreachable. What was stored before
/// stays; running the import again continues it.
pub async fn import(
    client: &Client,
    user: &str,
    items: &[Item],
    batch: usize,
    mut progress: impl FnMut(usize),
) -> Result<Summary> {
    ensure!((1..=BATCH_MAX).contains(&batch), "a batch holds 1..{BATCH_MAX} memories, not {batch}");
    let started = Instant::now();
    let run: u64 = rand::random();
    let mut summary = Summary::default();
    for part in batches(with_ids(items), batch) {
        let first = &part[0].origin;
        let request = AddRequest {
            memories: part.iter().map(|item| item.memory.clone()).collect(),
            // One bad memory must not keep the other 99 out.
            partial: true,
            infer: None,
        };
        let key = batch_key(run, user, &request)?;
        let answer =
            client.add_memories(user, &request, &key).await.with_context(|| format!("batch from {first}"))?;
        ensure!(
            answer.results.len() == part.len(),
            "batch from {first}: {} memories sent, {} answered",
            part.len(),
            answer.results.len()
        );
        for (item, result) in part.iter().zip(answer.results) {
            match result.status {
                AddStatus::Created => summary.created += 1,
                AddStatus::Duplicate => summary.duplicate += 1,
                AddStatus::Merged => summary.merged += 1,
                AddStatus::Rejected => summary.rejected.push(Rejection {
                    origin: item.origin.clone(),
                    reason: result.reason.unwrap_or_else(|| "no reason given".to_owned()),
                }),
            }
            let stored = result.status != AddStatus::Rejected;
            let id = result.id.or_else(|| item.memory.id.clone());
            summary.ids.push(id.filter(|_| stored));
        }
        summary.token = answer.token.or(summary.token);
        progress(summary.total());
    }
    summary.elapsed = started.elapsed();
    Ok(summary)
}

/// Gives an id to each memory that has none: a hash of the memory and of how often the same one
/// came before in this input, so that a repeated statement counts again, but only once a file.
fn with_ids(items: &[Item]) -> Vec<Item> {
    let mut seen: HashMap<String, u32> = HashMap::new();
    let mut out = items.to_vec();
    for item in out.iter_mut().filter(|item| item.memory.id.is_none()) {
        // Serialising a struct of strings and JSON values cannot fail; if it ever did, the empty
        // text would still give distinct ids within this input.
        let json = serde_json::to_string(&item.memory).unwrap_or_default();
        let repeat = seen.entry(json.clone()).or_insert(0);
        item.memory.id = Some(format!("import-{}", short_hash(&[&json, &repeat.to_string()])));
        *repeat += 1;
    }
    out
}

/// Cuts the items into batches, bounded in number and in bytes of JSON.
fn batches(items: Vec<Item>, batch: usize) -> Vec<Vec<Item>> {
    let mut parts = Vec::new();
    let mut part: Vec<Item> = Vec::new();
    let mut bytes = 0;
    for item in items {
        let size = serde_json::to_vec(&item.memory).map_or(0, |json| json.len());
        if !part.is_empty() && (part.len() == batch || bytes + size > BATCH_BYTES_MAX) {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes += size;
        part.push(item);
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

fn batch_key(run: u64, user: &str, request: &AddRequest) -> Result<String> {
    let json = serde_json::to_string(request)?;
    Ok(format!("import-{run:016x}-{}", short_hash(&[user, &json])))
}

/// The first 16 bytes of SHA-256 in hex, over the parts and their lengths.
fn short_hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    digest[..16].iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::client::ClientOptions;
    use crate::fake::FakeServer;

    fn item(content: &str, id: Option<&str>) -> Item {
        Item {
            memory: NewMemory {
                content: content.to_owned(),
                id: id.map(str::to_owned),
                ..NewMemory::default()
            },
            origin: format!("line of {content}"),
        }
    }

    #[tokio::test]
    async fn a_second_run_changes_nothing() {
        let server = FakeServer::start().await;
        let client = Client::new(&ClientOptions::new(&server.url, "k")).unwrap();
        let items: Vec<Item> = (0..7)
            .map(|n| item(&format!("第{n}句 🙂"), (n == 0).then_some("own id")))
            .chain([item("again", None), item("again", None)])
            .collect();
        let mut steps = Vec::new();
        let first = import(&client, "u", &items, 4, |done| steps.push(done)).await.unwrap();
        assert_eq!((first.created, first.merged, first.duplicate), (8, 1, 0));
        assert_eq!(steps, [4, 8, 9]);
        assert_eq!(first.ids.len(), 9);
        assert_eq!(first.ids[8], first.ids[7], "a merged text is found by its first id");
        let second = import(&client, "u", &items, 4, |_| ()).await.unwrap();
        assert_eq!(second.created, 0);
        assert_eq!(second.total(), 9);
        assert_eq!(server.memories("u"), 8);
    }

    #[tokio::test]
    async fn rejected_memories_are_told_by_line_and_the_others_stored() {
        let server = FakeServer::start().await;
        let client = Client::new(&ClientOptions::new(&server.url, "k")).unwrap();
        let items = [item("a", None), item("", None), item("b", None)];
        let summary = import(&client, "u", &items, 100, |_| ()).await.unwrap();
        assert_eq!(summary.created, 2);
        assert_eq!(summary.rejected.len(), 1);
        assert_eq!(summary.rejected[0].origin, "line of ");
        assert_eq!(summary.ids[1], None);
    }

    #[tokio::test]
    async fn a_batch_size_out_of_range_is_refused() {
        let client = Client::new(&ClientOptions::new("http://127.0.0.1:9", "k")).unwrap();
        for batch in [0, 101] {
            assert!(import(&client, "u", &[], batch, |_| ()).await.is_err());
        }
        assert_eq!(import(&client, "u", &[], 1, |_| ()).await.unwrap().total(), 0);
    }

    #[test]
    fn batches_are_bounded_in_bytes_and_number() {
        let big = "x".repeat(300 * 1024);
        let items: Vec<Item> = (0..5).map(|_| item(&big, None)).collect();
        let sizes: Vec<usize> = batches(items, 100).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 2, 1]);
        let items: Vec<Item> = (0..5).map(|_| item("x", None)).collect();
        let sizes: Vec<usize> = batches(items, 2).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 2, 1]);
    }

    #[test]
    fn derived_ids_depend_on_content_and_repetition_only() {
        let ids = |items: &[Item]| -> Vec<_> {
            with_ids(items).into_iter().map(|i| i.memory.id.unwrap()).collect()
        };
        let a = ids(&[item("a", None), item("a", None), item("b", None), item("c", Some("own"))]);
        let b = ids(&[item("b", None), item("a", None)]);
        assert_ne!(a[0], a[1]);
        assert_eq!(a[3], "own");
        assert_eq!((&a[0], &a[2]), (&b[1], &b[0]));
    }

    #[test]
    fn keys_differ_by_run_user_and_content() {
        let request = |text: &str| AddRequest {
            memories: vec![item(text, None).memory],
            partial: true,
            ..AddRequest::default()
        };
        let key = batch_key(1, "u", &request("a")).unwrap();
        assert_eq!(key, batch_key(1, "u", &request("a")).unwrap());
        assert_ne!(key, batch_key(2, "u", &request("a")).unwrap());
        assert_ne!(key, batch_key(1, "v", &request("a")).unwrap());
        assert_ne!(key, batch_key(1, "u", &request("b")).unwrap());
    }
}
