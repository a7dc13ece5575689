//! The commands that talk to a running server: `export`, `import`, `recall` and `context`.

pub mod context;
pub mod export;
pub mod import;
pub mod recall;
mod table;

use crate::ctl::VerifyError;
use std::io::{self, Write};

use clap::Args;
use holdfast_bench::client::{Client, ClientError, ClientOptions};
use holdfast_bench::import::BadFile;
use holdfast_node::founding::FoundError;

/// Which server to talk to, and as whom.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Base URL of the server
    #[arg(long, env = "HOLDFAST_URL", default_value = "http://127.0.0.1:7700", value_name = "URL")]
    url: String,
    /// API key; `holdfast dev` prints one in its `ready` line
    #[arg(long, env = "HOLDFAST_API_KEY", hide_env_values = true, value_name = "KEY")]
    key: Option<String>,
}

impl ServerArgs {
    /// Makes the client.
    ///
    /// # Errors
    /// [`ClientError::Usage`] if there is no key or the URL or key is malformed.
    pub fn client(&self) -> Result<Client, ClientError> {
        let Some(key) = self.key.as_deref().filter(|key| !key.is_empty()) else {
            return Err(ClientError::Usage(
                "no API key: set HOLDFAST_API_KEY or give --key (`holdfast dev` prints one in its \
                 `ready` line)"
                    .to_owned(),
            ));
        };
        Client::new(&ClientOptions::new(&self.url, key))
    }
}

/// The exit code for an error of a client command: 1 failed, 2 usage, 3 unreachable.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    for cause in error.chain() {
        if let Some(error) = cause.downcast_ref::<ClientError>() {
            return error.exit_code();
        }
        if cause.is::<BadFile>() {
            return 2;
        }
        if let Some(VerifyError::NotCompared) = cause.downcast_ref::<VerifyError>() {
            return 3;
        }
        if let Some(FoundError::TimedOut(_)) = cause.downcast_ref::<FoundError>() {
            return 3;
        }
    }
    1
}

/// Writes to standard output. A reader that left early (`holdfast recall … | head`) is no error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use anyhow::Context;

    #[test]
    fn exit_codes_survive_added_context() {
        let usage = Err::<(), _>(ClientError::Usage("x".to_owned())).context("outer");
        assert_eq!(exit_code(&usage.unwrap_err()), 2);
        let bad = holdfast_bench::import::utf8(b"\xff").map(|_| ());
        assert_eq!(exit_code(&bad.context("file").unwrap_err()), 2);
        assert_eq!(exit_code(&anyhow::anyhow!("other")), 1);
        assert_eq!(exit_code(&VerifyError::Differ.into()), 1);
        assert_eq!(exit_code(&anyhow::Error::from(VerifyError::NotCompared).context("outer")), 3);
    }

    #[test]
    fn a_missing_or_empty_key_is_a_usage_error() {
        for key in [None, Some(String::new())] {
            let args = ServerArgs { url: "http://127.0.0.1:1".to_owned(), key };
            let error = args.client().unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains("HOLDFAST_API_KEY"));
        }
    }
}
