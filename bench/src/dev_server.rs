//! A `holdfast dev --ephemeral` child process for benchmarks that were given no server.

use std::collections::VecDeque;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

/// Lines of the child's output that are kept for error messages.
const LOG_LINES_MAX: usize = 60;

/// How long the child may take to end when asked to; then it is killed.
const STOP_MAX: Duration = Duration::from_secs(10);

type Log = Arc<Mutex<VecDeque<String>>>;

/// A running development server; killed when dropped.
#[derive(Debug)]
pub struct DevServer {
    /// Base URL of its client listener.
    pub url: String,
    /// Its API key.
    pub key: String,
    child: Child,
    log: Log,
}

impl DevServer {
    /// Starts the running program itself as `dev --ephemeral` on free loopback ports and waits
    /// until it serves.
    ///
    /// # Errors
    /// If it ends or is not ready within `start_max`; the message holds the end of its output.
    pub async fn start(start_max: Duration) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find the running program")?;
        Self::start_program(&program, start_max).await
    }

    async fn start_program(program: &Path, start_max: Duration) -> Result<Self> {
        // The kernel gives the ports; the `ready` line tells them.
        let mut child = Command::new(program)
            .args(["dev", "--ephemeral", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .env_remove("HOLDFAST_URL")
            .env_remove("HOLDFAST_API_KEY")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let log = Log::default();
        let (ready_sender, mut ready) = mpsc::channel(1);
        if let Some(out) = child.stdout.take() {
            tokio::spawn(follow(out, log.clone(), Some(ready_sender)));
        }
        if let Some(err) = child.stderr.take() {
            tokio::spawn(follow(err, log.clone(), None));
        }
        let outcome = tokio::select! {
            found = ready.recv() => match found {
                Some((url, key)) => return Ok(Self { url, key, child, log }),
                None => "ended or closed its output before it was ready".to_owned(),
            },
            status = child.wait() => format!("ended before it was ready ({})", status?),
            () = tokio::time::sleep(start_max) => format!("is not ready after {start_max:?}"),
        };
        // Let the last lines arrive: they say why.
        tokio::time::sleep(Duration::from_millis(50)).await;
        bail!("the development server {outcome}; its last lines:\n{}", tail(&log));
    }

    /// The last lines of its output.
    pub fn log(&self) -> String {
        tail(&self.log)
    }

    /// Asks it to end, so that it removes its temporary data, and kills it if it does not.
    pub async fn stop(mut self) {
        let asked = self
            .child
            .id()
            .and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()))
            .map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
        if matches!(asked, Some(Ok(()))) && tokio::time::timeout(STOP_MAX, self.child.wait()).await.is_ok() {
            return;
        }
        if let Err(error) = self.child.kill().await {
            eprintln!("the development server could not be killed: {error}");
        }
    }
}

/// Reads lines until the end of the stream and reports the `ready http://… key=…` line.
async fn follow(stream: impl AsyncRead + Unpin, log: Log, ready: Option<mpsc::Sender<(String, String)>>) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let (Some(sender), Some(found)) = (&ready, parse_ready(&line)) {
            // A second ready line finds the queue full or the reader gone: nobody waits for it.
            let _ = sender.try_send(found);
        }
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() == LOG_LINES_MAX {
            log.pop_front();
        }
        log.push_back(line);
    }
}

fn tail(log: &Log) -> String {
    let log = log.lock().unwrap_or_else(PoisonError::into_inner);
    log.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
}

/// URL and key of a line such as `ready http://127.0.0.1:7700 key=hf_…`.
fn parse_ready(line: &str) -> Option<(String, String)> {
    let mut words = line.trim().strip_prefix("ready ")?.split_whitespace();
    let url = words.next().filter(|url| url.starts_with("http://"))?;
    let key = words.find_map(|word| word.strip_prefix("key="))?;
    Some((url.to_owned(), key.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn script(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fake.sh");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        (folder, path)
    }

    #[test]
    fn only_a_whole_ready_line_counts() {
        let found = parse_ready("ready http://127.0.0.1:7700 key=hf_a_b\n").unwrap();
        assert_eq!(found, ("http://127.0.0.1:7700".to_owned(), "hf_a_b".to_owned()));
        for line in ["", "ready", "ready http://x", "not ready http://x key=k", "ready key=k"] {
            assert!(parse_ready(line).is_none(), "{line}");
        }
    }

    #[tokio::test]
    async fn it_waits_for_ready_and_ends_the_child_gently() {
        let (folder, path) = script(
            "echo starting \"$@\"; echo \"ready http://$4 key=k\"\n\
             trap 'touch \"$0.gone\"; exit 0' TERM\n\
             while :; do sleep 0.05; done",
        );
        let server = DevServer::start_program(&path, Duration::from_secs(10)).await.unwrap();
        assert!(server.url.starts_with("http://127.0.0.1:"), "{}", server.url);
        assert_eq!(server.key, "k");
        assert!(server.log().contains("starting dev --ephemeral --http"));
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.stop().await;
        assert!(folder.path().join("fake.sh.gone").exists());
    }

    #[tokio::test]
    async fn a_server_that_fails_shows_its_last_words() {
        let (_folder, path) = script("echo 'port 7700 is taken' >&2; exit 7");
        let error = DevServer::start_program(&path, Duration::from_secs(10)).await.unwrap_err();
        assert!(error.to_string().contains("port 7700 is taken"), "{error}");
    }

    #[tokio::test]
    async fn a_server_that_never_gets_ready_is_given_up() {
        let (_folder, path) = script("echo hmm; exec sleep 60");
        let error = DevServer::start_program(&path, Duration::from_millis(300)).await.unwrap_err();
        assert!(error.to_string().contains("not ready after"), "{error}");
    }
}
