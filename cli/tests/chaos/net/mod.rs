//! Networks that are cut, slow or lossy: each node in a network namespace of its own.

mod partitions;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A switch in user space between namespaces; see `switch.py`. Gone when it is dropped, and when this
/// process ends however it ends.
pub struct Network {
    name: String,
    /// The first three parts of its addresses.
    network: String,
    switch: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Network {
    /// So many hosts, or why this machine cannot have them.
    pub fn new(hosts: usize) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("network namespaces need root".into());
        }
        if !Path::new("/dev/net/tun").exists() {
            return Err("there is no /dev/net/tun".into());
        }
        let id = std::process::id();
        let (name, network) =
            (format!("hf{}x", id % 100_000), format!("10.{}.{}", 64 + id / 256 % 128, id % 256));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chaos/net/switch.py");
        let mut command = Command::new("python3");
        command.arg(script).args([&name, &network, &hosts.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut switch = command.spawn().map_err(|error| format!("python3: {error}"))?;
        let (input, output) = (switch.stdin.take(), switch.stdout.take().unwrap());
        let mut network = Self { name, network, switch, input, output: BufReader::new(output) };
        if network.answer() == "ready" { Ok(network) } else { Err("the switch does not start".into()) }
    }

    /// The address of a host, counted from 1.
    pub fn address(&self, host: usize) -> String {
        format!("{}.{host}", self.network)
    }

    /// The command that runs another on a host.
    pub fn on(&self, host: usize) -> Vec<String> {
        ["ip", "netns", "exec", &format!("{}{host}", self.name)].map(str::to_owned).to_vec()
    }

    /// What happens from now on to frames in one direction.
    pub fn link(&mut self, from: usize, to: usize, rule: &str) {
        self.command(&format!("link {from} {to} {rule}"));
    }

    /// The same in both directions.
    pub fn between(&mut self, one: usize, other: usize, rule: &str) {
        self.link(one, other, rule);
        self.link(other, one, rule);
    }

    /// All harm ends.
    pub fn heal(&mut self) {
        self.command("heal");
    }

    fn command(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
        assert_eq!(self.answer(), "done", "{line}");
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        drop(self.input.take());
        self.switch.wait().unwrap();
    }
}
