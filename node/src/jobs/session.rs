//! What jobs make of the turns of a session: its summary, memories of important turns, episodes.

use super::memories::{Made, Text};
use super::proposal::{propose, read};
use super::{Ended, Failure, JobEmbedder};
use crate::metrics::JobMetrics;
use crate::service::Replica;
use holdfast_core::codec::Stored;
use holdfast_core::command::{Digest, DigestResult, Write};
use holdfast_core::keys::work::Work;
use holdfast_core::keys::{session, summary, turn};
use holdfast_core::limits::{DIGEST_ITEMS_MAX, SESSION_TURNS_CONDENSED};
use holdfast_core::memory::Kind;
use holdfast_core::session::{SessionRow, Summary, TurnRow, turn_reference};
use holdfast_core::state::Reader;
use holdfast_core::text::protected;
use std::collections::BTreeSet;
use std::time::Instant;

/// Turns that one step reads.
const TURNS_MAX: usize = 256;
/// Text that one step makes memories of, in bytes: with the terms of it, each of which may be another one, the
/// command stays below what one may have. One turn alone always does.
const PROMOTED_BYTES_MAX: usize = 128 << 10;
/// Turns of one episode.
const TURNS_OF_EPISODE: usize = 10;
/// Longest episode, in bytes of its lines.
const EPISODE_BYTES_MAX: usize = 1_200;

/// One step of the work on one session.
pub(super) async fn work(
    replica: &Replica,
    work: &Work,
    now_us: i64,
    embedder: &JobEmbedder,
    metrics: &JobMetrics,
) -> Result<Ended, Failure> {
    let Some(row) = read::<SessionRow>(&replica.state.reader(), &session::key(&work.space, &work.id))? else {
        return Ok(Ended::Done);
    };
    let begin = Instant::now();
    let mut terms = None;
    let looked = if row.unsummarised() > 0 {
        let (digest, counted) = summarise(replica, work, &row)?;
        terms = Some(counted);
        Some(("summarise", digest))
    } else if row.wants_promotion() {
        Some(("promote", promote(replica, work, &row, embedder).await?))
    } else if row.wants_condensation(now_us) {
        Some(("condense", condense(replica, work, &row, embedder).await?))
    } else {
        None
    };
    let Some((job, digest)) = looked else { return Ok(Ended::Done) };
    // Turns went away under the reader: the session is being deleted.
    let Some(digest) = digest else { return Ok(Ended::Again) };
    match propose(replica, &work.space, Write::Digest(Box::new(digest))).await? {
        Some(_) => {
            metrics.done(job, begin.elapsed());
            if let Some((entered, lost)) = terms {
                metrics.summarised(entered, lost);
            }
        }
        None => metrics.stale(job),
    }
    Ok(Ended::Again)
}

/// The digest, and how many protected terms entered the summary and were lost from it.
fn summarise(
    replica: &Replica,
    work: &Work,
    row: &SessionRow,
) -> Result<(Option<Digest>, (usize, usize)), Failure> {
    let stored: Summary =
        read(&replica.state.reader(), &summary::key(&work.space, &work.id))?.unwrap_or_default();
    if stored.through != row.summarised {
        return Ok((None, (0, 0)));
    }
    let count = usize::try_from(row.unsummarised()).unwrap_or(TURNS_MAX).min(TURNS_MAX);
    let turns = turns(replica, work, stored.through, count)?;
    let folded = stored.fold(turns.iter().map(|(number, turn)| (*number, turn)));
    let counted = terms(&stored, &turns, &folded);
    let (from, through) = (stored.through, folded.through);
    let result = DigestResult::Summary(folded.lines);
    Ok(((through > from).then(|| digest(work, row, (from, through), result)), counted))
}

/// How many protected terms turns bring into a summary, and how many of these and of those before are not in it
/// any more.
fn terms(before: &Summary, turns: &[(u64, TurnRow)], after: &Summary) -> (usize, usize) {
    let of = |text: &str| -> Vec<String> {
        protected(text).into_iter().map(|span| text[span].to_owned()).collect()
    };
    // Pinned turns stand beside the summary.
    let plain = turns.iter().filter(|(_, turn)| !turn.pinned);
    let new: BTreeSet<String> = plain.flat_map(|(_, turn)| of(turn.text())).collect();
    let old: BTreeSet<String> = before.lines.iter().flat_map(|line| of(&line.text)).collect();
    let text = after.text();
    let lost = new.union(&old).filter(|term| !text.contains(term.as_str())).count();
    (new.difference(&old).count(), lost)
}

async fn promote(
    replica: &Replica,
    work: &Work,
    row: &SessionRow,
    embedder: &JobEmbedder,
) -> Result<Option<Digest>, Failure> {
    let turns = turns(replica, work, row.promoted, TURNS_MAX)?;
    let (mut texts, mut bytes, mut through) = (Vec::new(), 0, row.promoted);
    for (number, turn) in turns {
        // What a tool answered is no statement of anybody's.
        let promoted = turn.promote && !turn.content.trim().is_empty();
        let is_full = texts.len() == DIGEST_ITEMS_MAX || bytes + turn.content.len() > PROMOTED_BYTES_MAX;
        if promoted && is_full && !texts.is_empty() {
            break;
        }
        through = number;
        if promoted {
            bytes += turn.content.len();
            texts.push(Text {
                reference: turn_reference(&work.id, number, number),
                session: work.id.clone(),
                kind: Kind::Episodic,
                role: Some(turn.role),
                importance: turn.importance,
                event_us: turn.event_us,
                entities: turn.entities,
                states: true,
                tokens: if turn.tool.is_none() { turn.tokens } else { 0 },
                content: turn.content,
            });
        }
    }
    if through == row.promoted {
        return Ok(None);
    }
    let add = Made::of(texts, embedder).await?;
    Ok(Some(digest(work, row, (row.promoted, through), DigestResult::Promoted(add))))
}

async fn condense(
    replica: &Replica,
    work: &Work,
    row: &SessionRow,
    embedder: &JobEmbedder,
) -> Result<Option<Digest>, Failure> {
    let count = usize::try_from(SESSION_TURNS_CONDENSED).unwrap_or(TURNS_MAX);
    let turns = turns(replica, work, row.condensed, count)?;
    let Some((through, _)) = turns.last() else { return Ok(None) };
    let through = *through;
    let texts = turns.chunks(TURNS_OF_EPISODE).filter_map(|part| episode(work, part)).collect();
    let add = Made::of(texts, embedder).await?;
    Ok(Some(digest(work, row, (row.condensed, through), DigestResult::Condensed(add))))
}

/// What a few turns come to, word for word; `None` if they say nothing.
fn episode(work: &Work, turns: &[(u64, TurnRow)]) -> Option<Text> {
    let (first, last) = (turns.first()?, turns.last()?);
    // Pinned turns stand beside a summary, and inside of an episode.
    let plain: Vec<(u64, TurnRow)> =
        turns.iter().map(|(number, turn)| (*number, TurnRow { pinned: false, ..turn.clone() })).collect();
    let folded = plain.iter().map(|(number, turn)| (*number, turn));
    let content = Summary::default().fold_within(folded, EPISODE_BYTES_MAX).text().trim().to_owned();
    let mut entities: Vec<String> = turns.iter().flat_map(|(_, turn)| turn.entities.clone()).collect();
    entities.sort();
    entities.dedup();
    entities.truncate(holdfast_core::limits::ENTITIES_MAX);
    (!content.is_empty()).then(|| Text {
        reference: turn_reference(&work.id, first.0, last.0),
        session: work.id.clone(),
        kind: Kind::Episodic,
        role: None,
        importance: turns.iter().map(|(_, turn)| turn.importance).fold(0.0, f32::max),
        event_us: first.1.event_us,
        entities,
        // Its turns state what there is to state.
        states: false,
        tokens: 0,
        content,
    })
}

fn digest(work: &Work, row: &SessionRow, (base, through): (u64, u64), result: DigestResult) -> Digest {
    Digest { session: work.id.clone(), created_us: row.created_us, base, through, result }
}

/// Turns behind a number, as far as they follow each other.
fn turns(replica: &Replica, work: &Work, after: u64, count: usize) -> Result<Vec<(u64, TurnRow)>, Failure> {
    let prefix = turn::prefix(&work.space, &work.id);
    let start = turn::key(&work.space, &work.id, after);
    let rows = replica.state.reader().scan(&prefix, Some(&start), count)?;
    let mut turns = Vec::with_capacity(rows.len());
    for (key, value) in rows {
        let number = turn::number(&key).ok_or("a key of a turn cannot be read")?;
        turns.push((number, TurnRow::decode(&value)?));
    }
    turns.truncate(turns.iter().zip(after + 1..).take_while(|((number, _), next)| number == next).count());
    Ok(turns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_that_enter_a_summary_and_those_it_loses_are_counted() {
        let turn = |number, content: &str, pinned| {
            (number, TurnRow { role: "user".into(), content: content.into(), pinned, ..TurnRow::default() })
        };
        let turns = [
            turn(1, "The order CN-A1 costs 30 euros.", false),
            turn(2, "Order CN-A1 again, 我每天吃20毫克的药。", false),
            turn(3, "Room 512 at 10:00.", true),
        ];
        let kept = Summary::default().fold(turns.iter().map(|(number, turn)| (*number, turn)));
        let (entered, lost) = terms(&Summary::default(), &turns, &kept);
        assert!(entered >= 3 && lost == 0, "{entered} {lost}");
        // What was there is not counted again, and what does not fit is lost, old or new.
        assert_eq!(terms(&kept, &turns[..1], &kept), (0, 0));
        let none = Summary { through: 3, lines: Vec::new() };
        assert_eq!(terms(&Summary::default(), &turns, &none), (entered, entered));
        assert_eq!(terms(&kept, &[], &none), (0, entered));
    }
}
