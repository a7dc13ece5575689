//! A patch of a block: read, patched here by a library, and written if nobody was faster.
//!
//! A patch that does not fit is written too, as one without a text: only apply knows whether it is
//! the repetition of a patch that fitted, whose answer is then given again.

use super::BlockView;
use super::write::Change;
use crate::auth::own_reads;
use crate::http::problem::Answer;
use crate::nodes::{Level, ReadWish};
use crate::tiers::{What, lost_the_race, rows};
use axum::response::Response;
use diffy::{Line, Patch};
use holdfast_core::limits::{BLOCK_BYTES_MAX, check_bytes};
use holdfast_core::tiers::block::BlockChange;
use holdfast_core::token::Token;
use holdfast_core::{Error, ErrorCode, Result};
use holdfast_proto::v1;
use std::sync::Arc;
use std::time::Duration;

/// Most hunks of one patch.
const HUNKS_MAX: usize = 256;
/// Most lines of the block times lines of the hunks: some tens of milliseconds.
const COMPARISONS_MAX: usize = 10_000_000;
/// How often a patch without `If-Match` is made again when another writer was faster.
const ATTEMPTS_MAX: u32 = 64;

pub(super) async fn make(change: &Change<'_>, patch: String) -> Answer<Response> {
    // Twice the text, for a patch that takes all of it out and puts all of it in, with its signs.
    check_bytes("patch", Some(&patch), 4 * BLOCK_BYTES_MAX)?;
    let patch: Arc<str> = patch.into();
    let wish = ReadWish { level: Level::Linearizable, token: Token::new(&change.access.tenant) };
    let reading = own_reads(change.access);
    let mut attempt = 0;
    loop {
        let what = What { tier: v1::Tier::Block, id: change.label, parts: false };
        let (mut entries, _) =
            rows(change.shared, &reading, change.space, &wish, change.deadline, what).await?;
        let Some(entry) = entries.pop() else {
            // No block has this version: what is answered is that there is none, or, if this repeats a patch
            // of one that was deleted since, what was answered then.
            let written = change.write(BlockChange::Patch { value: None }, Some(0)).await?;
            return change.answer(&written);
        };
        let block = BlockView::new(entry)?;
        let text = patch.clone();
        // Finding the places of a long patch takes time.
        let patched = change.shared.work.run(change.deadline, move || patched(&block.value, &text)).await?;
        let if_version = change.identity.if_version.or(Some(block.version));
        let (value, misfit) = match patched {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(error)),
        };
        match change.write(BlockChange::Patch { value }, if_version).await {
            Ok(written) => return change.answer(&written),
            Err(problem) if lost_the_race(change.identity, &problem.error) && attempt < ATTEMPTS_MAX => {
                attempt += 1;
                // Wider with every lost race: of n that compete one wins each time.
                let pause = Duration::from_millis(4 * u64::from(attempt)).mul_f64(rand::random());
                tokio::time::sleep(pause.min(change.deadline.left())).await;
            }
            Err(problem) => {
                // The refusal of apply says less than what was found here.
                let is_misfit = problem.error.field.as_deref() == Some("patch");
                return Err(misfit.filter(|_| is_misfit).map_or(problem, Into::into));
            }
        }
    }
}

/// The text after a unified diff.
fn patched(value: &str, patch: &str) -> Result<String> {
    let refused = |detail: String| Error::invalid("patch", detail);
    let parsed = Patch::from_str(patch).map_err(|error| {
        refused(format!("this is not a unified diff: {error}; give hunks that begin with @@ -1,3 +1,4 @@"))
    })?;
    if parsed.hunks().is_empty() {
        return Err(refused(
            "this is not a unified diff: it has no hunk; give hunks that begin with @@ -1,3 +1,4 @@".into(),
        ));
    }
    check_cost(value, &parsed)?;
    if let Ok(text) = diffy::apply(value, &parsed) {
        return Ok(text);
    }
    // Patches made by hand seldom say that the last line has no end.
    let ended = format!("{value}\n");
    let text = if value.ends_with('\n') || value.is_empty() { value } else { ended.as_str() };
    match diffy::apply(text, &parsed) {
        Ok(text) => Ok(text.strip_suffix('\n').map_or(text.clone(), str::to_owned)),
        Err(error) => {
            let detail = format!(
                "the patch does not fit the text of the block ({error}); read the block and make the patch of what \
                 stands there"
            );
            Err(Error::new(ErrorCode::Conflict, detail).at("patch"))
        }
    }
}

/// A hunk whose place is not where it says is looked for everywhere: that takes time for every line of the
/// block and every line of the hunk.
fn check_cost(value: &str, patch: &Patch<'_, str>) -> Result<()> {
    let hunks = patch.hunks();
    if hunks.len() > HUNKS_MAX {
        let detail = format!(
            "the patch has {} hunks; the limit is {HUNKS_MAX}; send it in parts, or the whole text by :rethink",
            hunks.len()
        );
        return Err(Error::too_large("patch", detail));
    }
    // Every hunk is looked for in what the hunks before it have made.
    let inserted =
        hunks.iter().flat_map(|hunk| hunk.lines()).filter(|line| matches!(line, Line::Insert(_))).count();
    let lines = value.lines().count().max(1) + inserted;
    let of_hunks: usize = hunks.iter().map(|hunk| hunk.lines().len()).sum();
    if lines.saturating_mul(of_hunks) > COMPARISONS_MAX {
        let detail = format!(
            "the hunks have {of_hunks} lines and the block, with what they insert, {lines}; the limit of their product is \
             {COMPARISONS_MAX}; send the patch in parts, or the whole text by :rethink"
        );
        return Err(Error::too_large("patch", detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn unified_diffs_are_applied() {
        let value = "名字：安\n喜欢茶🍵\n住在柏林";
        for (patch, expected) in [
            ("@@ -2,1 +2,1 @@\n-喜欢茶🍵\n+喜欢咖啡\n", "名字：安\n喜欢咖啡\n住在柏林"),
            ("--- a\n+++ b\n@@ -3 +3 @@\n-住在柏林\n+住在巴黎\n", "名字：安\n喜欢茶🍵\n住在巴黎"),
            (
                "@@ -3 +3,2 @@\n-住在柏林\n\\ No newline at end of file\n+住在柏林\n+新的一行\n\\ No newline at end of file\n",
                "名字：安\n喜欢茶🍵\n住在柏林\n新的一行",
            ),
            // Two lines off.
            ("@@ -4,1 +4,1 @@\n-喜欢茶🍵\n+x\n", "名字：安\nx\n住在柏林"),
        ] {
            assert_eq!(patched(value, patch).unwrap(), expected, "{patch}");
        }
        assert_eq!(patched("", "@@ -0,0 +1,2 @@\n+a\n+b\n").unwrap(), "a\nb\n");
        assert_eq!(patched("a\n", "@@ -1 +0,0 @@\n-a\n").unwrap(), "");
        let text: String = (0..200).map(|n| format!("line {n}\n")).collect();
        let edited = text.replace("line 7\n", "").replace("line 150\n", "第150行\nmore\n");
        let patch = diffy::create_patch(&text, &edited).to_string();
        assert_eq!(patched(&text, &patch).unwrap(), edited);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        for (value, patch, code) in [
            ("a\nb\n", "@@ -1 +1 @@\n-x\n+y\n", ErrorCode::Conflict),
            ("", "@@ -1 +1 @@\n-x\n+y\n", ErrorCode::Conflict),
            ("a", "", ErrorCode::InvalidArgument),
            ("a", "replace a by b", ErrorCode::InvalidArgument),
            ("a", "@@ nonsense @@\n-a\n+b\n", ErrorCode::InvalidArgument),
            ("a", "@@ -1,9 +1,9 @@\n-a\n+b\n", ErrorCode::InvalidArgument),
        ] {
            let error = patched(value, patch).unwrap_err();
            assert_eq!((error.code, error.field.as_deref()), (code, Some("patch")), "{patch}");
        }
    }

    #[test]
    fn what_would_take_long_is_refused_with_what_to_do_instead() {
        let block: String = (0..30_000).map(|n| format!("{}\n", n % 10)).collect();
        let many: String =
            (1..=HUNKS_MAX + 1).map(|n| format!("@@ -{n} +{n} @@\n-{0}\n+{0}\n", n % 10)).collect();
        let long: String = (0..400).map(|n| format!("-{}\n", n % 10)).collect();
        for (patch, word) in [(many, "hunks"), (format!("@@ -1,400 +0,0 @@\n{long}"), "30000")] {
            let error = patched(&block, &patch).unwrap_err();
            assert_eq!((error.code, error.field.as_deref()), (ErrorCode::TooLarge, Some("patch")));
            assert!(error.detail.contains(word) && error.detail.contains(":rethink"), "{}", error.detail);
        }
        let most: String =
            (1..=HUNKS_MAX).map(|n| format!("@@ -{0} +{0} @@\n-line {0}\n+{0}\n", 3 * n)).collect();
        let text: String = (1..=3 * HUNKS_MAX).map(|n| format!("line {n}\n")).collect();
        assert!(patched(&text, &most).unwrap().contains("\n768\n"));
    }
}
