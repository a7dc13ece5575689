//! What a rule that fits makes of a clause.

use super::cues;
use super::health;
use super::lexicon::{self, joined};
use super::pattern::Bound;
use super::rules::{Act, Need, Rule};
use super::search::Search;
use super::slots::is_date;
use super::tokens::{self, Token};
use crate::facts::normal;
use crate::facts::registry::{Arity, RULES_VERSION};
use crate::facts::statement::Claim;
use crate::memory::{Fact, Mode};
use std::ops::Range;

/// The predicate of rules that tell that a medicine is not taken any more.
pub(super) const ENDED_MEDICATION: &str = "no longer medication";

/// How a clause was turned round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turned {
    /// "does not", 不.
    Not,
    /// "no longer", 不再.
    NoLonger,
    /// "cannot", "must not", 不能.
    Cannot,
    /// 没: it did not happen at some time.
    NotThen,
}

impl Turned {
    /// Whether what a rule says can be turned round so.
    fn suits(self, rule: &Rule) -> bool {
        match (rule.act, self) {
            (Act::Eaten | Act::Wish | Act::Inverse | Act::Denied | Act::Alone, _) => false,
            (Act::Forbidden, turned) => turned == Self::Cannot,
            // Who cannot live somewhere may live there.
            (_, Self::Cannot) => matches!(rule.predicate.as_str(), "eats" | "drinks" | "speaks"),
            // Who has not taken it yet, or had no breakfast, says nothing of other days.
            (_, Self::NotThen) => !matches!(rule.need, Need::Medicine | Need::Meal),
            _ => true,
        }
    }
}

impl Search<'_> {
    pub(super) fn claims(
        &self,
        rule: &Rule,
        bound: &Bound,
        clause: &[Token],
        turned: Option<Turned>,
    ) -> Option<Vec<Claim>> {
        let suits = turned.map_or(rule.act != Act::Forbidden, |turned| turned.suits(rule));
        if !suits || rule.act == Act::Alone && !self.is_all(clause) {
            return None;
        }
        let harm = rule.need.is_of_harm() || rule.importance >= 1.0;
        let denies = turned.is_some() || rule.act == Act::Denied;
        // What harms is not over because somebody says, dreams or supposes so, and is not so because it once was.
        if harm && (denies && self.is_doubtful(rule, bound, clause) || self.is_of_others(bound, clause)) {
            return None;
        }
        if harm && !denies && lexicon::tells_past(&self.sentence.tokens) {
            return None;
        }
        if turned.is_some() && self.says_less(rule, bound, clause, turned) {
            return None;
        }
        let subject =
            bound.subject.clone().map_or_else(|| "I".to_owned(), |range| self.shown(clause, &range));
        let predicate = self.predicate(rule, bound, clause);
        let predicate = match turned {
            None => predicate,
            Some(Turned::Not | Turned::Cannot | Turned::NotThen) => format!("does not {predicate}"),
            Some(Turned::NoLonger) => format!("no longer {predicate}"),
        };
        let objects = match &bound.object {
            None if rule.object.is_empty() => return None,
            None => vec![(rule.object.clone(), None)],
            Some(range) => self.objects(rule, clause, range)?,
        };
        let mut claims = Vec::new();
        for (object, form) in objects {
            let fact =
                Fact { subject: subject.clone(), predicate: predicate.clone(), object, ..Fact::default() };
            let claim = Claim { fact, form, rules: RULES_VERSION, ..Claim::default() };
            claims.extend(self.acts(rule, claim, turned, bound, clause)?);
        }
        Some(claims)
    }

    /// What the act of a rule makes of a claim. `None` for a wish that is for no time.
    fn acts(
        &self,
        rule: &Rule,
        claim: Claim,
        turned: Option<Turned>,
        bound: &Bound,
        clause: &[Token],
    ) -> Option<Vec<Claim>> {
        let until = cues::holds_until(&self.sentence.tokens, self.saying.event_us);
        Some(match rule.act {
            Act::Eaten => eaten(claim, clause, bound),
            Act::Wish => vec![Claim { mode: for_a_while(Some(until?)), ..claim }],
            Act::Inverse => {
                let Fact { subject, object, .. } = claim.fact.clone();
                let fact = Fact { subject: object, object: subject, ..claim.fact };
                vec![Claim { fact, ..claim }]
            }
            Act::State | Act::Alone if cues::corrects(&self.sentence.tokens) && turned.is_none() => {
                vec![Claim { mode: Mode::Correct, ..claim }]
            }
            Act::State if turned.is_none() && self.tells_once(rule, clause) => eaten(claim, clause, bound),
            Act::State | Act::Denied | Act::Forbidden | Act::Alone => {
                let known = self.registry.find(&claim.fact.predicate).arity != Arity::Unknown;
                // What is over is not over for a day.
                let lasts = turned == Some(Turned::NoLonger) || rule.predicate == ENDED_MEDICATION;
                vec![Claim { mode: for_a_while(until.filter(|_| known && !lasts)), ..claim }]
            }
            Act::Change => vec![claim],
        })
    }

    /// The predicate: the rule's own, with the words of the slots where it has marks for them.
    fn predicate(&self, rule: &Rule, bound: &Bound, clause: &[Token]) -> String {
        let mut predicate = if rule.predicate.is_empty() { "*".to_owned() } else { rule.predicate.clone() };
        for (mark, range) in [('*', &bound.predicate), ('^', &bound.verb), ('~', &bound.kind)] {
            if let Some(range) = range {
                predicate = predicate.replace(mark, &self.shown(clause, range));
            }
        }
        // "Founded in 1990" says nothing of what is "founded in Ulm".
        let relation = matches!(rule.need, Need::Passive | Need::Verb)
            && (predicate.ends_with(" in") || predicate.ends_with(" on"));
        if relation && bound.object.as_ref().is_some_and(|range| is_date(&clause[range.clone()])) {
            predicate.push_str(" date");
        }
        predicate
    }

    /// An object as it is shown, and its own normal form if it has one.
    fn object(&self, rule: &Rule, clause: &[Token], range: &Range<usize>) -> (String, Option<String>) {
        let tokens = &clause[range.clone()];
        let shown = self.shown(clause, range);
        let form = match rule.need {
            Need::Diet | Need::DietPerson => lexicon::diet(&joined(tokens)).map(str::to_owned),
            _ if matches!(rule.predicate.as_str(), "likes" | "loves" | "hates" | "dislikes" | "prefers") => {
                Some(food_form(tokens))
            }
            _ => None,
        };
        (shown, form)
    }

    /// The objects, one by one where a rule takes several. `None` if one is not what the rule needs.
    fn objects(
        &self,
        rule: &Rule,
        clause: &[Token],
        range: &Range<usize>,
    ) -> Option<Vec<(String, Option<String>)>> {
        let pieces = health::pieces(&clause[range.clone()]);
        let pieces = pieces.into_iter().map(|piece| range.start + piece.start..range.start + piece.end);
        let named = |piece: Range<usize>| {
            let form = normal::name(&joined(&clause[piece.clone()]));
            (self.shown(clause, &piece), Some(form))
        };
        let objects: Vec<(String, Option<String>)> = match rule.need {
            Need::Food | Need::Meal | Need::KnownFood => {
                pieces.flat_map(|piece| self.foods(clause, &piece)).collect()
            }
            Need::Allergen | Need::KnownAllergen | Need::Rescue => {
                pieces.filter(|piece| health::is_allergen(&clause[piece.clone()])).map(named).collect()
            }
            Need::Medicine => {
                let name = |piece: Range<usize>| {
                    let name = health::medicine(&clause[piece.clone()])?;
                    Some(named(piece.start + name.start..piece.start + name.end))
                };
                pieces.filter_map(name).collect()
            }
            Need::Illness | Need::Patient => {
                let tokens = &clause[range.clone()];
                let named = if rule.need == Need::Patient { health::patient } else { health::illness };
                let form = named(tokens)?;
                vec![(self.shown(clause, range), Some(form.to_owned()))]
            }
            _ => vec![self.object(rule, clause, range)],
        };
        Some(objects).filter(|objects| !objects.is_empty())
    }

    /// Something eaten or drunk, and its taste.
    fn foods(&self, clause: &[Token], range: &Range<usize>) -> Vec<(String, Option<String>)> {
        let tokens = &clause[range.clone()];
        let mut foods = vec![(self.shown(clause, range), Some(food_form(tokens)))];
        if let Some(taste) = lexicon::taste(tokens)
            && food_form(tokens) != taste
        {
            foods.push((self.shown(clause, range), Some(taste.to_owned())));
        }
        foods
    }

    /// Whether a sentence that denies what harms is no plain word that it is over: it asks, supposes, reports, is of some
    /// time or degree, or names something that is not known. A false end costs more than one that is missed.
    fn is_doubtful(&self, rule: &Rule, bound: &Bound, clause: &[Token]) -> bool {
        let sentence = &self.sentence.tokens;
        let unknown = rule.need == Need::Medicine
            && bound.object.clone().is_some_and(|range| {
                let object = &clause[range];
                health::pieces(object).into_iter().any(|piece| health::medicine(&object[piece]).is_none())
            });
        // "Cannot take" and "avoid" deny that something is taken, and end nothing.
        let ends = rule.act != Act::Forbidden;
        // What was not so once may be so now; what was stopped then has been stopped.
        let of_once = rule.need != Need::Medicine && lexicon::tells_past(sentence);
        unknown
            || lexicon::is_hearsay(sentence)
            || ends && of_once
            || TAKEN_BACK.iter().any(|words| self.text.to_lowercase().contains(words))
            || ends
                && (!lexicon::is_stated(sentence)
                    || health::says_less_than_over(sentence)
                    || cues::holds_until(sentence, self.saying.event_us).is_some())
    }

    /// Whether others speak: a name before a colon, one who "said", or a subject that ends in "I".
    fn is_of_others(&self, bound: &Bound, clause: &[Token]) -> bool {
        let subject = bound.subject.clone().map_or(&[][..], |range| &clause[range]);
        let odd = subject.len() > 1
            && (subject.iter().any(|token| matches!(token.low.as_str(), ":" | "：" | "," | "i" | "'"))
                || subject.last().is_some_and(|token| token.low == "我"));
        odd || self.sentence.is_anothers()
    }

    /// Whether what is denied is less than what the rule would say: a meal and not a food, one hour of the day, a
    /// time that is over.
    fn says_less(&self, rule: &Rule, bound: &Bound, clause: &[Token], turned: Option<Turned>) -> bool {
        let Some(range) = &bound.object else { return false };
        let of_once = turned != Some(Turned::NoLonger) && lexicon::tells_past(&self.sentence.tokens);
        match rule.need {
            Need::Meal | Need::KnownFood => {
                let object = &clause[range.clone()];
                of_once
                    || health::is_meal(object)
                    || turned != Some(Turned::NoLonger) && health::is_of_some_time(&self.sentence.tokens)
                    || turned == Some(Turned::Cannot) && health::is_narrowed(object)
            }
            Need::Medicine if rule.act == Act::Forbidden => of_once || range.end < clause.len(),
            Need::Medicine => {
                of_once || range.end < clause.len() || health::says_how_much(&self.sentence.tokens)
            }
            _ => false,
        }
    }

    /// Whether "I eat peanuts" may be of one time, and not of what somebody eats from now on (我吃花生了，送医院了): where
    /// no word says that it has changed, and it is not told for a day. It must not end that they are not eaten.
    fn tells_once(&self, rule: &Rule, clause: &[Token]) -> bool {
        let sentence = &self.sentence.tokens;
        let has =
            |tokens: &[Token], words: &[&str]| tokens.iter().any(|token| words.contains(&token.low.as_str()));
        // Who is eating it now does so at this moment.
        let is_under_way = has(clause, &["eating", "drinking"]) || joined(clause).contains("正在");
        let lasts = has(sentence, &["again", "又"]) || cues::tells_change(sentence) && !is_under_way;
        let is_for_a_while = cues::holds_until(sentence, self.saying.event_us).is_some();
        let is_over = clause.last().is_some_and(|token| token.low.ends_with('了'));
        matches!(rule.need, Need::Meal | Need::KnownFood) && !lasts && (is_over || !is_for_a_while)
    }

    /// Whether a clause is all that the text says.
    fn is_all(&self, clause: &[Token]) -> bool {
        let (Some(first), Some(last)) = (clause.first(), clause.last()) else { return false };
        let outside = [self.text.get(..first.start), self.text.get(last.end..)];
        outside.into_iter().flatten().all(|text| !text.contains(char::is_alphanumeric))
    }

    /// The words of the text behind some tokens.
    fn shown(&self, clause: &[Token], range: &Range<usize>) -> String {
        let (first, last) = (&clause[range.start], &clause[range.end - 1]);
        // A clause that borrowed its subject is not one piece of the text.
        let piece = self.text.get(first.start..last.end).filter(|_| first.start < last.end);
        piece.map_or_else(|| joined(&clause[range.clone()]), str::to_owned)
    }
}

/// Somewhere in a text: that what it says is not so.
const TAKEN_BACK: [&str; 8] =
    ["kidding", "joking", "i lied", "that's wrong", "that is wrong", "开玩笑", "骗你", "逗你"];

fn for_a_while(window: Option<(i64, String)>) -> Mode {
    window.map_or(Mode::State, |(until_us, reason)| Mode::Override { until_us, reason })
}

/// What was eaten speaks against the diets that exclude it, and against never eating it.
fn eaten(claim: Claim, clause: &[Token], bound: &Bound) -> Vec<Claim> {
    let Some(object) = &bound.object else { return Vec::new() };
    let mut claims = Vec::new();
    let against = lexicon::diets_against(&clause[object.clone()]);
    if !against.is_empty() {
        let fact = Fact { predicate: "diet".into(), ..claim.fact.clone() };
        claims.push(Claim { fact, mode: Mode::Evidence { against }, form: None, ..claim.clone() });
    }
    let predicate = if claim.fact.predicate == "drinks" { "drinks" } else { "eats" };
    let fact = Fact { predicate: predicate.into(), ..claim.fact.clone() };
    let against = vec!["no".to_owned()];
    claims.push(Claim { fact, mode: Mode::Evidence { against }, ..claim });
    claims
}

/// The form of a food or of what is liked: a taste if it is nothing else, without the verb of eating.
fn food_form(tokens: &[Token]) -> String {
    let filler = [
        "food",
        "foods",
        "dish",
        "dishes",
        "things",
        "stuff",
        "something",
        "anything",
        "meal",
        "meals",
        "very",
        "too",
        "extra",
        "really",
        "super",
        "any",
        "some",
        "to",
        "eating",
        "eat",
        "drinking",
        "drink",
        "的",
        "吃",
        "喝",
        "菜",
        "东西",
        "味",
        "太",
        "很",
        "食",
        "物",
    ];
    let bare: Vec<&str> =
        tokens.iter().map(|token| token.low.as_str()).filter(|word| !filler.contains(word)).collect();
    let cjk = normal::is_chinese(&bare.concat());
    let bare = if cjk { bare.concat() } else { bare.join(" ") };
    let tasted = tokens::tokens(&bare);
    match lexicon::taste(&tasted) {
        Some(taste) if tasted.len() <= 2 => taste.to_owned(),
        _ => {
            let text = normal::name(&joined(tokens));
            let eaten = ["吃", "喝", "eating ", "to eat ", "drinking ", "to drink "]
                .iter()
                .find_map(|verb| text.strip_prefix(verb));
            eaten.filter(|rest| !rest.is_empty()).map_or(text.clone(), normal::name)
        }
    }
}
