//! `/docs/errors/{code}`: the page that the `type` of a problem answer points to.

use crate::auth::PathId;
use crate::http::problem::{Answer, Problem};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use holdfast_core::ErrorCode;

/// The page of a code, in Markdown. The match is exhaustive: a new code needs a page.
fn text(code: ErrorCode) -> &'static str {
    macro_rules! page {
        ($name:literal) => {
            include_str!(concat!("../../docs/errors/", $name, ".md"))
        };
    }
    match code {
        ErrorCode::InvalidArgument => page!("invalid_argument"),
        ErrorCode::Unauthenticated => page!("unauthenticated"),
        ErrorCode::PermissionDenied => page!("permission_denied"),
        ErrorCode::NotFound => page!("not_found"),
        ErrorCode::Conflict => page!("conflict"),
        ErrorCode::AlreadyExists => page!("already_exists"),
        ErrorCode::TooLarge => page!("too_large"),
        ErrorCode::QuotaExceeded => page!("quota_exceeded"),
        ErrorCode::RateLimited => page!("rate_limited"),
        ErrorCode::Overloaded => page!("overloaded"),
        ErrorCode::Unavailable => page!("unavailable"),
        ErrorCode::DeadlineExceeded => page!("deadline_exceeded"),
        ErrorCode::UnknownOutcome => page!("unknown_outcome"),
        ErrorCode::Corrupted => page!("corrupted"),
        ErrorCode::Internal => page!("internal"),
    }
}

pub(crate) async fn page(PathId(name): PathId) -> Answer<Response> {
    let missing = || Problem::new(ErrorCode::NotFound, "there is no error code of this name");
    let code = ErrorCode::from_wire(&name).ok_or_else(missing)?;
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], text(code)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_says_its_code_its_status_and_what_to_do() {
        for code in ErrorCode::ALL {
            let page = text(code);
            assert!(page.starts_with(&format!("# `{code}`\n")), "{code}");
            assert!(page.contains(&format!("HTTP {}", code.http_status())), "{code}");
            let verdicts = ["**Retry.**", "**Fix.**", "**Give up.**"];
            assert!(verdicts.iter().any(|verdict| page.contains(verdict)), "{code}");
        }
    }
}
