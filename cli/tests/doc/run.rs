//! Runs the commands of a page in one shell, as a reader would.

use super::expect;
use super::markdown::{Block, blocks};
use std::path::Path;
use std::process::{Command, Stdio};

/// Longest time that the commands of one page may take.
const SECONDS_MAX: &str = "240";

/// A command of a page, and what the page says that it prints.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    line: usize,
    command: String,
    expected: Option<String>,
}

/// What stands in the pages for something of the reader's, and what it is here.
pub type Stand = (&'static str, String);

/// Runs the shell blocks of a page in `folder`, with `path` before the other programs, and tells what
/// is not as the page says.
pub fn page(markdown: &str, folder: &Path, path: &Path, stands: &[Stand]) -> Vec<String> {
    let steps: Vec<Step> = blocks(markdown)
        .iter()
        .filter(|block| block.is_shell() && !block.is_ignored())
        .flat_map(steps)
        .collect();
    let results = tempfile::tempdir().unwrap();
    // `eval` keeps what a command sets, and a mistake in its syntax to itself.
    let mut script = String::from("exec </dev/null\n");
    for (at, step) in steps.iter().enumerate() {
        let command = stands.iter().fold(step.command.clone(), |text, (sign, real)| text.replace(sign, real));
        std::fs::write(results.path().join(format!("{at}.command")), command).unwrap();
        script.push_str(&format!(
            "eval \"$(<\"$RESULTS/{at}.command\")\" >\"$RESULTS/{at}.out\" 2>\"$RESULTS/{at}.err\"\n\
             echo $? >\"$RESULTS/{at}.status\"\n"
        ));
    }
    let search = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
    let ended = Command::new("timeout")
        .args([SECONDS_MAX, "bash", "-c", &script])
        .current_dir(folder)
        .env("PATH", search)
        .env("RESULTS", results.path())
        .env_remove("HOLDFAST_URL")
        .env_remove("HOLDFAST_API_KEY")
        .stdin(Stdio::null())
        .status()
        .unwrap();
    let mut wrong = Vec::new();
    if steps.is_empty() {
        wrong.push("the page has no command".to_owned());
    }
    for (at, step) in steps.iter().enumerate() {
        let read = |kind: &str| {
            let text = std::fs::read(results.path().join(format!("{at}.{kind}"))).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            stands.iter().fold(text, |text, (sign, real)| text.replace(real, sign))
        };
        if let Err(why) = check(step, &read("status"), &read("out"), &read("err")) {
            wrong.push(format!("line {}: {}\n{why}", step.line, step.command.trim_end()));
        }
    }
    if !ended.success() && wrong.is_empty() {
        wrong.push(format!("the shell ended with {ended}"));
    }
    wrong
}

fn check(step: &Step, status: &str, out: &str, err: &str) -> Result<(), String> {
    match status.trim() {
        "0" => {}
        "" => return Err("it did not run: an earlier command ended the shell, or took too long".to_owned()),
        other => return Err(format!("it failed with {other}:\n{out}{err}")),
    }
    step.expected.as_ref().map_or(Ok(()), |expected| expect::compare(expected, out))
}

fn steps(block: &Block) -> Vec<Step> {
    if block.language() != "console" {
        return vec![Step { line: block.line, command: block.text.clone(), expected: None }];
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut goes_on = false;
    for (at, line) in block.text.lines().enumerate() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (_, Some(step)) if goes_on => step.command.push_str(&format!("{line}\n")),
            (Some(command), _) => steps.push(Step {
                line: block.line + at,
                command: format!("{command}\n"),
                expected: Some(String::new()),
            }),
            (None, Some(step)) => {
                step.expected.get_or_insert_default().push_str(&format!("{line}\n"));
                continue;
            }
            (None, None) => panic!("line {}: a console block begins with `$ `", block.line),
        }
        goes_on = steps.last().is_some_and(|step| {
            step.command.trim_end().ends_with('\\') || step.command.matches('\'').count() % 2 == 1
        });
    }
    steps
}

#[test]
fn a_wrong_page_fails_and_a_right_one_does_not() {
    let run = |markdown: &str| {
        let folder = tempfile::tempdir().unwrap();
        page(markdown, folder.path(), folder.path(), &[("hf_…", "hf_real".to_owned())])
    };
    let right = "```sh\nexport WHO=ann\nfalse || true\n```\nText.\n\
                 ```console\n$ echo '{\"who\":\n  \"ann\"}'\n{\"who\": \"ann\"}\n$ echo \\\n  $WHO hf_…\nann hf_…\n$ true\n```\n\
                 ```sh,ignore\nexit 7\n```\n";
    assert_eq!(run(right), Vec::<String>::new());
    for (wrong, line, why) in [
        ("```sh\ntrue\nfalse\n```\n", "line 2:", "failed with 1"),
        ("```sh\nno-such-program\n```\n", "line 2:", "failed with 127"),
        ("```console\n$ echo '{\"a\":1}'\n{\"b\": 1}\n```\n", "line 2:", ".b is missing"),
        ("```console\n$ echo one\ntwo\n```\n", "line 2:", "not what the page says"),
        ("```console\n$ echo silent\n```\n", "line 2:", "not what the page says"),
        ("```sh\nif\n```\n```console\n$ echo on\non\n```\n", "line 2:", "failed with"),
        ("```sh\nexit 0\n```\n```sh\ntrue\n```\n", "line 5:", "it did not run"),
        ("# No command\n", "", "no command"),
        ("```sh,ignore\ntrue\n```\n", "", "no command"),
    ] {
        let told = run(wrong).join("\n");
        assert!(told.contains(line) && told.contains(why), "{wrong}{told}");
    }
}
