//! `holdfast export`, and the way back in `holdfast import`.

use super::{ServerArgs, print};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use holdfast_bench::client::{Client, ClientError, EndLine, ExportCounts, Exported, ImportAnswer};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Lines that are sent at a time, in bytes.
const PART_BYTES: usize = 4 << 20;
/// The longest line of an export, in bytes.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// How the first line of an export begins.
pub(super) const HEAD: &[u8] = b"{\"export\":";
/// Kinds of lines of what stands beside memories.
const BESIDE: [&str; 8] =
    ["session", "turn", "task", "step", "block", "block_version", "procedure", "procedure_version"];
/// Rejected lines that are listed; the others are only counted.
const REJECTED_SHOWN_MAX: usize = 20;

/// Arguments of `holdfast export`.
///
/// Writes JSON Lines with everything that the space of a user holds. `holdfast import` brings them back,
/// here or elsewhere.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Where to write; `-` is standard output. A file must not exist yet
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Whose memories they are
    #[arg(long)]
    user: String,
    #[command(flatten)]
    server: ServerArgs,
}

/// Exports and says how much.
///
/// # Errors
/// An unreachable server, what it refused, or a file that cannot be written. A file that is not complete
/// is removed.
pub async fn run(args: ExportArgs) -> Result<()> {
    let client = args.server.client()?;
    let exported = if args.file == Path::new("-") {
        let exported = client.export(&args.user, &mut std::io::stdout()).await?;
        std::io::stdout().flush()?;
        exported
    } else {
        let name = args.file.display().to_string();
        let file = File::create_new(&args.file).with_context(|| format!("cannot write {name}"))?;
        let mut out = BufWriter::new(file);
        let written = client.export(&args.user, &mut out).await;
        let done = written.map_err(anyhow::Error::from).and_then(|exported| {
            out.flush()?;
            out.get_ref().sync_all()?;
            Ok(exported)
        });
        match done {
            Ok(exported) => exported,
            Err(error) => {
                drop(out);
                std::fs::remove_file(&args.file)
                    .with_context(|| format!("cannot remove the incomplete {name}"))?;
                return Err(error.context(format!("export to {name} failed; nothing was kept")));
            }
        }
    };
    let told = told(&args.user, &exported);
    if args.file == Path::new("-") {
        eprint!("{told}");
    } else {
        print(&told)?;
    }
    Ok(())
}

fn told(user: &str, exported: &Exported) -> String {
    let beside = beside(&exported.counts.beside);
    let more = if beside.is_empty() { String::new() } else { format!(", {beside}") };
    let mut told = format!("user {user}: {} memories{more} exported\n", exported.counts.memories);
    if !exported.left_out.is_empty() {
        let left_out = exported.left_out.join(", ");
        told.push_str(&format!("not in it, as this version does not export them: {left_out}\n"));
    }
    told
}

/// Whether a file holds an export, by how it begins.
pub(super) fn is_export(begin: &[u8]) -> bool {
    begin.starts_with(HEAD)
}

/// Imports an export, part by part, and prints what became of it.
pub(super) async fn import(client: &Client, user: &str, name: &str, lines: &mut impl BufRead) -> Result<()> {
    let mut head = Vec::new();
    read_line(lines, &mut head)?;
    let mut total = ImportAnswer::default();
    let (mut arrived, mut end) = (ExportCounts::default(), None);
    loop {
        let mut part = head.clone();
        let mut line = Vec::new();
        while part.len() < PART_BYTES && read_line(lines, &mut line)? {
            count(&line, &mut arrived, &mut end);
            part.extend_from_slice(&line);
            line.clear();
        }
        if part.len() == head.len() {
            break;
        }
        absorb(&mut total, send(client, user, part).await?);
    }
    for rejected in total.rejected.iter().take(REJECTED_SHOWN_MAX) {
        let text = |field: &str| rejected[field].as_str().unwrap_or("?").to_owned();
        eprintln!("{name}: {} {} rejected: {}", text("kind"), text("id"), text("reason"));
    }
    let ImportAnswer { memories, versions, links, unreadable, .. } = &total;
    let created = total.beside.iter().map(|(kind, counts)| (kind.clone(), counts.created)).collect();
    let more = Some(beside(&created)).filter(|told| !told.is_empty());
    print(&format!(
        "user {user}: {} memories created, {} duplicate, {} rejected; {} earlier versions{}\n",
        memories.created,
        memories.duplicate,
        memories.rejected,
        versions.created,
        more.map(|told| format!("; {told} created")).unwrap_or_default()
    ))?;
    let of_beside: u64 = total.beside.values().map(|counts| counts.rejected).sum();
    let rejected = memories.rejected + versions.rejected + links.rejected + of_beside + unreadable;
    ensure!(rejected == 0, "{rejected} lines were rejected; the others are stored");
    let Some(end) = end else {
        bail!("{name} is not complete: its last line is missing; what it holds is stored");
    };
    ensure!(
        end == arrived,
        "{name} is not complete: by its last line it has {}, and {} are there; they are stored",
        in_words(&end),
        in_words(&arrived)
    );
    Ok(())
}

fn in_words(counts: &ExportCounts) -> String {
    let ExportCounts { memories, versions, links, .. } = counts;
    let more = beside(&counts.beside);
    let comma = if more.is_empty() { "" } else { ", " };
    format!("{memories} memories, {versions} versions, {links} lines of links{comma}{more}")
}

/// Counts a line by its kind, or takes what the last one says.
fn count(line: &[u8], arrived: &mut ExportCounts, end: &mut Option<ExportCounts>) {
    let kind = line.strip_prefix(b"{\"").and_then(|rest| rest.split(|byte| *byte == b'"').next());
    match kind.and_then(|kind| std::str::from_utf8(kind).ok()) {
        Some("memory") => arrived.memories += 1,
        Some("version") => arrived.versions += 1,
        Some("links") => arrived.links += 1,
        Some(kind) if BESIDE.contains(&kind) => {
            *arrived.beside.entry(kind.to_owned()).or_default() += 1;
        }
        Some("end") => {
            if let Ok(line) = serde_json::from_slice::<EndLine>(line) {
                *end = Some(line.end);
            }
        }
        _ => {}
    }
}

/// What stands beside memories, in words.
fn beside(counts: &BTreeMap<String, u64>) -> String {
    let told = BESIDE.iter().filter_map(|kind| {
        let count = counts.get(*kind).filter(|count| **count > 0)?;
        Some(format!("{count} {}", kind.replace('_', " ") + if *count == 1 { "" } else { "s" }))
    });
    told.collect::<Vec<_>>().join(", ")
}

async fn send(client: &Client, user: &str, part: Vec<u8>) -> Result<ImportAnswer, ClientError> {
    client.import_lines(user, part, &format!("import-{:032x}", rand::random::<u128>())).await
}

fn absorb(total: &mut ImportAnswer, part: ImportAnswer) {
    total.memories.absorb(part.memories);
    total.versions.absorb(part.versions);
    total.links.absorb(part.links);
    for (kind, counts) in part.beside {
        total.beside.entry(kind).or_default().absorb(counts);
    }
    total.unreadable += part.unreadable;
    let room = REJECTED_SHOWN_MAX.saturating_sub(total.rejected.len());
    total.rejected.extend(part.rejected.into_iter().take(room));
}

/// Reads one line, with a line break at its end. False at the end.
fn read_line(lines: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool> {
    let read = std::io::Read::take(&mut *lines, LINE_BYTES_MAX).read_until(b'\n', line)?;
    if read > 0 && !line.ends_with(b"\n") {
        ensure!((line.len() as u64) < LINE_BYTES_MAX, "a line is longer than {LINE_BYTES_MAX} bytes");
        line.push(b'\n');
    }
    Ok(read > 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lines_are_bounded_and_end() {
        let mut lines = &b"one\ntwo"[..];
        let mut line = Vec::new();
        assert!(read_line(&mut lines, &mut line).unwrap());
        assert!(read_line(&mut lines, &mut line).unwrap());
        assert!(!read_line(&mut lines, &mut line).unwrap());
        assert_eq!(line, b"one\ntwo\n");
        let long = vec![b'x'; usize::try_from(LINE_BYTES_MAX).unwrap() + 1];
        assert!(read_line(&mut long.as_slice(), &mut Vec::new()).is_err());
        assert!(is_export(br#"{"export":{"format":1}}"#) && !is_export(br#"{"content":"x"}"#));
    }

    #[test]
    fn lines_are_counted_by_kind_and_compared_with_the_last() {
        let (mut arrived, mut end) = (ExportCounts::default(), None);
        for line in [
            &br#"{"export":{"format":1}}"#[..],
            br#"{"memory":{"id":"\u8bb0"}}"#,
            br#"{"version":{}}"#,
            br#"{"memory":{}}"#,
            br#"{"links":{}}"#,
            b"nonsense",
            br#"{"turn":{"session":"s"}}"#,
            br#"{"block_version":{}}"#,
            br#"{"turn":{}}"#,
            br#"{"end":{"memories":2,"versions":1,"links":1,"beside":{"turn":2,"block_version":1}}}"#,
        ] {
            count(line, &mut arrived, &mut end);
        }
        assert_eq!(end.as_ref(), Some(&arrived));
        assert_eq!(in_words(&arrived), "2 memories, 1 versions, 1 lines of links, 2 turns, 1 block version");
        count(br#"{"end":{"memories":3,"versions":1,"links":1}}"#, &mut arrived, &mut end);
        assert_ne!(end.as_ref(), Some(&arrived));
    }

    #[test]
    fn what_is_left_out_is_told() {
        let left_out = vec!["session".to_owned(), "block".to_owned()];
        let exported = Exported { counts: ExportCounts { memories: 7, ..Default::default() }, left_out };
        let said = told("安", &exported);
        assert!(said.contains("安: 7 memories") && said.contains("session, block"), "{said}");
        assert_eq!(told("a", &Exported::default()).lines().count(), 1);
    }
}
