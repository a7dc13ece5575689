//! `holdfast ctl verify`: do all replicas hold the same, and is it what they wrote?

mod answer;
mod report;

use crate::client::print;
use answer::{Group, Verified};
use anyhow::Result;
use clap::Args;
use holdfast_bench::client::{ClientError, Problem};
use reqwest::Url;
use serde::Deserialize;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The first pause before a group is asked again how far it is; it doubles.
const POLL_MIN: Duration = Duration::from_millis(100);
const POLL_MAX: Duration = Duration::from_secs(2);
/// How often a group whose replicas could not be compared is asked again.
const ATTEMPTS_MAX: u32 = 5;

/// Arguments of `holdfast ctl verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Address of a router for operators
    #[arg(long, env = "HOLDFAST_ADMIN", value_name = "URL", default_value = "http://127.0.0.1:7701")]
    admin: String,
    /// API key with the right `cluster`
    #[arg(long, env = "HOLDFAST_API_KEY", hide_env_values = true, value_name = "KEY")]
    key: Option<String>,
    /// One shard alone; 0 is the meta group
    #[arg(long, value_name = "N")]
    shard: Option<u16>,
    /// Compare the hashes of the replicas alone, without reading their rows
    #[arg(long, conflicts_with = "all_spaces")]
    quick: bool,
    /// Compare the images of all spaces with the rows, not only of those in memory; loads each of them
    #[arg(long)]
    all_spaces: bool,
    /// Longest time to wait, in seconds
    #[arg(long, value_name = "S", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Why the replicas are not said to be equal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VerifyError {
    /// Something differs.
    #[error(
        "replicas differ: keep the logs of all nodes, change nothing by hand, and follow \
         docs/runbooks/HoldfastStateHashMismatch.md"
    )]
    Differ,
    /// Not everything could be compared.
    #[error("not everything could be compared: run it again when all nodes answer")]
    NotCompared,
}

#[derive(Deserialize)]
struct Groups {
    groups: Vec<GroupName>,
}

#[derive(Deserialize)]
struct GroupName {
    group: u16,
}

/// Compares, and tells.
pub(super) async fn run(args: VerifyArgs) -> Result<()> {
    let server = Server::new(&args)?;
    let groups = match args.shard {
        Some(shard) => vec![shard],
        None => {
            server.get::<Groups>("/admin/v1/cluster").await?.groups.iter().map(|name| name.group).collect()
        }
    };
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    let mut progress = Progress::new(!args.json);
    let mut verified = Vec::with_capacity(groups.len());
    for (at, group) in groups.iter().enumerate() {
        let place = (at + 1, groups.len());
        verified.push(verify(&server, &args, *group, deadline, |group| progress.show(place, group)).await?);
    }
    progress.clear();
    let verified = Verified::of(verified);
    if args.json {
        print(&format!("{}\n", serde_json::to_string(&verified)?))?;
    } else {
        print(&report::text(&verified))?;
    }
    match verified.equal {
        Some(true) => Ok(()),
        Some(false) => Err(VerifyError::Differ.into()),
        None => Err(VerifyError::NotCompared.into()),
    }
}

/// Compares one group: asks again, about the same point, until all its checks have ended.
async fn verify(
    server: &Server,
    args: &VerifyArgs,
    group: u16,
    deadline: Instant,
    mut show: impl FnMut(&Group),
) -> Result<Group> {
    let checks = match (args.quick, args.all_spaces) {
        (true, _) => "",
        (false, false) => "&rows=true&index=loaded",
        (false, true) => "&rows=true&index=all",
    };
    let (mut point, mut pause, mut attempts) = (None::<u64>, POLL_MIN, 0);
    loop {
        let at = point.map_or_else(String::new, |point| format!("&point={point}"));
        let answer: Verified = server.get(&format!("/admin/v1/verify?shard={group}{checks}{at}")).await?;
        let Some(answered) = answer.groups.into_iter().next() else {
            anyhow::bail!("{} says nothing about shard {group}", args.admin);
        };
        show(&answered);
        // Replicas that are behind, or a leader that changes: a new point tells more.
        let compared = answered.equal.is_some() || !answered.done;
        attempts += u32::from(!compared);
        let ended = answered.done && (compared || attempts == ATTEMPTS_MAX);
        if ended || Instant::now() + pause > deadline {
            return Ok(answered);
        }
        point = answered.point.filter(|_| compared);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(POLL_MAX);
    }
}

/// A router's listener for operators.
struct Server {
    client: reqwest::Client,
    base: Url,
    key: String,
}

impl Server {
    fn new(args: &VerifyArgs) -> Result<Self> {
        let usage = |detail: String| ClientError::Usage(detail);
        let base = Url::parse(&args.admin)
            .map_err(|error| usage(format!("--admin {:?} is no URL: {error}", args.admin)))?;
        let key = args.key.clone().filter(|key| !key.is_empty());
        let key = key.ok_or_else(|| {
            usage("no API key: set HOLDFAST_API_KEY or give --key; it needs the right `cluster`".into())
        })?;
        // A request is answered within the router's own time for one; this is for a router that hangs.
        let client = reqwest::Client::builder().timeout(Duration::from_secs(120)).build()?;
        Ok(Self { client, base, key })
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T> {
        let url = self.base.join(path)?;
        let unreachable = |transport| ClientError::Unreachable { url: self.base.to_string(), transport };
        let answer = self.client.get(url.clone()).bearer_auth(&self.key).send().await.map_err(unreachable)?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(unreachable)?;
        if !status.is_success() {
            let problem = Problem::from_answer(status.as_u16(), &body, None);
            return Err(ClientError::Refused(Box::new(problem)).into());
        }
        serde_json::from_slice(&body).map_err(|error| {
            let detail = error.to_string();
            ClientError::BadAnswer { url: url.to_string(), detail }.into()
        })
    }
}

/// One line that is written over and over, where somebody looks at it.
struct Progress {
    is_shown: bool,
}

impl Progress {
    fn new(is_wanted: bool) -> Self {
        Self { is_shown: is_wanted && std::io::stderr().is_terminal() }
    }

    fn show(&mut self, (at, of): (usize, usize), group: &Group) {
        if self.is_shown {
            self.write(&format!("\r\x1b[Kshard {} ({at} of {of}): {}", group.group, report::progress(group)));
        }
    }

    fn clear(&mut self) {
        if self.is_shown {
            self.write("\r\x1b[K");
        }
    }

    fn write(&mut self, text: &str) {
        let mut out = std::io::stderr().lock();
        // Nobody there to read it is no reason to end.
        self.is_shown = out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok();
    }
}
