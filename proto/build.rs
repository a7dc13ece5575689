//! Compiles every .proto file below `proto/` without needing a `protoc` binary.

use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new("proto");
    println!("cargo:rerun-if-changed=proto");
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(root.join("holdfast/v1"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    files.sort();
    let descriptors = protox::compile(&files, [root])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
