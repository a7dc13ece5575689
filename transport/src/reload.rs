//! Changed files are taken while the process runs.

use crate::files::{Contents, Fault};
use crate::material::Material;
use crate::security::{Security, Tls};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// What was seen of the files at the last look.
#[derive(Default)]
struct Seen {
    state: Option<State>,
    /// The state that was refused and reported.
    refused: Option<State>,
}

/// What is in the files, or why they cannot be read.
#[derive(Clone, PartialEq, Eq)]
enum State {
    Digest(u128),
    Unreadable(Vec<Fault>),
}

impl Security {
    /// Looks at the files every `interval` and takes them when they have changed, for ever. Files
    /// that change between two looks are being written, so they are taken when two looks agree.
    pub async fn watch(&self, interval: Duration) -> Infallible {
        let Some(tls) = &self.tls else { return std::future::pending().await };
        let mut seen = Seen::default();
        loop {
            tokio::time::sleep(interval).await;
            let (of_task, before) = (Arc::clone(tls), seen);
            let looked = tokio::task::spawn_blocking(move || of_task.look(before)).await;
            seen = looked.unwrap_or_else(|error| {
                tracing::error!(%error, "looking at the TLS files failed");
                Seen::default()
            });
        }
    }
}

impl Tls {
    fn look(&self, mut seen: Seen) -> Seen {
        let read = self.files.read();
        let state = match &read {
            Ok(contents) => State::Digest(contents.digest()),
            Err(faults) => State::Unreadable(faults.clone()),
        };
        let current = self.current();
        if state == State::Digest(current.digest) {
            if seen.refused.is_some() {
                // They were put back.
                self.metrics.in_use(&current);
            }
            return Seen::default();
        }
        if seen.state.as_ref() != Some(&state) {
            seen.state = Some(state);
            return seen;
        }
        match read.and_then(|contents: Contents| Material::new(&self.files, &contents, &self.wanted)) {
            Ok(material) => {
                tracing::info!(identity = %material.identity(), "changed TLS files are in use from now on");
                self.replace(material);
                Seen::default()
            }
            // Tried again at every look, since time alone may mend it, and told once.
            Err(faults) => {
                if seen.refused.as_ref() != Some(&state) {
                    self.metrics.refused_files();
                    for fault in &faults {
                        tracing::error!(
                            "the changed TLS files are refused, the old ones stay in use: {fault}"
                        );
                    }
                    seen.refused = Some(state);
                }
                seen
            }
        }
    }
}
