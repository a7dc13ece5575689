//! `holdfast bench baseline` on a real cluster, on a small workload.
//!
//! Needs the embedding model: run `scripts/fetch-model.sh` first. Without it the test says that it
//! was skipped, or fails if `HOLDFAST_REQUIRE_MODEL=1`.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use holdfast_models::{default_model_dir, open_builtin};
use serde_json::Value;

fn there_is_a_model() -> bool {
    let folder = default_model_dir().unwrap();
    if open_builtin(&folder).unwrap().is_some() {
        return true;
    }
    let required = std::env::var("HOLDFAST_REQUIRE_MODEL").is_ok_and(|value| value == "1");
    assert!(!required, "no model in {}, but HOLDFAST_REQUIRE_MODEL=1", folder.display());
    eprintln!("SKIPPED: no model in {}; run scripts/fetch-model.sh", folder.display());
    false
}

fn baseline(folder: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(["bench", "baseline", "--scale", "short"])
        .args(more)
        .current_dir(folder)
        .env_remove("HOLDFAST_URL")
        .env_remove("HOLDFAST_API_KEY")
        .output()
        .unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_short_run_compares_both_arms_and_writes_the_report() {
    if !there_is_a_model() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--seed", "4", "--budget", "700", "--json", "result.json", "--report", "baseline.md"];
    let output = baseline(folder.path(), &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let result = json(&folder.path().join("result.json"));
    for arm in ["flat", "holdfast"] {
        for share in ["key_recall", "stale_contamination"] {
            let value = result[arm][share].as_f64().unwrap();
            assert!(value > 0.0 && value < 1.0, "{arm} {share} {value}");
        }
        for number in ["tokens_per_session", "context_p50_ms", "context_p99_ms", "ingest_s", "questions"] {
            assert!(result[arm][number].as_f64().unwrap() > 0.0, "{arm} {number}");
        }
        assert_eq!(result[arm]["leaks"], 0, "{arm}");
    }
    assert_eq!(result["flat"]["questions"], result["holdfast"]["questions"]);
    assert_eq!(result["seed"], 4);
    assert_eq!(result["phrasings"], "held-out");
    assert_eq!(result["workload_sha256"].as_str().unwrap().len(), 64);

    // Few users make shares vary; their means are held by a test of the flat arm alone.
    let tokens = result["flat"]["tokens_per_session"].as_f64().unwrap();
    assert!((tokens / 8_420.0 - 1.0).abs() < 0.15, "{tokens}");

    assert!(result["holdfast"]["tokens_max"].as_u64().unwrap() <= 700);
    let curve = result["curves"]["holdfast"].as_array().unwrap();
    assert!(curve.len() >= 5);
    for point in curve {
        let tokens = point["tokens_per_session"].as_f64().unwrap();
        assert!(tokens <= point["budget_tokens"].as_f64().unwrap(), "{point}");
    }

    let report = std::fs::read_to_string(folder.path().join("baseline.md")).unwrap();
    for needed in ["8420", "62.4", "28.6", "380", "2130", "94.8", "3.1", "baseline.svg", "does not win yet"] {
        assert!(report.contains(needed), "{needed}");
    }
    let plot = std::fs::read_to_string(folder.path().join("baseline.svg")).unwrap();
    assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"));

    // Wrong calls end before any work is done.
    for (arguments, code) in [
        (&["--also", "result.json"][..], 2),
        (&["--flat-only", "--report", "x.md", "--also", "result.json"][..], 2),
        (&["--report", "x.md", "--also", "baseline.md"][..], 1),
    ] {
        let output = baseline(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(!folder.path().join("x.md").exists());
    }
}
