//! A server process of the benchmark: its log in a file, its processor time from /proc, its end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::process::{Child, Command};

/// How long a process may take to end when asked to; then it is killed.
const STOP_MAX: Duration = Duration::from_secs(30);
/// A clock tick as the kernel shows it to programs: 1/100 s on every platform that Holdfast is built
/// for, whatever the kernel's own timer.
const TICK_MS: u64 = 10;
/// Bytes of a log that are shown when its process failed.
const LOG_SHOWN_BYTES: usize = 4_000;
/// Time between two looks at what is waited for.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// A running server; killed when dropped.
#[derive(Debug)]
pub(super) struct Server {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts `command`; what it says goes to `<name>.log` in `folder`.
    pub(super) fn start(name: &str, mut command: Command, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Waits until its log has a line with this beginning.
    pub(super) async fn wait_line(&mut self, start: &str, max: Duration) -> Result<()> {
        let begin = Instant::now();
        loop {
            if self.log().lines().any(|line| line.starts_with(start)) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended ({status}); the end of its log:\n{}", self.name, self.log_end());
            }
            if begin.elapsed() > max {
                bail!("{} did not say {start:?} within {max:?}; its log:\n{}", self.name, self.log_end());
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    fn log(&self) -> String {
        // A log that cannot be read says nothing, and the wait for its lines then ends in time.
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last part of its log.
    pub(super) fn log_end(&self) -> String {
        let log = self.log();
        let start = log.floor_char_boundary(log.len().saturating_sub(LOG_SHOWN_BYTES));
        log[start..].to_owned()
    }

    /// The processor time that it has used so far, by all of its threads.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let id = self.child.id().with_context(|| format!("{} has ended", self.name))?;
        let path = format!("/proc/{id}/stat");
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let ticks = cpu_ticks(&text).with_context(|| format!("{path} has another form"))?;
        Ok(Duration::from_millis(ticks.saturating_mul(TICK_MS)))
    }

    /// Its memory that is in RAM, bytes.
    pub(super) fn resident_bytes(&self) -> Result<u64> {
        let id = self.child.id().with_context(|| format!("{} has ended", self.name))?;
        let path = format!("/proc/{id}/status");
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        resident_bytes(&text).with_context(|| format!("{path} has another form"))
    }

    /// Ends it as a crash would, at once.
    pub(super) async fn kill(&mut self) -> Result<()> {
        self.child.kill().await.with_context(|| format!("cannot kill {}", self.name))
    }

    /// Asks it to end, and kills it if it does not.
    pub(super) async fn stop(mut self) {
        let asked = self
            .child
            .id()
            .and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()))
            .map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
        if matches!(asked, Some(Ok(()))) && tokio::time::timeout(STOP_MAX, self.child.wait()).await.is_ok() {
            return;
        }
        if let Err(error) = self.child.kill().await {
            eprintln!("{} could not be killed: {error}", self.name);
        }
    }
}

/// User and system time of all threads, in clock ticks: fields 14 and 15 (proc_pid_stat(5)). The
/// program's name before them may hold spaces and brackets.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

/// The line VmRSS of /proc/<pid>/status (proc_pid_status(5)), which counts in units of 1,024 bytes.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

/// Loopback addresses that were free a moment ago, from below the range that the kernel gives to
/// outgoing connections: a server that is restarted must find its port free.
pub(super) fn free_addresses(count: usize) -> Result<Vec<String>> {
    const FIRST: u16 = 12_000;
    const PORTS: u16 = 8_000;
    let start = rand::random_range(0..PORTS);
    let mut held = Vec::new();
    for step in 0..PORTS {
        if held.len() == count {
            break;
        }
        let port = FIRST + (start + step) % PORTS;
        if let Ok(listener) = std::net::TcpListener::bind(("127.0.0.1", port)) {
            held.push((format!("127.0.0.1:{port}"), listener));
        }
    }
    anyhow::ensure!(held.len() == count, "fewer than {count} ports are free");
    Ok(held.into_iter().map(|(address, _)| address).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let line = "7 (a) b (c)) S 1 7 7 0 -1 4194304 100 0 0 0 250 31 9 9 20 0 4 0 12 1 1";
        assert_eq!(cpu_ticks(line), Some(281));
        assert_eq!(cpu_ticks("7 (x) S 1"), None);
        assert_eq!(cpu_ticks(""), None);
    }

    #[test]
    fn resident_memory_is_read() {
        assert_eq!(resident_bytes("Name:\t好\nVmRSS:\t  1536 kB\nThreads:\t3\n"), Some(1_572_864));
        assert_eq!(resident_bytes("VmRSS: many"), None);
        assert_eq!(resident_bytes(""), None);
    }

    #[tokio::test]
    async fn a_process_is_measured_and_ended() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done 好; sleep 60"]);
        let mut server = Server::start("busy", command, folder.path()).unwrap();
        server.wait_line("done 好", Duration::from_secs(60)).await.unwrap();
        assert!(server.cpu().unwrap() > Duration::ZERO && server.resident_bytes().unwrap() > 100_000);
        let late = server.wait_line("never", Duration::from_millis(50)).await.unwrap_err();
        assert!(late.to_string().contains("done 好"), "{late}");
        server.stop().await;
        let mut command = Command::new("sh");
        command.args(["-c", "echo no disk >&2; exit 3"]);
        let mut server = Server::start("failing", command, folder.path()).unwrap();
        let ended = server.wait_line("ready", Duration::from_secs(60)).await.unwrap_err();
        assert!(ended.to_string().contains("no disk"), "{ended}");
    }

    #[test]
    fn addresses_differ() {
        let addresses = free_addresses(8).unwrap();
        let distinct: std::collections::BTreeSet<&String> = addresses.iter().collect();
        assert_eq!(distinct.len(), 8);
    }
}
