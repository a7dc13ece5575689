//! What the documents point to exists.
#![allow(clippy::unwrap_used)]

mod common;

use common::repository;

#[test]
fn every_test_that_a_promise_names_exists() {
    let text = std::fs::read_to_string(repository().join("docs/guarantees.md")).unwrap();
    let mut named = 0;
    for reference in text.split('`').filter(|word| word.contains(".rs::")) {
        let (file, test) = reference.split_once("::").unwrap();
        let code =
            std::fs::read_to_string(repository().join(file)).unwrap_or_else(|_| panic!("no file {file}"));
        assert!(code.contains(&format!("fn {test}(")), "{file} has no test {test}");
        named += 1;
    }
    assert!(named > 25, "only {named} tests are named");
}

#[test]
fn every_link_between_the_documents_leads_somewhere() {
    let root = repository();
    let mut pages = vec![root.join("README.md"), root.join("ARCHITECTURE.md"), root.join("CONTRIBUTING.md")];
    for folder in ["docs", "docs/adr", "docs/errors"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            pages.push(entry.unwrap().path());
        }
    }
    for page in pages.iter().filter(|page| page.extension().is_some_and(|ext| ext == "md")) {
        let text = std::fs::read_to_string(page).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            assert!(page.parent().unwrap().join(path).exists(), "{}: no {target}", page.display());
        }
    }
}
