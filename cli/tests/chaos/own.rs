//! Tests in namespaces of their own: networks and mounts that nobody else on the machine sees, and that
//! are gone with the last process of the test, however it ends.

use std::future::Future;
use std::process::Command;

/// Set in the process that has them.
const INSIDE: &str = "HOLDFAST_TEST_INSIDE";
/// Without the rights that it takes a test is skipped, and says so; `make test-cluster` sets this and
/// must not pass then.
const REQUIRED: &str = "HOLDFAST_REQUIRE_NETNS";

/// What a test has for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// The network. There is nothing in it but a loopback device, which is down.
    Network,
    /// The table of mounted file systems.
    Mounts,
}

impl Own {
    /// `unshare` with what it takes.
    fn unshare(self) -> Command {
        let mut command = Command::new("unshare");
        match self {
            Self::Network => command.arg("--net"),
            Self::Mounts => command.args(["--mount", "--propagation", "private"]),
        };
        command.arg("--");
        command
    }
}

/// Runs a test in a process of its own that has `own`. `name` is the test's, with its modules.
pub fn run(name: &str, own: Own, test: impl Future<Output = ()>) {
    if std::env::var_os(INSIDE).is_some() {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        return runtime.worker_threads(2).enable_all().build().unwrap().block_on(test);
    }
    if let Err(why) = is_allowed(own) {
        assert!(std::env::var_os(REQUIRED).is_none(), "no namespace: {why}");
        eprintln!("SKIPPED: {why}; nothing was tested");
        return;
    }
    let mut inside = own.unshare();
    inside.arg(std::env::current_exe().unwrap());
    inside.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    let output = inside.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    eprintln!("{said}{}", String::from_utf8_lossy(&output.stderr));
    // A name that is none would run nothing.
    assert!(said.contains("1 passed") || !output.status.success(), "{name} is no test");
    assert!(output.status.success(), "{name} failed in its namespace: see above");
}

fn is_allowed(own: Own) -> Result<(), String> {
    let tried = own.unshare().arg("true").output().map_err(|error| format!("unshare: {error}"))?;
    match tried.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&tried.stderr).trim().to_owned()),
    }
}
