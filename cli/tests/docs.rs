//! What the documents point to exists, and what exists is in the documents.
#![allow(clippy::unwrap_used)]

mod common;
mod doc;

use common::repository;
use doc::markdown::{anchors, code_spans, headings, links};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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

/// Every page that people read: those of the book, and those beside the code.
fn documents() -> Vec<PathBuf> {
    let root = repository();
    let mut pages = doc::pages(&root.join("docs"));
    let beside = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = beside.partition(|path| path.is_dir());
    let readmes = folders.into_iter().map(|folder| folder.join("README.md")).filter(|page| page.exists());
    pages.extend(readmes);
    pages.extend(files.into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "md")));
    pages
}

/// Why a link leads nowhere; `None` if it leads somewhere.
fn fault(page: &Path, target: &str, book: &Path) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let to = if path.is_empty() { page.to_owned() } else { page.parent()?.join(path) };
    let Ok(to) = to.canonicalize() else { return Some("there is no such file".to_owned()) };
    if page.starts_with(book) && !to.starts_with(book) {
        return Some("it leaves the book, in which it would lead nowhere; name the file as code".to_owned());
    }
    let anchor = anchor?;
    let text = std::fs::read_to_string(&to).unwrap_or_default();
    (!anchors(&text).contains(anchor)).then(|| format!("{} has no heading for it", to.display()))
}

#[test]
fn every_link_and_anchor_leads_somewhere() {
    let book = repository().join("docs").canonicalize().unwrap();
    let mut wrong = Vec::new();
    let mut followed = 0;
    for page in documents() {
        let page = page.canonicalize().unwrap();
        for (line, target) in links(&std::fs::read_to_string(&page).unwrap()) {
            followed += 1;
            wrong.extend(
                fault(&page, &target, &book).map(|why| format!("{}:{line}: {target}: {why}", page.display())),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(followed > 50, "only {followed} links");
}

#[test]
fn a_link_that_leads_nowhere_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (book, page) = (root.join("docs"), root.join("docs/a.md"));
    std::fs::create_dir(&book).unwrap();
    std::fs::write(&page, "# One thing\n").unwrap();
    std::fs::write(root.join("README.md"), "# Top\n").unwrap();
    for right in ["#one-thing", "a.md", "a.md#one-thing", "https://example.com/x#y"] {
        assert_eq!(fault(&page, right, &book), None, "{right}");
    }
    for wrong in ["#two", "b.md", "a.md#one", "../README.md"] {
        assert!(fault(&page, wrong, &book).is_some(), "{wrong}");
    }
    assert_eq!(fault(&root.join("README.md"), "docs/a.md#one-thing", &book), None);
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let book = repository().join("docs");
    let summary = book.join("SUMMARY.md");
    let listed = links(&std::fs::read_to_string(&summary).unwrap());
    let unique: BTreeSet<PathBuf> = listed.iter().map(|(_, target)| book.join(target)).collect();
    assert_eq!(unique.len(), listed.len(), "a page is listed twice");
    for page in doc::pages(&book).iter().filter(|page| **page != summary) {
        assert!(unique.contains(page), "{} is not in docs/SUMMARY.md", page.display());
    }
}

#[test]
fn every_route_is_documented() {
    let root = repository();
    let guide = std::fs::read_to_string(root.join("docs/api.md")).unwrap();
    let shown: BTreeSet<String> = headings(&guide)
        .iter()
        .flat_map(|heading| code_spans(heading))
        .filter(|span| span.contains(" /"))
        .collect();
    let served = doc::routes::of(&root.join("router/src"));
    assert!(served.len() > 20, "the routes cannot be read from the source: {served:?}");
    // The routes of one's own space are those of any user, said once.
    assert!(guide.contains("`/v1/me`"), "the guide tells of /v1/me");
    let named: BTreeSet<String> =
        served.iter().filter(|route| !route.contains(" /v1/me/")).cloned().collect();
    assert!(named.len() < served.len());
    let missing: Vec<_> = named.difference(&shown).collect();
    assert!(missing.is_empty(), "docs/api.md has no heading for {missing:?}");
    let gone: Vec<_> = shown.difference(&named).collect();
    assert!(gone.is_empty(), "docs/api.md describes what no router serves: {gone:?}");

    let operating = std::fs::read_to_string(root.join("docs/operating.md")).unwrap();
    let told: BTreeSet<String> = code_spans(&operating).into_iter().collect();
    for route in doc::routes::of(&root.join("node/src")) {
        assert!(told.contains(&route), "docs/operating.md does not tell of the node's {route}");
    }
}
