//! Networks that are cut, slow or lossy: each node in a network namespace of its own.

mod partitions;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A switch in user space between namespaces; see `switch.py`. They are gone when the switch and the
/// nodes are. Host 0 is the namespace of this process, which must be one of its own (`own.rs`).
pub struct Network {
    /// How to enter the namespace of each host.
    namespaces: Vec<String>,
    switch: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// The first three parts of the addresses: nobody else is in this network.
const NETWORK: &str = "10.0.0";

impl Network {
    pub fn new(hosts: usize) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chaos/net/switch.py");
        let mut command = Command::new("python3");
        command.arg(script).args([NETWORK, &hosts.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut switch = command.spawn().unwrap();
        let (input, output) = (switch.stdin.take(), switch.stdout.take().unwrap());
        let mut network = Self { namespaces: Vec::new(), switch, input, output: BufReader::new(output) };
        let ready = network.answer();
        let files = ready.strip_prefix("ready ").expect("the switch does not start");
        network.namespaces = files.split(' ').map(|file| format!("--net={file}")).collect();
        assert_eq!(network.namespaces.len(), hosts);
        network
    }

    /// The address of a host, counted from 1.
    pub fn address(&self, host: usize) -> String {
        format!("{NETWORK}.{host}")
    }

    /// The command that runs another on a host.
    pub fn on(&self, host: usize) -> Vec<String> {
        vec!["nsenter".into(), self.namespaces[host - 1].clone(), "--".into()]
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
        // It ends when its input does. Nothing else is to be done about it.
        drop(self.input.take());
        let _ = self.switch.wait();
    }
}
