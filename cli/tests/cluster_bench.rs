//! `holdfast bench cluster` and `holdfast bench idle`, short: that the figures are there and that
//! nothing acknowledged is lost. How good they are depends on the machine and is not tested.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn bench(folder: &Path, arguments: &[&str]) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .arg("bench")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let (out, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{out}\n{error}");
    (out, error)
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn assert_measured(measured: &Value) {
    for figure in ["writes", "writes_per_s", "p50_us", "p99_us", "max_us", "cpu_ms_per_write", "seconds"] {
        assert!(measured[figure].as_f64().unwrap() > 0.0, "{figure}: {measured}");
    }
    assert_eq!(measured["errors"], serde_json::json!({}), "{measured}");
}

#[test]
fn a_short_run_measures_everything_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "cluster --shards 4 --clients 1,8 --seconds 2 --warm-up-seconds 1 --rounds 1 --failovers 1 \
                     --folder data --json result.json --report cluster.md";
    let (out, error) = bench(folder.path(), &arguments.split_whitespace().collect::<Vec<_>>());
    let result = json(&folder.path().join("result.json"));
    let loads = result["loads"].as_array().unwrap();
    assert_eq!(loads.iter().map(|load| load["clients"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 8]);
    let has_etcd = result["setup"]["etcd"].is_string();
    for load in loads {
        assert_eq!(load["holdfast"].as_array().unwrap().len(), 1);
        assert_eq!(load["etcd"].as_array().unwrap().len(), usize::from(has_etcd));
        for arm in ["holdfast", "etcd"] {
            load[arm].as_array().unwrap().iter().for_each(assert_measured);
        }
    }
    assert_eq!(has_etcd, !error.contains("no etcd"), "what is left out is said: {error}");
    assert_eq!(has_etcd, !out.contains("There was no etcd"), "{out}");
    let checked = &result["checked"];
    assert_eq!(
        (&checked["lost"], &checked["replicas_equal"]),
        (&Value::from(0), &Value::from(true)),
        "{checked}"
    );
    assert_eq!(checked["read_back"], checked["acknowledged"], "a short run is read back as a whole");
    assert!(checked["acknowledged"].as_u64().unwrap() > 0);
    if has_etcd {
        assert_eq!(checked["etcd"][0], checked["etcd"][1], "{checked}");
    }
    let failover = &result["failover"];
    assert_eq!(failover["seconds"].as_array().unwrap().len(), 1);
    assert!(failover["worst_s"].as_f64().unwrap() > 0.0);

    let report = std::fs::read_to_string(folder.path().join("cluster.md")).unwrap();
    for needed in ["| 8 | Holdfast |", "were read back", "was killed with SIGKILL 1 times", "--shards 4"] {
        assert!(report.contains(needed), "{needed} is not in:\n{report}");
    }
    assert_eq!(std::fs::read_dir(folder.path().join("data")).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn the_cost_of_rest_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        ["idle", "--groups", "5", "--seconds", "2", "--settle-seconds", "1", "--json", "idle.json"];
    let (out, _) = bench(folder.path(), &arguments);
    assert!(out.contains("5 idle groups on each of three nodes"), "{out}");
    let result = json(&folder.path().join("idle.json"));
    assert_eq!(result["groups"], 5);
    assert!(result["core_percent"].as_f64().unwrap() >= 0.0 && result["seconds"].as_f64().unwrap() >= 2.0);
}

#[test]
fn a_short_run_of_recalls_measures_every_set() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "recall --scale small --seconds 1 --folder data --json recall.json --report recall.md";
    let (out, error) = bench(folder.path(), &arguments.split_whitespace().collect::<Vec<_>>());
    let result = json(&folder.path().join("recall.json"));
    let sets = result["sets"].as_array().unwrap();
    assert_eq!(sets.len(), 4, "{out}\n{error}");
    for set in sets {
        for figure in ["stored_per_s", "disk_bytes_per_memory", "idle_bytes", "memories"] {
            assert!(set[figure].as_f64().unwrap() > 0.0, "{figure}: {set}");
        }
        assert!(set["cold"]["p99_us"].as_u64().unwrap() > 0, "{set}");
        let arms = set["arms"].as_array().unwrap();
        assert_eq!(
            arms.iter().map(|arm| arm["mode"].as_str().unwrap()).collect::<Vec<_>>(),
            ["composite", "vector"]
        );
        for arm in arms {
            assert_eq!((arm["exact"].as_f64(), arm["bound_met"].as_f64()), (Some(1.0), Some(1.0)), "{arm}");
            for closed in arm["closed"].as_array().unwrap() {
                assert!(
                    closed["per_s"].as_f64().unwrap() > 0.0 && closed["nodes_us"].as_f64().unwrap() > 0.0,
                    "{arm}"
                );
                assert_eq!(closed["failed"], 0, "{arm}");
            }
            assert_eq!(arm["open"]["failed"], 0, "{arm}");
        }
        // So small a set is answered by exact scans, by vector as brute force would.
        assert!(arms[1]["recall_at_10"].as_f64().unwrap() > 0.999, "{set}");
        assert!(arms[0]["recall_at_10"].is_null(), "nothing to compare exact answers with: {set}");
    }
    // Curves are of the largest single space, by both modes over three things.
    let curves: Vec<_> = sets.iter().flat_map(|set| set["curves"].as_array().unwrap()).collect();
    assert_eq!((curves.len(), sets[3]["curves"].as_array().unwrap().len()), (6, 6), "{out}");
    for point in curves.iter().flat_map(|curve| curve["points"].as_array().unwrap()) {
        assert!(point["at"].as_u64().unwrap() > 0 && point["per_s"].as_f64().unwrap() > 0.0, "{point}");
        assert_eq!(point["failed"], 0, "{point}");
    }
    let page = std::fs::read_to_string(folder.path().join("recall.md")).unwrap();
    assert!(page.contains("recall.svg") && page.contains("One space of 4000 memories"), "{page}");
    assert!(page.contains("composite, over top_k") && page.contains("| 100 |"), "{page}");
    let plot = std::fs::read_to_string(folder.path().join("recall.svg")).unwrap();
    assert!(plot.contains("composite") && plot.contains("vector"), "{plot}");
    assert_eq!(std::fs::read_dir(folder.path().join("data")).unwrap().count(), 0, "what it made is removed");
}
