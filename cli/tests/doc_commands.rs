//! The commands in the documents do what the documents say. How a page is read is told in `doc/mod.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;
mod doc;

use common::{Model, Server, repository, scratch};
use doc::markdown::{Block, blocks};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Pages whose commands are run here, each on a new cluster.
const RUN: [&str; 5] =
    ["README.md", "docs/quick-start.md", "docs/api.md", "docs/command-line.md", "docs/operating.md"];

/// Blocks of those pages that are not run, by their first line, and why.
const IGNORED: [(&str, &str, &str); 7] = [
    ("README.md", "make demo", "builds the program, fetches the model, and serves until it is stopped"),
    ("docs/quick-start.md", "make run", "builds the program and serves until it is stopped"),
    (
        "docs/command-line.md",
        "holdfast node",
        "needs machines of their own; processes.rs does the same on one",
    ),
    ("docs/command-line.md", "holdfast bench load", "measures for half a minute"),
    ("docs/command-line.md", "holdfast bench locomo", "needs a dataset that may not be part of this project"),
    (
        "docs/command-line.md",
        "holdfast bench factconsolidation",
        "needs a dataset, which is not part of this project",
    ),
    (
        "docs/command-line.md",
        "holdfast bench precisionmem",
        "needs a dataset, which is not part of this project",
    ),
];

/// Pages with commands that are not run here, and why.
const NOT_RUN: [(&str, &str); 4] = [
    ("docs/kubernetes.md", "needs a Kubernetes cluster; the chart has tests of its own"),
    ("docs/runbooks/", "needs a cluster in trouble"),
    ("docs/baseline.md", "takes minutes; the benchmark has tests of its own"),
    ("docs/testing.md", "runs tests"),
];

fn read(page: &str) -> String {
    std::fs::read_to_string(repository().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// Runs a page from a folder that looks like the checkout after `make build`.
fn run(page: &str) {
    let (data, folder) = (scratch(), scratch());
    let server = Server::start(data.path(), Model::Builtin);
    let program = Path::new(env!("CARGO_BIN_EXE_holdfast"));
    let build = folder.path().join("target/debug");
    std::fs::create_dir_all(&build).unwrap();
    std::os::unix::fs::symlink(program, build.join("holdfast")).unwrap();
    for shown in ["demo", "docs"] {
        std::os::unix::fs::symlink(repository().join(shown), folder.path().join(shown)).unwrap();
    }
    let stands = [
        ("http://127.0.0.1:7700", server.url.clone()),
        ("http://127.0.0.1:7701", server.admin.clone()),
        ("hf_…", server.key.clone()),
    ];
    let wrong = doc::run::page(&read(page), folder.path(), &build, &stands);
    assert!(wrong.is_empty(), "{page}:\n\n{}", wrong.join("\n\n"));
}

#[test]
fn the_commands_of_the_readme_work() {
    run("README.md");
}

#[test]
fn the_commands_of_the_quick_start_work() {
    run("docs/quick-start.md");
}

#[test]
fn the_commands_of_the_api_guide_work() {
    run("docs/api.md");
}

#[test]
fn the_commands_of_the_command_line_page_work() {
    run("docs/command-line.md");
}

#[test]
fn the_commands_of_the_operating_page_work() {
    run("docs/operating.md");
}

#[test]
fn what_is_not_run_is_named_with_its_reason() {
    let first = |block: &Block| block.text.lines().next().unwrap_or_default().to_owned();
    let mut ignored = BTreeSet::new();
    for page in RUN {
        for block in blocks(&read(page)).iter().filter(|block| block.is_shell() && block.is_ignored()) {
            ignored.insert((page, first(block)));
        }
    }
    let named: BTreeSet<(&str, String)> =
        IGNORED.iter().map(|(page, line, _)| (*page, (*line).to_owned())).collect();
    for (page, line) in &ignored {
        let is_named = named.iter().any(|(known, start)| known == page && line.starts_with(start.as_str()));
        assert!(is_named, "{page}: `{line}` is ignored for no reason that is named");
    }
    for (page, start) in &named {
        let is_there = ignored.iter().any(|(known, line)| known == page && line.starts_with(start.as_str()));
        assert!(is_there, "{page} has no ignored block `{start}`; take it from the list");
    }
    assert!(ignored.len() <= IGNORED.len(), "more is ignored than is named: {ignored:?}");
}

#[test]
fn every_page_with_commands_is_run_or_has_a_reason() {
    let root = repository();
    for page in doc::pages(&root.join("docs")) {
        let name = page.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let has_commands = blocks(&read(&name)).iter().any(Block::is_shell);
        let is_known =
            RUN.contains(&name.as_str()) || NOT_RUN.iter().any(|(known, _)| name.starts_with(known));
        assert!(!has_commands || is_known, "{name} has commands: run them here, or say why not");
    }
}

/// Begins the part of the command-line page that is made of the help texts.
const REFERENCE: &str = "<!-- From here on: what --help prints. UPDATE_DOCS=1 cargo test -p holdfast --test \
                         doc_commands help writes it. -->\n";

/// The help text of every command, by the words that call it.
fn help_texts() -> BTreeMap<Vec<String>, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(words) = open.pop() {
        let output = Command::new(env!("CARGO_BIN_EXE_holdfast"))
            .args(&words)
            .arg("--help")
            .env_clear()
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?} --help: {}", output.status);
        let text = String::from_utf8(output.stdout).unwrap();
        let commands = text.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
        for line in commands.lines().take_while(|line| !line.is_empty()) {
            // Text that goes on in the next line stands further in.
            let Some(name) = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')) else { continue };
            let name = name.split_whitespace().next().unwrap();
            if name != "help" {
                open.push([words.as_slice(), &[name.to_owned()]].concat());
            }
        }
        found.insert(words, text);
        assert!(found.len() < 100, "commands without end");
    }
    found
}

#[test]
fn the_page_has_the_help_of_every_command() {
    let texts = help_texts();
    let has = |command: &str| texts.keys().any(|words| words.join(" ") == command);
    assert!(["dev", "import", "recall", "bench load"].into_iter().all(has), "{:?}", texts.keys());
    let mut reference = String::new();
    for (words, text) in &texts {
        let name = [&["holdfast".to_owned()], words.as_slice()].concat().join(" ");
        let text = text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        reference.push_str(&format!("\n### `{name}`\n\n```text\n{}\n```\n", text.trim_end()));
    }
    let path = repository().join("docs/command-line.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (own, shown) = page.split_once(REFERENCE).expect("the page has the mark of its generated part");
    if std::env::var("UPDATE_DOCS").is_ok() {
        std::fs::write(&path, format!("{own}{REFERENCE}{reference}")).unwrap();
        return;
    }
    assert!(
        shown == reference,
        "docs/command-line.md is not what --help prints; run: UPDATE_DOCS=1 cargo test -p holdfast --test doc_commands help"
    );
    // The part that is written by hand calls nothing that is not there.
    for span in doc::markdown::code_spans(own).iter().filter_map(|span| span.strip_prefix("holdfast ")) {
        let command: Vec<&str> =
            span.split(' ').take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase())).collect();
        assert!((1..=command.len()).any(|n| has(&command[..n].join(" "))), "there is no `holdfast {span}`");
    }
}
