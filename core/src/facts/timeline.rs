//! What the statements of one group say together: which holds, since when, and what took whose
//! place.
//!
//! It is a function of the set of statements alone, not of the order in which they came: a late
//! arrival finds its place by its valid time, and a deleted statement leaves no trace in those that
//! remain. What was *done* (a retraction, a correction) is in the rows and stays.

use crate::memory::{Cardinality, FactRow, Mode};

/// Most ids that one list of links takes from one group; the nearest in time stay.
pub const LINKS_MAX: usize = 8;

/// The place of one statement among the others of its group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Until when it holds, exclusive; open if `None`.
    pub until_us: Option<i64>,
    /// Whether by now another has its place, or it was retracted.
    pub superseded: bool,
    /// The memory that took its place.
    pub superseded_by: Option<String>,
    /// The memories whose place it took.
    pub supersedes: Vec<String>,
    /// The memories that it overrides for a while.
    pub overrides: Vec<String>,
    /// The memories that say otherwise, without one of them being known to be right.
    pub conflicts: Vec<String>,
}

/// The place of each row, in the order of `rows`. `now_us` tells what has begun already.
pub fn timeline(rows: &[FactRow], now_us: i64) -> Vec<Place> {
    let mut places: Vec<Place> =
        rows.iter().map(|row| Place { until_us: row.to_us, ..Place::default() }).collect();
    let mut order: Vec<usize> = (0..rows.len()).filter(|at| rows[*at].retracted_us.is_none()).collect();
    order.sort_unstable_by_key(|at| when(&rows[*at]));

    let mut walk = Walk { rows, now_us, run: Vec::new(), value: None, places: &mut places };
    for at in &order {
        match &rows[*at].mode {
            Mode::State | Mode::Correct => walk.state(*at),
            Mode::End => walk.end(*at),
            Mode::Override { until_us, .. } => walk.override_for_a_while(*at, *until_us),
            Mode::Evidence { against } => walk.evidence(*at, against),
        }
    }
    retracted(rows, &mut places);
    places
}

/// The rows that held at `valid_us` by what was believed at `recorded_us`, and how they stood then.
/// Deleted statements were never believed: nothing is left of them.
pub fn as_of(rows: &[FactRow], valid_us: i64, recorded_us: i64) -> Vec<(usize, Place)> {
    let mut known: Vec<(usize, FactRow)> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let retracted_us = row.retracted_us.filter(|retracted_us| *retracted_us <= recorded_us);
        if row.recorded_us <= recorded_us && retracted_us.is_none() {
            known.push((at, FactRow { retracted_us: None, retracted_by: None, ..row.clone() }));
        }
    }
    let then: Vec<FactRow> = known.iter().map(|(_, row)| row.clone()).collect();
    let holds = |row: &FactRow, place: &Place| {
        row.from_us <= valid_us && place.until_us.is_none_or(|until_us| valid_us < until_us)
    };
    let places = timeline(&then, valid_us);
    let held = known.into_iter().zip(places).filter(|((_, row), place)| holds(row, place));
    held.map(|((at, _), place)| (at, place)).collect()
}

/// The row that the same statement once more only repeats: the last word of the group.
pub fn last_word(rows: &[FactRow]) -> Option<&FactRow> {
    rows.iter().filter(|row| row.retracted_us.is_none()).max_by_key(|row| when(row))
}

/// The row that a correction said at `from_us` corrects: what held last until then.
pub fn corrected<'a>(rows: &'a [FactRow], value: &str, from_us: i64) -> Option<&'a FactRow> {
    let stated = rows.iter().filter(|row| {
        matches!(row.mode, Mode::State | Mode::Correct)
            && row.retracted_us.is_none()
            && row.from_us <= from_us
    });
    stated.max_by_key(|row| when(row)).filter(|row| row.value != value)
}

/// Valid time first; of two with one valid time the later recorded counts as the newer.
fn when(row: &FactRow) -> (i64, u64, u8) {
    (row.from_us, row.seq, row.ordinal)
}

struct Walk<'a> {
    rows: &'a [FactRow],
    now_us: i64,
    /// The statements that agree on what holds at this point of the walk.
    run: Vec<usize>,
    /// What they say; `None` if the last of it was ended.
    value: Option<&'a str>,
    places: &'a mut [Place],
}

impl<'a> Walk<'a> {
    fn state(&mut self, at: usize) {
        let row = &self.rows[at];
        if self.value == Some(row.value.as_str()) {
            self.run.push(at);
            return;
        }
        match row.cardinality {
            Cardinality::Single => self.take_place(at),
            Cardinality::Unknown => self.contest(at),
        }
        self.run = vec![at];
        self.value = Some(&row.value);
    }

    fn end(&mut self, at: usize) {
        let ended = &self.rows[at].value;
        if self.value.is_some_and(|value| ended.is_empty() || value == ended) {
            self.take_place(at);
            self.run = vec![at];
            self.value = None;
        }
    }

    /// The run gives way to `at`, from its time on.
    fn take_place(&mut self, at: usize) {
        let (id, from_us) = (&self.rows[at].id, self.rows[at].from_us);
        for before in std::mem::take(&mut self.run) {
            if self.rows[before].id == *id {
                continue;
            }
            let place = &mut self.places[before];
            place.until_us = Some(place.until_us.map_or(from_us, |until_us| until_us.min(from_us)));
            place.superseded = from_us <= self.now_us;
            place.superseded_by = Some(id.clone());
            link(&mut self.places[at].supersedes, &self.rows[before].id);
        }
    }

    /// Another value, and nobody knows whether both can hold: the newest names those before it, and
    /// each of them the one that followed it.
    fn contest(&mut self, at: usize) {
        let id = &self.rows[at].id;
        let mut said: Vec<String> = Vec::new();
        for before in self.run.iter().rev() {
            link(&mut said, &self.rows[*before].id);
        }
        // What the run named was said before it, and is further away now.
        if let Some(last) = self.run.last() {
            for older in std::mem::take(&mut self.places[*last].conflicts) {
                link(&mut said, &older);
            }
        }
        for before in std::mem::take(&mut self.run) {
            if self.rows[before].id != *id {
                self.places[before].conflicts = vec![id.clone()];
            }
        }
        said.retain(|other| other != id);
        self.places[at].conflicts = said;
    }

    fn override_for_a_while(&mut self, at: usize, until_us: i64) {
        let row = &self.rows[at];
        let place = &mut self.places[at];
        place.until_us = Some(row.to_us.map_or(until_us, |to_us| to_us.min(until_us)));
        if self.value.is_some_and(|value| value != row.value) {
            for rule in self.run.iter().rev().filter(|rule| self.rows[**rule].id != row.id) {
                link(&mut place.overrides, &self.rows[*rule].id);
            }
        }
    }

    fn evidence(&mut self, at: usize, against: &[String]) {
        let said = |value: &str| against.iter().any(|against| against == value);
        if !self.value.is_some_and(said) {
            return;
        }
        for rule in self.run.clone() {
            let (evidence, rule_id) = (&self.rows[at].id, &self.rows[rule].id);
            if evidence != rule_id {
                link(&mut self.places[rule].conflicts, evidence);
                link(&mut self.places[at].conflicts, rule_id);
            }
        }
    }
}

/// What was retracted has no part in the walk; it only names what stands in its place.
fn retracted(rows: &[FactRow], places: &mut [Place]) {
    for at in 0..rows.len() {
        let row = &rows[at];
        if row.retracted_us.is_none() {
            continue;
        }
        places[at].superseded = true;
        let Some(by) = &row.retracted_by else { continue };
        if let Some(winner) = rows.iter().position(|other| other.id == *by) {
            places[at].superseded_by = Some(by.clone());
            link(&mut places[winner].supersedes, &row.id);
        }
    }
}

fn link(links: &mut Vec<String>, id: &str) {
    if links.len() < LINKS_MAX && links.iter().all(|known| known != id) {
        links.push(id.to_owned());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn row(seq: u64, value: &str, from_us: i64) -> FactRow {
        FactRow {
            id: format!("m{seq}"),
            seq,
            value: value.into(),
            cardinality: Cardinality::Single,
            from_us,
            recorded_us: seq.cast_signed() * 100,
            ..FactRow::default()
        }
    }

    fn unknown(seq: u64, value: &str, from_us: i64) -> FactRow {
        FactRow { cardinality: Cardinality::Unknown, ..row(seq, value, from_us) }
    }

    fn current(rows: &[FactRow]) -> Vec<&str> {
        let places = timeline(rows, i64::MAX);
        let holds = rows.iter().zip(places).filter(|(_, place)| !place.superseded);
        holds.map(|(row, _)| row.id.as_str()).collect()
    }

    #[test]
    fn the_newer_value_takes_the_place_of_the_older() {
        let rows = [row(1, "berlin", 10), row(2, "paris", 20), row(3, "berlin", 30)];
        let places = timeline(&rows, 100);
        assert_eq!(current(&rows), ["m3"]);
        assert_eq!((places[0].until_us, places[1].until_us, places[2].until_us), (Some(20), Some(30), None));
        assert_eq!(places[0].superseded_by.as_deref(), Some("m2"));
        assert_eq!(places[1].supersedes, ["m1"]);
        assert_eq!(places[2].supersedes, ["m2"]);
    }

    #[test]
    fn a_late_arrival_finds_its_place_by_its_valid_time() {
        let rows = [row(1, "paris", 20), row(2, "berlin", 10)];
        let places = timeline(&rows, 100);
        assert_eq!(current(&rows), ["m1"]);
        assert_eq!(places[1].until_us, Some(20));
        assert_eq!(places[0].supersedes, ["m2"]);
    }

    #[test]
    fn of_one_valid_time_the_later_recorded_wins() {
        assert_eq!(current(&[row(2, "b", 10), row(1, "a", 10)]), ["m2"]);
    }

    #[test]
    fn what_has_not_begun_takes_no_place_yet() {
        let rows = [row(1, "berlin", 10), row(2, "paris", 200)];
        let places = timeline(&rows, 100);
        assert!(!places[0].superseded);
        assert_eq!(places[0].until_us, Some(200));
    }

    #[test]
    fn those_that_agree_stand_and_fall_together() {
        let rows = [row(1, "berlin", 10), row(2, "berlin", 15), row(3, "paris", 20)];
        assert_eq!(current(&rows[..2]), ["m1", "m2"]);
        assert_eq!(current(&rows), ["m3"]);
    }

    #[test]
    fn an_end_ends_what_it_names_and_nothing_else() {
        let end = |seq, value, from_us| FactRow { mode: Mode::End, ..row(seq, value, from_us) };
        assert_eq!(current(&[row(1, "acme", 10), end(2, "acme", 20)]), ["m2"]);
        assert_eq!(current(&[row(1, "acme", 10), end(2, "", 20)]), ["m2"]);
        assert_eq!(current(&[row(1, "acme", 10), end(2, "initech", 20)]), ["m1", "m2"]);
        assert_eq!(current(&[row(1, "acme", 10), end(2, "acme", 20), row(3, "acme", 30)]), ["m3"]);
    }

    #[test]
    fn an_override_leaves_the_rule_standing() {
        let mode = Mode::Override { until_us: 50, reason: "today".into() };
        let rows = [row(1, "no", 10), FactRow { mode, ..row(2, "yes", 20) }];
        let places = timeline(&rows, 100);
        assert_eq!(current(&rows), ["m1", "m2"]);
        assert_eq!((places[0].until_us, places[1].until_us), (None, Some(50)));
        assert_eq!(places[1].overrides, ["m1"]);
        assert_eq!(as_of(&rows, 30, i64::MAX).len(), 2);
        let later: Vec<usize> = as_of(&rows, 60, i64::MAX).into_iter().map(|(at, _)| at).collect();
        assert_eq!(later, [0]);
    }

    #[test]
    fn evidence_is_held_against_what_was_said_before() {
        let mode = Mode::Evidence { against: vec!["vegetarian".into()] };
        let steak = |seq, from_us| FactRow { mode: mode.clone(), ..row(seq, "", from_us) };
        let places = timeline(&[row(1, "vegetarian", 10), steak(2, 20)], 100);
        assert_eq!((&places[0].conflicts, &places[1].conflicts), (&vec!["m2".into()], &vec!["m1".into()]));
        assert!(!places[0].superseded && !places[1].superseded);
        let places = timeline(&[row(1, "vegetarian", 10), steak(2, 5)], 100);
        assert!(places.iter().all(|place| place.conflicts.is_empty()), "one may become a vegetarian");
        let places = timeline(&[row(1, "omnivore", 10), steak(2, 20)], 100);
        assert!(places.iter().all(|place| place.conflicts.is_empty()));
    }

    #[test]
    fn where_nobody_knows_nothing_is_retired_and_the_newest_names_the_others() {
        let rows = [unknown(1, "a", 10), unknown(2, "b", 20), unknown(3, "c", 30)];
        let places = timeline(&rows, 100);
        assert_eq!(current(&rows).len(), 3);
        assert_eq!(places[0].conflicts, ["m2"]);
        assert_eq!(places[1].conflicts, ["m3"]);
        assert_eq!(places[2].conflicts, ["m2", "m1"]);
    }

    #[test]
    fn a_retracted_statement_gives_its_place_back() {
        let mut rows = [row(1, "berlin", 10), row(2, "paris", 20)];
        rows[1].retracted_us = Some(250);
        assert_eq!(current(&rows), ["m1"]);
        rows[1].retracted_by = Some("m1".into());
        let places = timeline(&rows, 300);
        assert_eq!(places[1].superseded_by.as_deref(), Some("m1"));
        assert_eq!(places[0].supersedes, ["m2"]);
    }

    #[test]
    fn what_was_believed_is_told_apart_from_what_was_true() {
        // Recorded at 100 and 200; the second was retracted at 250.
        let mut rows = [row(1, "berlin", 10), row(2, "paris", 20)];
        rows[1].retracted_us = Some(250);
        let values = |valid_us, recorded_us| -> Vec<String> {
            let held = as_of(&rows, valid_us, recorded_us);
            held.into_iter().map(|(at, _)| rows[at].value.clone()).collect()
        };
        assert_eq!(values(30, 150), ["berlin"]);
        assert_eq!(values(30, 220), ["paris"]);
        assert_eq!(values(15, 220), ["berlin"]);
        assert_eq!(values(30, 260), ["berlin"]);
        assert!(values(5, 260).is_empty());
        assert!(values(30, 50).is_empty());
    }

    #[test]
    fn lists_of_links_are_bounded() {
        let rows: Vec<FactRow> = (0..200).map(|n| unknown(n, &format!("v{n}"), n.cast_signed())).collect();
        let places = timeline(&rows, 1000);
        assert!(places.iter().all(|place| place.conflicts.len() <= LINKS_MAX));
        assert_eq!(places[199].conflicts[0], "m198");
        let rows: Vec<FactRow> = (0..200).map(|n| row(n, "a", 1)).chain([row(200, "b", 2)]).collect();
        assert_eq!(timeline(&rows, 1000)[200].supersedes.len(), LINKS_MAX);
    }
}
