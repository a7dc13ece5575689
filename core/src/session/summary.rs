//! What is kept of the turns that have left the window: sentences, word for word.
//!
//! Extractive: nothing is said that was not said. A sentence with an amount, a date, a dose or a name
//! ([`crate::text::protected`]) is kept whole as long as there is room, then its clauses with such
//! terms, then the terms alone; others go first, the oldest of the least important. The summary is a
//! function of the former one and of the turns that left since, whatever the steps in which they left.

use super::rows::TurnRow;
use crate::text::{protected, sentences};
use serde::{Deserialize, Serialize};

/// Longest summary, in bytes of the text of its lines.
pub const BYTES_MAX: usize = 4 * 1024;
/// Longest line, in bytes, where nothing in it is protected.
const LINE_BYTES_MAX: usize = 240;
/// Sentences without a protected term that are kept of one turn at first.
const PLAIN_OF_TURN: usize = 2;

/// The summary of a session. Key: see [`crate::keys::summary`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Up to which turn it goes.
    pub through: u64,
    /// In the order of the turns.
    pub lines: Vec<SummaryLine>,
}

/// One line of a summary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummaryLine {
    /// The number of the turn it is from.
    pub turn: u64,
    /// Who said it.
    pub role: String,
    /// Words of the turn.
    pub text: String,
    /// How much is left of the sentence.
    pub extent: Extent,
    /// What it is worth among the lines without protected terms, in thousandths.
    pub weight: u16,
}

/// How much is left of a sentence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Extent {
    /// It is whole, or the beginning of a long one, and holds nothing protected.
    #[default]
    Plain,
    /// It is whole and holds a protected term.
    Sentence,
    /// Clauses with protected terms.
    Clauses,
    /// Protected terms alone.
    Terms,
}

impl Summary {
    /// The lines as a prompt shows them.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            text.push_str(&line.role);
            text.push_str(": ");
            text.push_str(&line.text);
            text.push('\n');
        }
        text
    }

    /// The summary once these turns have left the window too, each with its number.
    #[must_use]
    pub fn fold<'a>(&self, left: impl IntoIterator<Item = (u64, &'a TurnRow)>) -> Self {
        self.fold_within(left, BYTES_MAX)
    }

    /// As [`Summary::fold`], with another limit.
    #[must_use]
    pub fn fold_within<'a>(
        &self,
        left: impl IntoIterator<Item = (u64, &'a TurnRow)>,
        bytes_max: usize,
    ) -> Self {
        let (mut lines, mut through) = (self.lines.clone(), self.through);
        for (number, turn) in left {
            through = through.max(number);
            // Pinned turns stand beside the summary as they are.
            if !turn.pinned {
                lines.extend(lines_of(number, turn));
                shrink(&mut lines, bytes_max);
            }
        }
        Self { through, lines }
    }
}

/// The sentences of a turn that are worth a line.
fn lines_of(number: u64, turn: &TurnRow) -> Vec<SummaryLine> {
    let mut lines: Vec<SummaryLine> = Vec::new();
    for sentence in sentences(turn.text()) {
        let is_protected = !protected(sentence).is_empty();
        let has_words = sentence.chars().filter(|c| c.is_alphanumeric()).count() > 1;
        if !is_protected && !has_words {
            continue;
        }
        let (text, extent) = if is_protected {
            (sentence, Extent::Sentence)
        } else {
            (beginning(sentence, LINE_BYTES_MAX), Extent::Plain)
        };
        let weight = weight(sentence, turn);
        lines.push(SummaryLine {
            turn: number,
            role: turn.role.clone(),
            text: text.to_owned(),
            extent,
            weight,
        });
    }
    let mut plain: Vec<u16> =
        lines.iter().filter(|line| line.extent == Extent::Plain).map(|line| line.weight).collect();
    plain.sort_unstable_by(|a, b| b.cmp(a));
    let least = plain.get(PLAIN_OF_TURN - 1).copied().unwrap_or(0);
    let mut kept = 0;
    lines.retain(|line| {
        let plain = line.extent == Extent::Plain;
        let keep = !plain || line.weight >= least && kept < PLAIN_OF_TURN;
        kept += usize::from(plain && keep);
        keep
    });
    lines
}

/// What a sentence without protected terms is worth: that of its turn, a little more if it is no
/// mere exclamation, less for a question of the other side.
fn weight(sentence: &str, turn: &TurnRow) -> u16 {
    let letters = sentence.chars().filter(|c| c.is_alphanumeric()).count().min(60);
    let length = u16::try_from(letters).unwrap_or(u16::MAX) * 5;
    // Within 0..=1000; importance is checked where it enters.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let importance = (turn.importance.clamp(0.0, 1.0) * 500.0) as u16;
    let own = if turn.role == "user" { 200 } else { 0 };
    length + importance + own
}

/// Makes room: plain lines go, the least important and of them the oldest first; then sentences give
/// way to their clauses, clauses to their terms, the oldest first; at last the oldest terms go.
fn shrink(lines: &mut Vec<SummaryLine>, bytes_max: usize) {
    let mut bytes: usize = lines.iter().map(cost).sum();
    while bytes > bytes_max {
        let plain = lines.iter().enumerate().filter(|(_, line)| line.extent == Extent::Plain);
        if let Some((at, _)) = plain.min_by_key(|(at, line)| (line.weight, *at)) {
            bytes -= cost(&lines.remove(at));
            continue;
        }
        let Some(least) = lines.iter().map(|line| line.extent).min() else { return };
        let Some(at) = lines.iter().position(|line| line.extent == least) else { return };
        bytes -= cost(&lines[at]);
        match reduced(&lines[at]) {
            Some(line) => {
                bytes += cost(&line);
                lines[at] = line;
            }
            None => drop(lines.remove(at)),
        }
    }
}

fn cost(line: &SummaryLine) -> usize {
    line.role.len() + line.text.len() + 3
}

/// The next shorter form of a line; `None` if there is none.
fn reduced(line: &SummaryLine) -> Option<SummaryLine> {
    let (text, extent) = match line.extent {
        Extent::Sentence => {
            let clauses = clauses(&line.text).filter(|clause| !protected(clause).is_empty());
            (clauses.collect::<Vec<_>>().join(" … "), Extent::Clauses)
        }
        Extent::Clauses => {
            let terms = protected(&line.text).into_iter().map(|span| &line.text[span]);
            let mut once: Vec<&str> = Vec::new();
            for term in terms {
                if !once.contains(&term) {
                    once.push(term);
                }
            }
            (once.join(" … "), Extent::Terms)
        }
        Extent::Plain | Extent::Terms => return None,
    };
    Some(SummaryLine { text, extent, ..line.clone() })
}

/// The parts of a sentence between its commas. A comma inside of a protected term does not count.
fn clauses(sentence: &str) -> impl Iterator<Item = &str> {
    let spans = protected(sentence);
    let inside = move |at: usize| spans.iter().any(|span| span.start < at && at < span.end);
    let mut start = 0;
    let mut parts = Vec::new();
    for (at, c) in sentence.char_indices() {
        if matches!(c, ',' | '，' | '、' | ';' | '；' | '—' | ':' | '：') && !inside(at) {
            parts.push(sentence[start..at].trim());
            start = at + c.len_utf8();
        }
    }
    parts.push(sentence[start..].trim());
    parts.into_iter().filter(|part| !part.is_empty())
}

/// The beginning of a text, cut at a character.
fn beginning(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let mut end = bytes_max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].trim_end()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn turn(role: &str, content: &str) -> TurnRow {
        TurnRow { role: role.into(), content: content.into(), importance: 0.3, ..TurnRow::default() }
    }

    #[test]
    fn sentences_are_kept_word_for_word() {
        let turns = [
            turn("user", "Hi! My sister Anna needs 20 mg of aspirin every 8 hours. Thanks!"),
            turn("assistant", "Noted. I will remind you on May 3 at 14:30."),
            turn("user", "我妈妈每天早上吃两片降压药，5月6日去看王医生。好的。"),
        ];
        let summary = Summary::default().fold((1..).zip(&turns));
        let text = summary.text();
        for words in ["20 mg of aspirin", "May 3", "14:30", "Anna", "两片降压药", "5月6日", "王医生"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        for line in &summary.lines {
            let turn = &turns[usize::try_from(line.turn).unwrap() - 1];
            assert!(turn.content.contains(&line.text), "{line:?}");
        }
    }

    #[test]
    fn protected_terms_outlive_the_sentences_around_them() {
        let mut summary = Summary::default();
        let talk = "I went for a long walk in the park and it was really nice there with all of those trees";
        for number in 1..=200u64 {
            let text = if number % 20 == 0 {
                format!("{talk}, the order CN-A{number} costs {number} euros, {talk}.")
            } else {
                format!("{talk}.")
            };
            summary = summary.fold([(number, &turn("user", &text))]);
        }
        let text = summary.text();
        assert!(summary.lines.iter().map(cost).sum::<usize>() <= BYTES_MAX);
        for number in (20..=200).step_by(20) {
            assert!(text.contains(&format!("CN-A{number}")), "{number}: {text}");
            assert!(text.contains(&format!("{number} euros")), "{number}: {text}");
        }
    }

    #[test]
    fn pinned_turns_and_empty_ones_make_no_line() {
        let pinned = TurnRow { pinned: true, ..turn("user", "Room 5 at 10:00.") };
        let rows = [pinned, turn("user", ""), turn("user", "🙂"), turn("user", "…")];
        assert_eq!(Summary::default().fold((1..).zip(&rows)), Summary { through: 4, lines: Vec::new() });
    }

    proptest! {
        /// Nothing is invented, the limit holds, and the steps do not matter.
        #[test]
        fn a_summary_is_bounded_extractive_and_independent_of_steps(
            parts in proptest::collection::vec(
                proptest::collection::vec(prop_oneof![
                    Just("I live in Berlin."), Just("It costs 30 euros, and it rains."), Just("你好。"),
                    Just("他五月三号去上海，天气不错。"), Just("Really?"), Just("🙂🙂"), Just("Take 5mg, twice a day; call Dr. Smith."),
                    Just("plain words that say little about anything at all"),
                ], 0..6),
                0..30,
            ),
            cut in 1usize..6,
            bytes_max in 60usize..900,
        ) {
            let turns: Vec<TurnRow> =
                parts.iter().map(|part| turn("user", &part.join(" "))).collect();
            let numbered: Vec<(u64, &TurnRow)> = (1..).zip(&turns).collect();
            let whole = Summary::default().fold_within(numbered.iter().copied(), bytes_max);
            let mut stepped = Summary::default();
            for step in numbered.chunks(cut) {
                stepped = stepped.fold_within(step.iter().copied(), bytes_max);
            }
            prop_assert_eq!(&whole, &stepped);
            prop_assert!(whole.lines.iter().map(cost).sum::<usize>() <= bytes_max);
            for line in &whole.lines {
                let said = &turns[usize::try_from(line.turn).unwrap() - 1].content;
                for part in line.text.split(" … ") {
                    prop_assert!(said.contains(part), "{:?} in {:?}", part, said);
                }
            }
        }
    }
}
