//! What `/metrics` shows, through a real process.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Api, Model, Server, repository, scratch};
use reqwest::{Method, StatusCode};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Type and labels of one metric.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Family {
    kind: String,
    labels: BTreeSet<String>,
}

/// One scrape, parsed with more rigour than Prometheus itself would.
#[derive(Debug, Default)]
struct Scrape {
    families: BTreeMap<String, Family>,
    /// Values by name and labels, in the text form.
    samples: BTreeMap<String, f64>,
}

impl Scrape {
    fn parse(text: &str) -> Self {
        let (mut scrape, mut helped, mut current) = (Self::default(), BTreeSet::new(), String::new());
        assert!(text.ends_with('\n'), "the last line is cut off");
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                assert!(help.len() > 5, "{line}");
                assert!(helped.insert(name.to_owned()), "told twice: {line}");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                let family = Family { kind: kind.to_owned(), labels: BTreeSet::new() };
                assert!(scrape.families.insert(name.to_owned(), family).is_none(), "told twice: {line}");
                assert!(helped.contains(name), "no help: {line}");
                current = name.to_owned();
            } else {
                scrape.sample(&current, line);
            }
        }
        scrape
    }

    fn sample(&mut self, current: &str, line: &str) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').unwrap()),
            None => (series, ""),
        };
        let family = self.families.get_mut(current).unwrap();
        let suffix = name.strip_prefix(current).unwrap_or_else(|| panic!("out of place: {line}"));
        let allowed: &[&str] =
            if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(allowed.contains(&suffix), "out of place: {line}");
        for label in labels.split("\",").filter(|label| !label.is_empty()) {
            let label = label.split_once("=\"").unwrap().0;
            if label != "le" {
                family.labels.insert(label.to_owned());
            }
        }
        let value: f64 = value.parse().unwrap();
        assert!(value.is_finite() && value >= 0.0, "{line}");
        assert!(self.samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
    }

    /// The sum of a metric over all series that have these labels.
    fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let of_name = |series: &str| series.split('{').next() == Some(name);
        let matching = self
            .samples
            .iter()
            .filter(|(series, _)| of_name(series) && labels.iter().all(|label| series.contains(label)));
        matching.map(|(_, value)| value).sum()
    }

    fn nodes(&self) -> BTreeSet<&str> {
        let values =
            self.samples.keys().filter_map(|series| series.split_once("node=\"")).map(|(_, rest)| rest);
        values.filter_map(|rest| rest.split('"').next()).collect()
    }
}

async fn scrape_text(server: &Server) -> String {
    // No key: scrapers have none.
    let answer = reqwest::get(format!("{}/metrics", server.admin)).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(answer.headers()["content-type"].to_str().unwrap().starts_with("text/plain"));
    answer.text().await.unwrap()
}

async fn scrape(server: &Server) -> Scrape {
    Scrape::parse(&scrape_text(server).await)
}

/// Every sort of call, by one user.
async fn use_everything(api: &Api, user: &str) {
    let path = format!("/v1/users/{user}");
    let memories = json!({ "memories": [
        { "content": "我对花生过敏", "kind": "semantic" },
        { "content": "We met in Lisbon 🙂", "kind": "episodic" },
        { "content": "We met in Lisbon 🙂", "kind": "episodic" },
        { "content": "To deploy, run the pipeline twice.", "kind": "procedural" },
    ] });
    let added = api.ok(&format!("{path}/memories"), &memories).await;
    let id = |at: usize| added["results"][at]["id"].as_str().unwrap().to_owned();
    for _ in 0..3 {
        api.ok(&format!("{path}/recall"), &json!({ "query": "Lisbon 花生" })).await;
    }
    let items = json!([
        { "id": id(0), "outcome": "adopted" },
        { "id": id(1), "outcome": "useless" },
        { "id": id(3), "outcome": "harmful" },
    ]);
    api.ok(&format!("{path}/feedback"), &json!({ "items": items })).await;
    let patch = api.request(Method::PATCH, &format!("{path}/memories/{}", id(0)));
    let (status, answer) = api.send(patch.json(&json!({ "importance": 0.9 }))).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{answer}");
    for read in
        ["/memories".to_owned(), format!("/memories/{}", id(0)), format!("/memories/{}/history", id(0))]
    {
        assert_eq!(api.get(&format!("{path}{read}")).await.0, StatusCode::OK, "{read}");
    }
    assert_eq!(api.delete(&format!("{path}/memories/{}", id(3))).await.0, StatusCode::OK);
    assert_eq!(api.get(&format!("{path}/memories/no-such-id")).await.0, StatusCode::NOT_FOUND);
}

/// Name, type and labels of the metrics in `docs/metrics.md`.
fn documented() -> BTreeMap<String, Family> {
    let text = std::fs::read_to_string(repository().join("docs/metrics.md")).unwrap();
    let mut families = BTreeMap::new();
    let mut of_nodes = false;
    for line in text.lines() {
        of_nodes |= line == "## Nodes";
        let Some(row) = line.strip_prefix("| `holdfast_") else { continue };
        // `dev` has no TLS; tls.rs looks at these.
        if row.starts_with("tls_") {
            continue;
        }
        let cells: Vec<&str> = row.trim_end_matches('|').split(" | ").map(str::trim).collect();
        let [name, kind, .., meaning] = cells[..] else { panic!("{line}") };
        assert!(!meaning.is_empty(), "{line}");
        let mut labels: BTreeSet<String> = BTreeSet::new();
        if cells.len() == 4 {
            labels.extend(cells[2].split(", ").map(|label| label.trim_matches('`').to_owned()));
        }
        if of_nodes {
            labels.insert("node".into());
        }
        let name = format!("holdfast_{}", name.trim_end_matches('`'));
        assert!(families.insert(name, Family { kind: kind.into(), labels }).is_none(), "twice: {line}");
    }
    families
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_documented_metric_is_shown_and_no_other() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    use_everything(&server.api(), "ann").await;
    server.admin_api().replicas_agree().await;
    let shown = scrape(&server).await;
    let documented = documented();
    let names = |families: &BTreeMap<String, Family>| families.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&shown.families), names(&documented));
    for (name, family) in &shown.families {
        assert_eq!(family, &documented[name], "{name}: shown and documented");
    }
    assert_eq!(shown.nodes(), BTreeSet::from(["1", "2", "3"]));
}

/// Memories on a node: semantic, episodic, procedural.
fn stored(shown: &Scrape, node: &str) -> [f64; 3] {
    ["semantic", "episodic", "procedural"].map(|kind| {
        let labels = [format!("kind=\"{kind}\""), format!("node=\"{node}\"")];
        shown.sum("holdfast_memories", &[&labels[0], &labels[1]])
    })
}

/// Said twice with one key, it is written once.
async fn write_once_twice(api: &Api) {
    for _ in 0..2 {
        let request = api.request(Method::POST, "/v1/users/cid/memories").header("Idempotency-Key", "k");
        let (status, answer) =
            api.send(request.json(&json!({ "memories": [{ "content": "once" }] }))).await.unwrap();
        assert_eq!(status, StatusCode::CREATED, "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_numbers_are_those_of_the_load() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let api = server.api();
    for user in ["ann", "bob"] {
        use_everything(&api, user).await;
    }
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(1);
    let body = json!({ "memories": [{ "content": "gone soon", "expires_at": soon.to_string() }] });
    api.ok("/v1/users/ann/memories", &body).await;
    write_once_twice(&api).await;
    server.admin_api().replicas_agree().await;
    let deadline = Instant::now() + Duration::from_secs(20);
    let shown = loop {
        let shown = scrape(&server).await;
        // Nine groups, and each has one leader, unless one is just being elected.
        let leaders = shown.sum("holdfast_raft_groups", &["role=\"leader\""]);
        if shown.sum("holdfast_swept_due_rows_total", &[]) >= 1.0 && leaders == 9.0 {
            assert_eq!(shown.sum("holdfast_raft_is_leader", &[]), 9.0);
            break shown;
        }
        assert!(Instant::now() < deadline, "what expired was not swept, or there are {leaders} leaders");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let written = |kind: &str, status: &str| {
        let labels = [format!("kind=\"{kind}\""), format!("status=\"{status}\"")];
        shown.sum("holdfast_memories_written_total", &[&labels[0], &labels[1]])
    };
    assert_eq!([written("semantic", "created"), written("semantic", "updated")], [4.0, 2.0]);
    assert_eq!([written("episodic", "created"), written("episodic", "merged")], [2.0, 2.0]);
    let deleted = shown.sum("holdfast_memories_deleted_total", &[]);
    assert_eq!([written("procedural", "created"), deleted], [2.0, 2.0]);
    for verdict in ["adopted", "useless", "harmful"] {
        assert_eq!(shown.sum("holdfast_feedback_total", &[&format!("verdict=\"{verdict}\"")]), 2.0);
    }
    // At least: a router may ask twice where a leader was slow.
    for step in ["wait", "load", "scan", "show"] {
        assert!(shown.sum("holdfast_recall_step_seconds_count", &[&format!("step=\"{step}\"")]) >= 6.0);
    }
    assert!(shown.sum("holdfast_recall_seconds_count", &["index=\"exact\""]) >= 6.0);
    assert!(shown.sum("holdfast_recall_scored_rows_total", &[]) >= 18.0, "three live memories each");
    assert!(shown.sum("holdfast_spaces_live", &[]) >= 2.0);
    assert_eq!(shown.sum("holdfast_raft_groups", &[]), 27.0);
    assert!(shown.sum("holdfast_raft_term_changes_total", &[]) >= 9.0, "each group elected its leader");
    for always in [
        "holdfast_raft_proposals_total",
        "holdfast_raft_propose_seconds_count",
        "holdfast_raft_proposed_commands_total",
        "holdfast_log_sync_seconds_sum",
        "holdfast_raft_commit_seconds_count",
        "holdfast_log_appended_entries_total",
        "holdfast_log_written_bytes_total",
        "holdfast_log_disk_bytes",
        "holdfast_apply_seconds_count",
        "holdfast_apply_batch_commands_sum",
        "holdfast_apply_batch_rows_sum",
        "holdfast_state_rows",
        "holdfast_state_disk_bytes",
        "holdfast_spaces_bytes",
        "holdfast_spaces_budget_bytes",
    ] {
        assert!(shown.sum(always, &[]) > 0.0, "{always}");
    }
    // What was created, less what was deleted or expired, on each node.
    for node in ["1", "2", "3"] {
        assert_eq!(stored(&shown, node), [3.0, 2.0, 0.0], "node {node}");
    }
    let rows = |node: &str| shown.sum("holdfast_state_rows", &[&format!("node=\"{node}\"")]);
    assert_eq!([rows("1"), rows("2")], [rows("3"), rows("3")], "replicas have the same rows");
}

/// A series without the node that it is of.
fn without_node(series: &str) -> String {
    ["1", "2", "3"]
        .iter()
        .fold(series.to_owned(), |series, node| series.replace(&format!("node=\"{node}\""), ""))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_do_not_grow_with_users() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    // Enough that every node has led a shard that was used.
    for n in 0..24 {
        use_everything(&server.api(), &format!("first-{n}")).await;
    }
    // The first scrape is itself a request with a route of its own.
    scrape(&server).await;
    let before = scrape(&server).await;
    for n in 0..24 {
        use_everything(&server.api(), &format!("用户-second-{n}")).await;
    }
    let text = scrape_text(&server).await;
    let after = Scrape::parse(&text);
    // A change of leader or a hedged read in between may show a code that was not there before, and a
    // method on a node that was not asked for it yet.
    let by_chance = |series: &str| ["unavailable", "cancelled"].iter().any(|code| series.contains(code));
    let known: BTreeSet<String> = before.samples.keys().map(|series| without_node(series)).collect();
    let new: Vec<&String> = after
        .samples
        .keys()
        .filter(|series| !known.contains(&without_node(series)) && !by_chance(series))
        .collect();
    assert!(new.is_empty(), "{new:?}");
    assert_eq!(after.nodes(), BTreeSet::from(["1", "2", "3"]));
    assert!(after.samples.len() < 4_000, "{} series", after.samples.len());
    for secret in ["first-", "second-", "用户", "%E7", "Lisbon", "花生", server.key.as_str(), "no-such-id"]
    {
        assert!(!text.contains(secret), "{secret} is in the metrics");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_node_is_not_shown_and_comes_back() {
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    let (api, admin) = (server.api(), server.admin_api());
    for node in ["2", "3"] {
        // Scrapes race with the stop and the start: neither may fail for it.
        let url = format!("{}/metrics", server.admin);
        let racing = tokio::spawn(async move {
            for _ in 0..40 {
                let answer = reqwest::get(&url).await.unwrap();
                Scrape::parse(&answer.text().await.unwrap());
            }
        });
        let (status, answer) = admin.post(&format!("/admin/v1/nodes/{node}:stop"), &json!({})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        let shown = scrape(&server).await;
        assert!(!shown.nodes().contains(node), "{:?}", shown.nodes());
        assert_eq!(shown.nodes().len(), 2);
        let (status, answer) = admin.post(&format!("/admin/v1/nodes/{node}:start"), &json!({})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        racing.await.unwrap();
        assert_eq!(scrape(&server).await.nodes().len(), 3);
        admin.replicas_agree().await;
    }
    use_everything(&api, "ann").await;
    assert!(scrape(&server).await.sum("holdfast_state_rows", &["node=\"3\""]) > 0.0);
}

/// On the path, or where `scripts/fetch-prometheus.sh` puts it.
fn promtool() -> Option<PathBuf> {
    if Command::new("promtool").arg("--version").output().is_ok() {
        return Some("promtool".into());
    }
    let folder = std::env::var_os("HOLDFAST_TOOLS_DIR").map(PathBuf::from).or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache =
            cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
        Some(cache.join("holdfast/tools"))
    })?;
    Some(folder.join("promtool")).filter(|path| path.is_file())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promtool_finds_no_fault() {
    let Some(promtool) = promtool() else {
        assert!(
            std::env::var_os("HOLDFAST_REQUIRE_PROMTOOL").is_none(),
            "promtool is missing: run make setup"
        );
        eprintln!("skipped: promtool is not installed; scripts/fetch-prometheus.sh fetches it");
        return;
    };
    let data = scratch();
    let server = Server::start(data.path(), Model::Absent);
    use_everything(&server.api(), "ann").await;
    let check = |text: &str| {
        let mut command = Command::new(&promtool);
        command
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    assert_eq!(check(&scrape_text(&server).await), (true, String::new()));
    // And it would have found one.
    assert!(!check("# TYPE holdfast_wait_milliseconds counter\nholdfast_wait_milliseconds 1\n").0);
}
