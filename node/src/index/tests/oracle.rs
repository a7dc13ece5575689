//! The score of every memory, computed from the formulas of the documentation: slowly, in f64, row
//! by row, with nothing of the image and nothing of the scoring code.

use super::{Asked as Question, Conflicts, HOUR_US, LOG_NOW_US, RelevanceMode, held};
use holdfast_core::facts::asked::Asked;
use holdfast_core::filter::IndexRowView;
use holdfast_core::memory::{IndexRow, Status};
use holdfast_core::score::Profile;
use std::collections::BTreeMap;

pub(super) type Stored = BTreeMap<u64, IndexRow>;

/// The score of each memory that the query may see, by seq.
pub(super) fn scores(stored: &Stored, asked: &Question) -> BTreeMap<u64, f64> {
    let rows: Vec<(u64, &IndexRow)> = stored
        .iter()
        .map(|(seq, row)| (*seq, row))
        .filter(|(seq, row)| row.expires_us.is_none_or(|at| at > LOG_NOW_US) && sees(*seq, row, asked))
        .collect();
    let relevance = relevance(stored, &rows, asked);
    let facts = Asked::new(asked.text);
    let scored = rows.iter().zip(relevance).map(|((seq, row), s)| {
        let boosts = (lift(row, asked, &facts) + id(row, asked)).min(0.2);
        (*seq, composite(row, s, asked.profile) + boosts)
    });
    scored.collect()
}

/// What is current; what was, where the past is asked about.
fn sees(seq: u64, row: &IndexRow, asked: &Question) -> bool {
    let chooses = asked.filter.as_ref().is_some_and(|filter| !filter.is_all());
    if row.status == Status::Merged && !asked.include_deprecated && !chooses {
        return false;
    }
    if let Some((valid_us, recorded_us)) = asked.as_of {
        if let (Some(_), Some(held)) = (row.valid_from_us, held().get(&seq)) {
            return *held;
        }
        let known = row.created_us <= recorded_us && row.retracted_us.is_none_or(|at| at > recorded_us);
        let is_timeless = row.valid_from_us.is_none() && row.event_us == row.created_us;
        let begun = is_timeless
            || row.event_us <= valid_us && row.valid_from_us.is_none_or(|from_us| from_us <= valid_us);
        return known && begun && row.valid_to_us.is_none_or(|to_us| to_us > valid_us);
    }
    match asked.conflicts {
        _ if asked.include_deprecated => true,
        Conflicts::All => true,
        _ if !matches!(row.status, Status::Active | Status::Merged)
            || row.valid_to_us.is_some_and(|to_us| to_us <= 2 * HOUR_US) =>
        {
            false
        }
        Conflicts::Mark => true,
        Conflicts::Latest => !row.older || row.importance >= 1.0,
    }
}

/// `.05 + .05 share` for a fact about a subject that the question names, `.1 share` where it is who
/// says it.
fn lift(row: &IndexRow, asked: &Question, facts: &Asked) -> f64 {
    if asked.relevance != RelevanceMode::Fused || asked.text.trim().is_empty() {
        return 0.0;
    }
    let topics = row.topics.iter().filter(|topic| facts.is_about(&topic.subject));
    let lifts = topics.map(|topic| {
        let share = facts.share(&topic.predicate);
        let own = row.speaker.as_deref().map_or("user".to_owned(), str::to_lowercase) == topic.subject;
        if own { 0.1 * share } else { 0.05 + 0.05 * share }
    });
    lifts.fold(0.0, f64::max)
}

/// `.05` for the one id that is asked for.
fn id(row: &IndexRow, asked: &Question) -> f64 {
    let has = asked.text.contains("CN-A10293") && row.terms.iter().any(|(term, _)| term == "cn-a10293");
    if asked.relevance == RelevanceMode::Fused && has { 0.05 } else { 0.0 }
}

pub(super) fn passes(row: &IndexRow, asked: &Question) -> bool {
    asked.filter.as_ref().is_none_or(|filter| filter.matches(&IndexRowView::new(row)))
}

fn composite(row: &IndexRow, s: f64, profile: Profile) -> f64 {
    let hours = ((2 * HOUR_US - row.last_access_us) as f64 / HOUR_US as f64).max(0.0);
    let k = f64::from(row.access_count);
    let forgetting = (-hours / (72.0 * (1.0 + (1.0 + k).ln()))).exp();
    let often = ((1.0 + k).ln() / 101f64.ln()).min(1.0);
    let strong = (f64::from(row.strength_milli) / 1_000.0 - 0.1) / 4.9;
    let i = f64::from(row.importance);
    match profile {
        Profile::Ebbinghaus => 0.55 * s + 0.25 * forgetting + 0.20 * i,
        Profile::Generative => 0.4 * 0.995f64.powf(hours) + 0.3 * s + 0.3 * i,
        Profile::Adaptive => 0.6 * (-hours / 4.0).exp() + 0.3 * s + 0.1 * often,
        Profile::Spaced => 0.5 * s + 0.2 * forgetting + 0.1 * i + 0.2 * strong,
        Profile::Relevance => s,
    }
}

fn relevance(stored: &Stored, rows: &[(u64, &IndexRow)], asked: &Question) -> Vec<f64> {
    let terms = asked.terms();
    if asked.text.trim().is_empty() && asked.vector.is_none() {
        return vec![0.0; rows.len()];
    }
    let cosines: Vec<Option<f64>> = rows.iter().map(|(_, row)| cosine(row, asked)).collect();
    let n = rows.len() as f64;
    let tf = |row: &IndexRow, term: &str| {
        row.terms.iter().find(|(own, _)| *own == term).map_or(0.0, |(_, tf)| f64::from(tf))
    };
    let idf = |df: f64| (1.0 + (n - df + 0.5) / (df + 0.5)).ln();
    let df: Vec<f64> =
        terms.iter().map(|term| rows.iter().filter(|(_, row)| tf(row, term) > 0.0).count() as f64).collect();
    // A term that no row has weighs as if one had it (and in an empty space as if there was one).
    let weight: f64 = df.iter().map(|df| idf(df.max(1.0).min(n))).sum();
    let average = (rows.iter().map(|(_, row)| f64::from(row.terms_len)).sum::<f64>() / n.max(1.0)).max(1.0);
    let bm25: Vec<f64> = rows
        .iter()
        .map(|(_, row)| {
            terms
                .iter()
                .zip(&df)
                .map(|(term, df)| {
                    let tf = tf(row, term);
                    idf(*df) * tf / (tf + 0.9 * (0.25 + 0.75 * f64::from(row.terms_len) / average))
                })
                .sum()
        })
        .collect();
    match asked.relevance {
        RelevanceMode::Vector => cosines.iter().map(|c| c.unwrap_or(0.0).clamp(0.0, 1.0)).collect(),
        RelevanceMode::Keyword => {
            bm25.iter().map(|b| if weight > 0.0 { (b / weight).min(1.0) } else { 0.0 }).collect()
        }
        RelevanceMode::Fused => {
            let lifted = lifted(rows, &bm25);
            let (mean_c, dev_c) = blend(&cosines.iter().copied().flatten().collect::<Vec<_>>(), 0.2, 0.1);
            let (mean_l, dev_l) = blend(&lifted, 0.045 * weight, 0.05 * weight);
            rows.iter()
                .zip(&cosines)
                .zip(&lifted)
                .map(|(((_, row), c), l)| {
                    let c = c.map_or(0.0, |c| 0.7 * (c - mean_c) / dev_c);
                    let x = c + (l - mean_l) / dev_l + speaker(stored, row, asked) - 3.0;
                    1.0 / (1.0 + (-x).exp())
                })
                .collect()
        }
    }
}

fn cosine(row: &IndexRow, asked: &Question) -> Option<f64> {
    let query = asked.vector.as_ref()?;
    let vector = row.vector.as_ref().filter(|vector| vector.model == 0)?;
    let norm = query.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let query = query.iter().map(|x| half::f16::from_f64(f64::from(*x) / norm).to_f64());
    Some(vector.to_halves().zip(query).map(|(a, b)| a.to_f64() * b).sum())
}

/// `L_i = b_i (1 - (1-h) q_i) + w [b_{i-1} (1 + g q_{i-1}) + b_{i+1}] + .7 w [b_{i-2} + b_{i+2}]`
fn lifted(rows: &[(u64, &IndexRow)], bm25: &[f64]) -> Vec<f64> {
    let question = |at: usize| if rows[at].1.question { 1.0 } else { 0.0 };
    (0..rows.len())
        .map(|at| {
            let own = bm25[at] * (1.0 - 0.3 * question(at));
            let Some(session) = &rows[at].1.session else { return own };
            let mut turns: Vec<usize> =
                (0..rows.len()).filter(|other| rows[*other].1.session.as_ref() == Some(session)).collect();
            turns.sort_by_key(|turn| (rows[*turn].1.event_us, rows[*turn].0));
            let place = turns.iter().position(|turn| *turn == at).unwrap();
            let turn =
                |offset: isize| place.checked_add_signed(offset).and_then(|place| turns.get(place)).copied();
            let b = |offset| turn(offset).map_or(0.0, |turn| bm25[turn]);
            let handed = turn(-1).map_or(0.0, |turn| bm25[turn] * (1.0 + 0.5 * question(turn)));
            own + 0.4 * (handed + b(1)) + 0.28 * (b(-2) + b(2))
        })
        .collect()
}

/// Mean and deviation of the values and 32 of the prior.
fn blend(values: &[f64], mean: f64, dev: f64) -> (f64, f64) {
    let n = values.len() as f64 + 32.0;
    let blended = (values.iter().sum::<f64>() + 32.0 * mean) / n;
    let around = values.iter().map(|x| (x - blended).powi(2)).sum::<f64>();
    let variance = (around + 32.0 * ((mean - blended).powi(2) + dev * dev)) / n;
    (blended, variance.sqrt().max(1e-3))
}

fn speaker(stored: &Stored, row: &IndexRow, asked: &Question) -> f64 {
    let known = |name: &&&str| stored.values().any(|row| row.speaker.as_deref() == Some(**name));
    let named: Vec<&str> =
        super::NAMES.iter().filter(known).copied().filter(|name| asked.text.contains(name)).collect();
    let asks_of_self = asked.text.split_whitespace().any(|word| word == "I" || word == "me");
    match named.as_slice() {
        [name] if row.speaker.as_deref() == Some(name) => 2.0,
        [] if asks_of_self && row.role.as_deref() == Some("user") => 3.0,
        _ => 0.0,
    }
}
