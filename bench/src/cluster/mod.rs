//! `holdfast bench cluster`: durable writes of a whole cluster of processes, beside etcd.
//!
//! Three nodes and a router, and three members of etcd, run on this machine and write to the same
//! disk. Both take the same contents. In each round one is measured right after the other, in
//! changing order, while the one that waits is idle: what else the machine does hits both. The
//! processor time of a write is that of all server processes, as the kernel counts it; the client
//! is not in it, but takes its share of the same cores.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;

mod arm;
mod check;
mod etcd;
mod failover;
mod holdfast;
pub mod idle;
mod process;
mod prose;
mod report;
mod result;
mod texts;

use crate::load::Machine;
use arm::{Cpu, Measured, Times};
use etcd::Etcd;
pub(crate) use holdfast::Cluster;
use holdfast::CpuByRole;
use result::{Checked, Load, Outcome, Setup};
use texts::{CONTENT_BYTES, Kind, Name, Texts, USERS};

/// Seed of the contents.
const SEED: u64 = 1;
/// Syncs that are timed to describe the disk.
const SYNCS: usize = 200;
/// How long replicas may take to be equal at the end.
const EQUAL_MAX: Duration = Duration::from_secs(120);

/// Arguments of `holdfast bench cluster`.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// Number of shards of the cluster
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: u16,
    /// Numbers of clients, one measurement each
    #[arg(long, value_delimiter = ',', default_value = "1,16,64", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: Vec<u32>,
    /// Measured seconds of each measurement
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Seconds before each measurement, in which the clients write too
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=60))]
    warm_up_seconds: u32,
    /// Measurements with each number of clients
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    rounds: u32,
    /// How often the node that leads most shards is killed under load
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=100))]
    failovers: u32,
    /// What the contents are made of
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    contents: Kind,
    /// Leave etcd out
    #[arg(long)]
    no_etcd: bool,
    /// Folder for the data of all servers, on the disk to be measured; made if it is missing, and
    /// what is made in it is removed
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as Markdown to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Starts everything, measures, checks, reports.
///
/// # Errors
/// A server that cannot be started, a file that cannot be written, or an acknowledged write that is
/// gone.
pub async fn run(args: &ClusterArgs) -> Result<()> {
    std::fs::create_dir_all(&args.folder)
        .with_context(|| format!("cannot make {}", args.folder.display()))?;
    let folder = tempfile::Builder::new().prefix("holdfast-bench-").tempdir_in(&args.folder)?;
    let mut setup = setup(args, folder.path())?;
    let etcd = match etcd::find().filter(|_| !args.no_etcd) {
        Some(program) => Some(Etcd::start(&program, folder.path()).await.context("etcd does not start")?),
        None if args.no_etcd => None,
        None => {
            eprintln!("no etcd on PATH or from scripts/fetch-etcd.sh: it is left out");
            None
        }
    };
    setup.etcd = etcd.as_ref().map(|etcd| etcd.version.clone());
    let cluster = Cluster::start(folder.path(), args.shards, true).await?;
    let mut bench = Bench {
        times: Times {
            warm_up: Duration::from_secs(args.warm_up_seconds.into()),
            measured: Duration::from_secs(args.seconds.into()),
        },
        texts: Arc::new(Texts::new(args.contents, SEED)),
        arms: 0,
        acknowledged: Vec::new(),
        etcd_acknowledged: 0,
        cluster,
        etcd,
    };
    let mut loads = Vec::new();
    for clients in &args.clients {
        loads.push(bench.load(*clients, args.rounds).await?);
    }
    let failover = bench.failover(args.failovers).await?;
    let checked = bench.check().await?;
    bench.stop().await;

    let outcome = Outcome {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command(args),
        setup,
        loads,
        failover,
        checked,
    };
    print!("{}", report::summary(&outcome));
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&outcome)? + "\n";
        std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &args.report {
        std::fs::write(path, report::markdown(&outcome))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    ensure!(checked.lost == 0, "{} acknowledged writes are gone", checked.lost);
    Ok(())
}

/// The call that repeats the run.
fn command(args: &ClusterArgs) -> String {
    let clients: Vec<String> = args.clients.iter().map(u32::to_string).collect();
    format!(
        "holdfast bench cluster --contents {} --shards {} --clients {} --seconds {} --warm-up-seconds {} --rounds {} \
         --failovers {}{}",
        args.contents.name(),
        args.shards,
        clients.join(","),
        args.seconds,
        args.warm_up_seconds,
        args.rounds,
        args.failovers,
        if args.no_etcd { " --no-etcd" } else { "" },
    )
}

fn setup(args: &ClusterArgs, folder: &Path) -> Result<Setup> {
    let machine = Machine::this();
    Ok(Setup {
        day: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        cores: machine.cores,
        processor: machine.processor,
        kernel: machine.kernel,
        debug_build: machine.debug_build,
        shards: args.shards,
        content_bytes: CONTENT_BYTES,
        contents: args.contents,
        users: USERS,
        seconds: args.seconds.into(),
        warm_up_seconds: args.warm_up_seconds.into(),
        rounds: args.rounds,
        etcd: None,
        sync_us: sync_us(folder)?,
    })
}

/// The median time of a write of one content with its sync.
fn sync_us(folder: &Path) -> Result<u64> {
    use std::io::Write as _;
    let mut file = tempfile::tempfile_in(folder)?;
    let bytes = [b'x'; CONTENT_BYTES];
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let begin = Instant::now();
        file.write_all(&bytes)?;
        file.sync_data()?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    Ok(u64::try_from(times[SYNCS / 2].as_micros()).unwrap_or(u64::MAX))
}

/// A run under way.
struct Bench {
    times: Times,
    texts: Arc<Texts>,
    /// Measurements so far: each numbers its writes for itself.
    arms: u32,
    /// What Holdfast acknowledged, with the user's name.
    acknowledged: Vec<(String, Name)>,
    etcd_acknowledged: u64,
    cluster: Cluster,
    etcd: Option<Etcd>,
}

impl Bench {
    async fn load(&mut self, clients: u32, rounds: u32) -> Result<Load> {
        let mut load = Load { clients, holdfast: Vec::new(), etcd: Vec::new() };
        for round in 0..rounds {
            // Who comes second finds warmer caches and a fuller disk: they take turns.
            for holdfast in if round % 2 == 0 { [true, false] } else { [false, true] } {
                if holdfast {
                    load.holdfast.push(self.holdfast(clients).await?);
                } else {
                    load.etcd.extend(self.etcd(clients).await?);
                }
            }
            let rate = |of: &[Measured]| of.last().map_or(0.0, |measured| measured.writes_per_s);
            eprintln!(
                "{clients} clients, round {} of {rounds}: holdfast {:.0}/s, etcd {:.0}/s",
                round + 1,
                rate(&load.holdfast),
                rate(&load.etcd)
            );
        }
        Ok(load)
    }

    async fn holdfast(&mut self, clients: u32) -> Result<Measured> {
        let mut writes = Vec::new();
        for _ in 0..clients {
            let (writer, texts) = (Arc::new(self.cluster.client()?), Arc::clone(&self.texts));
            writes.push(move |name: Name| {
                let (writer, content) = (Arc::clone(&writer), texts.content(name));
                async move { writer.write(&name.user(), &name.id(), content).await }
            });
        }
        self.arms += 1;
        let (measured, acknowledged) = arm::run(self.arms, self.times, writes, || {
            let CpuByRole { router, nodes } = self.cluster.cpu_by_role()?;
            Ok(Cpu { all: router + nodes, router })
        })
        .await?;
        self.acknowledged.extend(acknowledged.into_iter().map(|name| (name.user(), name)));
        Ok(measured)
    }

    async fn etcd(&mut self, clients: u32) -> Result<Option<Measured>> {
        let Some(etcd) = &self.etcd else { return Ok(None) };
        let mut writes = Vec::new();
        for _ in 0..clients {
            let (client, texts) = (Arc::new(etcd.client().await?), Arc::clone(&self.texts));
            writes.push(move |name: Name| {
                let (client, content) = (Arc::clone(&client), texts.content(name));
                async move { client.write(&name.id(), content.into_bytes()).await }
            });
        }
        self.arms += 1;
        let (measured, acknowledged) =
            arm::run(self.arms, self.times, writes, || Ok(Cpu { all: etcd.cpu()?, ..Cpu::default() }))
                .await?;
        self.etcd_acknowledged += acknowledged.len() as u64;
        Ok(Some(measured))
    }

    async fn failover(&mut self, rounds: u32) -> Result<Option<failover::Failover>> {
        if rounds == 0 {
            return Ok(None);
        }
        let first = self.arms + 1;
        self.arms += rounds;
        let (figures, acknowledged) = failover::run(&mut self.cluster, &self.texts, first, rounds).await?;
        self.acknowledged.extend(acknowledged.into_iter().map(|name| (failover::user_of(name), name)));
        Ok(Some(figures))
    }

    /// Reads back what was acknowledged, and compares the replicas.
    async fn check(&self) -> Result<Checked> {
        self.cluster.wait_equal(EQUAL_MAX).await?;
        let (read_back, lost) = check::read_back(&self.cluster, &self.texts, &self.acknowledged).await?;
        let etcd = match &self.etcd {
            Some(etcd) => Some((self.etcd_acknowledged, etcd.client().await?.count().await?)),
            None => None,
        };
        let acknowledged = self.acknowledged.len() as u64;
        Ok(Checked { acknowledged, read_back, lost, replicas_equal: true, etcd })
    }

    async fn stop(self) {
        self.cluster.stop().await;
        if let Some(etcd) = self.etcd {
            etcd.stop().await;
        }
    }
}
