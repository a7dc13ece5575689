//! Tokens as callers hold them, and what a read asks for with one.

use crate::http::problem::Answer;
use crate::nodes::{Level, ReadWish};
use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_core::token::{Seen, Token};
use holdfast_core::{Error, Result};
use serde::Deserialize;
use std::time::Duration;

pub(crate) const HEADER: &str = "holdfast-token";
/// Longest text of a token: 256 shards at their largest, in base64.
const TEXT_BYTES_MAX: usize = 8 * 1024;

/// The oldest answer that a bounded read may accept, in milliseconds: an hour.
const MAX_STALENESS_MS_MAX: u64 = 3_600_000;

/// The consistency that a read asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Consistency {
    /// Not behind the token, nor behind what this router has seen.
    #[default]
    Session,
    /// Proved against a quorum.
    Linearizable,
    /// Not older than `max_staleness_ms`, from whichever replica can prove that.
    Bounded,
}

/// The text of a token for what was seen: one position, or those of several shards.
pub(crate) fn text(tenant: &str, seen: impl IntoIterator<Item = Seen>) -> Answer<String> {
    let mut token = Token::new(tenant);
    seen.into_iter().for_each(|seen| token.observe(seen));
    write(&token)
}

pub(crate) fn write(token: &Token) -> Answer<String> {
    Ok(URL_SAFE_NO_PAD.encode(token.to_bytes()?))
}

fn parse(text: &str, tenant: &str) -> Answer<Token> {
    // What is no base64 is refused in the same words as what is no token.
    let bytes = match text.len() {
        0..=TEXT_BYTES_MAX => URL_SAFE_NO_PAD.decode(text).unwrap_or_default(),
        _ => Vec::new(),
    };
    Ok(Token::from_bytes(&bytes, tenant)?)
}

/// What a read asks for, from its fields or parameters and the `Holdfast-Token` header.
pub(crate) fn wish(
    tenant: &str,
    field: Option<&str>,
    headers: &HeaderMap,
    consistency: Option<Consistency>,
    max_staleness_ms: Option<u64>,
) -> Answer<ReadWish> {
    let header = headers.get(HEADER).map(|value| value.to_str().unwrap_or_default());
    let token = match field.or(header) {
        Some(text) => parse(text, tenant)?,
        None => Token::new(tenant),
    };
    let level = level(consistency.unwrap_or_default(), max_staleness_ms)?;
    Ok(ReadWish { level, token })
}

fn level(consistency: Consistency, max_staleness_ms: Option<u64>) -> Result<Level> {
    let refused = |detail: String| Err(Error::invalid("max_staleness_ms", detail));
    match (consistency, max_staleness_ms) {
        (Consistency::Session, None) => Ok(Level::Session),
        (Consistency::Linearizable, None) => Ok(Level::Linearizable),
        (Consistency::Bounded, Some(ms @ 1..=MAX_STALENESS_MS_MAX)) => {
            Ok(Level::Bounded(Duration::from_millis(ms)))
        }
        (Consistency::Bounded, Some(ms)) => {
            refused(format!("max_staleness_ms is {ms}; give 1 to {MAX_STALENESS_MS_MAX}"))
        }
        (Consistency::Bounded, None) => {
            refused("consistency bounded needs max_staleness_ms, the oldest answer that you accept".into())
        }
        (Consistency::Session | Consistency::Linearizable, Some(_)) => {
            refused("max_staleness_ms goes with consistency bounded alone; leave it out".into())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use holdfast_core::space::Shard;

    #[test]
    fn a_token_reads_back_for_its_tenant_alone() {
        let seen = Seen { shard: Shard(3), incarnation: 0, index: 77 };
        let text = text("acme", Some(seen)).unwrap();
        assert_eq!(parse(&text, "acme").unwrap().seen(Shard(3)), Some(seen));
        let long = "A".repeat(TEXT_BYTES_MAX + 1);
        for (text, tenant) in
            [(text.as_str(), "other"), ("", "acme"), ("!!", "acme"), ("令牌", "acme"), (&long, "acme")]
        {
            assert_eq!(parse(text, tenant).unwrap_err().error.field.as_deref(), Some("token"));
        }
    }

    #[test]
    fn a_bound_goes_with_bounded_reads_alone() {
        let bounded = |ms| Level::Bounded(Duration::from_millis(ms));
        assert_eq!(level(Consistency::Session, None), Ok(Level::Session));
        assert_eq!(level(Consistency::Linearizable, None), Ok(Level::Linearizable));
        assert_eq!(level(Consistency::Bounded, Some(1)), Ok(bounded(1)));
        assert_eq!(level(Consistency::Bounded, Some(3_600_000)), Ok(bounded(3_600_000)));
        for (consistency, ms) in [
            (Consistency::Bounded, None),
            (Consistency::Bounded, Some(0)),
            (Consistency::Bounded, Some(3_600_001)),
            (Consistency::Bounded, Some(u64::MAX)),
            (Consistency::Session, Some(5)),
            (Consistency::Linearizable, Some(5)),
        ] {
            let error = level(consistency, ms).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("max_staleness_ms"), "{consistency:?} {ms:?}");
        }
    }
}
