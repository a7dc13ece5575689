//! What is wrong with a configuration: everything that can be found at once.

use holdfast_bench::client::ClientError;
use std::collections::BTreeSet;
use std::fmt;

/// Most problems that are listed; the others are only counted.
const LISTED_MAX: usize = 50;

/// The problems of a configuration, in the order in which its sources were read.
#[derive(Debug, Default)]
pub(super) struct Problems {
    list: Vec<String>,
    /// Settings whose value is not known because it was wrong.
    bad: BTreeSet<String>,
    /// Whether a whole source could not be read, so that nothing can be called missing.
    has_unread: bool,
}

impl Problems {
    /// Adds a problem of no particular setting.
    pub(super) fn add(&mut self, place: &str, message: impl fmt::Display) {
        self.list.push(visible(&format!("{place}: {message}")));
    }

    /// Adds a problem of a value, so that no later check judges that setting.
    pub(super) fn add_bad(&mut self, path: &str, place: &str, message: impl fmt::Display) {
        self.bad.insert(path.to_owned());
        self.add(place, message);
    }

    /// Adds that a whole source could not be read.
    pub(super) fn add_unread(&mut self, place: &str, message: impl fmt::Display) {
        self.has_unread = true;
        self.add(place, message);
    }

    /// Whether the value of this setting is known.
    pub(super) fn knows(&self, path: &str) -> bool {
        !self.has_unread && !self.bad.contains(path)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.list.len() {
            1 => f.write_str("the configuration has an error:")?,
            count => write!(f, "the configuration has {count} errors:")?,
        }
        for problem in self.list.iter().take(LISTED_MAX) {
            write!(f, "\n  {problem}")?;
        }
        if self.list.len() > LISTED_MAX {
            write!(f, "\n  and {} more", self.list.len() - LISTED_MAX)?;
        }
        Ok(())
    }
}

impl From<Problems> for ClientError {
    fn from(problems: Problems) -> Self {
        ClientError::Usage(problems.to_string())
    }
}

/// The text on one line, with nothing in it that a terminal obeys.
pub(super) fn visible(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_problems_is_counted() {
        let mut problems = Problems::default();
        for index in 0..60 {
            problems.add("file", index);
        }
        let text = problems.to_string();
        assert!(text.starts_with("the configuration has 60 errors:\n  file: 0\n"), "{text}");
        assert!(text.ends_with("file: 49\n  and 10 more"), "{text}");
    }

    #[test]
    fn no_problem_can_write_a_line_of_its_own_or_steer_the_terminal() {
        let mut problems = Problems::default();
        problems.add("名\n字", "a\u{1b}[2Jb");
        assert_eq!(problems.to_string(), "the configuration has an error:\n  名\\n字: a\\u{1b}[2Jb");
    }
}
