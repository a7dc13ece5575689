//! Texts with placeholders: `Dear {{name}}, …`. Read and filled by routers, never by apply.
//!
//! A placeholder is a name between `{{` and `}}`, with or without blanks around it. `\{{` stands for
//! `{{` itself. What is filled in is not looked at again: no value can bring a placeholder.

use crate::limits::{ID_BYTES_MAX, RENDERED_BYTES_MAX, TEMPLATE_PLACEHOLDERS_MAX};
use crate::{Error, ErrorCode, Result};
use std::collections::BTreeSet;

/// A piece of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    /// Stands for itself.
    Text(&'a str),
    /// Stands for the value of this name.
    Placeholder(&'a str),
}

/// A text with placeholders, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template<'a> {
    pieces: Vec<Piece<'a>>,
}

impl<'a> Template<'a> {
    /// Reads a template.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`] that tells the place of a placeholder that does not end or has
    /// no good name; [`ErrorCode::TooLarge`] if there are too many.
    pub fn read(text: &'a str) -> Result<Self> {
        let mut pieces = Vec::new();
        let mut rest = text;
        let at = |rest: &str| text[..text.len() - rest.len()].chars().count() + 1;
        while let Some(open) = rest.find("{{") {
            if let Some(literal) = rest[..open].strip_suffix('\\') {
                pieces.extend([Piece::Text(literal), Piece::Text("{{")]);
                rest = &rest[open + 2..];
                continue;
            }
            pieces.push(Piece::Text(&rest[..open]));
            rest = &rest[open..];
            let Some(close) = rest.find("}}") else {
                let detail = format!(
                    "the placeholder at character {} does not end; close it with }}}}, or write \\{{{{ for the braces",
                    at(rest)
                );
                return Err(Error::new(ErrorCode::InvalidArgument, detail));
            };
            let name = rest[2..close].trim();
            if !is_name(name) {
                let detail = format!(
                    "the placeholder at character {} has no good name; give letters, digits, _ - and ., at most \
                     {ID_BYTES_MAX} bytes",
                    at(rest)
                );
                return Err(Error::new(ErrorCode::InvalidArgument, detail));
            }
            pieces.push(Piece::Placeholder(name));
            rest = &rest[close + 2..];
        }
        pieces.push(Piece::Text(rest));
        let template = Self { pieces };
        let (number, max) = (template.names().len(), TEMPLATE_PLACEHOLDERS_MAX);
        if number > max {
            let detail = format!("the template has {number} different placeholders; the limit is {max}");
            return Err(Error::new(ErrorCode::TooLarge, detail));
        }
        Ok(template)
    }

    /// The names of the placeholders.
    pub fn names(&self) -> BTreeSet<&'a str> {
        let names = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Placeholder(name) => Some(*name),
            Piece::Text(_) => None,
        });
        names.collect()
    }

    /// The text with values in place of the placeholders.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`] that names every placeholder without a value;
    /// [`ErrorCode::TooLarge`] if the text would have more than [`RENDERED_BYTES_MAX`] bytes.
    pub fn render(&self, value: impl Fn(&str) -> Option<String>) -> Result<String> {
        let missing: Vec<&str> = self.names().into_iter().filter(|name| value(name).is_none()).collect();
        if let Some(first) = missing.first() {
            let detail = format!(
                "no value for {}; give one for each in variables, or set it in the task or session",
                missing.join(", ")
            );
            return Err(Error::invalid(format!("variables.{first}"), detail));
        }
        self.fill(|name| value(name).unwrap_or_default())
    }

    /// The text with values in place of the placeholders that have one; the others stand as `{{name}}`.
    ///
    /// # Errors
    /// [`ErrorCode::TooLarge`] if the text would have more than [`RENDERED_BYTES_MAX`] bytes.
    pub fn render_known(&self, value: impl Fn(&str) -> Option<String>) -> Result<String> {
        self.fill(|name| value(name).unwrap_or_else(|| format!("{{{{{name}}}}}")))
    }

    fn fill(&self, value: impl Fn(&str) -> String) -> Result<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Placeholder(name) => text.push_str(&value(name)),
            }
            if text.len() > RENDERED_BYTES_MAX {
                let detail = format!(
                    "the filled-in text has more than {RENDERED_BYTES_MAX} bytes; shorten the values"
                );
                return Err(Error::too_large("variables", detail));
            }
        }
        Ok(text)
    }
}

fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.len() <= ID_BYTES_MAX && name.chars().all(good)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn render(text: &str) -> Result<String> {
        Template::read(text)?.render(|name| match name {
            "name" => Some("Ann".into()),
            "姓名" => Some("安".into()),
            "tricky" => Some("{{name}} \\{{ }}".into()),
            "empty" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn placeholders_are_filled_in() {
        for (text, expected) in [
            ("", ""),
            ("plain {text} }} {", "plain {text} }} {"),
            ("Dear {{name}}, {{ name }}!", "Dear Ann, Ann!"),
            ("你好，{{姓名}}🙂", "你好，安🙂"),
            ("{{name}}{{姓名}}", "Ann安"),
            ("[{{empty}}]", "[]"),
            ("write \\{{name}} for {{name}}", "write {{name}} for Ann"),
            ("{{tricky}}", "{{name}} \\{{ }}"),
        ] {
            assert_eq!(render(text).as_deref(), Ok(expected), "{text}");
        }
        let names = Template::read("{{b}} {{a}} {{ b }} \\{{c}}").unwrap().names();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn placeholders_without_a_value_stay() {
        let known = |name: &str| (name == "name").then(|| "{{城市}}".to_owned());
        for (text, expected) in [
            ("{{ name }} in {{ 城市 }}🙂", "{{城市}} in {{城市}}🙂"),
            ("\\{{name}} {{age}}{{age}}", "{{name}} {{age}}{{age}}"),
            ("plain", "plain"),
        ] {
            assert_eq!(Template::read(text).unwrap().render_known(known).as_deref(), Ok(expected), "{text}");
        }
        let long = Template::read("{{a}}{{b}}").unwrap();
        let error = long.render_known(|_| Some("x".repeat(RENDERED_BYTES_MAX))).unwrap_err();
        assert_eq!(error.code, ErrorCode::TooLarge);
    }

    #[test]
    fn a_missing_value_is_named() {
        let error = render("{{name}} {{城市}} {{age}}").unwrap_err();
        assert_eq!(error.field.as_deref(), Some("variables.age"));
        assert!(error.detail.contains("age, 城市"), "{error}");
    }

    #[test]
    fn bad_templates_are_refused_with_their_place() {
        for (text, place) in [
            ("a {{b", "character 3"),
            ("你好 {{}}", "character 4"),
            ("{{ }}", "character 1"),
            ("{{a b}}", "character 1"),
            ("{{a{{b}}", "character 1"),
            ("{{a\n}} {{b;}}", "character 8"),
        ] {
            let error = Template::read(text).unwrap_err();
            assert!(error.detail.contains(place), "{text}: {error}");
        }
        let many: String = (0..101).map(|n| format!("{{{{p{n}}}}}")).collect();
        assert_eq!(Template::read(&many).unwrap_err().code, ErrorCode::TooLarge);
        let long = Template::read("{{a}}{{a}}").unwrap().render(|_| Some("x".repeat(RENDERED_BYTES_MAX)));
        assert_eq!(long.unwrap_err().code, ErrorCode::TooLarge);
    }

    proptest::proptest! {
        /// Any text is read or refused, and one that is read renders without a trace of a name.
        #[test]
        fn any_text_is_read_without_a_fault(text in "[{}a\\\\ 茶🙂]{0,30}") {
            if let Ok(template) = Template::read(&text) {
                template.render(|_| Some("v".into())).unwrap();
            }
        }
    }
}
