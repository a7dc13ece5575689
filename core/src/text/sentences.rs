//! Cuts a text into sentences: those of UAX #29, mended where it is known to cut wrongly.
//!
//! UAX #29 ends a sentence behind `Dr. ` and does not end one at a line break of a list. Chinese,
//! Japanese and English texts are cut alike; a semicolon of Chinese ends a sentence too.

use unicode_segmentation::UnicodeSegmentation;

/// Words whose full stop does not end a sentence.
const ABBREVIATIONS: [&str; 22] = [
    "Dr.", "Mr.", "Mrs.", "Ms.", "Prof.", "St.", "Jr.", "Sr.", "vs.", "e.g.", "i.e.", "etc.", "No.", "Nr.",
    "approx.", "Inc.", "Ltd.", "Co.", "Mt.", "Fig.", "a.m.", "p.m.",
];

/// The sentences of a text, without the space around them, in its order. Together they hold every
/// character but white space.
pub fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in text.split(['\n', '\r', '\u{2028}', '\u{2029}']) {
        let mut start = 0;
        let mut end = 0;
        for bound in line.split_sentence_bounds() {
            end += bound.len();
            if is_open(&line[start..end]) && end < line.len() {
                continue;
            }
            push(&mut found, &line[start..end]);
            start = end;
        }
        push(&mut found, &line[start..]);
    }
    found
}

fn push<'a>(found: &mut Vec<&'a str>, sentence: &'a str) {
    for part in sentence.split_inclusive('；') {
        let part = part.trim();
        if !part.is_empty() {
            found.push(part);
        }
    }
}

/// Whether a sentence ends with an abbreviation, and so goes on.
fn is_open(sentence: &str) -> bool {
    let sentence = sentence.trim_end();
    if !sentence.ends_with('.') {
        return false;
    }
    let last = sentence.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    // One capital and a full stop is the initial of a name.
    let initial = last.len() == 2 && last.starts_with(|c: char| c.is_ascii_uppercase() && c != 'I');
    initial || ABBREVIATIONS.contains(&last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_a_reader_ends_them() {
        assert_eq!(
            sentences("I saw Dr. Smith. She gave me 2.5 mg, e.g. at night! Really?  Yes"),
            ["I saw Dr. Smith.", "She gave me 2.5 mg, e.g. at night!", "Really?", "Yes"]
        );
        assert_eq!(
            sentences("J. Doe lives here. So do I. Good."),
            ["J. Doe lives here.", "So do I.", "Good."]
        );
        assert_eq!(
            sentences("我住在北京。你呢？真的！他说：“好。”然后走了；我没走"),
            ["我住在北京。", "你呢？", "真的！", "他说：“好。”", "然后走了；", "我没走"]
        );
        assert_eq!(sentences("- one\n- two\r\n\r\nthree"), ["- one", "- two", "three"]);
        for text in ["", " \n ", "\u{2028}"] {
            assert!(sentences(text).is_empty());
        }
        assert_eq!(sentences("🙂🙂 ok. 🎉"), ["🙂🙂 ok.", "🎉"]);
    }

    #[test]
    fn no_character_is_lost() {
        let text =
            "Mr. A. B. Smith; 3.14 e.g.；一二三；；四。Dr.\nend etc. \u{301} ok… \"So.\" he said. (a.m.) ";
        let joined: String = sentences(text).concat();
        let plain = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        assert_eq!(plain(&joined), plain(text));
    }
}
