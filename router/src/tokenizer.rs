//! Counting tokens by the encodings of tiktoken, whose vocabularies are part of the program. Special
//! tokens in a text are text.

use holdfast_core::{Error, ErrorCode, Result};
use tiktoken::CoreBpe;

/// An encoding by its name. Its vocabulary is read when it is first used, which takes some tenths of
/// a second, and then stays in memory (some 20 to 40 MB).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tokenizer {
    /// The one by which the counts of stored texts are made.
    #[default]
    O200kBase,
    O200kHarmony,
    Cl100kBase,
    P50kBase,
    P50kEdit,
    R50kBase,
}

/// How many tokens a text has, and each of its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) total: usize,
    /// One for each part: the tokens that begin in it.
    pub(crate) parts: Vec<usize>,
}

impl Tokenizer {
    const ALL: [Self; 6] = [
        Self::O200kBase,
        Self::O200kHarmony,
        Self::Cl100kBase,
        Self::P50kBase,
        Self::P50kEdit,
        Self::R50kBase,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::O200kBase => "o200k_base",
            Self::O200kHarmony => "o200k_harmony",
            Self::Cl100kBase => "cl100k_base",
            Self::P50kBase => "p50k_base",
            Self::P50kEdit => "p50k_edit",
            Self::R50kBase => "r50k_base",
        }
    }

    /// # Errors
    /// If there is no such encoding; the error lists those there are.
    pub(crate) fn from_name(name: Option<&str>) -> Result<Self> {
        let Some(name) = name else { return Ok(Self::default()) };
        Self::ALL.into_iter().find(|tokenizer| tokenizer.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::invalid("tokenizer", format!("there is no such tokenizer; use one of {known}"))
        })
    }

    /// # Errors
    /// If the program was built without the vocabulary, which a test excludes.
    fn bpe(self) -> Result<&'static CoreBpe> {
        tiktoken::get_encoding(self.name()).ok_or_else(|| {
            let detail = format!("this program lacks the vocabulary of {}", self.name());
            Error::new(ErrorCode::Internal, detail)
        })
    }

    /// Reads the vocabulary, so that no request waits for that.
    ///
    /// # Errors
    /// As [`Self::count`].
    pub(crate) fn warm(self) -> Result<()> {
        self.bpe().map(drop)
    }

    /// # Errors
    /// If the program lacks the vocabulary.
    pub(crate) fn count(self, text: &str) -> Result<usize> {
        Ok(self.bpe()?.count(text))
    }

    /// The count that is stored with a text: 0, for not counted, where it cannot be made.
    pub(crate) fn count_stored(self, text: &str) -> u32 {
        self.count(text).ok().and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
    }

    /// Counts a text as a whole, and says where its tokens are. `starts` are the places at which parts
    /// begin, in order; what is before the first belongs to none.
    ///
    /// # Errors
    /// As [`Self::count`].
    pub(crate) fn count_parts(self, text: &str, starts: &[usize]) -> Result<Count> {
        let bpe = self.bpe()?;
        let tokens = bpe.encode(text);
        let mut parts = vec![0; starts.len()];
        let (mut at, mut part) = (0, 0);
        for token in &tokens {
            while starts.get(part).is_some_and(|start| *start <= at) {
                part += 1;
            }
            if let Some(count) = part.checked_sub(1).and_then(|part| parts.get_mut(part)) {
                *count += 1;
            }
            at += bpe.decode(&[*token]).len();
        }
        Ok(Count { total: tokens.len(), parts })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_are_those_of_the_reference() {
        // From OpenAI's tiktoken: len(get_encoding(name).encode(text, disallowed_special=())).
        for (name, text, tokens) in [
            ("o200k_base", "", 0),
            ("o200k_base", "hello world", 2),
            ("o200k_base", "我不吃辣", 4),
            ("o200k_base", "[2026-03-02] user: 我每天吃500毫克二甲双胍。\n", 22),
            ("cl100k_base", "tiktoken is great!", 6),
            ("r50k_base", "hello world", 2),
            ("p50k_base", "hello world", 2),
        ] {
            assert_eq!(
                Tokenizer::from_name(Some(name)).unwrap().count(text).unwrap(),
                tokens,
                "{name} {text}"
            );
        }
        assert!(Tokenizer::default().count("<|endoftext|>").unwrap() > 1, "markup in a text is text");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = Tokenizer::from_name(Some("gpt-4o")).unwrap_err();
        assert_eq!((error.code, error.field.as_deref()), (ErrorCode::InvalidArgument, Some("tokenizer")));
        for tokenizer in Tokenizer::ALL {
            assert!(error.detail.contains(tokenizer.name()), "{}", error.detail);
            assert_eq!(Tokenizer::from_name(Some(tokenizer.name())).unwrap(), tokenizer);
        }
        assert_eq!(Tokenizer::from_name(None).unwrap().name(), "o200k_base");
    }

    /// The largest contents that can be stored, of the kinds that make splitting slow.
    #[test]
    fn the_largest_texts_are_counted_in_time() {
        for piece in ["a", " ", "\n", "我", "🙂", "!", "<|endoftext|>", "a ", "\u{301}", "1"] {
            let text = piece.repeat(64 * 1024 / piece.len());
            let started = std::time::Instant::now();
            let count = Tokenizer::default().count(&text).unwrap();
            assert!(count > 0 && count <= text.len());
            assert!(started.elapsed().as_secs() < 5, "{piece:?} took {:?}", started.elapsed());
        }
    }

    /// The other implementation, which calls itself a copy of OpenAI's own.
    fn reference(tokenizer: Tokenizer) -> &'static tiktoken_rs::CoreBPE {
        match tokenizer {
            Tokenizer::O200kBase => tiktoken_rs::o200k_base_singleton(),
            Tokenizer::O200kHarmony => tiktoken_rs::o200k_harmony_singleton(),
            Tokenizer::Cl100kBase => tiktoken_rs::cl100k_base_singleton(),
            Tokenizer::P50kBase => tiktoken_rs::p50k_base_singleton(),
            Tokenizer::P50kEdit => tiktoken_rs::p50k_edit_singleton(),
            Tokenizer::R50kBase => tiktoken_rs::r50k_base_singleton(),
        }
    }

    fn assert_counted_alike(text: &str) {
        Tokenizer::ALL.into_iter().for_each(|tokenizer| assert_counted_alike_by(tokenizer, text));
    }

    fn assert_counted_alike_by(tokenizer: Tokenizer, text: &str) {
        let tokens = reference(tokenizer).encode_ordinary(text);
        assert!(tokenizer.bpe().unwrap().encode(text) == tokens, "{} {text:?}", tokenizer.name());
        assert_eq!(tokenizer.count(text).unwrap(), tokens.len(), "{} {text:?}", tokenizer.name());
    }

    /// Every character that there is, beside others of every class: pieces are cut by the classes of characters.
    #[test]
    fn every_character_is_counted_as_by_the_reference() {
        let beside =
            ["a", "B", "中", "が", "ｶ", "각", "1", "!", "'s", " ", "\t", "\n ", "\u{301}", "\u{FE0F}"];
        for (number, block) in (0..=u32::from(char::MAX)).collect::<Vec<_>>().chunks(64).enumerate() {
            // Each in turn, so that all of them together take no longer than one.
            let tokenizer = Tokenizer::ALL[number % Tokenizer::ALL.len()];
            let mut text = String::new();
            for c in block.iter().filter_map(|code| char::from_u32(*code)) {
                let neighbour = beside[(number + c as usize) % beside.len()];
                text.extend([neighbour, &c.to_string(), neighbour, &c.to_string(), "x"]);
            }
            assert_counted_alike_by(tokenizer, &text);
        }
    }

    /// What is written most, beside all of it, in every encoding.
    #[test]
    fn common_characters_are_counted_as_by_the_reference_in_all_encodings() {
        let beside = "aB1中がｶ각!' \t\n\u{301}\u{3099}\u{FE0F}\u{200D}é，🙂";
        let common = (0..0x700).chain(0x2000..0x2070).chain(0x2E80..0x3130).chain(0x4E00..0x4E40);
        let common = common.chain(0xAC00..0xAC40).chain(0xFE00..0xFE10).chain(0xFF00..0xFFF0);
        for c in common.chain(0x1F300..0x1F360).filter_map(char::from_u32) {
            let text: String = beside.chars().flat_map(|other| [other, c, other, c, c]).collect();
            assert_counted_alike(&text);
        }
    }

    /// Where pieces are too long for one way to merge them, and are merged in another.
    #[test]
    fn long_pieces_are_counted_as_by_the_reference() {
        let mixed: Vec<char> = ('a'..='z').chain('一'..='龥').step_by(7).collect();
        for length in [2, 3, 31, 32, 33, 47, 48, 49, 95, 96, 97, 99, 100, 101, 319, 320, 321, 4_095] {
            for unit in
                ["a", "ab", " ", "\n", "\t ", "我", "我们", "が", "각", "🙂", "!", "é", "e\u{301}", "1"]
            {
                let text: String = unit.chars().cycle().take(length).collect();
                assert_counted_alike(&text);
                assert_counted_alike(&format!("x {text}。"));
            }
            let letters: String = mixed.iter().filter(|c| c.is_ascii()).cycle().take(length).collect();
            let han: String = mixed.iter().filter(|c| !c.is_ascii()).cycle().take(length).collect();
            assert_counted_alike(&letters);
            assert_counted_alike(&han);
        }
        for piece in ["a", " ", "\n", "我", "我们的", "\u{301}"] {
            assert_counted_alike_by(Tokenizer::default(), &piece.repeat(64 * 1024 / piece.len()));
        }
    }

    proptest! {
        #[test]
        fn texts_are_counted_as_by_the_reference(
            text in "\\PC{0,80}|[a-zA-Z0-9 \\t\\r\\n'’\"/.,!?<>|_中文我们吃，。！é\u{301}ñ\u{200d}👍🏽가각ｶﾞ\u{a0}\u{3000}\u{2028}²½Ⅳǅʰक]{0,80}\
                |([ \t]{1,3}[A-Za-z]{1,12}('(s|S|ll|RE))?[.,]?\\n{0,2}){0,20}|[一-龥]{0,60}[，。][a-z ]{0,40}",
        ) {
            assert_counted_alike(&text);
            // The second time whole pieces are remembered.
            assert_counted_alike(&format!("{text} {text}"));
        }

        #[test]
        fn parts_add_up(texts in prop::collection::vec("\\PC{0,12}", 0..6)) {
            let mut text = String::new();
            let mut starts = Vec::new();
            for part in &texts {
                starts.push(text.len());
                text.push_str(part);
            }
            let count = Tokenizer::default().count_parts(&text, &starts).unwrap();
            prop_assert_eq!(count.total, Tokenizer::default().count(&text).unwrap());
            prop_assert_eq!(count.parts.iter().sum::<usize>(), count.total);
        }
    }
}
