//! Tokens as callers hold them, and what a read asks for with one.

use crate::http::problem::{Answer, Problem};
use crate::nodes::ReadWish;
use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_core::token::{Seen, Token};
use serde::Deserialize;

pub(crate) const HEADER: &str = "holdfast-token";
/// Longest text of a token: 256 shards at their largest, in base64.
const TEXT_BYTES_MAX: usize = 8 * 1024;

/// The consistency that a read asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Consistency {
    /// Not behind the token, nor behind what this router has seen.
    #[default]
    Session,
    /// Proved against a quorum.
    Linearizable,
    /// Not older than a bound: not there yet.
    Bounded,
}

/// The text of a token for a position.
pub(crate) fn text(tenant: &str, seen: Option<Seen>) -> Answer<String> {
    let mut token = Token::new(tenant);
    if let Some(seen) = seen {
        token.observe(seen);
    }
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
) -> Answer<ReadWish> {
    let header = headers.get(HEADER).map(|value| value.to_str().unwrap_or_default());
    let token = match field.or(header) {
        Some(text) => parse(text, tenant)?,
        None => Token::new(tenant),
    };
    let linearizable = match consistency.unwrap_or_default() {
        Consistency::Session => false,
        Consistency::Linearizable => true,
        Consistency::Bounded => {
            let detail = "bounded reads are not supported yet; use session or linearizable";
            return Err(Problem::invalid("consistency", detail));
        }
    };
    Ok(ReadWish { linearizable, token })
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
}
