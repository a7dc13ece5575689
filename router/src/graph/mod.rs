//! `…/graph`: the facts of a space as entities and the relations between them.

pub(crate) mod merge;
pub(crate) mod read;
mod view;

use holdfast_core::facts::normal;
use holdfast_core::limits::check_id;
use holdfast_core::{Error, Result};

/// The normal form of an entity's name as a caller writes it: `I` is the user of the space.
fn name(field: &str, text: &str) -> Result<String> {
    check_id(field, text)?;
    let name = normal::subject(text, None);
    if name.is_empty() {
        return Err(Error::invalid(field, format!("{field} has no letter or digit, so it names nothing")));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_in_their_normal_form() {
        for (text, expected) in
            [("The  Hague.", "hague"), ("I", "user"), ("我的妹妹", "user's 妹妹"), ("小明", "小明")]
        {
            assert_eq!(name("name", text).as_deref(), Ok(expected));
        }
        for text in ["", "...", "a\u{0}b", &"x".repeat(300)] {
            assert!(name("name", text).is_err(), "{text}");
        }
    }
}
