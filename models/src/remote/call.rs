//! One request to a service, with its further attempts.

use super::answer;
use super::settings::{RemoteError, RemoteSettings};
use super::tls::TlsConnector;
use crate::embedder::EmbedError;
use serde::Serialize;
use std::time::{Duration, Instant, SystemTime};
use ureq::Agent;
use ureq::http::{HeaderMap, StatusCode, header};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};

/// The first pause between two attempts; each further one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
/// No pause that we choose is longer.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Least time in which an attempt is worth making.
const ATTEMPT_MIN: Duration = Duration::from_millis(10);
/// Longest answer: what the numbers take, and this for all else.
const ANSWER_BYTES_MIN: u64 = 1 << 20;
/// Characters that a number takes in JSON, at most.
const NUMBER_BYTES: u64 = 32;
/// Most of the answer to a request that was refused.
const REFUSAL_BYTES_MAX: u64 = 64 << 10;

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    input: &'a [&'a str],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

/// The connections to one service. Whoever calls waits.
pub(super) struct Caller {
    agent: Agent,
    url: String,
    authorization: Option<String>,
}

impl std::fmt::Debug for Caller {
    /// Never shows the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Why an attempt failed.
struct Failed {
    reason: String,
    /// Whether another attempt may help.
    again: bool,
    /// How long the service asks to wait before it.
    wait: Option<Duration>,
    /// Whether one of the texts may be the reason.
    by_text: bool,
}

impl Failed {
    fn for_good(reason: String) -> Self {
        Self { reason, again: false, wait: None, by_text: false }
    }

    fn for_now(reason: String) -> Self {
        Self { reason, again: true, wait: None, by_text: false }
    }
}

impl Caller {
    pub(super) fn new(settings: &RemoteSettings) -> Result<Self, RemoteError> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // A key is sent to the service that was named, and nowhere else.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("holdfast/", env!("CARGO_PKG_VERSION")))
            // No proxy by a variable of the environment: the service that was named is asked, itself.
            .proxy(None)
            .build();
        let connector = TcpConnector::default().chain(TlsConnector::new(settings.ca.as_deref())?);
        Ok(Self {
            agent: Agent::with_parts(config, connector, DefaultResolver::default()),
            url: format!("{}/embeddings", settings.url.trim_end_matches('/')),
            authorization: settings.key.as_ref().map(|key| format!("Bearer {key}")),
        })
    }

    /// The vectors of a batch of texts, in their order.
    pub(super) fn embed(
        &self,
        settings: &RemoteSettings,
        texts: &[&str],
        until: Instant,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let request = Request {
            model: &settings.model,
            input: texts,
            encoding_format: "float",
            dimensions: settings.send_dims.then_some(settings.dims),
        };
        let body = serde_json::to_vec(&request).map_err(|error| EmbedError::Unavailable {
            reason: format!("the request to the embedding service cannot be written: {error}"),
        })?;
        // What callers are told goes to whoever asked for the embedding: where the service is stays in the log.
        let told = |reason: &str| {
            tracing::warn!(url = self.url, reason, "the embedding service could not be used");
            EmbedError::Unavailable { reason: format!("the embedding service {reason}") }
        };
        let mut attempt = 0;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left < ATTEMPT_MIN {
                return Err(told("did not answer in time; raise its timeout, or look at its load"));
            }
            let failed = match self.attempt(&body, texts.len(), settings.dims, left) {
                Ok(vectors) => return Ok(vectors),
                Err(failed) => failed,
            };
            if !failed.again {
                tracing::warn!(
                    url = self.url,
                    reason = failed.reason,
                    "the embedding service refused a request"
                );
                let reason = format!("the embedding service {}", failed.reason);
                return Err(match failed.by_text {
                    true => EmbedError::RefusedText { reason },
                    false => EmbedError::Refused { reason },
                });
            }
            if attempt == settings.retries {
                return Err(told(&failed.reason));
            }
            let pause = failed.wait.unwrap_or_else(|| pause(attempt, rand::random()));
            if pause >= until.saturating_duration_since(Instant::now()) {
                return Err(told(&format!("{}; there is no time to try again", failed.reason)));
            }
            tracing::debug!(reason = %failed.reason, ?pause, attempt, "the embedding service is asked again");
            std::thread::sleep(pause);
            attempt += 1;
        }
    }

    fn attempt(
        &self,
        body: &[u8],
        texts: usize,
        dims: usize,
        left: Duration,
    ) -> Result<Vec<Vec<f32>>, Failed> {
        let mut request = self.agent.post(&self.url).content_type("application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let response = request.config().timeout_global(Some(left)).build().send(body);
        let mut response = response.map_err(|error| unreachable_for(&error))?;
        let (status, wait) = (response.status(), retry_after(response.headers()));
        if !status.is_success() {
            let told = response.body_mut().with_config().limit(REFUSAL_BYTES_MAX).read_to_vec();
            return Err(refused(status, wait, &answer::message(&told.unwrap_or_default())));
        }
        let numbers = (texts as u64).saturating_mul(dims as u64).saturating_mul(NUMBER_BYTES);
        let most = numbers.saturating_add(ANSWER_BYTES_MIN);
        let answered = response.body_mut().with_config().limit(most).read_to_vec();
        let answered = answered.map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => Failed::for_good(format!("answered more than {most} bytes")),
            error => unreachable_for(&error),
        })?;
        // A model that answers so answers so again.
        answer::vectors(&answered, texts, dims)
            .map_err(|reason| Failed::for_good(format!("cannot be used: {reason}")))
    }
}

/// An attempt that got no answer.
fn unreachable_for(error: &ureq::Error) -> Failed {
    let reason = format!("cannot be reached: {error}");
    let for_good = match error {
        ureq::Error::BadUri(_) | ureq::Error::Tls(_) => true,
        // What TLS refuses, a certificate above all.
        ureq::Error::Io(error) => error.kind() == std::io::ErrorKind::InvalidData,
        _ => false,
    };
    if for_good {
        return Failed::for_good(format!("{reason}; check its url, and ca for its certificate"));
    }
    Failed::for_now(reason)
}

/// An answer that is no success.
fn refused(status: StatusCode, wait: Option<Duration>, message: &str) -> Failed {
    let told = if message.is_empty() { String::new() } else { format!(": {message}") };
    let code = status.as_u16();
    let again = status.is_server_error() && code != 501 || matches!(code, 408 | 409 | 425 | 429);
    if again {
        let wait = wait.map(|wait| wait.max(ATTEMPT_MIN));
        return Failed { reason: format!("answers {code}{told}"), again, wait, by_text: false };
    }
    let hint = match code {
        401 | 403 => "; check its key",
        404 => "; check its url and the model's name",
        400 | 413 | 422 => "; shorten the text, or give its embedding",
        _ if status.is_redirection() => "; it moved: give the url that it points to",
        _ => "",
    };
    let by_text = matches!(code, 400 | 413 | 422);
    Failed { by_text, ..Failed::for_good(format!("refuses with {code}{told}{hint}")) }
}

/// How long a service asks to wait, in seconds or until a date (RFC 9110, 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO))
}

/// The pause behind an attempt: between a half and the whole of what doubles with each, so that
/// callers that failed together do not come back together.
fn pause(attempt: u32, random: f64) -> Duration {
    let whole = PAUSE_FIRST.saturating_mul(1u32.checked_shl(attempt).unwrap_or(u32::MAX)).min(PAUSE_MAX);
    whole.mul_f64(0.5 + 0.5 * random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn pauses_double_are_bounded_and_spread() {
        assert_eq!(pause(0, 1.0), Duration::from_millis(200));
        assert_eq!(pause(0, 0.0), Duration::from_millis(100));
        assert_eq!(pause(2, 1.0), Duration::from_millis(800));
        for attempt in [5, 31, 32, u32::MAX] {
            assert_eq!(pause(attempt, 1.0), PAUSE_MAX, "{attempt}");
            assert_eq!(pause(attempt, f64::INFINITY), PAUSE_MAX, "{attempt}");
        }
    }

    #[test]
    fn waits_are_read_in_seconds_and_as_dates() {
        let after = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert!(after("Fri, 31 Dec 9999 23:59:59 GMT").unwrap() > Duration::from_secs(1_000_000));
        for nothing in ["", "soon", "-1", "1.5"] {
            assert_eq!(after(nothing), None, "{nothing}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn some_refusals_are_for_now_and_some_say_what_to_do() {
        let of = |code: u16| refused(StatusCode::from_u16(code).unwrap(), None, "it says");
        for code in [408, 409, 425, 429, 500, 502, 503, 504] {
            assert!(of(code).again, "{code}");
        }
        for (code, hint) in
            [(400, "it says"), (401, "key"), (403, "key"), (404, "model"), (301, "moved"), (501, "501")]
        {
            let failed = of(code);
            assert!(!failed.again && failed.reason.contains(hint), "{code}: {}", failed.reason);
        }
        let wait = refused(StatusCode::TOO_MANY_REQUESTS, Some(Duration::ZERO), "").wait;
        assert_eq!(wait, Some(ATTEMPT_MIN), "an attempt is never made at once");
    }
}
