//! What stands in the files of nodes.

use holdfast_node::snapshot::SnapshotReader;
use std::fs;
use std::path::Path;

/// The files below a folder that hold these bytes. What goes while it is looked at holds nothing.
pub fn holding(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, bytes));
        } else if readable(&path).windows(bytes.len()).any(|window| window == bytes) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// What stands in a file; of snapshot files, which are compressed, the rows as well.
fn readable(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap_or_default();
    // One that was replaced meanwhile is empty here.
    if path.extension().is_some_and(|extension| extension == "snap") && !bytes.is_empty() {
        let mut reader = SnapshotReader::new(bytes.as_slice(), path).unwrap();
        let mut rows = Vec::new();
        while let Some(block) = reader.next_block().unwrap() {
            block.into_iter().for_each(|(key, value)| rows.extend([key, value].concat()));
        }
        bytes.extend(rows);
    }
    bytes
}
