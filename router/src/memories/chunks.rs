//! Long contents become chunks: parts of up to so many tokens, cut at the ends of paragraphs and
//! sentences, which are searched in place of the whole.

use super::derive::{Known, cost, embedded_text, memory_of};
use super::draft::Draft;
use super::infer::{is_searched_for_facts, said};
use crate::fact_rules::FactRules;
use crate::tokenizer::Tokenizer;
use holdfast_core::command::NewMemory;
use holdfast_core::facts::extract::{Extracted, TEXT_BYTES_MAX};
use holdfast_core::keys::text_hash;
use holdfast_core::limits::{CHUNKS_MAX, STATEMENTS_MAX};
use holdfast_core::text::sentences;
use std::ops::Range;

/// Sentences in which facts are looked for at once.
const SENTENCES_SEARCHED: usize = 6;

/// The chunks of one memory, ready but for their vectors.
#[derive(Default)]
pub(super) struct Chunks {
    pub(super) memories: Vec<NewMemory>,
    /// The text of each that is embedded.
    pub(super) texts: Vec<String>,
    /// An upper bound of the bytes that they take in a command.
    pub(super) cost: usize,
}

/// Whether a content is cut. One whose vector the caller brings, or that is given as one fact, stays
/// whole: no part of it could have that vector, or fall with that fact.
pub(super) fn is_long(draft: &Draft, tokens: usize, tokens_max: usize) -> bool {
    draft.given.is_none() && draft.fact.is_none() && tokens > tokens_max
}

impl Chunks {
    /// Those of a long content of so many tokens, whose memory this is. Facts are looked for in the chunks,
    /// and so once.
    pub(super) fn of(
        draft: &Draft,
        memory: &NewMemory,
        tokens: usize,
        tokens_max: usize,
        by: &FactRules,
    ) -> Self {
        let (id, event_us) = (&memory.index.id, memory.index.event_us);
        let mut chunks = Self::default();
        let whole = format!("chunk of {id}");
        let mut part = Draft {
            id: None,
            derived_from: vec![id.clone()],
            caption: draft.caption.clone(),
            ..without_text(draft)
        };
        for content in split(&draft.content, tokens, tokens_max) {
            part.content = content.to_owned();
            let known = Known {
                tokens: count(content),
                // The text of a chunk is no statement of its own: it repeats nothing, and need not be found.
                hash: text_hash::hash(&part.content, Some(&whole)),
                said: Extracted::default(),
                is_searched: true,
            };
            let mut memory = memory_of(&part, event_us, known);
            state(&mut memory, &part, by);
            chunks.cost += cost(&part);
            chunks.texts.push(embedded_text(&part));
            chunks.memories.push(memory);
            // Searched with the first part alone, or each would be found by it.
            part.caption = None;
        }
        chunks
    }
}

/// A draft for parts of another's text.
fn without_text(draft: &Draft) -> Draft {
    let mut part = draft.clone();
    part.content.clear();
    part
}

/// Puts in what a chunk states. A text of many sentences is not searched as one, so it is searched in
/// groups of a few; together they are never all that the chunk says.
fn state(memory: &mut NewMemory, part: &Draft, by: &FactRules) {
    if !is_searched_for_facts(part) {
        return;
    }
    let mut searched = without_text(part);
    for group in sentences(&part.content).chunks(SENTENCES_SEARCHED) {
        searched.content = group.join("\n");
        let found = said(&searched, memory.index.event_us, by);
        let room = STATEMENTS_MAX - memory.statements.len();
        memory.statements.extend(found.statements.into_iter().take(room));
        if let Some(importance) = found.importance.filter(|_| !part.importance_given) {
            memory.index.importance = memory.index.importance.max(importance);
        }
    }
}

fn count(text: &str) -> usize {
    Tokenizer::default().count_stored(text) as usize
}

/// The parts of a text of so many tokens, without the space between them. Each has at most `tokens_max` tokens, and
/// is no longer than a text in which facts are looked for, unless that would make too many; a sentence longer
/// than that is cut at a character.
fn split(text: &str, tokens: usize, tokens_max: usize) -> Vec<&str> {
    let sentences = sentences(text);
    let (mut tokens_max, mut bytes_max) = (tokens_max.max(1), TEXT_BYTES_MAX);
    loop {
        let parts = pack(text, &sentences, tokens_max, bytes_max);
        if parts.len() <= CHUNKS_MAX {
            return parts.into_iter().map(|range| &text[range]).collect();
        }
        // Within a few rounds one part holds everything.
        tokens_max = (tokens_max * 2).max(tokens / CHUNKS_MAX);
        bytes_max *= 2;
    }
}

/// Where a part of a text begins in it.
fn place(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

fn pack(text: &str, sentences: &[&str], tokens_max: usize, bytes_max: usize) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut open: Option<(Range<usize>, usize)> = None;
    for sentence in sentences {
        for (piece, tokens) in pieces(sentence, tokens_max, bytes_max) {
            let start = place(text, piece);
            let end = start + piece.len();
            let new_paragraph = |from: usize| text[from..start].matches('\n').count() > 1;
            open = match open.take() {
                // One more for the space between two.
                Some((range, held))
                    if held + tokens < tokens_max
                        && end - range.start <= bytes_max
                        // A paragraph that fills half of a part ends it.
                        && !(new_paragraph(range.end) && 2 * held > tokens_max) =>
                {
                    Some((range.start..end, held + tokens + 1))
                }
                Some((range, _)) => {
                    parts.push(range);
                    Some((start..end, tokens))
                }
                None => Some((start..end, tokens)),
            };
        }
    }
    parts.extend(open.map(|(range, _)| range));
    parts
}

/// A sentence in pieces that fit, with the tokens of each.
fn pieces(sentence: &str, tokens_max: usize, bytes_max: usize) -> Vec<(&str, usize)> {
    let mut pieces = Vec::new();
    let mut rest = sentence;
    loop {
        // What is too long anyway is not counted again and again.
        if rest.len() <= bytes_max {
            let held = count(rest);
            if held <= tokens_max {
                pieces.push((rest, held));
                break;
            }
        }
        let mut end = rest.len().min(bytes_max);
        // A token has at least one byte: halving ends at the latest at `tokens_max` bytes.
        loop {
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            if end <= 4 || count(&rest[..end]) <= tokens_max {
                break;
            }
            end = (end / 2).max(tokens_max.min(end - 1));
        }
        // At a space or comma of the second half, where there is one.
        let cut = rest[..end]
            .char_indices()
            .rfind(|(at, c)| *at > end / 2 && (c.is_whitespace() || matches!(c, '，' | '、' | ',')))
            .map_or(end, |(at, c)| at + c.len_utf8());
        let cut = if cut == 0 { rest.chars().next().map_or(rest.len(), char::len_utf8) } else { cut };
        let piece = rest[..cut].trim();
        pieces.push((piece, count(piece)));
        rest = rest[cut..].trim_start();
    }
    pieces.retain(|(piece, _)| !piece.is_empty());
    pieces
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parts(text: &str, tokens_max: usize) -> Vec<&str> {
        split(text, count(text), tokens_max)
    }

    #[test]
    fn parts_end_with_sentences_and_lose_nothing() {
        let english =
            "The first sentence is here. The second one follows it! Does the third one ask? ".repeat(60);
        let chinese = "这是第一句话。第二句话在这里！第三句话是问题吗？".repeat(60);
        for (text, ends) in [(&english, ['.', '!', '?']), (&chinese, ['。', '！', '？'])] {
            let parts = parts(text, 128);
            assert!(parts.len() > 3);
            for part in &parts {
                assert!(part.ends_with(ends), "{part}");
                let tokens = Tokenizer::default().count(part).unwrap();
                assert!(tokens <= 128 && part.len() <= TEXT_BYTES_MAX, "{tokens}");
            }
            let plain = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            assert_eq!(plain(&parts.concat()), plain(text));
        }
    }

    #[test]
    fn a_paragraph_stays_together_where_it_can() {
        let paragraph =
            |n: usize| format!("Paragraph {n} begins. {}It ends.", "More is said here. ".repeat(12));
        let text = (0..4).map(paragraph).collect::<Vec<_>>().join("\n\n");
        let parts = parts(&text, 100);
        assert!(parts.iter().all(|part| part.starts_with("Paragraph")), "{parts:#?}");
    }

    #[test]
    fn text_without_any_end_is_cut_anyway() {
        for text in [
            "x".repeat(60_000),
            "词".repeat(20_000),
            "🙂".repeat(15_000),
            "a, ".repeat(20_000),
            "\n".repeat(99),
        ] {
            let parts = parts(&text, 512);
            assert!(parts.len() <= CHUNKS_MAX);
            let plain = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            assert_eq!(plain(&parts.concat()), plain(&text));
        }
        assert_eq!(parts("short.", 512), ["short."]);
    }
}
