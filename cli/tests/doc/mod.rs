//! Reading the project's documents, and running what they tell the reader to run.
//!
//! What a page may contain, and what is done with it:
//!
//! - ` ```sh ` is run as a whole by bash and must succeed. Later blocks of the page see its variables.
//! - ` ```console ` holds commands after `$ `, each followed by what it prints. A command goes on in
//!   the next line where a line ends in `\` or inside single quotes. See [`expect`] for how the
//!   output is compared.
//! - ` ```sh,ignore ` is not run; the test lists each such block with the reason.
//! - `http://127.0.0.1:7700`, `http://127.0.0.1:7701` and `hf_…` stand for the addresses and the key
//!   of the reader's server, and are replaced by those of the test's.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

pub mod expect;
pub mod markdown;
pub mod routes;
pub mod run;

use std::path::{Path, PathBuf};

/// Every Markdown file below a folder, sorted.
pub fn pages(folder: &Path) -> Vec<PathBuf> {
    files(folder, "md")
}

/// Every file of a kind below a folder, sorted.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|found| found == extension) => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}
