//! Packing within a budget. What fits is guessed by the counts that are stored with the memories;
//! then the whole is counted as it is, and the least of it goes until it fits.

use super::choose::{Chosen, LeftOut, Reason, latest};
use super::found::Found;
use super::item::{Heading, Item};
use super::parse::{Format, Request};
use super::render::{Rendered, TAG_TOKENS, head_tokens, line_tokens, render};
use super::sections::Section;
use super::told::Told;
use crate::tokenizer::{Count, Tokenizer};
use holdfast_core::{Error, Result};
use std::collections::{HashMap, HashSet};

/// Share of the budget that is filled with memories in their own words. From there on one that states
/// facts is shown by these, where that is shorter.
const IN_FULL: f64 = 0.5;
/// What is left of the budget is filled once more if it is at least this share of it.
const GAP: f64 = 0.02;
/// Tokens that a day with a speaker, and a speaker alone, take as a heading.
const DAY_TOKENS: usize = 8;
const SPEAKER_TOKENS: usize = 3;
/// Tokens of a chat message beside its content, and of the start of the answer, by OpenAI's cookbook
/// ("How to count tokens with tiktoken"): three and the role, which is one; and three.
const MESSAGE_TOKENS: usize = 7;

/// What goes into the prompt.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) rendered: Rendered,
    pub(super) count: Count,
    /// Tokens of all that is handed over, the frame of messages included.
    pub(super) tokens: usize,
    /// In the order in which they stand.
    pub(super) items: Vec<Item>,
    pub(super) left_out: LeftOut,
    /// Nearly the tokens of all candidates in their own words.
    pub(super) whole_tokens: usize,
    /// Whether the session says otherwise than something that is remembered.
    pub(super) contradicted: bool,
}

/// Items that enter together: a memory, or the facts that stand for it.
struct Unit {
    items: Vec<Item>,
    tokens: usize,
    /// The memory that its facts stand for, if its own words were among the candidates.
    in_short: Option<String>,
}

impl Unit {
    fn of(items: Vec<Item>, tokenizer: Tokenizer) -> Result<Self> {
        let mut tokens = 0;
        for item in &items {
            tokens += item_tokens(item, tokenizer)?;
        }
        Ok(Self { items, tokens, in_short: None })
    }
}

/// Nearly the tokens of an item with its line.
fn item_tokens(item: &Item, tokenizer: Tokenizer) -> Result<usize> {
    let text = match item.stored_tokens {
        Some(tokens) if tokenizer == Tokenizer::default() => tokens,
        // There are many, most of which stand for nothing: a memory in its own words says the same.
        _ if item.section == Section::Facts => rough_tokens(&item.text),
        _ => tokenizer.count(&item.text)?,
    };
    // Who speaks changes with nearly every turn.
    let heading = if item.section == Section::Window { SPEAKER_TOKENS } else { 0 };
    Ok(text + heading + line_tokens(&item.text))
}

/// About the tokens of a short text: four letters, or one character of another script, make one.
fn rough_tokens(text: &str) -> usize {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    1 + ascii / 4 + text.chars().filter(|c| !c.is_ascii()).count()
}

/// # Errors
/// If what is required does not fit; the error names the budget that it needs.
pub(super) fn pack(request: &Request, found: &Found, chosen: Chosen) -> Result<Packed> {
    let frame = if request.format == Format::Messages { MESSAGE_TOKENS } else { 0 };
    let mut packer = Packer {
        request,
        budget: request.budget.saturating_sub(frame),
        frame,
        required: chosen.required,
        taken: Vec::new(),
        skipped: Vec::new(),
        gone: Vec::new(),
        broken: false,
        contradicted: false,
        used: head_tokens(request.format),
        headings: HashSet::new(),
        sections: HashSet::new(),
        whole_tokens: 0,
        left_out: chosen.left_out,
    };
    packer.require()?;
    for item in chosen.first {
        packer.first(item)?;
    }
    let (memories, facts) = packer.beside_session(found, chosen.memories, chosen.facts);
    packer.guess(memories, facts)?;
    for item in chosen.last {
        let unit = Unit::of(vec![item], request.tokenizer)?;
        packer.whole_tokens += unit.tokens;
        packer.offer(unit, None);
    }
    packer.fit()
}

struct Packer<'a> {
    request: &'a Request,
    budget: usize,
    frame: usize,
    required: Vec<Item>,
    /// The best first.
    taken: Vec<Unit>,
    skipped: Vec<Unit>,
    /// Turns that had to go: without those after them they are not tried again.
    gone: Vec<Unit>,
    /// Whether the window has ended for want of room.
    broken: bool,
    contradicted: bool,
    /// Nearly the tokens so far.
    used: usize,
    /// Those that will be there.
    headings: HashSet<Heading>,
    sections: HashSet<Section>,
    whole_tokens: usize,
    left_out: LeftOut,
}

impl Packer<'_> {
    /// Counts what is there in any case.
    fn require(&mut self) -> Result<()> {
        for item in &self.required {
            let tokens = item_tokens(item, self.request.tokenizer)?;
            self.used += tokens;
            self.whole_tokens += tokens;
            if self.sections.insert(item.section) {
                self.used += TAG_TOKENS;
            }
        }
        Ok(())
    }

    /// Takes what goes before memories. The window of a session ends where a turn does not fit.
    fn first(&mut self, item: Item) -> Result<()> {
        let (chained, of_session) = (item.chained, item.section.is_of_session());
        let unit = Unit::of(vec![item], self.request.tokenizer)?;
        if !of_session {
            self.whole_tokens += unit.tokens;
        }
        if chained && (self.broken || !self.fits(&unit)) {
            self.broken = true;
            self.gone.push(unit);
        } else {
            self.offer(unit, None);
        }
        Ok(())
    }

    /// What of memories and facts the session does not tell already, or otherwise.
    fn beside_session(
        &mut self,
        found: &Found,
        memories: Vec<Item>,
        facts: Vec<Item>,
    ) -> (Vec<Item>, Vec<Item>) {
        let Some(talk) = found.session.as_ref().filter(|_| self.request.wants(&Section::OF_SESSION)) else {
            return (memories, facts);
        };
        self.whole_tokens += usize::try_from(talk.session.tokens).unwrap_or(usize::MAX);
        let shown = self.taken.iter().flat_map(|unit| &unit.items);
        let told = Told::of(talk, shown, found.rules.as_deref());
        let latest = latest(self.request);
        let (mut there, mut gone) = (HashSet::new(), HashSet::new());
        let mut kept_memories = Vec::with_capacity(memories.len());
        for item in memories {
            let Some((reason, by)) = told.fault(&item, latest) else {
                there.insert(item.memory.clone());
                kept_memories.push(item);
                continue;
            };
            self.contradicted |= told.contradicts(&item);
            self.left_out.note(&item.id, reason, Some(&by));
            gone.insert(item.memory);
        }
        let mut kept_facts = Vec::with_capacity(facts.len());
        for item in facts {
            // What a memory states that the session tells is told with it.
            if gone.contains(&item.memory) {
                continue;
            }
            let Some((reason, by)) = told.fault(&item, latest) else {
                kept_facts.push(item);
                continue;
            };
            self.contradicted |= told.contradicts(&item);
            // Where its memory is there for what else it says, that is what is named.
            if !there.contains(&item.memory) {
                self.left_out.note(&item.id, reason, Some(&by));
            }
        }
        (kept_memories, kept_facts)
    }

    /// Takes what should fit of memories and facts.
    fn guess(&mut self, memories: Vec<Item>, facts: Vec<Item>) -> Result<()> {
        let tokenizer = self.request.tokenizer;
        let in_full = self.used + (self.budget.saturating_sub(self.used) as f64 * IN_FULL) as usize;
        let mut order: Vec<String> = Vec::new();
        let mut by_memory: HashMap<String, Vec<Item>> = HashMap::new();
        for fact in facts {
            let of_memory = by_memory.entry(fact.memory.clone()).or_default();
            if of_memory.is_empty() {
                order.push(fact.memory.clone());
            }
            of_memory.push(fact);
        }
        for memory in memories {
            let facts = by_memory.remove(&memory.id).unwrap_or_default();
            let id = memory.id.clone();
            let words = Unit::of(vec![memory], tokenizer)?;
            self.whole_tokens += words.tokens;
            if facts.is_empty() {
                self.offer(words, None);
                continue;
            }
            let short = Unit { in_short: Some(id), ..Unit::of(facts, tokenizer)? };
            if self.used >= in_full && short.tokens < words.tokens {
                self.offer(short, Some(words));
            } else {
                self.offer(words, Some(short));
            }
        }
        for memory in order {
            if let Some(facts) = by_memory.remove(&memory) {
                let unit = Unit::of(facts, tokenizer)?;
                self.offer(unit, None);
            }
        }
        Ok(())
    }

    /// Takes a unit, or what may stand for it, or neither.
    fn offer(&mut self, unit: Unit, instead: Option<Unit>) {
        let short = match instead {
            Some(instead) if !self.fits(&unit) && self.fits(&instead) => return self.take(instead),
            Some(instead) if instead.tokens < unit.tokens => Some(instead),
            _ => None,
        };
        if self.fits(&unit) {
            self.take(unit);
        } else {
            self.skipped.push(short.unwrap_or(unit));
        }
    }

    fn take(&mut self, unit: Unit) {
        self.used += self.cost(&unit);
        self.headings.extend(headings(&unit).cloned());
        self.sections.extend(unit.items.first().map(|item| item.section));
        self.taken.push(unit);
    }

    fn fits(&self, unit: &Unit) -> bool {
        self.used + self.cost(unit) <= self.budget
    }

    /// Nearly the tokens of a unit with the headings that it needs.
    fn cost(&self, unit: &Unit) -> usize {
        let of_heading = |heading: &Heading| {
            if self.headings.contains(heading) {
                return 0;
            }
            let day = self.headings.iter().any(|known| known.day == heading.day);
            if day { SPEAKER_TOKENS } else { DAY_TOKENS }
        };
        // All items of a unit are of one section.
        let new = unit.items.first().is_some_and(|item| !self.sections.contains(&item.section));
        let tags = if new { TAG_TOKENS } else { 0 };
        unit.tokens + tags + headings(unit).map(of_heading).sum::<usize>()
    }

    /// Counts the whole, lets the last go until it fits, and fills a gap that the guess left.
    fn fit(mut self) -> Result<Packed> {
        let mut filled: Option<usize> = None;
        loop {
            let (rendered, count) = self.count()?;
            if count.total <= self.budget {
                let gap = self.budget - count.total;
                if filled.is_none() && gap as f64 >= GAP * self.budget as f64 {
                    filled = Some(self.taken.len());
                    if self.fill(gap) {
                        continue;
                    }
                }
                return Ok(self.packed(rendered, count));
            }
            let over = count.total - self.budget;
            if self.taken.is_empty() {
                return Err(self.too_small(count.total));
            }
            self.let_go(over);
        }
    }

    fn count(&self) -> Result<(Rendered, Count)> {
        let taken = self.taken.iter().flat_map(|unit| &unit.items);
        let items: Vec<&Item> = self.required.iter().chain(taken).collect();
        let rendered = render(&items, self.request.format);
        let starts: Vec<usize> = rendered.parts.iter().map(|part| part.start).collect();
        let count = self.request.tokenizer.count_parts(&rendered.text, &starts)?;
        Ok((rendered, count))
    }

    /// Takes of what was skipped what a gap has room for. Says whether anything was taken.
    fn fill(&mut self, gap: usize) -> bool {
        // By the true count; it is the rest that is guessed.
        self.used = self.budget - gap;
        let before = self.taken.len();
        for unit in std::mem::take(&mut self.skipped) {
            if self.fits(&unit) {
                self.take(unit);
            } else {
                self.skipped.push(unit);
            }
        }
        self.taken.len() > before
    }

    /// Lets the last units go that have the tokens that are too many, and of many some more each
    /// time, so that this ends soon.
    fn let_go(&mut self, over: usize) {
        let least = self.taken.len() / 50;
        let (mut tokens, mut units) = (0, 0);
        while tokens < over || units < least {
            let Some(unit) = self.taken.pop() else { return };
            tokens += unit.tokens;
            units += 1;
            let chained = unit.items.iter().any(|item| item.chained);
            if chained { self.gone.push(unit) } else { self.skipped.push(unit) }
        }
    }

    fn too_small(&self, needed: usize) -> Error {
        let (budget, needed) = (self.request.budget, needed + self.frame);
        let detail = format!(
            "budget_tokens is {budget}, but the {} hard constraints alone, which are never left out, need {needed}; \
             give at least {needed}",
            self.required.len()
        );
        Error::invalid("budget_tokens", detail)
    }

    fn packed(mut self, rendered: Rendered, count: Count) -> Packed {
        for unit in self.gone.iter().chain(&self.skipped) {
            match &unit.in_short {
                Some(memory) => self.left_out.note(memory, Reason::Budget, None),
                None => unit.items.iter().for_each(|item| self.left_out.note(&item.id, Reason::Budget, None)),
            }
        }
        let mut items = self.required;
        items.extend(self.taken.into_iter().flat_map(|unit| unit.items));
        items.sort_by(|one, other| {
            (one.section, one.place, &one.id).cmp(&(other.section, other.place, &other.id))
        });
        let shown: HashSet<&str> = items.iter().map(|item| item.id.as_str()).collect();
        self.left_out.settle(|id| shown.contains(id));
        let contradicted =
            self.contradicted && self.left_out.counts[Reason::SupersededBySession as usize] > 0;
        let frame = if items.is_empty() { 0 } else { self.frame };
        Packed {
            tokens: count.total + frame,
            rendered,
            count,
            items,
            left_out: self.left_out,
            whole_tokens: self.whole_tokens,
            contradicted,
        }
    }
}

/// The headings that stand once for many items. Those of turns are counted with the turns.
fn headings(unit: &Unit) -> impl Iterator<Item = &Heading> {
    unit.items.iter().filter(|item| item.section == Section::Memories).map(|item| &item.heading)
}

#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod tests;
