//! Negations: the words that turn a statement round, and how.

use super::claims::Turned::{self, Cannot, NoLonger, Not, NotThen};
use super::health;
use super::lexicon::joined;
use super::tokens::Token;

/// What turns a statement round: the words, what stays of them, and how.
#[rustfmt::skip]
const NEGATIONS: &[(&str, &str, Turned)] = &[
    ("don't", "", Not), ("do not", "", Not), ("doesn't", "", Not), ("does not", "", Not),
    ("no longer", "", NoLonger), ("don't really", "", Not), ("never", "", Not), ("have stopped", "", NoLonger),
    ("'ve stopped", "", NoLonger), ("stopped", "", NoLonger), ("have quit", "", NoLonger), ("quit", "", NoLonger),
    ("gave up", "", NoLonger), ("have given up", "", NoLonger),
    // The tokens of "can't" are "can" and "n't".
    ("cann't", "", Cannot), ("cannot", "", Cannot), ("can not", "", Cannot), ("can never", "", Cannot),
    ("must not", "", Cannot), ("mustn't", "", Cannot), ("must never", "", Cannot),
    ("'m not allowed to", "", Cannot), ("am not allowed to", "", Cannot), ("is not allowed to", "", Cannot),
    ("isn't allowed to", "", Cannot), ("'s not allowed to", "", Cannot),
    ("'m not able to", "", Cannot), ("am not able to", "", Cannot), ("is not able to", "", Cannot),
    ("isn't able to", "", Cannot), ("'m not supposed to", "", Cannot), ("am not supposed to", "", Cannot),
    ("'m unable to", "", Cannot), ("am unable to", "", Cannot),
    ("isn't", "is", Not), ("is not", "is", Not), ("'m not", "'m", Not),
    ("am not", "am", Not), ("aren't", "are", Not), ("are not", "are", Not), ("'m no longer", "'m", NoLonger),
    ("am no longer", "am", NoLonger), ("is no longer", "is", NoLonger), ("再也不", "", NoLonger), ("已经不", "", NoLonger),
    ("不再", "", NoLonger), ("从来不", "", Not), ("从不", "", Not), ("不能", "", Cannot), ("不可以", "", Cannot),
    ("不可", "", Cannot), ("不得", "", Cannot), ("不准", "", Cannot), ("不许", "", Cannot), ("不宜", "", Cannot),
    ("不太", "", Not), ("不怎么", "", Not), ("不会", "", Not), ("不", "", Not), ("没有", "", NotThen),
    ("没", "", NotThen), ("戒了", "喝", NoLonger), ("不是", "是", Not), ("不再是", "是", NoLonger),
    ("已经不是", "是", NoLonger),
];

/// Whether a word behind a negation leaves what is said standing, and adds to it: "not only", 不仅.
fn lessens(token: &Token) -> bool {
    const WORDS: [&str; 12] =
        ["only", "just", "simply", "merely", "solely", "仅", "只", "光", "单", "但", "止", "仅仅"];
    WORDS.contains(&token.low.as_str())
}

/// The clause without each negation in it, and how that turns it round; the longer first.
pub(super) fn negations(clause: &[Token]) -> Vec<(Vec<Token>, Turned)> {
    const LOOKED_AT_MAX: usize = 14;
    let mut found: Vec<(usize, Vec<Token>, Turned)> = Vec::new();
    for at in 0..clause.len().min(LOOKED_AT_MAX) {
        for n in 1..=4usize.min(clause.len() - at) {
            let window = &clause[at..at + n];
            let text = joined(window);
            // 吃不下 says that it does not go down, and not that it is not eaten.
            let complement = at > 0 && text == "不" && ["吃", "喝"].contains(&clause[at - 1].low.as_str());
            // 戒了游戏 gives up nothing that is drunk.
            let given_up = text == "戒了" && !health::is_drink(&clause[at + n..]);
            if complement || given_up || clause.get(at + n).is_some_and(lessens) {
                continue;
            }
            for (_, stays, turned) in NEGATIONS.iter().filter(|(words, _, _)| *words == text) {
                let kept = Token { low: (*stays).to_owned(), ..window[0].clone() };
                let kept = (!stays.is_empty()).then_some(kept);
                let positive =
                    clause[..at].iter().cloned().chain(kept).chain(clause[at + n..].iter().cloned());
                found.push((n, positive.collect(), *turned));
            }
        }
    }
    found.sort_by_key(|(n, _, _)| std::cmp::Reverse(*n));
    found.into_iter().map(|(_, positive, turned)| (positive, turned)).collect()
}
