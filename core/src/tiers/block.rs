//! Core blocks: labelled texts of bounded size that an agent edits and that every context begins with.
//!
//! An edit is decided in apply, on the text as it is then: inserting and replacing compare bytes and
//! count characters, and need no table. A patch is applied by a library, before the proposal, to a
//! version that the command names.

use crate::codec::stored;
use crate::limits::{self, BLOCK_BYTES_MAX, BLOCK_CHARS_MAX, DESCRIPTION_BYTES_MAX};
use crate::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};

/// Characters that a block may have if nothing else is said.
pub const LIMIT_CHARS_DEFAULT: u32 = 2_000;
/// Places of a text that is looked for which are counted; beyond it there are "at least" so many.
pub const MATCHES_COUNTED_MAX: usize = 100;

/// A core block. Key: see [`crate::keys::block`]. Earlier versions are kept in the same form.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockRow {
    /// Counts changes; what compare-and-set compares.
    pub version: u64,
    /// The text.
    pub value: String,
    /// What it is for, told to whoever reads it.
    pub description: String,
    /// Most characters (Unicode scalar values) of `value`, 1 to [`BLOCK_CHARS_MAX`].
    pub limit_chars: u32,
    /// Whether only credentials with the right `admin` may change it.
    pub read_only: bool,
    /// When it was made, in log time.
    pub created_us: i64,
    /// When this version was made, in log time.
    pub updated_us: i64,
}

stored!(BlockRow);

/// A change of one block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockWrite {
    /// Which.
    pub label: String,
    /// Only if this is its version.
    pub if_version: Option<u64>,
    /// Whether the caller's credential has the right `admin`, which read-only blocks need. The node
    /// that takes the write checks it.
    pub by_admin: bool,
    /// What.
    pub change: BlockChange,
}

/// What is done to a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockChange {
    /// Makes the block, or sets what is given; the rest of one that exists stays.
    Put {
        /// The text; empty for a new block if not given.
        value: Option<String>,
        /// What it is for.
        description: Option<String>,
        /// As [`BlockRow::limit_chars`]; [`LIMIT_CHARS_DEFAULT`] for a new block if not given.
        limit_chars: Option<u32>,
        /// As [`BlockRow::read_only`].
        read_only: Option<bool>,
    },
    /// Puts text between lines.
    Insert {
        /// The text, which becomes whole lines.
        text: String,
        /// How many lines stand before it; all, if not given.
        line: Option<u32>,
    },
    /// Replaces a text that stands there exactly once.
    Replace {
        /// The text that is looked for.
        old: String,
        /// What stands there afterwards; may be empty.
        new: String,
    },
    /// A whole new text.
    Rethink {
        /// The text.
        value: String,
    },
    /// The text that a patch made of version `if_version`, which must be given. `None` if the patch
    /// does not fit that version: it is refused, unless the write is a repetition of one that fitted.
    Patch {
        /// The text.
        value: Option<String>,
    },
    /// Deletes the block with its earlier versions.
    Delete,
}

impl BlockWrite {
    /// Checks what can be checked without the block.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`] or [`ErrorCode::TooLarge`], naming the field.
    pub fn check(&self) -> Result<()> {
        limits::check_id("label", &self.label)?;
        match &self.change {
            BlockChange::Put { value, description, limit_chars, .. } => {
                if let Some(limit) = limit_chars
                    && !(1..=BLOCK_CHARS_MAX).contains(limit)
                {
                    let detail = format!("limit_chars is {limit}; give 1 to {BLOCK_CHARS_MAX}");
                    return Err(Error::invalid("limit_chars", detail));
                }
                limits::check_bytes("description", description.as_deref(), DESCRIPTION_BYTES_MAX)?;
                limits::check_bytes("value", value.as_deref(), BLOCK_BYTES_MAX)
            }
            BlockChange::Insert { text, .. } if text.is_empty() => {
                Err(Error::invalid("text", "text is empty; give the lines to insert"))
            }
            BlockChange::Insert { text, .. } => limits::check_bytes("text", Some(text), BLOCK_BYTES_MAX),
            BlockChange::Replace { old, .. } if old.is_empty() => Err(Error::invalid(
                "old",
                "old is empty; give the text to replace, as it stands in the block",
            )),
            BlockChange::Replace { old, new } => {
                limits::check_bytes("old", Some(old), BLOCK_BYTES_MAX)?;
                limits::check_bytes("new", Some(new), BLOCK_BYTES_MAX)
            }
            BlockChange::Rethink { value } => limits::check_bytes("value", Some(value), BLOCK_BYTES_MAX),
            BlockChange::Patch { .. } if self.if_version.is_none() => {
                Err(Error::invalid("version", "a patch is made of a version, which must be named"))
            }
            BlockChange::Patch { value } => limits::check_bytes("patch", value.as_deref(), BLOCK_BYTES_MAX),
            BlockChange::Delete => Ok(()),
        }
    }
}

impl BlockRow {
    /// The text after a change of it; the same for a change of something else.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`] or [`ErrorCode::Conflict`] that says why the change does not
    /// fit this text.
    pub fn edited(&self, change: &BlockChange) -> Result<String> {
        match change {
            BlockChange::Put { value, .. } => Ok(value.as_ref().unwrap_or(&self.value).clone()),
            BlockChange::Insert { text, line } => insert(&self.value, text, *line),
            BlockChange::Replace { old, new } => replace(&self.value, old, new),
            BlockChange::Rethink { value } | BlockChange::Patch { value: Some(value) } => Ok(value.clone()),
            BlockChange::Patch { value: None } => {
                Err(Error::new(ErrorCode::Conflict, "the patch does not fit the text of the block")
                    .at("patch"))
            }
            BlockChange::Delete => Ok(self.value.clone()),
        }
    }

    /// Whether the text keeps to the limit.
    ///
    /// # Errors
    /// [`ErrorCode::TooLarge`] that tells both numbers.
    pub fn check_size(&self) -> Result<()> {
        let (chars, limit) = (self.value.chars().count(), self.limit_chars);
        if chars > limit as usize {
            let detail = format!(
                "the block would have {chars} characters; its limit is {limit}; shorten the text, or raise \
                 limit_chars (at most {BLOCK_CHARS_MAX})"
            );
            return Err(Error::too_large("value", detail));
        }
        limits::check_bytes("value", Some(&self.value), BLOCK_BYTES_MAX)
    }

    /// Bytes that it counts for among those that the space stores.
    pub fn stored_bytes(&self) -> u64 {
        (self.value.len() + self.description.len()) as u64
    }
}

/// Puts lines behind the first `line` ones. Line ends are added where they are missing.
fn insert(value: &str, text: &str, line: Option<u32>) -> Result<String> {
    let lines: Vec<&str> = value.split_inclusive('\n').collect();
    let at = line.map_or(lines.len(), |line| line as usize);
    if at > lines.len() {
        let detail = format!("the block has {} lines; line is {at}; give 0 to {0}", lines.len());
        return Err(Error::invalid("line", detail));
    }
    let mut edited = lines[..at].concat();
    if !edited.is_empty() && !edited.ends_with('\n') {
        edited.push('\n');
    }
    edited.push_str(text);
    if at < lines.len() && !text.ends_with('\n') {
        edited.push('\n');
    }
    edited.push_str(&lines[at..].concat());
    Ok(edited)
}

/// Replaces the one place where `old` stands. Places that overlap are two.
fn replace(value: &str, old: &str, new: &str) -> Result<String> {
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(at) = value[from..].find(old).map(|at| from + at) {
        places.push(at);
        if places.len() > MATCHES_COUNTED_MAX {
            break;
        }
        from = at + value[at..].chars().next().map_or(1, char::len_utf8);
    }
    match places.as_slice() {
        [at] => Ok([&value[..*at], new, &value[at + old.len()..]].concat()),
        [] => {
            let detail = "old stands nowhere in the block (0 matches); read the block and give the text as it \
                          stands there";
            Err(Error::new(ErrorCode::Conflict, detail).at("old"))
        }
        many => {
            let number = match many.len() {
                number if number > MATCHES_COUNTED_MAX => format!("at least {MATCHES_COUNTED_MAX}"),
                number => number.to_string(),
            };
            let detail = format!(
                "old stands in the block {number} times ({number} matches), and exactly one can be replaced; give \
                 more of the text around it"
            );
            Err(Error::new(ErrorCode::Conflict, detail).at("old"))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lines_are_inserted_where_they_are_asked_for() {
        for (value, text, line, expected) in [
            ("", "a", None, "a"),
            ("", "a", Some(0), "a"),
            ("a", "b", None, "a\nb"),
            ("a\n", "b", None, "a\nb"),
            ("a\nc", "b", Some(1), "a\nb\nc"),
            ("a\nc\n", "b\n", Some(1), "a\nb\nc\n"),
            ("b", "a", Some(0), "a\nb"),
            ("名字：安\n", "喜好：茶🍵", Some(1), "名字：安\n喜好：茶🍵"),
            ("a\r\nc", "b", Some(1), "a\r\nb\nc"),
        ] {
            assert_eq!(insert(value, text, line).as_deref(), Ok(expected), "{value:?} {line:?}");
        }
        let error = insert("a\nb", "c", Some(3)).unwrap_err();
        assert!(error.detail.contains("has 2 lines") && error.detail.contains("0 to 2"), "{error}");
        assert!(insert("", "c", Some(u32::MAX)).is_err());
    }

    #[test]
    fn exactly_one_match_is_replaced() {
        for (value, old, new, expected) in [
            ("I like tea.", "tea", "coffee", "I like coffee."),
            ("我喜欢茶🍵", "茶🍵", "", "我喜欢"),
            ("tea", "tea", "tea tea", "tea tea"),
        ] {
            assert_eq!(replace(value, old, new).as_deref(), Ok(expected));
        }
        for (value, old, number) in [
            ("tea", "Tea", "0 matches"),
            ("", "x", "0 matches"),
            ("a b a", "a", "2 matches"),
            ("aaa", "aa", "2 matches"),
            ("哈哈哈", "哈哈", "2 matches"),
        ] {
            let error = replace(value, old, "x").unwrap_err();
            assert_eq!((error.code, error.field.as_deref()), (ErrorCode::Conflict, Some("old")));
            assert!(error.detail.contains(number), "{error}");
        }
        // Counted up to a bound, whatever the text.
        let error = replace(&"a".repeat(65_536), &"a".repeat(30_000), "x").unwrap_err();
        assert!(error.detail.contains("at least 100"), "{error}");
    }

    #[test]
    fn characters_are_counted_and_not_bytes() {
        let row =
            |value: &str, limit_chars| BlockRow { value: value.into(), limit_chars, ..BlockRow::default() };
        assert!(row("茶🍵", 2).check_size().is_ok());
        let error = row("茶🍵!", 2).check_size().unwrap_err();
        assert!(error.detail.contains("3 characters") && error.detail.contains("limit is 2"), "{error}");
        let error = row(&"茶".repeat(30_000), BLOCK_CHARS_MAX).check_size().unwrap_err();
        assert_eq!(error.code, ErrorCode::TooLarge);
    }
}
