//! o200k_base, by which every stored text is counted. tiktoken's own way takes several times as long;
//! its vocabulary is what this one is made of, and its counts are what tests compare with.

use super::pieces::Pieces;
use super::vocabulary::{Scratch, Vocabulary};
use std::cell::RefCell;
use std::sync::LazyLock;
use tiktoken_rs::o200k_base_singleton;

pub(super) struct O200k {
    pieces: Pieces,
    vocabulary: Vocabulary,
}

static O200K: LazyLock<O200k> = LazyLock::new(|| {
    let encoding = o200k_base_singleton();
    // Behind the last ordinary token is a gap, and then those that no text is encoded to.
    let tokens = (0..).map_while(|rank| encoding.decode_bytes(&[rank]).ok());
    O200k { pieces: Pieces::new(), vocabulary: Vocabulary::new(tokens) }
});

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl O200k {
    pub(super) fn get() -> &'static Self {
        &O200K
    }

    /// Tells `each` where every piece of a text ends, and how many tokens it has.
    pub(super) fn each_piece(&self, text: &str, mut each: impl FnMut(usize, usize)) {
        let mut at = 0;
        SCRATCH.with_borrow_mut(|scratch| {
            while at < text.len() {
                let rest = &text[at..];
                let piece = &rest.as_bytes()[..self.pieces.first(rest)];
                let mut tokens = 0;
                self.vocabulary.encode(piece, scratch, |_| tokens += 1);
                at += piece.len();
                each(at, tokens);
            }
        });
    }

    /// The length of the first piece of a text that is not empty, and how many tokens it has.
    pub(super) fn first_piece(&self, text: &str) -> (usize, usize) {
        let len = self.pieces.first(text);
        let mut tokens = 0;
        SCRATCH.with_borrow_mut(|scratch| {
            self.vocabulary.encode(&text.as_bytes()[..len], scratch, |_| tokens += 1);
        });
        (len, tokens)
    }

    pub(super) fn count(&self, text: &str) -> usize {
        let mut total = 0;
        self.each_piece(text, |_, tokens| total += tokens);
        total
    }

    /// The length of every token of a text, in bytes.
    pub(super) fn token_lens(&self, text: &str) -> Vec<usize> {
        let (mut lens, mut rest) = (Vec::with_capacity(text.len() / 3), text);
        SCRATCH.with_borrow_mut(|scratch| {
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(self.pieces.first(rest));
                self.vocabulary.encode(piece.as_bytes(), scratch, |len| lens.push(len));
                rest = behind;
            }
        });
        lens
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tiktoken_rs::CoreBPE;

    fn lens(reference: &CoreBPE, text: &str) -> Vec<usize> {
        let tokens = reference.encode_ordinary(text);
        tokens.iter().map(|token| reference.decode_bytes(&[*token]).map_or(0, |bytes| bytes.len())).collect()
    }

    #[track_caller]
    fn check(text: &str) {
        let reference = o200k_base_singleton();
        assert_eq!(O200k::get().token_lens(text), lens(reference, text), "{text:?}");
        assert_eq!(O200k::get().count(text), reference.encode_ordinary(text).len(), "{text:?}");
    }

    #[test]
    fn tokens_are_those_of_the_reference() {
        for text in [
            "",
            " ",
            "hello world",
            "The quick brown fox can't jump over 12345 lazy dogs!!\r\n\r\n  Really?",
            "我每天吃500毫克二甲双胍，医生说不能吃西柚。订单号CN-A10293。",
            "日本語のテキストとカタカナ、한국어 문장입니다. Ελληνικά, русский, العربية, हिन्दी, ไทย",
            "👩‍👩‍👧🏽 🇫🇷❤️‍🔥 \u{200D}\u{FE0F}",
            "e\u{301}e\u{301} \u{301} \u{301}A \u{301}\u{301}B",
            "camelCase HTTPServer iPhone McDonald's O'Neill'S ſ'ſ 'LL",
            "\u{85}\u{2028}\u{3000} \u{a0}x\u{a0}\u{a0}y\t\t z \n\t w",
            "<|endoftext|> <|endofprompt|>",
            "a//b / / //\n//\r\n https://example.com/a/b?c=d&e=f#g_h",
            "ǅǅ ʰʰ ªº Ⅷ½²٣४𝟘",
            "\0\u{1}\u{FFFD}\u{10FFFF}\u{E000}",
        ] {
            check(text);
        }
        check(&"a".repeat(5_000));
        check(&"字".repeat(2_000));
        check(&" ".repeat(3_000));
        check(&"🙂".repeat(700));
        check(&"aA".repeat(900));
    }

    /// Every character there is, as a word, as a lead of one, behind one and among spaces.
    #[test]
    fn every_character_is_cut_as_by_the_reference() {
        let all: Vec<char> = (0..=0x10_FFFF).filter_map(char::from_u32).collect();
        for block in all.chunks(4_096) {
            // Han, Hangul and what nobody has assigned are the bulk, and all alike.
            let step = if block.iter().all(|c| u32::from(*c) >= 0x3400) { 61 } else { 1 };
            let mut text = String::new();
            for c in block.iter().step_by(step) {
                text.extend([*c, 'a', *c, 'B', *c, ' ', *c, '\n']);
            }
            check(&text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn any_text_is_encoded_as_by_the_reference(
            text in prop_oneof![
                "\\PC{0,80}",
                any::<String>(),
                "([a-cA-C中文é\u{301}🙂ʰǅ0-9'sſtTlLrReEvVmMdD .,!/\\r\\n\\t\u{3000}\u{a0}]){0,80}",
                "([A-Z]?[a-z]{1,9}('s|n't|,|\\.)? ?|[一-龥]{1,12}[，。！]?|[0-9]{1,6} ){0,60}",
            ],
        ) {
            check(&text);
        }
    }
}
