//! The configuration as the program takes it: exit codes, messages, precedence, documents.
#![allow(clippy::unwrap_used)]

mod common;

use common::repository;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const SEEDS: (&str, &str) = ("HOLDFAST_CLUSTER__SEEDS", "a:1,b:1,c:1");

/// How a run of the program ended.
struct Done {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs `holdfast` with these variables and no other of its own.
fn holdfast(args: &[&OsStr], variables: &[(&str, &OsStr)]) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HOLDFAST_")) {
        command.env_remove(name);
    }
    // What is not about TLS does without.
    command.env("HOLDFAST_TLS__MODE", "off");
    let output = command.args(args).envs(variables.iter().copied()).output().unwrap();
    Done {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn run(args: &[&str], variables: &[(&str, &str)]) -> Done {
    let args: Vec<_> = args.iter().map(OsStr::new).collect();
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, OsStr::new(value))).collect();
    holdfast(&args, &variables)
}

/// `config check` of a file.
fn check(path: &Path, role: &str) -> Done {
    let args = ["config", "check", "--role", role, "--config"].map(OsStr::new);
    holdfast(&[&args[..], &[path.as_os_str()]].concat(), &[])
}

fn written(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("配 置.toml");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// Asserts a usage error that says this, with nothing on standard output.
fn assert_refused(done: &Done, says: &str) {
    assert_eq!(done.code, Some(2), "{}", done.err);
    assert!(done.out.is_empty(), "{}", done.out);
    assert!(done.err.starts_with("holdfast: the configuration has "), "{}", done.err);
    assert!(done.err.contains(says), "no {says:?} in {}", done.err);
}

#[test]
fn the_example_passes_the_check_of_every_role() {
    let path = repository().join("docs/examples/cluster.toml");
    for role in ["node", "router", "all"] {
        let done = check(&path, role);
        assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(0), "ok\n", ""), "{role}");
    }
}

#[test]
fn the_reference_is_current() {
    let page = std::fs::read_to_string(repository().join("docs/configuration.md")).unwrap();
    let done = run(&["config", "reference"], &[]);
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
    assert!(
        done.out == page,
        "docs/configuration.md is out of date: holdfast config reference > docs/configuration.md"
    );
}

#[test]
fn every_error_is_told_and_the_exit_code_is_2() {
    let (_folder, path) = written(b"[node]\nheartbeat_ms = 1\n[rooter]\nx = 1\n[log]\nformat = 1\n");
    let done = check(&path, "all");
    assert_refused(&done, "the configuration has 5 errors:");
    for says in [
        ":2: node.heartbeat_ms: 1 is out of range: 50 to 5000 milliseconds",
        ":3: there is no section \"rooter\"; did you mean [router]?",
        ":6: log.format: expected \"text\" or \"json\", found the number 1",
        "  cluster.seeds: must be set",
        "  node.advertise: must be set",
    ] {
        assert_refused(&done, says);
    }
    assert!(done.err.contains("配 置.toml:2: "), "{}", done.err);
}

#[test]
fn node_and_router_refuse_what_the_check_refuses() {
    let (_folder, path) = written(b"[cluster]\nseeds = ['a:1', 'b:1']\n");
    let path = path.to_str().unwrap();
    for command in ["node", "router"] {
        assert_refused(&run(&[command, "--config", path], &[]), "has 2 nodes; a cluster has 1, 3, 5 or 7");
        assert_refused(&run(&[command, "--set", "x"], &[]), "--set x: there is no \"=\"");
        assert_refused(
            &run(&[command], &[("HOLDFAST_NOOD__DATA", "x")]),
            "did you mean HOLDFAST_NODE__DATA?",
        );
    }
}

#[test]
fn the_role_decides_what_must_be_there() {
    let args = |role| ["config", "check", "--role", role];
    assert_eq!(run(&args("router"), &[SEEDS]).code, Some(0));
    assert_refused(&run(&args("node"), &[SEEDS]), "node.advertise: must be set");
    let advertise = ("HOLDFAST_NODE__ADVERTISE", "c:1");
    assert_eq!(run(&args("all"), &[SEEDS, advertise]).out, "ok\n");
    assert_eq!(run(&args("nodes"), &[SEEDS]).code, Some(2));
    assert_eq!(run(&["config", "check"], &[SEEDS]).code, Some(2), "a role must be named");
}

#[test]
fn what_is_printed_says_where_it_comes_from_and_loads_again() {
    let (folder, path) =
        written(b"[cluster]\nseeds = ['a:1']\n[node]\nadvertise = 'x:1'\nheartbeat_ms = 99\n");
    let path = path.to_str().unwrap();
    let data = folder.path().join("数据 \"1\" # x").to_str().unwrap().to_owned();
    let variables = [SEEDS, ("HOLDFAST_NODE__DATA", data.as_str()), ("HOLDFAST_NODE__ADVERTISE", "x:1")];
    let args = ["node", "--config", path, "--set", "node.advertise=b:1", "--print-config"];
    let first = run(&args, &variables);
    assert_eq!((first.code, first.err.as_str()), (Some(0), ""));
    for line in [
        "seeds = [\"a:1\", \"b:1\", \"c:1\"]  # environment HOLDFAST_CLUSTER__SEEDS\n",
        "advertise = \"b:1\"  # flag --set node.advertise\n",
        &format!("heartbeat_ms = 99  # file {path}:5\n"),
        "search_threads = 0  # default\n",
        "  # environment HOLDFAST_NODE__DATA\n",
    ] {
        assert!(first.out.contains(line), "no {line:?} in {}", first.out);
    }
    assert!(!Path::new(&data).exists(), "nothing is made");

    let again = folder.path().join("again.toml");
    std::fs::write(&again, &first.out).unwrap();
    for command in ["node", "router"] {
        let second = run(&[command, "--config", again.to_str().unwrap(), "--print-config"], &[]);
        assert_eq!(second.code, Some(0), "{}", second.err);
        let values = |text: &str| toml::from_str::<toml::Table>(text).unwrap();
        assert_eq!(values(&second.out), values(&first.out));
    }
}

#[test]
fn a_wrong_configuration_is_not_printed() {
    assert_refused(&run(&["router", "--print-config"], &[]), "cluster.seeds: must be set");
}

#[test]
fn files_that_are_no_configuration_are_named_with_the_reason() {
    let (folder, empty) = written(b"");
    assert_refused(&check(&empty, "node"), "the configuration has 2 errors:\n  cluster.seeds: must be set");
    let missing = folder.path().join("缺.toml");
    assert_refused(&check(&missing, "all"), "an error:\n");
    assert_refused(&check(&missing, "all"), "缺.toml: there is no such file");
    assert_refused(&check(folder.path(), "all"), ": this is a directory");
    for (bytes, says) in [
        (&b"[node]\ndata = 'x'\n# \xff\n"[..], "not UTF-8: line 3"),
        (b"\xff\xfe[\0n\0o\0d\0e\0]\0", "not UTF-8: line 1"),
        (b"[node]\nheartbeat_ms = 1\nheartbeat_ms = 2\n", ":3: not valid TOML: duplicate key"),
        (&[b'#'; (1 << 20) + 1], "larger than 1048576 bytes"),
        (b"[node]\nheartbeat_ms = -250\n", ":2: node.heartbeat_ms: -250 is out of range"),
        (b"[node]\nspaces_bytes = 18446744073709551616\n", ":2: node.spaces_bytes: 18446744073709551616 is"),
    ] {
        let (_folder, path) = written(bytes);
        assert_refused(&check(&path, "router"), says);
    }
    let (_folder, path) = written(b"\xef\xbb\xbf[cluster]\r\nseeds = ['a:1']\r\n");
    assert_eq!(check(&path, "router").out, "ok\n", "a byte order mark and CRLF are no error");
}

#[test]
fn variables_that_are_not_utf8_are_refused_only_where_they_are_settings() {
    let args = ["config", "check", "--role", "router"].map(OsStr::new);
    let seeds = (SEEDS.0, OsStr::new(SEEDS.1));
    let latin = OsString::from(OsStr::from_bytes(b"/donn\xe9es"));
    let done = holdfast(&args, &[seeds, ("HOLDFAST_NODE__DATA", &latin)]);
    assert_refused(&done, "environment variable HOLDFAST_NODE__DATA: its value is not UTF-8");
    let done = holdfast(&args, &[seeds, ("OTHER__DATA", &latin), ("HOLDFAST_MODEL_DIR", &latin)]);
    assert_eq!(done.out, "ok\n", "{}", done.err);
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command
        .args(args)
        .env(seeds.0, seeds.1)
        .env("HOLDFAST_TLS__MODE", "off")
        .env(OsStr::from_bytes(b"HOLDFAST_NODE__\xff"), "x");
    let err = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(err.contains("environment variable HOLDFAST_NODE__\u{fffd}: [node] has no setting"), "{err}");
}

#[test]
fn no_secret_is_a_setting_or_printed() {
    let secret = "hf_test_0123456789abcdef";
    let named = ["HOLDFAST_API_KEY", "HOLDFAST_DEV_KEY", "HOLDFAST_EMBEDDER_KEY"];
    let variables = [SEEDS].into_iter().chain(named.map(|name| (name, secret))).collect::<Vec<_>>();
    let printed = run(&["router", "--print-config"], &variables);
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    assert!(!printed.out.contains(secret));
    for (section, keys) in toml::from_str::<toml::Table>(&printed.out).unwrap() {
        for key in keys.as_table().unwrap().keys() {
            // Paths of files, and a number of tokens of text.
            let path = (section.as_str(), key.as_str());
            if matches!(path, ("tls", "key") | ("embedder", "key_file") | ("router", "chunk_tokens")) {
                continue;
            }
            let is_secret = ["key", "secret", "password", "token"].iter().any(|word| key.contains(word));
            assert!(!is_secret, "{section}.{key} would be printed and logged");
        }
    }
}
