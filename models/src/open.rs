//! Finding the built-in model on this machine.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::embedder::Embedder;
use crate::error::ModelError;
use crate::use_multilingual::UseMultilingual;
use crate::wheel::{self, WHEEL_NAME};

/// File name of the converted model.
pub const MODEL_FILE: &str = "use-multilingual-v3.hfmodel";

/// The folder that models are kept in: `$HOLDFAST_MODEL_DIR`, else `holdfast/models` in
/// `$XDG_CACHE_HOME`, else in `$HOME/.cache`. An empty variable counts as unset.
///
/// # Errors
/// None of the three is set.
pub fn default_model_dir() -> Result<PathBuf, ModelError> {
    model_dir(|name| env::var_os(name))
}

fn model_dir(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, ModelError> {
    let variable = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(folder) = variable("HOLDFAST_MODEL_DIR") {
        return Ok(PathBuf::from(folder));
    }
    let cache = variable("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".cache")))
        .ok_or(ModelError::NoFolder)?;
    Ok(cache.join("holdfast").join("models"))
}

/// Loads the built-in embedder from `folder`: the converted file if it is there, else converted
/// now from the wheel. A converted file that is damaged or of another format is made again if
/// the wheel is there. Blocks for a tenth of a second, a second with a conversion.
///
/// `None` if the folder holds neither or does not exist: then there is no embedder, and nothing
/// stands in for it.
///
/// # Errors
/// A file is there and cannot be used.
pub fn open_builtin(folder: &Path) -> Result<Option<Arc<dyn Embedder>>, ModelError> {
    let (model, wheel) = (folder.join(MODEL_FILE), folder.join(WHEEL_NAME));
    let has_wheel = is_there(&wheel)?;
    if let Some(embedder) = load_if_there(&model, has_wheel)? {
        return Ok(Some(Arc::new(embedder)));
    }
    if !has_wheel {
        return Ok(None);
    }
    let _lock = wheel::lock(&model)?;
    // Another process may have made it while this one waited.
    if let Some(embedder) = load_if_there(&model, has_wheel)? {
        return Ok(Some(Arc::new(embedder)));
    }
    let started = Instant::now();
    wheel::convert_locked(&wheel, &model)?;
    tracing::info!(
        path = %model.display(),
        elapsed_ms = started.elapsed().as_millis() as u64,
        "converted the embedding model"
    );
    Ok(Some(Arc::new(UseMultilingual::load(&model)?)))
}

/// Loads `model`; `None` if it is absent, or is bad and `replaceable`.
fn load_if_there(model: &Path, replaceable: bool) -> Result<Option<UseMultilingual>, ModelError> {
    if !is_there(model)? {
        return Ok(None);
    }
    match UseMultilingual::load(model) {
        Ok(embedder) => Ok(Some(embedder)),
        Err(error) if replaceable && error.is_bad_file() => {
            tracing::warn!(%error, "the converted model cannot be used; converting it again");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn is_there(path: &Path) -> Result<bool, ModelError> {
    path.try_exists().map_err(ModelError::io(path, "look for"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn the_folder_follows_the_environment() {
        let folder = |set: &[(&str, &str)]| {
            model_dir(|name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            })
            .ok()
        };
        let path = |text: &str| Some(PathBuf::from(text));
        let home = ("HOME", "/h");
        assert_eq!(folder(&[home]), path("/h/.cache/holdfast/models"));
        assert_eq!(folder(&[home, ("XDG_CACHE_HOME", "/缓存")]), path("/缓存/holdfast/models"));
        assert_eq!(folder(&[home, ("XDG_CACHE_HOME", "/c"), ("HOLDFAST_MODEL_DIR", "/m")]), path("/m"));
        assert_eq!(
            folder(&[home, ("XDG_CACHE_HOME", ""), ("HOLDFAST_MODEL_DIR", "")]),
            path("/h/.cache/holdfast/models")
        );
        assert_eq!(folder(&[]), None);
    }

    #[test]
    fn an_empty_folder_has_no_embedder() {
        let folder = tempfile::tempdir().unwrap();
        assert!(open_builtin(folder.path()).unwrap().is_none());
        assert!(open_builtin(&folder.path().join("absent")).unwrap().is_none());
    }

    #[test]
    fn a_bad_file_without_a_wheel_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(MODEL_FILE), "not a model at all").unwrap();
        assert!(matches!(open_builtin(folder.path()), Err(ModelError::NotAModel { .. })));
    }

    #[test]
    fn a_false_wheel_is_an_error_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(WHEEL_NAME), "PK").unwrap();
        assert!(matches!(open_builtin(folder.path()), Err(ModelError::WheelHash { .. })));
        assert!(!folder.path().join(MODEL_FILE).exists());
    }
}
