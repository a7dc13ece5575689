//! Closed lists of verbs, participles, adjectives and nouns that tell of a lasting relation between
//! two things. Of things that happened there may be many, none of which takes the place of another:
//! "was invited to", "visited" and the like do not stand here.

use super::lexicon::{is_any, joined};
use super::tokens::Token;

/// Participles of passive sentences that tell of a lasting relation.
#[rustfmt::skip]
const PARTICIPLES: &[&str] = &[
    "founded", "established", "created", "written", "directed", "produced", "designed", "built", "invented",
    "developed", "published", "located", "situated", "headquartered", "based", "owned", "led", "run", "managed",
    "governed", "headed", "chaired", "employed", "educated", "trained", "born", "raised", "buried", "married",
    "engaged", "named", "affiliated", "associated", "related", "composed", "performed", "spoken", "taught", "held",
    "made", "registered", "assigned", "scheduled", "called", "coached", "sponsored", "operated", "maintained",
    "represented", "authored", "edited", "illustrated", "translated", "narrated", "drawn", "painted", "recorded",
    "released", "broadcast", "broadcasted", "aired", "distributed", "manufactured", "constructed",
    "discovered", "originated", "filmed", "shot", "hosted", "presented", "sung", "practiced",
    "practised", "ruled", "administered", "controlled", "supervised", "licensed", "certified",
    "ranked", "classified", "categorised", "categorized", "dedicated", "devoted", "attributed",
    "stationed", "domiciled", "incorporated", "powered",
];

/// Adjectives, and nouns of an office without an article, that stand between the copula and a preposition.
#[rustfmt::skip]
const ADJECTIVES: &[&str] = &[
    "famous", "known", "renowned", "notable", "noted", "native", "indigenous", "endemic", "part", "head",
    "president", "chairman", "chair", "chairperson", "director", "captain", "mayor", "governor", "leader", "king",
    "queen", "secretary", "minister", "ceo", "coach", "capital",
];

/// Verbs that tell of a lasting relation, in the third person, and some of the past with their
/// preposition.
#[rustfmt::skip]
const RELATIONS: &[&str] = &[
    "leads", "runs", "manages", "teaches", "represents", "heads", "chairs", "coaches", "governs", "hosts",
    "sponsors", "borders", "produces", "favours", "favors", "requires", "costs", "weighs", "measures", "uses",
    "supports", "plays for", "plays", "belongs to", "belonged to", "reports to", "depends on", "starts at",
    "ends at", "opens at", "closes at", "works in", "worked in", "worked as", "worked for", "worked at", "died in",
    "died at", "died of", "died from", "graduated from", "studied at", "studied in", "served in", "served as",
    "served under", "played for", "played in", "stands for", "speaks", "owns", "drives", "follows", "practices",
    "practises", "ranks", "practiced", "practised", "played as", "played", "professes", "professed", "originated in",
    "originates in", "originates from", "originated from", "comes from", "came from", "hails from", "derives from",
    "lies in", "lies on", "sits in", "stands in", "stands on", "resides in", "resided in", "lived in", "grew up in",
    "flows into", "flows through", "consists of", "employs", "employed", "specialises in", "specializes in",
    "specialised in", "specialized in", "focuses on", "competes in", "competed in", "performs in", "writes in",
    "wrote in", "sang in", "sings in", "airs on", "aired on", "premiered on", "refers to", "means", "measures in",
    "answers to", "ruled over", "rules over", "owes to", "trades as", "trades on", "holds",
];

/// Nouns that say what sort of thing the name behind them is: "the city of", "the language of".
#[rustfmt::skip]
const KINDS: &[&str] = &[
    "city", "town", "village", "country", "nation", "state", "province", "county", "region", "district", "republic",
    "kingdom", "continent", "island", "municipality", "borough", "planet", "language", "dialect", "religion",
    "faith", "church", "sport", "game", "discipline", "field", "subject", "genre", "style", "category", "type",
    "position", "role", "rank", "title", "office", "post", "job", "profession", "occupation", "industry", "sector",
    "month", "year", "season", "decade", "century", "age", "league", "team", "club", "party", "company", "firm",
    "brand", "university", "college", "school", "institute", "department", "ministry", "instrument", "medium",
    "currency", "colour", "color", "band", "art", "order", "house", "network", "channel", "studio", "label",
];

#[rustfmt::skip]
const PREPOSITIONS: &[&str] = &[
    "in", "at", "by", "on", "to", "from", "with", "as", "for", "of", "into", "under", "after", "within", "near",
    "through", "against", "over",
];

/// Whether these are a participle, or an adjective, with the preposition that makes a relation of it.
pub(super) fn is_passive(words: &[Token]) -> bool {
    match words {
        [word, preposition] => {
            (is_any(PARTICIPLES, &word.low) || is_any(ADJECTIVES, &word.low))
                && is_any(PREPOSITIONS, &preposition.low)
                && !word.titled
        }
        _ => false,
    }
}

/// Whether a verb, with its preposition, tells of a relation.
pub(super) fn is_relation(verb: &[Token]) -> bool {
    !verb.iter().any(|token| token.titled) && is_any(RELATIONS, &joined(verb))
}

/// Whether a noun says what sort of thing a name is.
pub(super) fn is_kind(noun: &[Token]) -> bool {
    matches!(noun, [noun] if !noun.titled && is_any(KINDS, &noun.low))
}

/// Whether these can be the verb of a relative clause, "was educated" or "works for": small words
/// that end in a verb, with a preposition perhaps.
pub(super) fn is_verb_phrase(words: &[Token]) -> bool {
    const AUXILIARIES: [&str; 8] = ["is", "are", "was", "were", "has", "have", "had", "been"];
    let verb: Vec<&Token> = words.iter().filter(|token| !AUXILIARIES.contains(&token.low.as_str())).collect();
    let [verb, rest @ ..] = verb.as_slice() else { return false };
    let plain = |token: &Token| !token.titled && token.low.chars().all(char::is_alphabetic);
    let inflected = verb.low.len() > 2
        && (verb.low.ends_with('s')
            || verb.low.ends_with("ed")
            || verb.low.ends_with("en")
            || is_any(PARTICIPLES, &verb.low)
            || is_any(IRREGULAR, &verb.low));
    words.iter().all(plain)
        && inflected
        && match rest {
            [] => true,
            [preposition] => is_any(PREPOSITIONS, &preposition.low),
            _ => false,
        }
}

/// Past forms of verbs that neither end in `ed` nor are participles above.
#[rustfmt::skip]
const IRREGULAR: &[&str] = &[
    "wrote", "sang", "drew", "spoke", "taught", "made", "built", "led", "won", "held", "grew", "began", "became",
    "bought", "sold", "ran", "chose", "drove", "wore", "shot",
];

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    #[test]
    fn lasting_relations_are_told_from_events() {
        for text in ["founded by", "famous for", "associated with", "part of"] {
            assert!(is_passive(&tokens(text)), "{text}");
        }
        for text in ["invited to", "seen in", "told by", "founded", "founded by the"] {
            assert!(!is_passive(&tokens(text)), "{text}");
        }
        assert!(is_relation(&tokens("works in")) && !is_relation(&tokens("visited")));
        for text in ["produced", "was educated", "works for", "plays", "wrote", "was founded in"] {
            assert!(is_verb_phrase(&tokens(text)), "{text}");
        }
        for text in ["is", "the", "was", "house", "for", "plays the", ""] {
            assert!(!is_verb_phrase(&tokens(text)), "{text}");
        }
    }
}
