//! Certificates for clusters of processes, and connections that only a test would make.

use super::cluster::program;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A folder that `holdfast ctl certs` has filled.
#[derive(Clone)]
pub struct Certs {
    pub dir: PathBuf,
}

impl Certs {
    /// A new CA in `dir`, with certificates for these nodes, a router and an operator.
    pub fn make(dir: &Path, nodes: &[String]) -> Self {
        let certs = Self { dir: dir.to_owned() };
        let mut args: Vec<&str> = nodes.iter().flat_map(|node| ["--node", node]).collect();
        args.extend(["--router", "1", "--operator", "1"]);
        let done = certs.ctl(&args);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        certs
    }

    /// `holdfast ctl certs` in this folder.
    pub fn ctl(&self, args: &[&str]) -> Output {
        program().args(["ctl", "certs", "--out"]).arg(&self.dir).args(args).output().unwrap()
    }

    pub fn ca(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// The name of a node's files, without what ends them.
    pub fn of_node(address: &str) -> String {
        format!("node-{}", address.replace(':', "-"))
    }

    pub fn cert(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.pem"))
    }

    pub fn key(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.key"))
    }

    /// The settings of the process that has this certificate.
    pub fn variables(&self, name: &str) -> Vec<(String, String)> {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        vec![
            ("HOLDFAST_TLS__MODE".into(), "on".into()),
            ("HOLDFAST_TLS__CA".into(), text(self.ca())),
            ("HOLDFAST_TLS__CERT".into(), text(self.cert(name))),
            ("HOLDFAST_TLS__KEY".into(), text(self.key(name))),
            ("HOLDFAST_TLS__RELOAD_INTERVAL_MS".into(), "100".into()),
        ]
    }

    /// As [`Certs::variables`], with a CA file of its own.
    pub fn variables_with_ca(&self, name: &str, ca: &Path) -> Vec<(String, String)> {
        let mut variables = self.variables(name);
        variables[1].1 = ca.to_str().unwrap().to_owned();
        variables
    }
}

/// Replaces a file as an operator should: by another one, at once.
pub fn replace(file: &Path, bytes: &[u8]) {
    let beside = file.with_extension("new");
    fs::write(&beside, bytes).unwrap();
    fs::rename(beside, file).unwrap();
}

/// Both files, one behind the other.
pub fn joined(one: &Path, other: &Path) -> Vec<u8> {
    [fs::read(one).unwrap(), fs::read(other).unwrap()].concat()
}
