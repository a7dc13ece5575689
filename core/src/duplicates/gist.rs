//! What a text comes to: itself, without what says nothing.

use super::TEXT_BYTES_MAX;
use crate::text::chars::is_cjk;
use crate::text::normalize::fold;
use crate::text::{names, normalize};

/// Least weight of a gist, where a word weighs two and a Chinese character one: what is shorter says too
/// little for two of it to be one thing.
const WEIGHT_MIN: usize = 6;
/// What may stand in front of what is said, with a comma or colon behind it. Folded.
const LEAD_INS: [&str; 20] = [
    "by the way",
    "btw",
    "for your information",
    "fyi",
    "just so you know",
    "please note",
    "note",
    "please remember",
    "remember",
    "oh",
    "hey",
    "hi",
    "hello",
    "对了",
    "顺便说一下",
    "顺便说一句",
    "请记住",
    "记住",
    "请注意",
    "注意",
];

/// See the module. Two are equal if their texts say the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gist {
    text: String,
    /// As they are written, in their order.
    names: Vec<String>,
}

impl Gist {
    /// The gist of a text; `None` if it is longer than [`TEXT_BYTES_MAX`] or says too little.
    pub fn of(text: &str) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let normal = normalize(text);
        let folded = fold(&normal);
        let rest = without_lead_in(&folded);
        let skipped = folded.chars().count() - rest.chars().count();
        let said = rest.trim_end_matches(['.', '!', '。', '…', ' ']);
        let quote =
            |c: char| if matches!(c, '“' | '”' | '„' | '«' | '»' | '「' | '」') { '"' } else { c };
        let text: String = said.chars().map(quote).collect();
        let words = text.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric));
        let weight: usize = words.map(weight).sum();
        let own: String = normal.chars().skip(skipped).collect();
        let names = names(&own).into_iter().map(str::to_owned).collect();
        (weight >= WEIGHT_MIN).then_some(Self { text, names })
    }
}

fn without_lead_in(text: &str) -> &str {
    let rest = LEAD_INS.iter().find_map(|words| text.strip_prefix(words)?.strip_prefix([',', ':']));
    rest.map_or(text, str::trim_start)
}

/// A word weighs two, each Chinese character one.
fn weight(word: &str) -> usize {
    let chinese = word.chars().filter(|c| is_cjk(*c)).count();
    if chinese > 0 { chinese } else { 2 }
}
