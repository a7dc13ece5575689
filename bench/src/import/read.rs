//! Reads import files: JSON Lines of memories, or LoCoMo.

use serde::de::DeserializeOwned;
use thiserror::Error;

use super::Item;
use crate::client::NewMemory;
use crate::locomo::Dataset;
use crate::locomo::dataset::is_locomo;

/// Longest line of a JSON Lines file, in bytes: content 64 KiB and metadata 16 KiB in escaped
/// form, and a vector of 4,096 numbers, fit several times.
pub const LINE_BYTES_MAX: usize = 4 << 20;

/// A file that cannot be imported; the message names the line or conversation.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct BadFile(String);

/// The memories of one user in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Whose they are.
    pub user: String,
    /// In the order of the file.
    pub items: Vec<Item>,
}

/// Reads a file. A LoCoMo file is recognised by its shape: every turn becomes a memory. If one
/// conversation of it is asked for, or it has only one, that becomes the memories of `user`;
/// else each becomes those of a user of its own, `<user>-<conversation>`.
///
/// # Errors
/// The first mistake in the file, or that a conversation is asked for that is not there.
pub fn read(bytes: &[u8], user: &str, conversation: Option<&str>) -> Result<Vec<Part>, BadFile> {
    let text = utf8(bytes)?;
    if is_locomo(text) {
        return read_locomo(text, user, conversation);
    }
    if let Some(name) = conversation {
        return Err(BadFile(format!(
            "--conversation {name} is for LoCoMo files; this is not one (it does not start as a \
             JSON array with a \"conversation\")"
        )));
    }
    let items = json_lines::<NewMemory>(text)?
        .into_iter()
        .map(|(line, memory)| Item { memory, origin: format!("line {line}") })
        .collect();
    Ok(vec![Part { user: user.to_owned(), items }])
}

fn read_locomo(text: &str, user: &str, conversation: Option<&str>) -> Result<Vec<Part>, BadFile> {
    let bad = |error: anyhow::Error| BadFile(format!("{error:#}"));
    let data = Dataset::parse(text).map_err(bad)?;
    let chosen: Vec<_> = match conversation {
        Some(name) => vec![data.conversation(name).map_err(bad)?],
        None => data.conversations.iter().collect(),
    };
    let alone = chosen.len() == 1;
    Ok(chosen
        .into_iter()
        .map(|conversation| Part {
            user: if alone { user.to_owned() } else { format!("{user}-{}", conversation.id) },
            items: conversation
                .memories
                .iter()
                .map(|memory| Item {
                    origin: format!("turn {}", memory.id.as_deref().unwrap_or_default()),
                    memory: memory.clone(),
                })
                .collect(),
        })
        .collect())
}

/// Reads one JSON object a line; blank lines are skipped. Lines are counted from 1.
///
/// # Errors
/// The first line that is not such an object, with its number.
pub fn json_lines<T: DeserializeOwned>(text: &str) -> Result<Vec<(usize, T)>, BadFile> {
    let mut out = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.trim().is_empty() {
            continue;
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(BadFile(format!(
                "line {number}: {} bytes are too many for one memory (limit {LINE_BYTES_MAX})",
                line.len()
            )));
        }
        let value = serde_json::from_str(line).map_err(|error| bad_line(number, &error))?;
        out.push((number, value));
    }
    Ok(out)
}

/// serde counts lines within the one line it saw; what helps is the column.
fn bad_line(number: usize, error: &serde_json::Error) -> BadFile {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let sentence = text.strip_suffix(&place).unwrap_or(&text);
    BadFile(format!("line {number}, column {}: {sentence}", error.column()))
}

/// The text of a file, without a byte order mark.
///
/// # Errors
/// If it is not UTF-8, with the line of the first bad byte.
pub fn utf8(bytes: &[u8]) -> Result<&str, BadFile> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        BadFile(format!("line {line}: the file is not UTF-8; convert it first"))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::locomo::AskedQuestion;

    fn error(bytes: &[u8]) -> String {
        read(bytes, "u", None).unwrap_err().to_string()
    }

    #[test]
    fn lines_become_items_with_their_numbers() {
        let text = "\u{feff}{\"content\":\"我不吃辣 🌶️\",\"metadata\":{\"a\":[1,null]}}\r\n\n  \n{\"content\":\"b\",\"id\":\"x\"}";
        let parts = read(text.as_bytes(), "u", None).unwrap();
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].user, "u");
        let items = &parts[0].items;
        assert_eq!(items[0].memory.content, "我不吃辣 🌶️");
        assert_eq!((items[0].origin.as_str(), items[1].origin.as_str()), ("line 1", "line 4"));
        assert!(read(b"", "u", None).unwrap()[0].items.is_empty());
    }

    #[test]
    fn mistakes_are_told_with_line_and_field() {
        let text = "{\"content\":\"a\"}\n{\"content\":\"b\",\"speeker\":\"Bo\"}\n";
        let told = error(text.as_bytes());
        assert!(told.starts_with("line 2, column 24: unknown field `speeker`"), "{told}");
        assert!(!told.contains("at line 1"), "{told}");
        assert!(error(b"{\"content\":1}").starts_with("line 1, column 12: invalid type"));
        assert!(error(b"{\"content\":\"a\",\"content\":\"b\"}").contains("duplicate field"));
        assert!(error(b"{\"content\":\"a\"} x").contains("trailing"));
        assert!(error(b"{\"content\":\"a\",\"fact\":{\"subject\":\"s\"}}").contains("predicate"));
        assert!(error(b"{\"content\":\"a\"}\n{\"content\":\"\xff\"}").starts_with("line 2: "));
        assert!(error(b"nonsense").starts_with("line 1, "));
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let line = format!("{{\"content\":\"{}\"}}", "x".repeat(LINE_BYTES_MAX));
        assert!(error(line.as_bytes()).contains("too many"));
    }

    #[test]
    fn locomo_files_give_one_user_a_conversation() {
        let session = r#"{"session_1_date_time": "1:00 pm on 8 May, 2023",
            "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "x"}]}"#;
        let one = |name| format!(r#"{{"sample_id":"{name}","conversation":{session},"qa":[]}}"#);
        let two = format!("[{},{}]", one("c-1"), one("c-2"));
        let users = |text: &str, conversation| -> Vec<String> {
            let parts = read(text.as_bytes(), "u", conversation).unwrap();
            parts.into_iter().map(|part| part.user).collect()
        };
        assert_eq!(users(&two, None), ["u-c-1", "u-c-2"]);
        assert_eq!(users(&two, Some("c-2")), ["u"]);
        assert_eq!(users(&format!("[{}]", one("c-1")), None), ["u"]);
        let parts = read(two.as_bytes(), "u", Some("c-2")).unwrap();
        assert_eq!(parts[0].items[0].origin, "turn c-2/D1:1");
        assert!(read(two.as_bytes(), "u", Some("c-3")).is_err());
        assert!(read(b"{\"content\":\"a\"}", "u", Some("c-1")).is_err());
    }

    #[test]
    fn questions_are_read_the_same_way() {
        let lines = "{\"question\":\"喝什么？\",\"gold\":[\"a\"]}\n{\"question\":\"b\"}";
        let questions = json_lines::<AskedQuestion>(lines).unwrap();
        assert_eq!(questions[0].1.gold, ["a"]);
        assert!(questions[1].1.gold.is_empty());
    }
}
