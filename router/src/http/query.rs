//! Query parameters, as strict as bodies: unknown, repeated and ill-typed ones are errors.

use super::problem::Problem;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use holdfast_core::{Error, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Most bytes of a query string; a filter may stand in it.
const QUERY_STRING_BYTES_MAX: usize = 64 * 1024;

/// Reads the query string of a request into a struct that denies unknown fields.
pub(crate) fn parse<T: DeserializeOwned>(uri: &axum::http::Uri) -> Result<T> {
    let text = uri.query().unwrap_or_default();
    if text.len() > QUERY_STRING_BYTES_MAX {
        return Err(Error::too_large("query string", format!("at most {QUERY_STRING_BYTES_MAX} bytes")));
    }
    match axum::extract::Query::<T>::try_from_uri(uri) {
        Ok(query) => Ok(query.0),
        Err(rejection) => {
            let text = rejection.body_text();
            let reason =
                text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text).to_owned();
            let field = reason.split('`').nth(1).map(str::to_owned);
            let field = field.or_else(|| reason.split_once(": ").map(|(name, _)| name.to_owned()));
            let detail = format!("the query string is not valid: {reason}");
            Err(Error::invalid(field.unwrap_or_else(|| "query string".to_owned()), detail))
        }
    }
}

/// A request that takes no parameters, and has none.
pub(crate) struct NoParams;

impl<S: Sync> FromRequestParts<S> for NoParams {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> std::result::Result<Self, Problem> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct None {}

        parse::<None>(&parts.uri)?;
        Ok(Self)
    }
}
