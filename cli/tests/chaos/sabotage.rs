//! Faults can be built in on purpose (`make sabotage`), and never by accident.

use crate::common::repository;
use std::fs;

/// The names of the faults, from their source.
fn names() -> Vec<String> {
    let source = fs::read_to_string(repository().join("core/src/sabotage.rs")).unwrap();
    let of_line = |line: &str| line.split("(\"sabotage:").nth(1)?.split('"').next().map(str::to_owned);
    source.lines().filter_map(of_line).filter(|name| !name.is_empty()).collect()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    let wanted = text.as_bytes();
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

#[test]
fn a_default_build_holds_no_fault() {
    let program = fs::read(env!("CARGO_BIN_EXE_holdfast")).unwrap();
    // So that the search is known to find what is there.
    assert!(contains(&program, "HOLDFAST_LOG"));
    assert!(!contains(&program, "HOLDFAST_SABOTAGE"), "built with --features sabotage");
    for name in names() {
        assert!(!contains(&program, &format!("sabotage:{name}")), "{name} is in a default build");
    }
}

#[test]
fn every_fault_is_looked_for() {
    let names = names();
    assert_eq!(names.len(), 6);
    for file in ["scripts/sabotage.sh", "docs/testing.md"] {
        let text = fs::read_to_string(repository().join(file)).unwrap();
        for name in &names {
            assert!(text.contains(name.as_str()), "{file} does not name {name}");
        }
    }
}
