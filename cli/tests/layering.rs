//! Which crate may use which: core <- proto, transport, models <- node, router <- bench <- cli.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

#[test]
fn crates_depend_downwards_only() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("holdfast-core", &[] as &[&str]),
        ("holdfast-proto", &["holdfast-core"]),
        ("holdfast-transport", &[]),
        ("holdfast-models", &["holdfast-core"]),
        ("holdfast-testkit", &[]),
        ("holdfast-node", &["holdfast-core", "holdfast-proto", "holdfast-transport", "holdfast-models"]),
        ("holdfast-router", &["holdfast-core", "holdfast-proto", "holdfast-transport", "holdfast-models"]),
        (
            "holdfast-bench",
            &[
                "holdfast-core",
                "holdfast-proto",
                "holdfast-transport",
                "holdfast-models",
                "holdfast-node",
                "holdfast-router",
            ],
        ),
        (
            "holdfast",
            &[
                "holdfast-core",
                "holdfast-proto",
                "holdfast-transport",
                "holdfast-models",
                "holdfast-node",
                "holdfast-router",
                "holdfast-bench",
            ],
        ),
    ]);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let may = allowed.get(name).unwrap_or_else(|| panic!("{name} has no place in the layers"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let on = dependency["name"].as_str().unwrap();
            let is_ours = dependency["path"].is_string();
            // What tests share may be used by the tests of every crate, and by nothing else.
            let is_for_tests = on == "holdfast-testkit" && dependency["kind"] == "dev";
            assert!(!is_ours || is_for_tests || may.contains(&on), "{name} must not depend on {on}");
        }
    }
}
