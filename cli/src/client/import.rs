//! `holdfast import`: stores the memories of a file.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use holdfast_bench::import::{BATCH_MAX, Part, Summary, import, read};
use indicatif::{ProgressBar, ProgressStyle};

use super::export::{self, is_export};
use super::{ServerArgs, print};

/// The largest import file, in bytes: it is read whole. Larger ones can be split by lines.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Rejected memories that are listed; the others are only counted.
const REJECTED_SHOWN_MAX: usize = 20;

/// Arguments of `holdfast import`.
///
/// The file is JSON Lines, one memory a line with the fields of the REST API, what `holdfast export`
/// wrote, or a LoCoMo file; which of them is recognised by its shape. Running the same import again creates nothing twice: a
/// memory without an id gets one derived from its content.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// JSON Lines, exported or LoCoMo file; `-` reads standard input
    file: PathBuf,
    /// Whose memories they are; a LoCoMo file with several conversations makes one user of
    /// each, `<USER>-<conversation>`
    #[arg(long)]
    user: String,
    /// Only this conversation of a LoCoMo file, as the memories of USER itself
    #[arg(long, value_name = "NAME")]
    conversation: Option<String>,
    /// Memories sent at a time
    #[arg(long, default_value_t = BATCH_MAX as u8, value_parser = clap::value_parser!(u8).range(1..=BATCH_MAX as i64))]
    batch: u8,
    #[command(flatten)]
    server: ServerArgs,
}

/// Imports the file and prints a summary.
///
/// # Errors
/// A mistake in the file (nothing is stored then), an unreachable server, or memories that the
/// server rejected (the others are stored).
pub async fn run(args: ImportArgs) -> Result<()> {
    let client = args.server.client()?;
    let name = args.file.display();
    let mut source = open_file(&args.file)?;
    let begin = source.fill_buf().with_context(|| format!("cannot read {name}"))?;
    if is_export(begin) {
        ensure!(args.conversation.is_none(), "an export holds no conversations; leave --conversation out");
        return export::import(&client, &args.user, &name.to_string(), &mut source).await;
    }
    let bytes = read_file(source, &args.file)?;
    let parts = read(&bytes, &args.user, args.conversation.as_deref())
        .with_context(|| format!("cannot import {name}"))?;
    let total: usize = parts.iter().map(|part| part.items.len()).sum();
    let bar = progress_bar(total as u64);
    let mut summary = Summary::default();
    for Part { user, items } in &parts {
        let before = summary.total();
        let done = import(&client, user, items, usize::from(args.batch), |done| {
            bar.set_position((before + done) as u64);
        })
        .await;
        match done {
            Ok(done) => summary.absorb(done),
            Err(error) => {
                bar.abandon();
                return Err(error.context(format!(
                    "import of {name} stopped after {} of {total} memories; run it again to go on",
                    bar.position()
                )));
            }
        }
    }
    bar.finish_and_clear();
    for rejection in summary.rejected.iter().take(REJECTED_SHOWN_MAX) {
        eprintln!("{name} {}: rejected: {}", rejection.origin, rejection.reason);
    }
    print(&format!("{}: {}\n", users(&parts), summary.line()))?;
    ensure!(
        summary.rejected.is_empty(),
        "{} of {total} memories were rejected; the others are stored",
        summary.rejected.len()
    );
    Ok(())
}

fn users(parts: &[Part]) -> String {
    match parts {
        [only] => format!("user {}", only.user),
        several => format!(
            "{} users, {} .. {}",
            several.len(),
            several.first().map_or("", |part| part.user.as_str()),
            several.last().map_or("", |part| part.user.as_str())
        ),
    }
}

fn open_file(path: &Path) -> Result<Box<dyn BufRead + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

fn read_file(source: impl Read, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let length = source
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", path.display()))?;
    if length as u64 > FILE_BYTES_MAX {
        bail!("{} is larger than {FILE_BYTES_MAX} bytes; split it by lines", path.display());
    }
    Ok(bytes)
}

/// A bar on the terminal; indicatif draws nothing where standard error is none.
fn progress_bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} memories, {per_sec}, {eta} left") {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        import: ImportArgs,
    }

    #[test]
    fn arguments_are_checked() {
        let parse = |words: &[&str]| Line::try_parse_from([&["x"], words].concat());
        let line = parse(&["--user", "u", "f.jsonl"]).unwrap();
        assert_eq!(line.import.batch, 100);
        assert!(parse(&["f.jsonl"]).is_err(), "a user is needed");
        assert!(parse(&["--user", "u", "f", "--batch", "0"]).is_err());
        assert!(parse(&["--user", "u", "f", "--batch", "101"]).is_err());
    }

    #[tokio::test]
    async fn a_missing_file_is_told_by_name() {
        let words = ["x", "--user", "u", "--key", "k", "/no/such/file.jsonl"];
        let line = Line::try_parse_from(words).unwrap();
        let error = run(line.import).await.unwrap_err();
        assert!(error.to_string().contains("/no/such/file.jsonl"));
    }
}
