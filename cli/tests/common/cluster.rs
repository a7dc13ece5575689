//! A cluster of real processes: `holdfast node` several times and `holdfast router`.

use super::tls::Certs;
use super::{Api, free_address};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// How long a process may take to say what is waited for, on a busy machine.
const LINE_MAX: Duration = Duration::from_secs(60);
/// How long it may take to end after SIGTERM.
const STOP_MAX: Duration = Duration::from_secs(30);

/// A process whose lines are read.
pub struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
    /// What it has written to standard error.
    log: Arc<Mutex<Vec<String>>>,
    pub admin: String,
}

/// What is around a process: the host that it runs on, and what stands between it and the system.
#[derive(Clone, Default)]
pub struct Around {
    /// A command that runs it, such as one that enters another network namespace first.
    pub wrapper: Vec<String>,
    /// Variables of its environment.
    pub variables: Vec<(String, String)>,
}

impl Around {
    fn command(&self) -> Command {
        let mut command = match self.wrapper.split_first() {
            None => program(),
            Some((first, rest)) => {
                let mut wrapped = without_settings(Command::new(first));
                wrapped.args(rest).arg(program_path());
                wrapped
            }
        };
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Process {
    pub fn start(args: &[&str], config: &Path, variables: &[(String, String)], admin: &str) -> Self {
        Self::start_in(&Around::default(), args, config, variables, admin)
    }

    fn start_in(
        around: &Around,
        args: &[&str],
        config: &Path,
        variables: &[(String, String)],
        admin: &str,
    ) -> Self {
        let mut command = around.command();
        command.args(args).arg("--config").arg(config);
        command.envs(variables.iter().cloned()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let out = child.stdout.take().unwrap();
        // Reads to the end, so that the process never blocks on a full pipe.
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let (log, err) = (Arc::<Mutex<Vec<String>>>::default(), child.stderr.take().unwrap());
        let written = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                eprintln!("{line}");
                written.lock().unwrap().push(line);
            }
        });
        Self { child, lines, log, admin: format!("http://{admin}") }
    }

    /// Waits until it has written a line with these words to standard error.
    pub fn wait_log(&self, words: &str) {
        self.wait_log_of(&[words]);
    }

    /// As [`Process::wait_log`], for a line with any of these words.
    pub fn wait_log_of(&self, words: &[&str]) {
        let deadline = Instant::now() + LINE_MAX;
        let is_told = |line: &String| words.iter().any(|words| line.contains(words));
        while !self.log.lock().unwrap().iter().any(is_told) {
            assert!(Instant::now() < deadline, "never logged: {words:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it has written to standard error so far.
    pub fn said(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits until it ends by itself.
    pub fn wait_end(mut self) -> ExitStatus {
        self.ended_within(LINE_MAX)
    }

    fn ended_within(&mut self, time: Duration) -> ExitStatus {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the process did not end within {time:?}");
    }

    /// Waits for a line with this beginning.
    pub fn wait_line(&mut self, start: &str) -> String {
        let deadline = Instant::now() + LINE_MAX;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("no line {start:?}"));
            if line.starts_with(start) {
                return line;
            }
        }
    }

    /// As a crash would end it.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// As an operator would end it.
    pub fn terminate(mut self) -> ExitStatus {
        self.signal("-TERM");
        self.ended_within(STOP_MAX)
    }

    /// Status and body of a GET on its listener for operators.
    pub async fn probe(&self, path: &str) -> (u16, String) {
        let answer = reqwest::get(format!("{}{path}", self.admin)).await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Waits until a probe answers this.
    pub async fn wait_probe(&self, path: &str, status: u16) -> String {
        let deadline = Instant::now() + LINE_MAX;
        loop {
            let (found, body) = self.probe(path).await;
            if found == status {
                return body;
            }
            assert!(Instant::now() < deadline, "{path} answers {found}: {body}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already gone is what most tests leave.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the nodes and their router are started with.
pub struct Plan {
    dir: tempfile::TempDir,
    pub seeds: Vec<String>,
    operators: Vec<String>,
    /// Without: no TLS.
    pub certs: Option<Certs>,
    /// What is around each node.
    pub around: Vec<Around>,
}

impl Plan {
    /// Free addresses for three nodes, and a configuration file that all processes share.
    pub fn new(shards: u16) -> Self {
        let addresses = || (0..3).map(|_| free_address()).collect();
        Self::at(shards, addresses(), addresses(), "")
    }

    /// Nodes that listen at `seeds`, and for operators at `operators`; `settings` is the further text
    /// of their configuration file.
    pub fn at(shards: u16, seeds: Vec<String>, operators: Vec<String>, settings: &str) -> Self {
        let dir = super::scratch();
        let text = format!(
            "[cluster]\nseeds = {seeds:?}\nshards = {shards}\n\n[tls]\nmode = \"off\"\n\n[embedder]\nrequired = false\nmodel_dir = {:?}\n{settings}",
            dir.path().join("no-model")
        );
        std::fs::write(dir.path().join("cluster.toml"), text).unwrap();
        std::fs::create_dir(dir.path().join("nodes")).unwrap();
        let around = vec![Around::default(); seeds.len()];
        Self { dir, seeds, operators, certs: None, around }
    }

    /// As [`Plan::new`], with certificates for everybody.
    pub fn with_tls(shards: u16) -> Self {
        let mut plan = Self::new(shards);
        plan.certs = Some(Certs::make(&plan.dir.path().join("certs"), &plan.seeds));
        plan
    }

    /// A folder that is gone with the plan.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The settings of the process with this certificate.
    pub fn tls(&self, name: &str) -> Vec<(String, String)> {
        self.certs.as_ref().map(|certs| certs.variables(name)).unwrap_or_default()
    }

    /// The settings of a node, but for its TLS.
    pub fn of_node(&self, index: usize) -> Vec<(String, String)> {
        let data = self.data(index);
        [
            ("HOLDFAST_NODE__DATA", data.to_str().unwrap()),
            ("HOLDFAST_NODE__LISTEN", self.seeds[index].as_str()),
            ("HOLDFAST_NODE__ADVERTISE", self.seeds[index].as_str()),
            ("HOLDFAST_NODE__ADMIN", self.operators[index].as_str()),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    pub fn config(&self) -> PathBuf {
        self.dir.path().join("cluster.toml")
    }

    /// The folder with those of all nodes, and nothing else.
    pub fn nodes(&self) -> PathBuf {
        self.dir.path().join("nodes")
    }

    pub fn data(&self, index: usize) -> PathBuf {
        self.nodes().join(format!("node-{index}"))
    }

    pub fn key_file(&self) -> PathBuf {
        self.dir.path().join("first.key")
    }

    /// Starts a node; what it says must be waited for.
    pub fn start_node(&self, index: usize) -> Process {
        self.start_node_with(index, &self.tls(&Certs::of_node(&self.seeds[index])))
    }

    /// Starts a node with these settings over its own.
    pub fn start_node_with(&self, index: usize, over: &[(String, String)]) -> Process {
        let variables = [&self.of_node(index), over].concat();
        let (around, admin) = (&self.around[index], &self.operators[index]);
        Process::start_in(around, &["node"], &self.config(), &variables, admin)
    }

    /// Starts a router and waits until it serves. Its URL is the second part.
    pub fn start_router(&self, settings: &[&str]) -> (Process, String) {
        let (http, admin) = (free_address(), free_address());
        let (at, operators) = (format!("router.http={http}"), format!("router.admin={admin}"));
        let mut args = vec!["router", "--set", &at, "--set", &operators];
        args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        let mut router = Process::start(&args, &self.config(), &self.tls("router-1"), &admin);
        assert_eq!(router.wait_line("ready "), format!("ready http://{http} admin={admin}"));
        (router, format!("http://{http}"))
    }

    /// `holdfast ctl init` with further arguments.
    pub fn init(&self, args: &[&str]) -> Output {
        let mut command = program();
        command.envs(self.tls("operator-1")).args(["ctl", "init", "--config"]).arg(self.config());
        command.args(args).output().unwrap()
    }

    /// Founds the cluster of the nodes that run, and returns the first key.
    pub fn found(&self) -> String {
        let file = self.key_file();
        let done = self.init(&["--key-file", file.to_str().unwrap()]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        std::fs::read_to_string(file).unwrap().trim().to_owned()
    }
}

/// The program that is tested: `HOLDFAST_TEST_PROGRAM`, else the one that was built with the tests.
pub fn program_path() -> PathBuf {
    std::env::var_os("HOLDFAST_TEST_PROGRAM")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_holdfast")), PathBuf::from)
}

/// The program, without settings of the environment that this test runs in.
pub fn program() -> Command {
    without_settings(Command::new(program_path()))
}

fn without_settings(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("HOLDFAST_") && text != "HOLDFAST_SABOTAGE" {
            command.env_remove(&name);
        }
    }
    command
}

/// A founded cluster of nodes and one router.
pub struct Cluster {
    pub plan: Plan,
    pub nodes: Vec<Option<Process>>,
    pub router: Process,
    pub url: String,
    pub key: String,
}

impl Cluster {
    pub fn start(shards: u16) -> Self {
        Self::start_plan(Plan::new(shards))
    }

    pub fn start_plan(plan: Plan) -> Self {
        let mut nodes: Vec<Process> = (0..plan.seeds.len()).map(|index| plan.start_node(index)).collect();
        for node in &mut nodes {
            node.wait_line("waiting for the founding ");
        }
        let key = plan.found();
        for (id, node) in (1..).zip(&mut nodes) {
            node.wait_line(&format!("ready node={id} "));
        }
        let (router, url) = plan.start_router(&[]);
        Self { plan, nodes: nodes.into_iter().map(Some).collect(), router, url, key }
    }

    pub fn api(&self) -> Api {
        Api::new(&self.url, &self.key)
    }

    pub fn admin_api(&self) -> Api {
        Api::new(&self.router.admin, &self.key)
    }

    /// Kills every node that runs, one right after the other.
    pub fn kill_nodes(&mut self) {
        for node in self.nodes.iter().flatten() {
            node.signal("-KILL");
        }
        self.nodes.iter_mut().filter_map(Option::take).for_each(Process::kill);
    }

    /// Stops every node that runs in order.
    pub fn stop_nodes(&mut self) {
        for node in self.nodes.iter_mut().filter_map(Option::take) {
            assert!(node.terminate().success(), "a clean stop exits 0");
        }
    }

    /// Starts every node that does not run, and waits until all of them are ready.
    pub fn start_nodes(&mut self) {
        let started: Vec<usize> =
            (0..self.nodes.len()).filter(|index| self.nodes[*index].is_none()).collect();
        for index in &started {
            self.nodes[*index] = Some(self.plan.start_node(*index));
        }
        for index in started {
            self.nodes[index].as_mut().unwrap().wait_line(&format!("ready node={} ", index + 1));
        }
    }

    /// Replaces the router by one that remembers nothing.
    pub fn restart_router(&mut self) {
        (self.router, self.url) = self.plan.start_router(&[]);
    }

    /// Starts a node again and waits until it is ready under its old id.
    pub fn restart_node(&mut self, index: usize) {
        let mut node = self.plan.start_node(index);
        node.wait_line(&format!("ready node={} ", index + 1));
        self.nodes[index] = Some(node);
    }
}
