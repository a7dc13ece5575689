//! The rules of English: the copula, possessives, and the verb phrases of a person's life.

use super::rules::{Act, Need, Row};

use Act::{Change, Eaten, Inverse, State, Wish};
use Need::{
    Any, Date, Diet, Food, Name, NoDate, Number, Occupation, Passive, Place, Relative, Thing, Value, Verb,
};

/// In the order in which they are tried: the particular before the general.
#[rustfmt::skip]
pub(super) const RULES: &[Row] = &[
    // Places.
    ("{s} [am|is|are|'m|'s|'re] <adv> (live|lives|living|reside|resides|residing) in <kind> {o}", "lives in", "", Place, State, 0.9),
    ("{s} (am|is|are|'m|'s|'re) <adv> based in <kind> {o}", "lives in", "", Place, State, 0.9),
    ("{s} [am|is|are|'m|'s|'re] <adv> (moved|relocated) [back] [from {x}] to <kind> {o}", "lives in", "", Place, Change, 0.9),
    ("{s} <adv> settled in {o}", "lives in", "", Place, Change, 0.9),
    ("{s} (am|is|are|'m|'s|'re|come|comes) [originally] from {o}", "born in", "", NoDate, State, 0.9),
    // Work and school.
    ("{s} [am|is|are|'m|'s|'re] <adv> (work|works|working) (at|for) {o}", "works at", "", Place, State, 0.9),
    ("{s} (am|is|are|'m|'s|'re) <adv> employed (at|by) {o}", "works at", "", Place, State, 0.9),
    ("{s} <adv> (started|began) [a [new] job|working|work] (at|with) {o}", "works at", "", Place, Change, 0.9),
    ("{s} <adv> (switched|changed) (jobs|job|companies|employers) to {o}", "works at", "", Place, Change, 0.9),
    ("{s} <adv> joined {o} as {x}", "works at", "", Place, Change, 0.9),
    ("{s} [am|is|are|'m|'s|'re] <adv> (work|works|working) as (a|an|the) {o}", "job", "", Any, State, 0.9),
    ("{s} (am|is|are|'m|'s|'re) <adv> (a|an) {o}", "job", "", Occupation, State, 0.9),
    ("{s} <adv> (became|got promoted to|was promoted to) [a|an] {o}", "job", "", Occupation, Change, 0.9),
    ("{s} [am|is|are|'m|'s|'re] <adv> (study|studies|studying) at {o}", "studies at", "", Place, State, 0.9),
    ("{s} [am|is|are|'m|'s|'re] <adv> (major|majors|majoring) in {o}", "major", "", Any, State, 0.9),
    // Food, health, habits.
    ("{s} (am|is|are|'m|'s|'re) <adv> [a|an] [strict|lifelong|committed] {o}", "diet", "", Diet, State, 0.9),
    ("{s} <adv> (became|went|turned) [a|an] [strict] {o}", "diet", "", Diet, Change, 0.9),
    ("{s} (am|is|are|'m|'s|'re) <adv> [severely|highly|deathly|badly] allergic to {o}", "allergic to", "", Food, State, 1.0),
    ("{s} <adv> (have|has|got) [a|an] [severe|bad|serious|mild] {o} allergy", "allergic to", "", Food, State, 1.0),
    ("{s} (am|is|are|'m|'s|'re) <adv> {o} intolerant", "intolerant to", "", Food, State, 1.0),
    ("{s} (am|is|are|'m|'s|'re) <adv> intolerant (to|of) {o}", "intolerant to", "", Food, State, 1.0),
    ("{s} [am|is|are|'m|'s|'re] <adv> (eat|eats|eating) {o}", "eats", "", Food, State, 0.7),
    ("{s} [am|is|are|'m|'s|'re] <adv> (drink|drinks|drinking) {o}", "drinks", "", Food, State, 0.7),
    ("{s} <adv> (had|ate|tried|grilled|cooked) [a|an|some|the] {o}", "ate", "", Food, Eaten, 0.5),
    ("{s} <adv> (want|wants|feel like|feels like|fancy|fancies|am craving|is craving|'m craving|crave|craves) [to] (eat|eating|try|trying|have|having|drink|drinking) {o}", "eats", "", Food, Wish, 0.5),
    ("{s} <adv> (smoke|smokes|smoking)", "smoking", "smokes", Any, State, 0.7),
    ("{s} <adv> (take|takes) {o} (every day|daily|every morning|every night)", "medication", "", Any, State, 1.0),
    // Attitudes.
    ("{s} <adv> can (not|n't) stand {o}", "hates", "", Any, State, 0.7),
    ("{s} cannot stand {o}", "hates", "", Any, State, 0.7),
    ("{s} <adv> (love|loves|adore|adores) {o}", "loves", "", Any, State, 0.7),
    ("{s} <adv> (like|likes|enjoy|enjoys) {o}", "likes", "", Any, State, 0.7),
    ("{s} (am|is|are|'m|'s|'re) <adv> [a] [big|huge] (fan of|fond of|into|crazy about|obsessed with) {o}", "likes", "", Any, State, 0.7),
    ("{s} <adv> (dislike|dislikes) {o}", "dislikes", "", Any, State, 0.7),
    ("{s} <adv> (hate|hates|detest|detests|loathe|loathes) {o}", "hates", "", Any, State, 0.7),
    ("{s} <adv> (prefer|prefers) {o} [over {x}|to {x}]", "prefers", "", Any, State, 0.7),
    // Who one is.
    ("(my name is|call me|i go by|people call me) {o}", "name", "", Name, State, 0.9),
    ("{s} (am|is|are|'m|'s|'re) <adv> [now] {o} years old", "age", "", Number, State, 0.9),
    ("{s} (turned|just turned) {o}", "age", "", Number, Change, 0.9),
    ("{s} (was|were) born on {o}", "birthday", "", Date, State, 0.9),
    ("{s} (was|were) born in <kind> {o}", "born in", "", NoDate, State, 0.9),
    // "The language of" names the one that is meant.
    ("{s} <adv> {p} the {k} of {o}", "* ~", "", Verb, State, 0.6),
    ("{s} <adv> (speak|speaks) {o}", "speaks", "", Any, State, 0.9),
    // People.
    ("{s} (am|is|are|'m|'s|'re|was|got) <adv> married to {o}", "married to", "", Name, State, 0.9),
    ("{s} <adv> married {o}", "married to", "", Name, Change, 0.9),
    ("{s} (am|is|are|'m|'s|'re|got) <adv> engaged to {o}", "engaged to", "", Name, State, 0.9),
    ("{s} [am|is|are|'m|'s|'re] <adv> dating {o}", "dating", "", Name, State, 0.9),
    ("{s} (am|is|are|'m|'s|'re|got) <adv> (divorced|separated)", "marital status", "divorced", Any, Change, 0.9),
    ("{s} (am|is|are|'m|'s|'re) <adv> single", "marital status", "single", Any, State, 0.9),
    ("{s} (am|is|are|'m|'s|'re|got) <adv> married", "marital status", "married", Any, State, 0.9),
    ("{s} <adv> (have|has|own|owns|got|adopted|bought) (a|an|one|two|three|four) {o}", "has", "", Thing, State, 0.7),
    // The copula with a relation noun, and possessives.
    ("my favourite {p} (is|are) {o}", "favorite *", "", Any, State, 0.7),
    ("my favorite {p} (is|are) {o}", "favorite *", "", Any, State, 0.7),
    ("my {p} (is|are) [now|currently] (called|named) {o}", "", "", Any, State, 0.7),
    ("my {p} (is|are) [now|currently] {o}", "", "", Value, State, 0.7),
    ("{s} 's {p} (is|are) [now|currently] (called|named) {o}", "", "", Any, State, 0.6),
    ("{s} 's {p} (is|are) [now|currently] {o}", "", "", Value, State, 0.6),
    ("the {p} of {s} (is|are|was|were) <adv> (located|based|situated|found) (in|at|on) <kind> {o}", "", "", Any, State, 0.6),
    ("the {p} of {s} (is|are|was|were) [now|currently] <kind> {o}", "", "", Value, State, 0.6),
    ("{s} 's {p} (is|are|was|were) <adv> (located|based|situated|found) (in|at|on) <kind> {o}", "", "", Any, State, 0.6),
    // Relative clauses, with their pronoun or without.
    ("the {p} (in which|at which|for which|that|which|who|whom|where) {s} {v} (is|are|was|were) [now|currently] <kind> {o}", "* ^", "", Relative, State, 0.6),
    ("the {p} (that|which|who) {v} {s} (is|are|was|were) [now|currently] <kind> {o}", "* that ^", "", Relative, State, 0.6),
    ("the {p} {s} {v} (is|are|was|were) [now|currently] <kind> {o}", "* ^", "", Relative, State, 0.6),
    ("{s} (is|are|was|were|became) [now|currently] the [new|current] {p} of {o}", "", "", Any, Inverse, 0.6),
    ("{s} (is|are|was|were) [now|currently] (a|an) {p} of {o}", "* of", "", Any, State, 0.6),
    // Passive voice and verbs of the third person, after a name.
    ("{s} (is|are|was|were) <adv> {p} the {k} of {o}", "* ~", "", Passive, State, 0.6),
    ("{s} (is|are|was|were) <adv> {p} [the] {o}", "", "", Passive, State, 0.6),
    ("{s} <adv> {p} [the] {o}", "", "", Verb, State, 0.6),
];
