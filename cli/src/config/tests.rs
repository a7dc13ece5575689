//! The sources together: precedence, what must be there, what must agree.
#![allow(clippy::unwrap_used)]

use super::*;
use std::path::Path;

const SEEDS: (&str, &str) = ("HOLDFAST_CLUSTER__SEEDS", "a:1,b:1,c:1");
const ADVERTISE: (&str, &str) = ("HOLDFAST_NODE__ADVERTISE", "b:1");
const MODEL: (&str, &str) = ("HOLDFAST_EMBEDDER__MODEL", "m");
const DIMS: (&str, &str) = ("HOLDFAST_EMBEDDER__DIMS", "3");
const URL: (&str, &str) = ("HOLDFAST_EMBEDDER__URL", "http://localhost:1/v1");

fn load(file: Option<&Path>, environment: &[(&str, &str)], set: &[&str], role: Role) -> (Config, Figment) {
    try_load(file, environment, set, role).unwrap_or_else(|error| panic!("{error}"))
}

fn try_load(
    file: Option<&Path>,
    environment: &[(&str, &str)],
    set: &[&str],
    role: Role,
) -> Result<(Config, Figment), String> {
    let sources = SourceArgs {
        config: file.map(Path::to_owned),
        set: set.iter().map(|flag| (*flag).to_owned()).collect(),
    };
    // What is not about TLS does without.
    let has_tls = environment.iter().any(|(name, _)| *name == "HOLDFAST_TLS__MODE");
    let off = (!has_tls).then_some(("HOLDFAST_TLS__MODE", "off"));
    let variables = environment.iter().copied().chain(off).map(|(name, value)| (name.into(), value.into()));
    sources.read(role, variables).map_err(|error| error.to_string())
}

/// The errors, one a line, of a configuration that has some.
fn errors(file: Option<&str>, environment: &[(&str, &str)], set: &[&str], role: Role) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    if let Some(text) = file {
        std::fs::write(&path, text).unwrap();
    }
    let text = try_load(file.map(|_| path.as_path()), environment, set, role).map(|_| ()).unwrap_err();
    let text = text.replace(folder.path().to_str().unwrap(), "D");
    text.lines().skip(1).map(|line| line.trim().to_owned()).collect()
}

fn one_error(file: Option<&str>, environment: &[(&str, &str)], set: &[&str], role: Role) -> String {
    let errors = errors(file, environment, set, role);
    assert_eq!(errors.len(), 1, "{errors:#?}");
    errors[0].clone()
}

#[test]
fn the_file_yields_to_the_environment_and_that_to_flags() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("配置.toml");
    let text = "\u{feff}[cluster]\nseeds = [\"a:1\"]\n[node]\nheartbeat_ms = 100\nsearch_threads = 1\n\
                data = 'f'\n[log]\nformat = 'json'\n";
    std::fs::write(&path, text).unwrap();
    let environment = [("HOLDFAST_NODE__HEARTBEAT_MS", "200"), ("HOLDFAST_NODE__SEARCH_THREADS", "2")];
    let flags = ["node.heartbeat_ms=300", "node.heartbeat_ms=400"];
    let (config, figment) = load(Some(&path), &environment, &flags, Role::Router);
    assert_eq!(config.node.heartbeat_ms, 400, "the last flag counts");
    assert_eq!(config.node.search_threads, 2);
    assert_eq!(config.node.data, Path::new("f"));
    assert_eq!(config.node.spaces_bytes, NodeSection::default().spaces_bytes);
    assert_eq!(config.log.format, LogFormat::Json);
    let source = |path| layer::source(&figment, path);
    assert_eq!(source("node.heartbeat_ms"), "flag --set node.heartbeat_ms");
    assert_eq!(source("node.search_threads"), "environment HOLDFAST_NODE__SEARCH_THREADS");
    assert_eq!(source("node.data"), format!("file {}:6", path.display()));
    assert_eq!(source("cluster.seeds"), format!("file {}:2", path.display()));
    assert_eq!(source("node.spaces_bytes"), "default");
}

#[test]
fn holdfast_log_wins_over_everything() {
    let environment = [SEEDS, ("HOLDFAST_LOG", "debug"), ("HOLDFAST_LOG__FILTER", "info")];
    let (config, figment) = load(None, &environment, &["log.filter=error"], Role::Router);
    assert_eq!(config.log.filter, "debug");
    assert_eq!(layer::source(&figment, "log.filter"), "environment HOLDFAST_LOG");
    let environment = [SEEDS, ("HOLDFAST_LOG", "")];
    assert_eq!(load(None, &environment, &["log.filter=error"], Role::Router).0.log.filter, "error");
    let error = one_error(None, &[SEEDS, ("HOLDFAST_LOG", "=x=")], &[], Role::Router);
    assert!(error.starts_with("environment variable HOLDFAST_LOG: "), "{error}");
}

#[test]
fn every_setting_can_be_set_from_each_source() {
    use catalogue::{Format, Kind, SECTIONS};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    for setting in SECTIONS.iter().flat_map(|section| &section.settings) {
        let value: serde_json::Value = match &setting.kind {
            _ if setting.path == "embedder.url" => "http://localhost:1/v1".into(),
            Kind::Integer { max, .. } => (*max).into(),
            Kind::Boolean => (!setting.default.as_bool().unwrap()).into(),
            Kind::List(Format::Moved) => serde_json::json!(["z:1=b:1"]),
            Kind::List(_) => serde_json::json!(["b:1"]),
            Kind::Choice(words) => words.last().unwrap().as_str().into(),
            Kind::Text(Format::IpPort) => "127.0.0.1:9".into(),
            Kind::Text(Format::HostPort | Format::Moved) => "b:1".into(),
            Kind::Text(Format::LogFilter) => "trace".into(),
            Kind::Text(Format::Any | Format::NotEmpty) => "some folder".into(),
        };
        assert_ne!(value, setting.default);
        // JSON of these types is TOML, too.
        let (section, key) = setting.path.split_once('.').unwrap();
        std::fs::write(&path, format!("[{section}]\n{key} = {value}\n")).unwrap();
        let (variable, flag) = (setting.variable(), format!("{}={value}", setting.path));
        let text = value.to_string();
        let others: &[_] = match setting.path.as_str() {
            "cluster.seeds" => &[],
            "embedder.url" => &[SEEDS, MODEL, DIMS],
            "embedder.model" => &[SEEDS, URL, DIMS],
            _ => &[SEEDS],
        };
        let with_variable = [others, &[(variable.as_str(), text.as_str())]].concat();
        for (config, _) in [
            load(Some(&path), others, &[], Role::Router),
            load(None, &with_variable, &[], Role::Router),
            load(None, others, &[&flag], Role::Router),
        ] {
            assert_eq!(serde_json::to_value(config).unwrap()[section][key], value, "{}", setting.path);
        }
    }
}

#[test]
fn an_embedding_service_needs_its_model_and_dimensions() {
    let url = ["embedder.url=http://localhost:1/v1"];
    assert_eq!(errors(None, &[SEEDS], &url, Role::Router).len(), 2);
    assert!(one_error(None, &[SEEDS, DIMS], &url, Role::Router).contains("embedder.model: must be set"));
    assert!(one_error(None, &[SEEDS, MODEL], &url, Role::Router).contains("embedder.dims: must be set"));
    let error = one_error(None, &[SEEDS, MODEL, DIMS], &["embedder.url=localhost:1"], Role::Router);
    assert!(error.contains("must begin with http"), "{error}");
    for nowhere in ["http://", "https:///v1", "http://:80/v1"] {
        let set = [format!("embedder.url={nowhere}")];
        let error = one_error(None, &[SEEDS, MODEL, DIMS], &[&set[0]], Role::Router);
        assert!(error.contains("embedder.url") && error.contains("names no host"), "{error}");
        // `holdfast dev` has no role.
        let error = one_error(None, &[MODEL, DIMS], &[&set[0]], Role::Nobody);
        assert!(error.contains("names no host"), "{error}");
    }
    for role in [Role::Router, Role::Nobody] {
        let error = one_error(None, &[SEEDS, MODEL], &[], role);
        assert!(
            error.contains("HOLDFAST_EMBEDDER__MODEL") && error.contains("embedder.url is not set"),
            "{error}"
        );
    }
}

#[test]
fn what_is_printed_loads_again_to_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    for data in ["/数据/a b", "quote\" and '' # no comment", "back\\slash", "two\nlines\t\u{7f}", "'''\"\"\""]
    {
        let flag = format!("node.data={data}");
        let set = [flag.as_str(), "router.drain_delay_ms=7", "log.format=json", "embedder.required=false"];
        let (config, figment) = load(None, &[SEEDS, ADVERTISE], &set, Role::All);
        assert_eq!(config.node.data, Path::new(data));
        std::fs::write(&path, print::to_toml(&config, &figment).unwrap()).unwrap();
        let (again, figment) = load(Some(&path), &[], &[], Role::All);
        assert_eq!(again, config);
        let from = layer::source(&figment, "router.drain_delay_ms");
        assert!(from.starts_with("file "), "{from}");
    }
}

#[test]
fn a_role_asks_for_its_own_settings_only() {
    let missing = errors(None, &[], &[], Role::Router);
    assert_eq!(missing.len(), 1);
    assert!(missing[0].starts_with("cluster.seeds: must be set: 1, 3, 5 or 7"), "{missing:?}");
    assert!(missing[0].contains("HOLDFAST_CLUSTER__SEEDS"), "{missing:?}");
    for role in [Role::Node, Role::All] {
        let missing = errors(Some(""), &[], &[], role);
        assert_eq!(missing.len(), 2);
        assert!(missing[1].starts_with("node.advertise: must be set: one of `cluster.seeds`"), "{missing:?}");
    }
    load(None, &[SEEDS], &[], Role::Router);
    load(None, &[SEEDS, ADVERTISE], &[], Role::Node);
    let empty = one_error(None, &[("HOLDFAST_CLUSTER__SEEDS", "[]")], &[], Role::Router);
    assert!(empty.starts_with("environment variable HOLDFAST_CLUSTER__SEEDS: must be set"), "{empty}");
}

#[test]
fn the_sections_of_the_other_role_are_checked_too() {
    let error = one_error(Some("[router]\nhtpp = 'x'"), &[SEEDS, ADVERTISE], &[], Role::Node);
    assert_eq!(error, "D/c.toml:2: [router] has no setting \"htpp\"; did you mean router.http?");
    let error = one_error(Some("[node]\nheartbeat_ms = 1"), &[SEEDS], &[], Role::Router);
    assert_eq!(error, "D/c.toml:2: node.heartbeat_ms: 1 is out of range: 50 to 5000 milliseconds");
    // But which node it is does not matter to a router.
    load(None, &[SEEDS, ("HOLDFAST_NODE__ADVERTISE", "elsewhere:1")], &[], Role::Router);
}

#[test]
fn a_cluster_has_an_odd_number_of_different_nodes() {
    for count in 1..=9 {
        let seeds: Vec<_> = (0..count).map(|node| format!("n{node}:1")).collect();
        let flag = format!("cluster.seeds={}", seeds.join(","));
        let done = try_load(None, &[], &[&flag], Role::Router);
        assert_eq!(done.is_ok(), matches!(count, 1 | 3 | 5 | 7), "{count}");
    }
    let error = one_error(None, &[], &["cluster.seeds=a:1,b:1,A:1"], Role::Router);
    assert_eq!(error, "--set cluster.seeds: \"A:1\" stands twice, as \"a:1\"; list each node once");
}

#[test]
fn a_node_is_one_of_the_seeds() {
    let advertise =
        |value: &str| one_error(None, &[SEEDS, ("HOLDFAST_NODE__ADVERTISE", value)], &[], Role::Node);
    let error = advertise("d:1");
    assert!(error.ends_with("\"d:1\" is not one of cluster.seeds; the seeds are a:1, b:1, c:1"), "{error}");
    assert!(advertise("B:1").ends_with("write it exactly as there: \"b:1\""));
    assert!(advertise("0.0.0.0:7800").contains("others cannot connect to it"));
}

#[test]
fn two_listeners_need_two_addresses() {
    let error = one_error(Some("[node]\nlisten = '127.0.0.1:7801'"), &[SEEDS, ADVERTISE], &[], Role::Node);
    assert_eq!(error, "node.admin: 0.0.0.0:7801 is also node.listen (127.0.0.1:7801); give them two ports");
    let error = one_error(None, &[SEEDS], &["router.admin=[::]:7700"], Role::Router);
    assert!(error.starts_with("--set router.admin: [::]:7700 is also router.http"), "{error}");
    load(None, &[SEEDS], &["router.admin=127.0.0.1:0", "router.http=127.0.0.1:0"], Role::Router);
}

#[test]
fn all_errors_of_all_sources_come_at_once_and_none_follows_from_another() {
    let file = "stray = 1\n[nood]\nx = 1\n[cluster]\nseeds = ['a', 'b:0', 'c:1', 'd:1']\nshards = 0\n\
                [node]\nadmin = 7\nlisten = '0.0.0.0:7801'\nadvertise = 'z:1'\n[log]\nformat = 'xml'\n";
    let found = errors(Some(file), &[("HOLDFAST_X__Y", "1")], &["router.http=x", "a"], Role::All);
    let places: Vec<_> = found.iter().map(|line| line.split(": ").next().unwrap()).collect();
    // Nothing is said of the number of seeds, who is one of them, or who listens where node.admin
    // does: their values are not known.
    assert_eq!(
        places,
        [
            "D/c.toml:1",
            "D/c.toml:2",
            "D/c.toml:5",
            "D/c.toml:5",
            "D/c.toml:6",
            "D/c.toml:8",
            "D/c.toml:12",
            "environment variable HOLDFAST_X__Y",
            "--set router.http",
            "--set a",
        ],
        "{found:#?}"
    );
}

#[test]
fn a_wrong_value_is_an_error_also_where_a_later_source_sets_it() {
    let file = "[node]\nheartbeat_ms = 'x'\n";
    let error = one_error(Some(file), &[SEEDS], &["node.heartbeat_ms=100"], Role::Router);
    assert!(error.starts_with("D/c.toml:2: node.heartbeat_ms: expected a whole number"), "{error}");
}

#[test]
fn toml_that_is_broken_is_named_by_line() {
    let deep = format!("a = {}", "[".repeat(100_000));
    for (text, line, says) in [
        ("[node]\ndata = 'a'\ndata = 'b'\n", 3, "duplicate key"),
        ("[node]\n\n[node]\n", 3, "duplicate key"),
        ("[node\n", 1, ""),
        ("node]\n", 1, ""),
        ("[node]\ndata = \n", 2, ""),
        ("[node]\ndata = \"a\nb\"\n", 2, ""),
        ("[node]\ndata = '\0'\n", 2, ""),
        ("{\"node\": {}}\n", 1, ""),
        (&deep, 1, "recurs"),
    ] {
        let found = errors(Some(text), &[], &[], Role::Node);
        let shown = &text[..text.len().min(40)];
        assert!(found[0].starts_with(&format!("D/c.toml:{line}: not valid TOML: ")), "{shown}: {found:#?}");
        assert!(found[0].contains(says), "{shown}: {found:#?}");
        // What a broken file does not say is not called missing.
        assert!(found.iter().all(|line| !line.contains("must be set")), "{shown}: {found:#?}");
    }
}

#[test]
fn sections_must_be_tables() {
    for text in ["node = 5\n", "[[node]]\ndata = 'x'\n", "node = 'x'\n"] {
        let error = one_error(Some(text), &[SEEDS], &[], Role::Node);
        assert_eq!(error, "D/c.toml:1: node must be a table: [node]");
    }
    let error = one_error(Some("[log.filter]\nx = 1\n"), &[SEEDS], &[], Role::Router);
    assert_eq!(error, "D/c.toml:1: log.filter: expected a string, found a table");
    let error = one_error(Some("[[nodes]]\nx = 1\n"), &[SEEDS], &[], Role::Router);
    assert_eq!(error, "D/c.toml:1: there is no section \"nodes\"; did you mean [node]?");
    // Other ways to write a table are the same.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    std::fs::write(&path, "node.data = 'x'\ncluster = { seeds = ['a:1'] }\n").unwrap();
    assert_eq!(load(Some(&path), &[], &[], Role::Router).0.node.data, Path::new("x"));
}

#[test]
fn the_defaults_of_a_router_are_those_of_the_router() {
    let (config, _) = load(None, &[SEEDS], &[], Role::Router);
    let made = config.router_config(vec![(1, "a:1".to_owned())]);
    let limits = holdfast_router::RouterConfig::new(made.http, made.admin, Vec::new());
    assert_eq!(made.nodes, [(1, "a:1".to_owned())]);
    assert_eq!(made.work_threads, limits.work_threads, "0 is one a core");
    assert_eq!(made.write_timeout, limits.write_timeout);
    let set = ["router.work_threads=3", "router.write_timeout_ms=77", "router.body_bytes_max=20000000"];
    let made = load(None, &[SEEDS], &set, Role::Router).0.router_config(Vec::new());
    assert_eq!((made.work_threads, made.body_bytes_max), (3, 20_000_000));
    assert_eq!(made.write_timeout, std::time::Duration::from_millis(77));
}

#[test]
fn an_empty_model_folder_means_the_default_one() {
    assert_eq!(EmbedderSection::default().model_dir(), None);
    let (config, _) = load(None, &[SEEDS], &["embedder.model_dir=/m"], Role::Router);
    assert_eq!(config.embedder.model_dir(), Some(Path::new("/m")));
}

#[test]
fn one_node_in_two_spellings_is_one_node() {
    for (one, other) in [
        ("[2001:db8::1]:7800", "[2001:DB8:0:0::1]:7800"),
        ("[::ffff:10.0.0.1]:7800", "10.0.0.1:7800"),
        ("node-0.example:7800", "node-0.example:07800"),
        ("node-0.example:7800", "Node-0.Example.:7800"),
    ] {
        let seeds = format!("[\"{one}\", \"b:1\", \"{other}\"]");
        let error = one_error(None, &[("HOLDFAST_CLUSTER__SEEDS", &seeds)], &[], Role::Router);
        assert!(
            error.ends_with(&format!("{other:?} stands twice, as {one:?}; list each node once")),
            "{error}"
        );
        let (seeds, advertise) = (format!("[\"{one}\"]"), format!("\"{other}\""));
        let environment = [("HOLDFAST_CLUSTER__SEEDS", &*seeds), ("HOLDFAST_NODE__ADVERTISE", &*advertise)];
        let error = one_error(None, &environment, &[], Role::Node);
        assert!(error.ends_with(&format!("write it exactly as there: {one:?}")), "{error}");
    }
}

#[test]
fn a_node_moves_from_where_it_was_to_a_seed() {
    let (config, _) = load(None, &[SEEDS], &["cluster.moved=old:1=a:1,[::1]:2=b:1"], Role::Router);
    let moves = config.cluster.moves();
    assert_eq!((moves.of("old:1"), moves.of("[0::1]:2"), moves.of("c:1")), ("a:1", "b:1", "c:1"));
    for (moved, says) in [
        ("old:1=z:1", "\"z:1\" is not one of cluster.seeds"),
        ("a:1=b:1", "\"a:1\" has moved and is one of cluster.seeds"),
        ("old:1=a:1,old:1=b:1", "one node moves to one address"),
        ("old:1=a:1,older:1=A:1", "one node moves to one address"),
        ("old:1", "has no \"=\""),
        ("old=a:1", "has no port"),
        ("old:1=a", "has no port"),
    ] {
        let error = one_error(None, &[SEEDS], &[&format!("cluster.moved={moved}")], Role::Router);
        assert!(error.starts_with("--set cluster.moved: ") && error.contains(says), "{says}: {error}");
    }
}

#[test]
fn tls_is_off_only_where_somebody_says_so() {
    let on = ("HOLDFAST_TLS__MODE", "on");
    for role in [Role::Node, Role::Router, Role::Operator] {
        let found = errors(None, &[SEEDS, ADVERTISE, on], &[], role);
        let places: Vec<_> = found.iter().map(|line| line.split(": ").next().unwrap()).collect();
        assert_eq!(places, ["tls.ca", "tls.cert", "tls.key"], "{found:#?}");
        assert!(found[0].contains("HOLDFAST_TLS__CA") && found[0].contains("ctl certs"), "{found:#?}");
    }
    let file = "[tls]\nca = '/no/ca.pem'\ncert = '/no/a.pem'\nkey = '/no/a.key'\n";
    let found = errors(Some(file), &[SEEDS, on], &[], Role::Router);
    assert_eq!(found[1], "D/c.toml:3: tls.cert: /no/a.pem: there is no such file", "{found:#?}");
    assert_eq!(found.len(), 3);
    // Which certificate a process has does not matter to somebody who only wants the seeds.
    assert!(load(None, &[on], &[], Role::Nobody).0.cluster.seeds.is_empty());
    assert!(
        load(None, &[SEEDS, on], &["tls.mode=off"], Role::Router)
            .0
            .security(Role::Router)
            .unwrap()
            .is_plain()
    );
}
