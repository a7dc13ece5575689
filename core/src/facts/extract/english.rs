//! The rules of English: the copula, possessives, and the verb phrases of a person's life.

use super::rules::{Act, Need, Row};

use Act::{Change, Denied, Eaten, Forbidden, Inverse, State, Wish};
use Need::{
    Allergen, Any, Date, Diet, Food, Illness, KnownAllergen, KnownFood, Meal, Medicine, Name, NoDate, Number,
    Occupation, Passive, Patient, Place, Relative, Rescue, Thing, Value, Verb,
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
    ("{s} <adv> been [a|an] [strict|lifelong|committed] {o} [for {x}|since {x}]", "diet", "", Diet, State, 0.9),
    ("{s} <adv> (became|went|turned) [a|an] [strict] {o}", "diet", "", Diet, Change, 0.9),
    ("{s} (am|is|are|'m|'s|'re) <adv> [severely|highly|deathly|badly|extremely|terribly|mildly|slightly|violently] allergic to {o}", "allergic to", "", Allergen, State, 1.0),
    ("{s} <adv> (have|has|got|suffer from|suffers from|developed) [a|an|my] [severe|bad|serious|mild|strong|life-threatening|deadly] (allergy|allergies) to {o}", "allergic to", "", Allergen, State, 1.0),
    ("{s} <adv> (have|has|got|suffer from|suffers from|developed) [a|an] [severe|bad|serious|mild|strong|life-threatening|deadly] {o} (allergy|allergies)", "allergic to", "", Allergen, State, 1.0),
    ("my [only|main|worst|biggest] (allergy|allergies) (is|are) [to] {o}", "allergic to", "", KnownAllergen, State, 1.0),
    ("{s} 's [only|main|worst|biggest] (allergy|allergies) (is|are) [to] {o}", "allergic to", "", KnownAllergen, State, 1.0),
    ("{s} <adv> (carry|carries|have|has|need|needs) (a|an|my) {p} [with me] (because of|for|against) [my|a|an] {o} [allergy]", "allergic to", "", Rescue, State, 1.0),
    ("{s} (am|is|are|'m|'s|'re) <adv> {o} intolerant", "intolerant to", "", Allergen, State, 1.0),
    ("{s} (am|is|are|'m|'s|'re) <adv> intolerant (to|of) {o}", "intolerant to", "", Allergen, State, 1.0),
    ("{s} <adv> (have|has|got|suffer from|suffers from) [a|an] {o} intolerance", "intolerant to", "", Allergen, State, 1.0),
    ("{s} <adv> (have|has|got|suffer from|suffers from) [a|an] intolerance to {o}", "intolerant to", "", Allergen, State, 1.0),
    ("{s} (am|is|are|'m|'s|'re) <adv> [a|an] {o}", "illness", "", Patient, State, 1.0),
    ("{s} [am|is|are|'m|'s|'re] <adv> (have|has|got|suffer from|suffers from|suffering from|live with|lives with|living with|diagnosed with|was diagnosed with|were diagnosed with|been diagnosed with) [a|an] {o}", "illness", "", Illness, State, 1.0),
    ("{s} <adv> [am|is|are|'m|'s|'re|been] <adv> [have to|has to|need to|needs to|must] (take|takes|taking|inject|injects|injecting) {o} [daily|nightly|weekly|regularly|once {x}|twice {x}|three times {x}|four times {x}|every {x}|each {x}|for {x}|since {x}|with {x}|against {x}|at night|at bedtime|in the morning|in the evening|before {x}|after {x}]", "medication", "", Medicine, State, 1.0),
    ("{s} <adv> (am|is|are|'m|'s|'re|been) <adv> on [a|an|my] {o} [for {x}|since {x}|against {x}|because of {x}|until {x}]", "medication", "", Medicine, State, 1.0),
    ("{s} <adv> (am|is|are|'m|'s|'re|was|were|been|got) <adv> prescribed [a|an] {o} [for {x}|against {x}]", "medication", "", Medicine, State, 1.0),
    ("[my|the|our] [family|new] (doctor|gp|physician|cardiologist|psychiatrist|neurologist|dermatologist|specialist|hospital|they) <adv> (put|puts|started) me on [a|an] {o} [for {x}|since {x}|against {x}]", "medication", "", Medicine, State, 1.0),
    ("[my|the|our] [family|new] (doctor|gp|physician|cardiologist|psychiatrist|neurologist|dermatologist|specialist|hospital|they) <adv> (prescribed|prescribes) me [a|an] {o} [for {x}|against {x}]", "medication", "", Medicine, State, 1.0),
    ("my [current|regular|daily] (medication|medications|medicine|medicines|meds) (is|are|include|includes) {o}", "medication", "", Medicine, State, 1.0),
    ("{s} (am|is|are|'m|'s|'re) <adv> (off|off of) [my|the] {o}", "no longer medication", "", Medicine, Denied, 1.0),
    ("{s} [am|is|are|'m|'s|'re] <adv> (came off|come off|coming off|got off|went off|stopped|discontinued) [my|the] {o}", "no longer medication", "", Medicine, Denied, 1.0),
    ("[my|the|our] [family|new] (doctor|gp|physician|cardiologist|psychiatrist|neurologist|dermatologist|specialist|hospital|they) <adv> took me off [my|the] {o}", "no longer medication", "", Medicine, Denied, 1.0),
    ("{s} <adv> (take|takes|use|uses|have|has|tolerate|tolerates) {o}", "tolerates", "", Medicine, Forbidden, 1.0),
    ("{s} <adv> (have|has|tolerate|tolerates|touch|touches|consume|consumes|digest|digests) {o}", "eats", "", KnownFood, Forbidden, 0.7),
    ("{s} [am|is|are|'m|'s|'re] <adv> [have to|has to|need to|needs to|must] (avoid|avoids|avoiding|stay away from|stays away from) [eating] {o}", "does not eat", "", KnownFood, Denied, 0.7),
    ("{s} <adv> (eat|eats|have|has) (anything|foods|food|things|products|stuff) (with|containing|that contains|that contain|made with) {o}", "eats", "", KnownFood, State, 0.7),
    ("{s} [am|is|are|'m|'s|'re] <adv> (eat|eats|eating) {o}", "eats", "", Meal, State, 0.7),
    ("{s} [am|is|are|'m|'s|'re] <adv> (drink|drinks|drinking) {o}", "drinks", "", Meal, State, 0.7),
    ("{s} <adv> (had|ate|tried|grilled|cooked) [a|an|some|the] {o}", "ate", "", Food, Eaten, 0.5),
    ("{s} <adv> (want|wants|feel like|feels like|fancy|fancies|am craving|is craving|'m craving|crave|craves) [to] (eat|eating|try|trying|have|having|drink|drinking) {o}", "eats", "", Food, Wish, 0.5),
    ("{s} <adv> (smoke|smokes|smoking)", "smoking", "smokes", Any, State, 0.7),
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
