//! What may stand in the slots of patterns.

use super::clauses;
use super::health;
use super::lexicon::{self, joined};
use super::pattern::{Bound, Slot};
use super::rules::Need;
use super::tokens::{Token, is_mark};
use super::verbs;
use crate::facts::normal;

/// Longest food, and longest list of what somebody is allergic to, in tokens.
const FOOD_TOKENS_MAX: usize = 8;
const ALLERGENS_TOKENS_MAX: usize = 16;

/// Whether tokens can stand in a slot of a rule.
pub(super) fn slot_fits(need: Need, slot: Slot, tokens: &[Token]) -> bool {
    match slot {
        Slot::Subject => is_subject(tokens) || need == Need::Passive && is_plain_noun(tokens),
        // So that who stands before it is found: 我爸海鲜过敏.
        Slot::Object if need == Need::KnownAllergen => all_known(tokens),
        Slot::Object => {
            let listed = matches!(
                need,
                Need::Food | Need::Meal | Need::KnownFood | Need::Allergen | Need::KnownAllergen
            );
            // 他汀 is no 他.
            let named = need == Need::Medicine && health::medicine(tokens).is_some();
            named || is_list(need, tokens) || is_object(tokens) && !(listed && is_rest_of_a_negation(tokens))
        }
        Slot::Predicate => {
            tokens.len() <= 5
                && !tokens.iter().any(|token| is_mark(token) || token.titled && need == Need::Relative)
                && !lexicon::has_unresolved(tokens)
        }
        Slot::Verb => tokens.len() <= 4 && verbs::is_verb_phrase(tokens),
        Slot::Kind => verbs::is_kind(tokens),
        Slot::Ignored => true,
    }
}

fn is_subject(tokens: &[Token]) -> bool {
    const SUBJECT_TOKENS_MAX: usize = 14;
    let Some(first) = tokens.first() else { return false };
    let text = joined(tokens);
    if tokens.len() > SUBJECT_TOKENS_MAX || lexicon::has_unresolved(tokens) || text == "my" {
        return false;
    }
    if normal::is_chinese(&text) {
        return is_chinese_subject(&text, tokens.len());
    }
    let me = ["i", "we"].contains(&text.as_str());
    let owned = matches!(first.low.as_str(), "my" | "our" | "the") && tokens.len() > 1;
    let verbs = [
        "is", "are", "was", "were", "am", "'m", "'re", "not", "n't", "do", "does", "did", "have", "has",
        "had",
    ];
    let verb = tokens.iter().any(|token| !token.titled && verbs.contains(&token.low.as_str()));
    me || (owned || first.capital || is_number(first) && tokens.len() > 1)
        && !verb
        && !cuts_a_name(tokens)
        && first.low != "i"
        && !is_mark(first)
}

fn is_chinese_subject(text: &str, length: usize) -> bool {
    let text = text.trim_start_matches('《').trim_end_matches('》');
    let own = ["我们", "我", "咱们", "咱", "本人"].iter().find_map(|own| text.strip_prefix(own));
    let rest = own.unwrap_or(text).trim_start_matches('的');
    match own {
        Some(_) if rest.is_empty() => !text.ends_with('的'),
        Some(_) => lexicon::is_kin(rest) && rest.chars().all(lexicon::in_chinese_subject),
        None => {
            length <= 12
                && !text.is_empty()
                && text.chars().all(|c| lexicon::in_chinese_subject(c) && c.is_alphanumeric())
        }
    }
}

/// Whether a mark stands in the words that no name has inside: one that a small letter follows.
fn cuts_a_name(tokens: &[Token]) -> bool {
    let next = |at: usize| tokens.get(at + 1);
    tokens.iter().enumerate().filter(|(_, token)| is_mark(token)).any(|(at, token)| {
        match token.low.as_str() {
            "," | "." | "'" | "-" | "(" | ")" => false,
            ":" | "!" | "?" | "/" | "&" | "–" | "+" | "#" | "*" => {
                next(at).is_some_and(|next| !next.capital && !is_number(next) && !is_mark(next))
            }
            _ => true,
        }
    })
}

/// A noun without an article, such as `chess` or `beach volleyball`: what is in front of a passive
/// verb, if it is nothing else.
fn is_plain_noun(tokens: &[Token]) -> bool {
    const NO_NOUNS: [&str; 24] = [
        "and", "or", "but", "not", "n't", "in", "on", "at", "of", "to", "for", "from", "with", "by", "as",
        "a", "an", "i", "we", "me", "us", "was", "is", "been",
    ];
    tokens.len() <= 4
        && lexicon::adverb_at(tokens).is_none()
        && !lexicon::has_unresolved(tokens)
        && tokens.iter().all(|token| {
            let letters = token.low.chars().all(|c| c.is_alphabetic() || c == '-');
            letters && !token.low.ends_with("ly") && !NO_NOUNS.contains(&token.low.as_str())
        })
}

/// Whether it is a list with commas of things that are known: what else stands between commas may be a clause.
fn is_list(need: Need, tokens: &[Token]) -> bool {
    let known = |tokens: &[Token]| match need {
        Need::Medicine => health::medicine(tokens).is_some(),
        Need::KnownFood | Need::Meal => health::is_known_food(tokens),
        Need::Allergen | Need::KnownAllergen => health::is_known_allergen(tokens),
        _ => false,
    };
    let pieces = health::pieces(tokens);
    let commas = tokens.iter().any(|token| token.low == ",");
    commas
        && !tokens.last().is_some_and(is_mark)
        && pieces.len() > 1
        && pieces.into_iter().all(|piece| known(&tokens[piece]))
}

fn is_object(tokens: &[Token]) -> bool {
    let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else { return false };
    if is_mark(first)
        || first.low == "的"
        || is_mark(last) && !matches!(last.low.as_str(), ")" | "!" | "?")
        || lexicon::is_empty_object(tokens)
    {
        return false;
    }
    let vague = ["something", "anything"];
    let named = tokens.iter().filter(|token| !vague.contains(&token.low.as_str()));
    let unresolved = lexicon::has_unresolved(&named.cloned().collect::<Vec<_>>());
    let mut pairs = tokens.iter().zip(tokens.iter().skip(1)).filter(|(token, _)| !token.titled);
    let another_clause = pairs.any(|(token, next)| match token.low.as_str() {
        "and" | "then" => clauses::begins_clause(next),
        "but" | "because" | "while" | "although" | "so" | "since" | "when" | "except" | "unless" | "但"
        | "因" => true,
        "," => !next.capital && !is_number(next) || next.low == "i",
        "，" | "；" | ";" | "(" | "\"" | "“" => true,
        _ => false,
    });
    !unresolved && !another_clause
}

/// 花生不 of 对花生不过敏, 不仅对花生 of 不仅对花生过敏: what a negation or another speaker has left of a sentence.
fn is_rest_of_a_negation(tokens: &[Token]) -> bool {
    const ENDS: [&str; 5] = ["不", "没", "不会", "没有", "不再"];
    const BEGINNINGS: [&str; 7] = ["不仅", "不只", "不光", "不单", "不但", "不止", "不再"];
    let text = joined(tokens);
    ENDS.iter().any(|end| text.ends_with(end))
        || BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
        || normal::is_chinese(&text) && text.contains('我')
}

fn is_number(token: &Token) -> bool {
    token.low.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether what the slots hold is what the rule needs.
pub(super) fn satisfies(need: Need, bound: &Bound, clause: &[Token]) -> bool {
    let object = bound.object.clone().map_or(&[][..], |range| &clause[range]);
    let predicate = bound.predicate.clone().map_or(&[][..], |range| &clause[range]);
    let subject = bound.subject.clone().map_or(&[][..], |range| &clause[range]);
    let dated = || object.iter().any(|token| is_date_word(&token.low));
    match need {
        Need::Any => true,
        Need::Diet => lexicon::diet(&joined(object)).is_some(),
        Need::DietPerson => joined(object).ends_with('者') && lexicon::diet(&joined(object)).is_some(),
        Need::Occupation => object.len() <= 6 && lexicon::is_occupation(object),
        Need::Thing => lexicon::is_thing(object),
        Need::Food => object.len() <= FOOD_TOKENS_MAX,
        // A medicine that is not eaten is no food.
        Need::Meal => {
            (object.len() <= FOOD_TOKENS_MAX || is_list(need, object))
                && health::is_eaten(object)
                && health::medicine(object).is_none()
        }
        Need::KnownFood => {
            health::pieces(object).into_iter().all(|piece| health::is_known_food(&object[piece]))
        }
        Need::Allergen => object.len() <= ALLERGENS_TOKENS_MAX,
        Need::KnownAllergen => all_known(object),
        Need::Rescue => health::is_rescue(predicate) && all_known(object),
        // What they name is looked at when it is named.
        Need::Medicine | Need::Illness | Need::Patient => true,
        Need::Date => dated(),
        Need::NoDate => !dated(),
        Need::Number => {
            matches!(object, [number] if number.low.parse::<f64>().is_ok() || is_chinese_number(&number.low))
                || !object.is_empty()
                    && object.len() <= 3
                    && object.iter().all(|token| is_chinese_number(&token.low))
        }
        Need::Place => {
            lexicon::is_place(object) && !dated() && subject.first().is_none_or(|token| token.low != "the")
        }
        Need::Name => is_name(object),
        Need::Value => is_value(predicate, object),
        // What stands in front of a subject without a capital may be anything.
        Need::Passive => bound.subject.as_ref().is_none_or(|range| range.start == 0 || is_subject(subject)),
        Need::Verb => named_subject(subject),
        Need::Relative => named_subject(subject) && is_value(predicate, object),
    }
}

/// Whether people are known to be allergic to all of these.
fn all_known(object: &[Token]) -> bool {
    health::pieces(object).into_iter().all(|piece| health::is_known_allergen(&object[piece]))
}

/// Whether a rule's predicate can be made of these words.
pub(super) fn predicate_fits(need: Need, predicate: &[Token]) -> bool {
    match need {
        Need::Passive => verbs::is_passive(predicate),
        Need::Verb => verbs::is_relation(predicate),
        _ => true,
    }
}

/// A proper name: in capitals where the script has them, and no description.
fn is_name(object: &[Token]) -> bool {
    let Some(first) = object.first() else { return false };
    let text = joined(object);
    if normal::is_chinese(&text) {
        return object.len() <= 8
            && !lexicon::is_occupation(object)
            && !text.starts_with('一')
            && !text.contains('的');
    }
    first.capital && object.len() <= 5
}

/// Whether a possessive names this as its value. "My wife is a doctor" names no wife.
fn is_value(predicate: &[Token], object: &[Token]) -> bool {
    let Some(first) = object.first() else { return false };
    // "My allergy is gone" names none; what it is to is found by a rule of its own.
    if health::is_noun(predicate) {
        return false;
    }
    let numeric = object.iter().any(|token| token.low.contains(|c: char| c.is_numeric()));
    if lexicon::is_no_attribute(predicate) {
        return numeric || first.capital && !matches!(first.low.as_str(), "a" | "an");
    }
    !matches!(first.low.as_str(), "a" | "an" | "very" | "so" | "too" | "not" | "that") || numeric
}

fn is_chinese_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| "零一二三四五六七八九十百两".contains(c))
}

/// Whether these are a proper name: every word but small ones has a capital or is a number.
fn named_subject(subject: &[Token]) -> bool {
    const SMALL: [&str; 32] = [
        "of", "the", "and", "for", "de", "von", "van", "der", "in", "on", "at", "to", "a", "an", "'s", "la",
        "le", "el", "du", "des", "da", "di", "al", "bin", "y", "e", "with", "from", "by", "or", "vs", "ibn",
    ];
    let small = |token: &Token| SMALL.contains(&token.low.as_str());
    subject.iter().all(|token| token.capital || is_mark(token) || is_number(token) || small(token))
        && subject.iter().any(|token| token.capital && token.low != "i" && (token.titled || !small(token)))
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Whether these are a date and nothing else.
pub(super) fn is_date(object: &[Token]) -> bool {
    const SMALL: [&str; 8] = ["the", "of", ",", "early", "late", "年", "月", "日"];
    let small = |token: &Token| SMALL.contains(&token.low.as_str());
    object.iter().all(|token| is_number(token) || small(token) || is_month(&token.low))
        && object.iter().any(|token| !small(token))
}

fn is_month(word: &str) -> bool {
    MONTHS.contains(&word)
}

fn is_date_word(word: &str) -> bool {
    word.contains(|c: char| c.is_numeric()) || is_month(word) || "一二三四五六七八九十".contains(word)
}
