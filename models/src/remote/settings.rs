use holdfast_core::limits::EMBEDDING_DIMS_MAX;
use std::fmt;
use std::time::Duration;

/// Most texts in one request.
const BATCH_MAX: usize = 2_048;
/// Most attempts after the first.
const RETRIES_MAX: u32 = 10;
/// Longest time for one call.
const TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// How an embedding service is reached.
#[derive(Clone)]
pub struct RemoteSettings {
    /// Where the API begins, such as `https://api.openai.com/v1`.
    pub url: String,
    /// The name of the model at the service. It also names the vectors: those of other names are never
    /// compared with them.
    pub model: String,
    /// Sent as a bearer token; none if the service asks for none.
    pub key: Option<String>,
    /// Dimensions of every vector, 1 to 4,096.
    pub dims: usize,
    /// Whether to ask the service for this number of dimensions, which not every model can change.
    pub send_dims: bool,
    /// Most texts in one request.
    pub batch: usize,
    /// Longest time for one call, all of its requests and attempts together.
    pub timeout: Duration,
    /// How often a request that failed is tried again.
    pub retries: u32,
    /// Certificates, in PEM, of who may have signed that of the service. None: those that browsers trust.
    /// Connections are of TLS 1.3.
    pub ca: Option<Vec<u8>>,
}

impl fmt::Debug for RemoteSettings {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteSettings")
            .field("url", &self.url)
            .field("model", &self.model)
            .field("key", &self.key.as_ref().map(|_| "…"))
            .field("dims", &self.dims)
            .finish_non_exhaustive()
    }
}

/// Why a service cannot be used as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// A setting is out of range or malformed.
    #[error("{setting}: {what}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What is wrong and what is allowed.
        what: String,
    },
}

impl RemoteError {
    pub(super) fn of(setting: &'static str, what: impl Into<String>) -> Self {
        Self::Setting { setting, what: what.into() }
    }
}

impl RemoteSettings {
    /// Settings with the defaults: no key, batches of 64, 10 s, 3 more attempts.
    pub fn new(url: &str, model: &str, dims: usize) -> Self {
        Self {
            url: url.to_owned(),
            model: model.to_owned(),
            key: None,
            dims,
            send_dims: false,
            batch: 64,
            timeout: Duration::from_secs(10),
            retries: 3,
            ca: None,
        }
    }

    /// Whether all of it can be used.
    ///
    /// # Errors
    /// The first setting that cannot.
    pub fn check(&self) -> Result<(), RemoteError> {
        let of = |setting, what: &str| Err(RemoteError::of(setting, what));
        if !(self.url.starts_with("http://") || self.url.starts_with("https://")) {
            return of("url", "it begins with http:// or https://, such as https://api.openai.com/v1");
        }
        if !names_a_host(&self.url) {
            return of("url", "it names a host, such as http://localhost:11434/v1");
        }
        if self.url.contains(['?', '#', '@']) {
            return of("url", "it has no user, query or fragment: it is shown in logs; a key goes into key");
        }
        if self.model.is_empty() || self.model.len() > 256 || self.model.chars().any(char::is_control) {
            return of("model", "it is the name of a model, 1 to 256 bytes");
        }
        if !(1..=EMBEDDING_DIMS_MAX).contains(&self.dims) {
            return of(
                "dims",
                &format!("give 1 to {EMBEDDING_DIMS_MAX}, as many as the model's vectors have"),
            );
        }
        if !(1..=BATCH_MAX).contains(&self.batch) {
            return of("batch", &format!("give 1 to {BATCH_MAX}"));
        }
        if self.timeout.is_zero() || self.timeout > TIMEOUT_MAX {
            return of("timeout", &format!("give 1 ms to {} s", TIMEOUT_MAX.as_secs()));
        }
        if self.retries > RETRIES_MAX {
            return of("retries", &format!("give 0 to {RETRIES_MAX}"));
        }
        let is_header =
            |key: &String| key.bytes().all(|byte| (0x21..0x7f).contains(&byte)) && !key.is_empty();
        if self.key.as_ref().is_some_and(|key| !is_header(key)) {
            return of(
                "key",
                "it has characters that no key has, or is empty; look for line ends and spaces",
            );
        }
        Ok(())
    }
}

/// Whether the address of a service says on which host it is, whatever else is right or wrong with it.
pub fn names_a_host(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let place = authority.rsplit('@').next().unwrap_or_default();
    // A colon within brackets is part of an IPv6 address.
    let host = match place.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(host, _)| host),
        None => place.split(':').next().unwrap_or_default(),
    };
    !host.is_empty() && !host.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_and_the_key_is_never_shown() {
        let good = RemoteSettings::new("http://localhost:1/v1", "m", 3);
        assert_eq!(good.check(), Ok(()));
        let with = |change: fn(&mut RemoteSettings)| {
            let mut settings = good.clone();
            change(&mut settings);
            let RemoteError::Setting { setting, .. } =
                settings.check().err().unwrap_or_else(|| RemoteError::of("", ""));
            setting
        };
        assert_eq!(with(|s| s.url = "localhost".into()), "url");
        let with_url = |url: &str| {
            let settings = RemoteSettings { url: url.into(), ..good.clone() };
            let RemoteError::Setting { setting, .. } =
                settings.check().err().unwrap_or_else(|| RemoteError::of("", ""));
            setting
        };
        for told in ["https://me:secret@host/v1", "https://host/v1?key=secret", "https://host/v1#here"] {
            assert_eq!(with_url(told), "url", "{told}");
        }
        for nowhere in
            ["http://", "https:///v1", "http://:8080/v1", "http:// /v1", "http://[]/v1", "http://?x"]
        {
            assert_eq!(with_url(nowhere), "url", "{nowhere}");
            assert!(!names_a_host(nowhere), "{nowhere}");
        }
        for somewhere in ["http://h", "http://[::1]:80/v1", "https://例子.测试/v1", "http://h:1"] {
            assert!(names_a_host(somewhere), "{somewhere}");
        }
        assert_eq!(with(|s| s.model = String::new()), "model");
        assert_eq!(with(|s| s.dims = 0), "dims");
        assert_eq!(with(|s| s.dims = 4_097), "dims");
        assert_eq!(with(|s| s.batch = 0), "batch");
        assert_eq!(with(|s| s.timeout = Duration::ZERO), "timeout");
        assert_eq!(with(|s| s.retries = 11), "retries");
        assert_eq!(with(|s| s.key = Some("secret\n".into())), "key");
        let shown = format!("{:?}", RemoteSettings { key: Some("secret".into()), ..good });
        assert!(!shown.contains("secret"), "{shown}");
    }
}
