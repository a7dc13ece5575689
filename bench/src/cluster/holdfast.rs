//! Three nodes and a router as processes of the running program, with its default settings.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tokio::process::Command;

use super::process::{Server, free_addresses};
use crate::client::{AddRequest, AddStatus, Client, ClientOptions, NewMemory, RetryPolicy};

/// How long a process may take to be ready on a busy machine.
const START_MAX: Duration = Duration::from_secs(120);
/// Time between two looks at the cluster.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// Longest wait for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A founded cluster on loopback.
pub(crate) struct Cluster {
    folder: PathBuf,
    program: PathBuf,
    seeds: Vec<String>,
    operators: Vec<String>,
    nodes: Vec<Option<Server>>,
    router: Option<Router>,
    key: String,
    /// Settings of nodes that are started from now on, beside the defaults.
    node_env: Vec<(String, String)>,
}

/// Processor time so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuByRole {
    /// Of the router.
    pub(crate) router: Duration,
    /// Of all nodes.
    pub(crate) nodes: Duration,
}

struct Router {
    server: Server,
    url: String,
    admin: String,
}

#[derive(Deserialize)]
struct NodeRows {
    nodes: Vec<NodeRow>,
}

/// A node as the router sees it.
#[derive(Deserialize)]
pub(super) struct NodeRow {
    id: u64,
    pub(super) reachable: bool,
    /// Groups that it leads.
    pub(super) leads: Vec<u32>,
}

impl NodeRow {
    /// Its place among the nodes of the cluster: a founding numbers them in the order of the seeds.
    pub(super) fn index(&self) -> Option<usize> {
        usize::try_from(self.id).ok()?.checked_sub(1)
    }
}

impl Cluster {
    /// Starts and founds it in `folder`; with a router where `routed`.
    pub(crate) async fn start(folder: &Path, shards: u16, routed: bool) -> Result<Self> {
        let addresses = free_addresses(8)?;
        let (seeds, rest) = addresses.split_at(3);
        let (operators, rest) = rest.split_at(3);
        let mut cluster = Self {
            folder: folder.to_owned(),
            program: std::env::current_exe().context("cannot find the running program")?,
            seeds: seeds.to_vec(),
            operators: operators.to_vec(),
            nodes: Vec::new(),
            router: None,
            key: String::new(),
            node_env: Vec::new(),
        };
        // Without the model: what is measured has no vectors.
        let config = format!(
            "[cluster]\nseeds = {seeds:?}\nshards = {shards}\n\n[tls]\nmode = \"off\"\n\n[embedder]\nrequired = false\nmodel_dir = {:?}\n",
            folder.join("no-model")
        );
        std::fs::write(cluster.config(), config)?;
        for index in 0..3 {
            let node = cluster.spawn_node(index)?;
            cluster.nodes.push(Some(node));
        }
        for node in cluster.nodes.iter_mut().flatten() {
            node.wait_line("waiting for the founding ", START_MAX).await?;
        }
        cluster.found().await?;
        for node in cluster.nodes.iter_mut().flatten() {
            node.wait_line("ready ", START_MAX).await?;
        }
        if let [http, admin] = rest
            && routed
        {
            cluster.router = Some(cluster.start_router(http, admin).await?);
        }
        Ok(cluster)
    }

    fn config(&self) -> PathBuf {
        self.folder.join("cluster.toml")
    }

    /// The program without settings of the environment that this process runs in.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HOLDFAST_"))
        {
            command.env_remove(name);
        }
        command
    }

    fn spawn_node(&self, index: usize) -> Result<Server> {
        let mut command = self.command();
        command.args(["node", "--config"]).arg(self.config());
        command.env("HOLDFAST_NODE__DATA", self.folder.join(format!("node-{index}")));
        command.env("HOLDFAST_NODE__LISTEN", &self.seeds[index]);
        command.env("HOLDFAST_NODE__ADVERTISE", &self.seeds[index]);
        command.env("HOLDFAST_NODE__ADMIN", &self.operators[index]);
        command.envs(self.node_env.iter().map(|(name, value)| (name, value)));
        Server::start(&format!("node-{index}"), command, &self.folder)
    }

    async fn found(&mut self) -> Result<()> {
        let file = self.folder.join("first.key");
        let mut command = self.command();
        command.args(["ctl", "init", "--config"]).arg(self.config()).arg("--key-file").arg(&file);
        let done = command.output().await.context("cannot run ctl init")?;
        ensure!(done.status.success(), "ctl init failed: {}", String::from_utf8_lossy(&done.stderr));
        self.key = std::fs::read_to_string(file)?.trim().to_owned();
        Ok(())
    }

    async fn start_router(&self, http: &str, admin: &str) -> Result<Router> {
        let mut command = self.command();
        command.args(["router", "--config"]).arg(self.config());
        command.env("HOLDFAST_ROUTER__HTTP", http).env("HOLDFAST_ROUTER__ADMIN", admin);
        let mut server = Server::start("router", command, &self.folder)?;
        server.wait_line("ready ", START_MAX).await?;
        Ok(Router { server, url: format!("http://{http}"), admin: format!("http://{admin}") })
    }

    fn router(&self) -> Result<&Router> {
        self.router.as_ref().context("this cluster has no router")
    }

    /// Processor time of all its processes, routers included.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let router = self.router.iter().map(|router| router.server.cpu());
        self.nodes.iter().flatten().map(Server::cpu).chain(router).sum()
    }

    /// The same, apart for the router and the nodes.
    pub(crate) fn cpu_by_role(&self) -> Result<CpuByRole> {
        let nodes = self.nodes.iter().flatten().map(Server::cpu).sum::<Result<_>>()?;
        Ok(CpuByRole { router: self.router()?.server.cpu()?, nodes })
    }

    /// Memory of all nodes that is in RAM, bytes.
    pub(crate) fn nodes_resident_bytes(&self) -> Result<u64> {
        self.nodes.iter().flatten().map(Server::resident_bytes).sum()
    }

    /// What a node's folder takes on disk, bytes.
    pub(crate) fn disk_bytes(&self, index: usize) -> Result<u64> {
        folder_bytes(&self.folder.join(format!("node-{index}")))
    }

    /// Settings for nodes that are started from now on, as variables of the environment; those from
    /// before are gone.
    pub(crate) fn set_node_env(&mut self, settings: &[(&str, &str)]) {
        self.node_env =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    }

    /// A client of the whole interface, which never repeats a call.
    pub(crate) fn rest_client(&self) -> Result<Client> {
        let mut options = ClientOptions::new(&self.router()?.url, &self.key);
        options.timeout = ANSWER_MAX;
        options.retry = RetryPolicy::never();
        Ok(Client::new(&options)?)
    }

    /// A client with connections of its own, which never repeats a call.
    pub(super) fn client(&self) -> Result<Writer> {
        Ok(Writer { client: self.rest_client()? })
    }

    /// Asks the router's listener for operators.
    async fn ask<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T> {
        let url = format!("{}{path}", self.router()?.admin);
        let http = reqwest::Client::builder().no_proxy().timeout(ANSWER_MAX).build()?;
        let answer = http.get(url).bearer_auth(&self.key).send().await?.error_for_status()?;
        Ok(answer.json().await?)
    }

    /// The nodes, as the router sees them.
    pub(super) async fn nodes(&self) -> Result<Vec<NodeRow>> {
        Ok(self.ask::<NodeRows>("/admin/v1/nodes").await?.nodes)
    }

    /// Waits until every node is reachable and every replica holds the same rows.
    pub(crate) async fn wait_equal(&self, max: Duration) -> Result<()> {
        #[derive(Deserialize)]
        struct Verified {
            equal: bool,
        }
        let begin = Instant::now();
        loop {
            let nodes = self.nodes().await?;
            let last = if nodes.len() == 3 && nodes.iter().all(|node| node.reachable) {
                match self.ask::<Verified>("/admin/v1/verify").await {
                    Ok(Verified { equal: true }) => return Ok(()),
                    Ok(_) => "the replicas differ".to_owned(),
                    Err(error) => error.to_string(),
                }
            } else {
                "a node is not reachable".to_owned()
            };
            ensure!(begin.elapsed() < max, "the replicas did not become equal within {max:?}: {last}");
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    /// The sum of a metric, whose one label is the node, over the nodes.
    pub(crate) async fn nodes_metric(&self, name: &str) -> Result<f64> {
        let mut sum = 0.0;
        for address in &self.operators {
            let text = reqwest::get(format!("http://{address}/metrics")).await?.text().await?;
            sum += metric(&text, name).with_context(|| format!("a node has no metric {name}"))?;
        }
        Ok(sum)
    }

    /// Kills a node's process as a crash would.
    pub(crate) async fn kill_node(&mut self, index: usize) -> Result<()> {
        match self.nodes.get_mut(index).and_then(Option::take) {
            Some(mut node) => node.kill().await,
            None => bail!("node {index} does not run"),
        }
    }

    /// Starts a killed node again and waits until it is ready.
    pub(crate) async fn start_node(&mut self, index: usize) -> Result<()> {
        let mut node = self.spawn_node(index)?;
        node.wait_line("ready ", START_MAX).await?;
        self.nodes[index] = Some(node);
        Ok(())
    }

    /// The content of a stored memory, `None` if there is none of this id.
    pub(super) async fn stored(
        &self,
        http: &reqwest::Client,
        user: &str,
        id: &str,
    ) -> Result<Option<String>> {
        #[derive(Deserialize)]
        struct Memory {
            content: String,
        }
        let url = format!("{}/v1/users/{user}/memories/{id}", self.router()?.url);
        let answer = http.get(url).bearer_auth(&self.key).send().await?;
        if answer.status() == reqwest::StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let memory: Memory = answer.error_for_status()?.json().await?;
        Ok(Some(memory.content))
    }

    /// Ends all processes in order.
    pub(crate) async fn stop(mut self) {
        if let Some(router) = self.router.take() {
            router.server.stop().await;
        }
        let nodes: Vec<Server> = self.nodes.drain(..).flatten().collect();
        for node in nodes {
            node.stop().await;
        }
    }
}

/// Blocks that the files below a folder take; holes are not counted.
fn folder_bytes(folder: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        // What a running server removes meanwhile is not counted.
        let Ok(about) = entry.metadata() else { continue };
        bytes += if about.is_dir() { folder_bytes(&entry.path())? } else { about.blocks() * 512 };
    }
    Ok(bytes)
}

/// One client of the cluster.
pub(super) struct Writer {
    client: Client,
}

impl Writer {
    /// Stores one memory, without inference; the name of the fault if it was not acknowledged. The
    /// id is its idempotency key too.
    pub(super) async fn write(&self, user: &str, id: &str, content: String) -> Result<(), String> {
        let memory = NewMemory { id: Some(id.to_owned()), content, ..NewMemory::default() };
        let request =
            AddRequest { memories: vec![memory], infer: Some("none".to_owned()), ..AddRequest::default() };
        match self.client.add_memories(user, &request, id).await {
            Ok(answer) if answer.results.iter().all(|result| result.status == AddStatus::Created) => Ok(()),
            Ok(_) => Err("not_created".to_owned()),
            Err(error) => Err(error.code().to_owned()),
        }
    }
}
/// The value of a metric in what a process tells of itself; none of one with another name that begins alike.
fn metric(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']))?;
        rest.rsplit(' ').next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_read_with_and_without_a_label() {
        let text =
            "# TYPE held_bytes gauge\nheld_bytes_max{node=\"1\"} 9\nheld_bytes{node=\"1\"} 1.5\nplain 2\n";
        assert_eq!(metric(text, "held_bytes"), Some(1.5));
        assert_eq!((metric(text, "plain"), metric(text, "held")), (Some(2.0), None));
    }
}
