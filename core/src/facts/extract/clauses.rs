//! Sentences and clauses: where one statement ends and the next begins.

use super::health;
use super::lexicon::{self, joined};
use super::tokens::{Token, is_mark, tokens};

/// Most sentences of a text that are searched.
const SENTENCES_MAX: usize = 12;
/// Longest sentence that is searched, in tokens.
const SENTENCE_TOKENS_MAX: usize = 60;

/// One sentence.
pub(super) struct Sentence {
    pub(super) tokens: Vec<Token>,
    question: bool,
    /// Whether it ends in "anymore" or the like, which turns its "not" into "no longer".
    pub(super) says_no_longer: bool,
}

/// Whether what a sentence says is only supposed, by one before it or by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Supposed {
    No,
    /// Behind "If I …" nothing is believed that would be a hard constraint.
    Perhaps,
    /// Nothing is believed.
    Yes,
}

/// What begins a supposition that goes on until something is said to be a fact, where the speaker comes next.
#[rustfmt::skip]
const SUPPOSING: [&str; 18] = [
    "suppose", "supposing", "imagine", "assume", "assuming", "pretend", "hypothetically,", "let's say", "let's assume", "let's pretend",
    "let's suppose", "let's imagine", "say", "what if", "假设", "假定", "设想一下", "想象一下",
];
/// The same, with something else behind it perhaps.
const IF: [&str; 6] = ["if", "如果", "要是", "假如", "倘若", "万一"];
/// The speaker as somebody, or as having something.
#[rustfmt::skip]
const IS_SELF: [&str; 18] = [
    "i am", "i'm", "i were", "i was", "i have", "i had", "i've", "i take", "i took", "i lived", "i live", "i can't", "i cannot", "我是", "我有", "我对",
    "我不能", "我住",
];
/// Parts that are played.
#[rustfmt::skip]
const ROLES: [&str; 16] = [
    "act as", "you are a", "you are an", "you're a", "role play", "role-play", "roleplay", "for this role", "in this role", "in the game", "as a joke", "扮演",
    "角色扮演", "你扮演", "你当", "你来当",
];
/// What ends a supposition.
const IN_FACT: [&str; 21] = [
    "in fact",
    "in reality",
    "actually",
    "seriously",
    "for real",
    "by the way",
    "btw",
    "please remember",
    "please note",
    "remember",
    "anyway",
    "对了",
    "另外",
    "顺便",
    "请记住",
    "记住",
    "其实",
    "实际上",
    "事实上",
    "说真的",
    "真实情况",
];

/// A part of a sentence that may state something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clause {
    pub(super) tokens: Vec<Token>,
    /// With what leads in and what closes.
    said: String,
}

/// Cuts a text, in its normal form, into sentences. What is beyond the bounds is one sentence more
/// that states nothing.
pub(super) fn sentences(text: &str) -> Vec<Sentence> {
    let mut sentences = Vec::new();
    let mut current: Vec<Token> = Vec::new();
    let all = tokens(text);
    let last = all.len().saturating_sub(1);
    for (at, token) in all.into_iter().enumerate() {
        let mark = token.low.clone();
        let spaced = text[token.end..].chars().next().is_none_or(char::is_whitespace);
        let ends = match mark.as_str() {
            // "Jeopardy! was" goes on behind the mark.
            "!" | "?" if current.last().is_some_and(|last| last.capital) && goes_on(&text[token.end..]) => {
                false
            }
            "。" | "！" | "!" | "？" | "?" | "；" | ";" | "…" | "~" | "～" => true,
            "." => spaced && !is_abbreviation(current.last()),
            _ => false,
        };
        if ends || at == last {
            if !ends {
                current.push(token);
            }
            if !current.is_empty() {
                sentences
                    .push(Sentence::new(std::mem::take(&mut current), matches!(mark.as_str(), "?" | "？")));
            }
            if sentences.len() > SENTENCES_MAX {
                break;
            }
            continue;
        }
        current.push(token);
    }
    sentences
}

/// Whether a sentence goes on with its verb.
fn goes_on(rest: &str) -> bool {
    let next = rest.strip_prefix(' ').and_then(|rest| rest.split(' ').next());
    next.is_some_and(|next| ["is", "are", "was", "were", "has", "had"].contains(&next))
}

/// "Washington, D.C." and "Dr. Smith" go on behind the point.
fn is_abbreviation(token: Option<&Token>) -> bool {
    token.is_some_and(|token| {
        let short = ["dr", "mr", "mrs", "ms", "st", "jr", "sr", "prof", "inc", "ltd", "co", "vs", "no"];
        short.contains(&token.low.as_str())
            || token.low.contains('.')
            || token.low.len() == 1 && token.capital && token.low != "i"
    })
}

/// Takes the quotes from around names: what begins with a capital, and is not said by someone.
fn unquote_names(tokens: &mut Vec<Token>) {
    const NAME_TOKENS_MAX: usize = 10;
    let quote = |token: &Token| matches!(token.low.as_str(), "\"" | "“" | "”");
    let places: Vec<usize> = (0..tokens.len()).filter(|at| quote(&tokens[*at])).collect();
    if places.is_empty() || !places.len().is_multiple_of(2) {
        return;
    }
    let named = places.chunks(2).all(|pair| {
        let said = pair[0].checked_sub(1).and_then(|at| tokens.get(at));
        let said = said.is_some_and(is_mark);
        let inside = &tokens[pair[0] + 1..pair[1]];
        let capital = inside
            .first()
            .is_some_and(|first| first.capital && !["i", "my", "we"].contains(&first.low.as_str()));
        !said && capital && inside.len() <= NAME_TOKENS_MAX
    });
    if named {
        tokens.retain(|token| !quote(token));
    }
}

/// Marks the words that are parts of names by their capitals, where the sentence has small letters.
/// The first word of a sentence has a capital anyway: it is one if the next is a small word with a
/// capital, or if it asks for nothing because a verb follows the name.
fn mark_names(tokens: &mut [Token]) {
    const SELF: [&str; 3] = ["i", "ok", "okay"];
    #[rustfmt::skip]
    const SMALL: [&str; 24] = [
        "is", "are", "was", "were", "am", "a", "an", "the", "of", "in", "on", "at", "to", "and", "it", "you", "we",
        "they", "my", "your", "me", "us", "do", "not",
    ];
    const VERBS: [&str; 6] = ["is", "are", "was", "were", "has", "had"];
    let letters = |token: &&Token| token.low.chars().any(char::is_alphabetic);
    let cased = tokens.iter().filter(letters).any(|token| !token.capital && !token.low.contains('\''));
    let Some(first) = tokens.iter().position(|token| token.low.chars().any(char::is_alphanumeric)) else {
        return;
    };
    if !cased {
        return;
    }
    for token in &mut tokens[first + 1..] {
        token.titled = token.capital && !SELF.contains(&token.low.as_str());
    }
    let verb =
        tokens.iter().skip(first + 1).any(|token| !token.titled && VERBS.contains(&token.low.as_str()));
    let next = tokens.get(first + 1).filter(|next| next.titled);
    let small = next.is_some_and(|next| SMALL.contains(&next.low.as_str()));
    let name =
        ["will", "may", "hope", "mark", "who", "what", "where", "when", "why", "how", "which", "whose"];
    let asks = name.contains(&tokens[first].low.as_str());
    tokens[first].titled = tokens[first].capital && (small || next.is_some() && asks && verb);
}

impl Sentence {
    fn new(mut tokens: Vec<Token>, question: bool) -> Self {
        unquote_names(&mut tokens);
        mark_names(&mut tokens);
        let no_longer = ["anymore", "any more", "any longer"];
        let text = joined(&tokens);
        let says_no_longer = no_longer.iter().any(|cue| text.ends_with(cue));
        Self { tokens, question, says_no_longer }
    }

    /// Whether it can state something: no question, no quotation, not too long.
    pub(super) fn is_statement(&self) -> bool {
        const ASKS: [&str; 24] = [
            "who", "what", "when", "where", "why", "how", "which", "whose", "do", "does", "did", "is", "are",
            "am", "was", "were", "can", "could", "will", "would", "should", "have", "has", "may",
        ];
        // A name may begin with any word: "Will Smith is", "This Is Us was".
        let asks = self.tokens.first().filter(|token| !token.titled);
        let first = asks.map_or("", |token| token.low.as_str());
        let last = self.tokens.last().map_or("", |token| token.low.as_str());
        let quotes =
            self.tokens.iter().any(|token| matches!(token.low.as_str(), "\"" | "“" | "”" | "「" | "」"));
        !self.question
            && !quotes
            && !self.reports()
            && !asks_either(&self.tokens)
            && self.tokens.len() <= SENTENCE_TOKENS_MAX
            && !ASKS.contains(&first)
            && !["吗", "么"].contains(&last)
    }

    /// Whether it tells behind a colon what others say, or what is to be translated.
    fn reports(&self) -> bool {
        const OWN: [&str; 9] =
            ["i said", "as i", "i say", "我说", "说实话", "老实说", "说真的", "跟你说", "对你说"];
        let colon = self.tokens.iter().position(|token| matches!(token.low.as_str(), ":" | "："));
        let before = colon.map_or(&[][..], |at| &self.tokens[..at]);
        let text = joined(before);
        lexicon::is_hearsay(before) && !OWN.iter().any(|own| text.contains(own))
    }

    /// Whether others say what it says: behind a colon that does not lead in the speaker's own words, in single quotes, or
    /// behind "said".
    pub(super) fn is_anothers(&self) -> bool {
        let colon = self.tokens.iter().position(|token| matches!(token.low.as_str(), ":" | "："));
        let quotes = self.tokens.iter().any(|token| matches!(token.low.as_str(), "'" | "‘" | "’"));
        let doctor = ["doctor", "doctors", "nurse", "gp"];
        let by_doctor = self.tokens.iter().any(|token| doctor.contains(&token.low.as_str()))
            || ["医生", "大夫"].iter().any(|word| joined(&self.tokens).contains(word));
        quotes
            || colon.is_some_and(|at| !health::leads_in(&self.tokens[..at]))
            || lexicon::is_report(&self.tokens) && !by_doctor
    }

    /// What is supposed from this sentence on, where `before` was supposed until it: "Suppose I were", 假设.
    pub(super) fn supposes(&self, before: Supposed) -> Supposed {
        let marks = self.tokens.iter().take_while(|token| is_mark(token)).count();
        let tokens = &self.tokens[marks..];
        let text = joined(&tokens[..tokens.len().min(7)]);
        let word = |text: &str, word: &str| {
            let rest = text.strip_prefix(word);
            rest.is_some_and(|rest| !word.is_ascii() || rest.is_empty() || rest.starts_with([' ', '\'']))
        };
        let begins = |list: &[&str]| list.iter().any(|phrase| word(&text, phrase));
        let begins_with_self = |list: &[&str]| {
            let rest = list.iter().find_map(|phrase| text.strip_prefix(phrase));
            let rest = rest.map(|rest| rest.trim_start().trim_start_matches("that ").to_owned());
            rest.is_some_and(|rest| IS_SELF.iter().any(|own| word(&rest, own)))
        };
        // "Suppose we meet at 5" and "Imagine my surprise" suppose nothing of who speaks.
        if begins_with_self(&SUPPOSING) || begins(&ROLES) {
            Supposed::Yes
        } else if begins_with_self(&IF) {
            before.max(Supposed::Perhaps)
        } else if begins(&IN_FACT) {
            Supposed::No
        } else {
            before
        }
    }

    /// The whole sentence as one clause.
    pub(super) fn core(&self) -> Clause {
        Clause::new(&self.tokens)
    }

    /// Its clauses, cut at commas and where "and" begins another one.
    pub(super) fn clauses(&self) -> Vec<Clause> {
        let mut clauses = Vec::new();
        let mut start = 0;
        for (at, token) in self.tokens.iter().enumerate() {
            let next = self.tokens.get(at + 1);
            let cuts = match token.low.as_str() {
                "," | "，" | ":" | "：" | "—" | "-" | "(" | ")" | "（" | "）" => true,
                "and" | "then" => next.is_some_and(begins_clause),
                "but" | "because" | "although" | "while" | "since" | "so" => at > 0,
                "但" | "因" => at > 0,
                _ => false,
            };
            if cuts {
                clauses.push(Clause::new(&self.tokens[start..at]));
                start = at + usize::from(is_mark(token) || token.low == "and" || token.low == "but");
            }
        }
        clauses.push(Clause::new(&self.tokens[start..]));
        clauses.retain(|clause| !clause.tokens.is_empty());
        clauses
    }

    /// Whether nothing is said: a greeting, thanks, an exclamation.
    pub(super) fn is_filler(&self) -> bool {
        !self.question && (self.core().is_filler() || self.clauses().iter().all(Clause::is_filler))
    }
}

impl Clause {
    /// Without what only leads in or closes.
    fn new(tokens: &[Token]) -> Self {
        let said = joined(tokens);
        let mut tokens = tokens;
        loop {
            let before = tokens.len();
            while tokens.first().is_some_and(is_mark) {
                tokens = &tokens[1..];
            }
            while tokens.last().is_some_and(|token| is_mark(token) && token.low != ")") {
                tokens = &tokens[..tokens.len() - 1];
            }
            // The last words stay: they may be all that is said.
            if let Some(n) = lexicon::leading_at(tokens).filter(|n| *n < tokens.len()) {
                tokens = &tokens[n..];
            }
            if let Some(n) = lexicon::trailing_at(tokens).filter(|n| *n < tokens.len()) {
                tokens = &tokens[..tokens.len() - n];
            }
            if tokens.len() == before {
                return Self { tokens: tokens.to_vec(), said };
            }
        }
    }

    /// The clause with a subject in front that it left out.
    pub(super) fn after(&self, subject: &[Token]) -> Self {
        let tokens = subject.iter().chain(&self.tokens).cloned().collect();
        Self { tokens, said: self.said.clone() }
    }

    /// The subject that the next clause may leave out: "I", or the name or the noun in front.
    pub(super) fn subject(&self) -> Option<Vec<Token>> {
        let first = self.tokens.first()?;
        if ["i", "we", "我", "我们"].contains(&first.low.as_str()) {
            return Some(vec![first.clone()]);
        }
        let length = self.tokens.iter().take_while(|token| token.capital).count();
        (length > 0).then(|| self.tokens[..length].to_vec())
    }

    /// Whether it says nothing.
    pub(super) fn is_filler(&self) -> bool {
        const FILLER: [&str; 50] = [
            "hi",
            "hello",
            "hey",
            "thanks",
            "thank you",
            "thank you so much",
            "thanks a lot",
            "ok",
            "okay",
            "yes",
            "yeah",
            "no",
            "sure",
            "great",
            "cool",
            "nice",
            "wow",
            "haha",
            "lol",
            "bye",
            "goodbye",
            "good morning",
            "good night",
            "good evening",
            "see you",
            "see you later",
            "sorry",
            "please",
            "got it",
            "sounds good",
            "well",
            "by the way",
            "hi there",
            "how are you",
            "you're welcome",
            "no problem",
            "你好",
            "您好",
            "谢谢",
            "谢谢你",
            "好的",
            "嗯",
            "哈哈",
            "再见",
            "早上好",
            "晚安",
            "晚上好",
            "不客气",
            "没关系",
            "辛苦了",
        ];
        let text = joined(&self.tokens);
        FILLER.contains(&text.as_str())
            || FILLER.contains(&self.said.as_str())
            || lexicon::leading_at(&self.tokens) == Some(self.tokens.len())
    }
}

/// Whether it asks by a verb and its denial: 会不会, 能不能, 有没有; or by a denial at the end: 过敏不.
fn asks_either(tokens: &[Token]) -> bool {
    let denies = |token: &Token| matches!(token.low.as_str(), "不" | "没");
    let either = |three: &[Token]| denies(&three[1]) && three[0].low == three[2].low;
    let text = joined(&tokens[tokens.len().saturating_sub(2)..]);
    tokens.windows(3).any(either)
        || tokens.len() > 2 && (tokens.last().is_some_and(denies) || text == "没有")
        || joined(tokens).contains("有没")
}

/// Whether a word behind "and" begins another statement rather than another object.
pub(super) fn begins_clause(token: &Token) -> bool {
    const BEGINNINGS: [&str; 46] = [
        "i", "my", "we", "he", "she", "they", "it", "work", "works", "working", "live", "lives", "living",
        "love", "loves", "like", "likes", "hate", "hates", "am", "is", "are", "was", "have", "has", "had",
        "now", "then", "also", "drink", "drinks", "eat", "eats", "speak", "speaks", "study", "studies",
        "prefer", "prefers", "moved", "joined", "started", "do", "don't", "never", "really",
    ];
    BEGINNINGS.contains(&token.low.as_str()) || matches!(token.low.as_str(), "我" | "他" | "她")
}
