//! What statements do to each other, in English and in Chinese.

use super::*;
use crate::facts::registry::Registry;
use crate::facts::statement::{Claim, statement};
use crate::facts::timeline::as_of;
use crate::keys::fact;

/// A memory that states one fact, as of a time.
pub(super) struct Said {
    item: NewMemory,
}

pub(super) fn says(n: u8, subject: &str, predicate: &str, object: &str) -> Said {
    let fact = Fact {
        subject: subject.into(),
        predicate: predicate.into(),
        object: object.into(),
        ..Fact::default()
    };
    let made_of = statement(Claim { fact, ..Claim::default() }, None, &Registry::default()).unwrap();
    let content = format!("{subject} {predicate} {object} ({n})");
    Said { item: NewMemory { statements: vec![made_of], whole: true, ..made(n, &content) } }
}

impl Said {
    pub(super) fn at(mut self, event_us: i64) -> NewMemory {
        self.item.index.event_us = event_us;
        self.item.event_given = true;
        self.item
    }

    fn now(self) -> NewMemory {
        self.item
    }

    fn mode(mut self, mode: Mode) -> Self {
        self.item.statements[0].mode = mode;
        self
    }

    fn text(mut self, content: &str) -> Self {
        self.item.content = content.into();
        self.item.text_hash = keys::text_hash::hash(&text::normalize(content), None);
        self
    }
}

pub(super) fn id(n: u8) -> String {
    super::super::add::uuid_text([n; 16])
}

impl Replica {
    fn say(&mut self, item: NewMemory) -> ItemOutcome {
        self.items(add(vec![item])).remove(0)
    }

    pub(super) fn status(&self, n: u8) -> Status {
        self.memory(&id(n)).unwrap().1.status
    }

    fn active(&self) -> Vec<u8> {
        (1..=20)
            .filter(|n| self.memory(&id(*n)).is_some_and(|(_, row)| row.status == Status::Active))
            .collect()
    }

    fn links(&self, n: u8) -> (Vec<String>, Option<String>) {
        let memory = self.memory(&id(n)).unwrap().0;
        (memory.supersedes, memory.superseded_by)
    }

    fn group(&self, of: &NewMemory) -> Vec<FactRow> {
        let prefix = fact::group_prefix(&space(), &of.statements[0]);
        let rows = self.state.scan(&prefix, None, usize::MAX).unwrap();
        rows.iter().map(|(_, value)| FactRow::decode(value).unwrap()).collect()
    }
}

#[test]
fn a_new_value_takes_the_place_of_the_old_one() {
    for (subject, predicate, old, new) in [
        ("I", "lives in", "Berlin", "Paris"),
        ("我", "住在", "北京", "上海"),
        ("I", "works at", "Acme", "Initech"),
        ("小明的妹妹", "职业", "护士", "医生"),
    ] {
        let mut replica = Replica::new();
        replica.say(says(1, subject, predicate, old).at(10));
        let outcome = replica.say(says(2, subject, predicate, new).at(20));
        assert_eq!((outcome.status, outcome.supersedes), (ItemStatus::Created, vec![id(1)]), "{predicate}");
        assert_eq!(replica.active(), [2]);
        assert_eq!(replica.links(1), (vec![], Some(id(2))));
        let (_, old) = replica.memory(&id(1)).unwrap();
        assert_eq!((old.valid_from_us, old.valid_to_us), (Some(10), Some(20)));
        let (_, new) = replica.memory(&id(2)).unwrap();
        assert_eq!((new.valid_from_us, new.valid_to_us), (Some(20), None));
    }
}

#[test]
fn love_that_turned_into_hate_leaves_one_current_and_one_deprecated() {
    for (love, hate, food) in [("loves", "hates", "Chinese food"), ("喜欢", "讨厌", "中餐")] {
        let mut replica = Replica::new();
        replica.say(says(1, "I", love, food).now());
        let outcome = replica.say(says(2, "I", hate, food).now());
        assert_eq!(outcome.supersedes, [id(1)]);
        assert_eq!((replica.status(1), replica.status(2)), (Status::Deprecated, Status::Active));
    }
    let mut replica = Replica::new();
    replica.say(says(1, "我", "不喜欢", "邓紫棋的歌").now());
    replica.say(says(2, "我", "喜欢", "邓紫棋的歌").now());
    assert_eq!(replica.active(), [2]);
}

#[test]
fn there_and_back_again_is_three_periods() {
    for (there, elsewhere) in [("Berlin", "Paris"), ("柏林", "巴黎")] {
        let mut replica = Replica::new();
        let text = format!("I live in {there}");
        replica.say(says(1, "I", "lives in", there).text(&text).at(10));
        replica.say(says(2, "I", "lives in", elsewhere).at(20));
        // The very same words as at first, and yet a new memory.
        let back = replica.say(says(3, "I", "lives in", there).text(&text).at(30));
        assert_eq!((back.status, back.id), (ItemStatus::Created, id(3)));
        assert_eq!(replica.active(), [3]);
        assert_eq!(replica.links(2), (vec![id(1)], Some(id(3))));
        let again = replica.say(says(4, "I", "lives in", there).text(&text).at(40));
        assert_eq!((again.status, again.id), (ItemStatus::Merged, id(3)));
        assert_eq!(replica.memory(&id(3)).unwrap().1.count, 2);
    }
}

#[test]
fn many_likes_stay_side_by_side() {
    let mut replica = Replica::new();
    for (n, object) in [(1, "tea"), (2, "coffee"), (3, "茶"), (4, "咖啡")] {
        let outcome = replica.say(says(n, "I", "likes", object).now());
        assert!(outcome.supersedes.is_empty() && outcome.possible_conflicts.is_empty());
    }
    assert_eq!(replica.active(), [1, 2, 3, 4]);
}

#[test]
fn two_people_of_one_name_keep_their_own_facts() {
    let mut replica = Replica::new();
    replica.say(says(1, "my sister Anna", "lives in", "Berlin").now());
    replica.say(says(2, "my colleague Anna", "lives in", "Paris").now());
    replica.say(says(3, "我的同学安娜", "住在", "北京").now());
    replica.say(says(4, "我的姐姐安娜", "住在", "上海").now());
    assert_eq!(replica.active(), [1, 2, 3, 4]);
}

#[test]
fn the_same_statement_in_other_words_is_counted() {
    let mut replica = Replica::new();
    replica.say(says(1, "I", "lives in", "Berlin").now());
    let outcome = replica.say(says(2, "我", "住在", "BERLIN.").now());
    assert_eq!((outcome.status, outcome.id), (ItemStatus::Merged, id(1)));
    assert_eq!(replica.memory(&id(1)).unwrap().1.count, 2);
    // What a caller gives an id of its own is never merged, and both stand.
    let mut chosen = says(3, "I", "lives in", "Berlin").now();
    chosen.id_chosen = true;
    assert_eq!(replica.say(chosen).status, ItemStatus::Created);
    assert_eq!(replica.active(), [1, 3]);
}

#[test]
fn a_text_that_says_more_than_its_fact_never_falls() {
    let mut replica = Replica::new();
    let mut long = says(1, "I", "lives in", "Berlin").now();
    long.whole = false;
    replica.say(long);
    replica.say(says(2, "I", "lives in", "Paris").now());
    assert_eq!(replica.active(), [1, 2]);
    assert_eq!(replica.links(1).1, Some(id(2)), "and yet it says which fact is newer");
    assert_eq!(replica.memory(&id(1)).unwrap().1.valid_to_us, None);
}

#[test]
fn a_memory_falls_with_the_last_of_its_statements() {
    let mut replica = Replica::new();
    let mut both = says(1, "I", "lives in", "Berlin").now();
    both.statements.extend(says(9, "I", "works at", "Acme").now().statements);
    replica.say(both);
    replica.say(says(2, "I", "lives in", "Paris").now());
    assert_eq!(replica.active(), [1, 2]);
    replica.say(says(3, "I", "works at", "Initech").now());
    assert_eq!(replica.active(), [2, 3]);
    replica.write(delete(&id(3)));
    assert_eq!(replica.active(), [1, 2]);
}

#[test]
fn a_late_arrival_does_not_win() {
    let mut replica = Replica::new();
    replica.say(says(1, "I", "lives in", "Paris").at(1_000));
    let late = replica.say(says(2, "我", "住在", "柏林").at(500));
    assert!(late.supersedes.is_empty());
    assert_eq!(replica.active(), [1]);
    assert_eq!(replica.links(1).0, [id(2)]);
    assert_eq!(replica.memory(&id(2)).unwrap().1.valid_to_us, Some(1_000));
}

#[test]
fn an_override_ends_and_the_rule_was_never_gone() {
    let mut replica = Replica::new();
    replica.say(says(1, "我", "不吃", "辣").at(10));
    let today = Mode::Override { until_us: 90, reason: "今天".into() };
    let outcome = replica.say(says(2, "我", "吃", "辣").mode(today).at(50));
    assert_eq!(outcome.overrides, [id(1)]);
    assert_eq!(replica.active(), [1, 2]);
    let (_, row) = replica.memory(&id(2)).unwrap();
    assert_eq!((row.valid_from_us, row.valid_to_us), (Some(50), Some(90)));
    assert_eq!(replica.memory(&id(1)).unwrap().1.valid_to_us, None);
}

#[test]
fn a_correction_says_what_was_meant_all_along() {
    let mut replica = Replica::new();
    replica.say(says(1, "I", "birthday", "May 3").at(10));
    let outcome = replica.say(says(2, "I", "birthday", "May 4").mode(Mode::Correct).at(50));
    assert_eq!(outcome.supersedes, [id(1)]);
    let (_, wrong) = replica.memory(&id(1)).unwrap();
    assert_eq!(wrong.status, Status::Deprecated);
    assert!(wrong.retracted_us.is_some());
    assert_eq!(replica.memory(&id(2)).unwrap().1.valid_from_us, Some(10));
    // The correction was an act: deleting its text does not make the wrong one right.
    replica.write(delete(&id(2)));
    assert_eq!(replica.active(), Vec::<u8>::new());
    assert_eq!(replica.links(1).1, None);
}

#[test]
fn what_is_no_longer_so_is_ended() {
    for (works, no_longer, company) in
        [("works at", "no longer works at", "Acme"), ("就职于", "不再就职于", "阿里")]
    {
        let mut replica = Replica::new();
        replica.say(says(1, "I", works, company).now());
        replica.say(says(2, "I", no_longer, "Other Inc").now());
        assert_eq!(replica.active(), [1, 2], "it names another one");
        replica.say(says(3, "I", no_longer, company).now());
        assert_eq!(replica.active(), [2, 3]);
    }
}

#[test]
fn of_unknown_cardinality_nothing_is_retired() {
    let mut replica = Replica::new();
    replica.say(says(1, "Rover", "favours", "left").now());
    let second = replica.say(says(2, "Rover", "favours", "right").now());
    assert_eq!(second.possible_conflicts, [id(1)]);
    assert_eq!(replica.active(), [1, 2]);
    let older: Vec<bool> = (1..=2).map(|n| replica.memory(&id(n)).unwrap().1.older).collect();
    assert_eq!(older, [true, false], "the newest is known");
    replica.write(delete(&id(2)));
    assert!(!replica.memory(&id(1)).unwrap().1.older);
    assert!(replica.memory(&id(1)).unwrap().0.possible_conflicts.is_empty());
}

#[test]
fn an_unrelated_mention_retires_nothing() {
    let mut replica = Replica::new();
    replica.say(says(1, "Anna", "lives in", "Berlin").now());
    replica.say(says(2, "Anna", "birthday", "May 3").now());
    replica.items(add(vec![memory("plain", "Anna called about the tickets to Paris")]));
    replica.say(says(3, "Anna", "works at", "Paris Opera").now());
    assert_eq!(replica.active(), [1, 2, 3]);
}

#[test]
fn a_deleted_statement_leaves_no_trace_in_the_others() {
    let mut replica = Replica::new();
    replica.say(says(1, "I", "lives in", "Berlin").at(10));
    replica.say(says(2, "I", "lives in", "Paris").at(20));
    replica.say(says(3, "I", "lives in", "Rome").at(30));
    replica.write(delete(&id(2)));
    assert_eq!(replica.memory(&id(1)).unwrap().1.valid_to_us, Some(30));
    assert_eq!(replica.links(1).1, Some(id(3)));
    assert_eq!(replica.links(3).0, [id(1)]);
    replica.write(delete(&id(3)));
    assert_eq!(replica.active(), [1]);
    assert_eq!(replica.memory(&id(1)).unwrap().1.valid_to_us, None);
    replica.write(delete(&id(1)));
    assert_eq!(replica.family(Family::Fact), 0);
    let berlin = replica.state.rows().filter(|(key, value)| {
        [*key, *value].iter().any(|bytes| bytes.windows(6).any(|w| w.eq_ignore_ascii_case(b"berlin")))
    });
    assert_eq!(berlin.count(), 0, "no content is left anywhere");
}

#[test]
fn a_retraction_gives_the_place_back_and_stays() {
    let mut replica = Replica::new();
    replica.say(says(1, "I", "lives in", "Berlin").at(10));
    replica.say(says(2, "I", "lives in", "Paris").at(20));
    let outcome = replica.items(Write::Retract { id: id(2), ordinal: 0 });
    assert_eq!(outcome[0].status, ItemStatus::Retracted);
    assert_eq!(replica.active(), [1]);
    assert!(replica.memory(&id(2)).unwrap().1.retracted_us.is_some());
    let rows = replica.group(&says(9, "I", "lives in", "x").now());
    let recorded: Vec<i64> = rows.iter().map(|row| row.recorded_us).collect();
    let believed = |valid_us, recorded_us| -> Vec<String> {
        as_of(&rows, valid_us, recorded_us).iter().map(|(at, _)| rows[*at].value.clone()).collect()
    };
    assert_eq!(believed(25, recorded[1]), ["paris"], "so it was believed");
    assert_eq!(believed(25, i64::MAX), ["berlin"]);
    assert_eq!(failed(replica.write(Write::Retract { id: id(2), ordinal: 1 })), ErrorCode::NotFound);
    assert_eq!(failed(replica.write(Write::Retract { id: id(7), ordinal: 0 })), ErrorCode::NotFound);
}

#[test]
fn a_decision_between_memories_stands() {
    let mut replica = Replica::new();
    replica.say(says(1, "Rover", "favours", "left").now());
    replica.say(says(2, "Rover", "favours", "right").now());
    replica.items(add(vec![memory("plain", "Rover turns left")]));
    let outcome = replica.items(Write::Resolve { keep: id(1), retire: vec![id(2), "plain".into()] });
    assert_eq!(outcome[1].status, ItemStatus::Retracted);
    assert_eq!(replica.active(), [1]);
    assert_eq!(replica.memory("plain").unwrap().1.status, Status::Deprecated);
    let (kept, row) = replica.memory(&id(1)).unwrap();
    assert_eq!(kept.supersedes, [id(2), "plain".into()]);
    assert!(kept.possible_conflicts.is_empty() && !row.older);
    assert_eq!(replica.links(2).1, Some(id(1)));
    replica.write(delete(&id(1)));
    assert_eq!(replica.status(2), Status::Deprecated, "what was decided stays decided");
    assert_eq!(replica.links(2).1, None);
    let unknown = Write::Resolve { keep: id(2), retire: vec!["nobody".into()] };
    assert_eq!(failed(replica.write(unknown)), ErrorCode::NotFound);
}

#[test]
fn a_patch_moves_the_statement_with_the_memory() {
    let mut replica = Replica::new();
    replica.say(says(1, "I", "lives in", "Berlin").at(10));
    replica.say(says(2, "I", "lives in", "Paris").at(20));
    let patch = |item: NewMemory, if_version, keep_statements| {
        let memory = NewMemory { index: IndexRow { id: id(2), ..item.index.clone() }, ..item };
        Write::Update(Box::new(Update {
            if_version,
            model: None,
            vectors_given: false,
            keep_statements,
            memory,
        }))
    };
    replica.items(patch(memory("", "other text, same fact"), 1, true));
    assert_eq!(replica.active(), [2]);
    replica.items(patch(says(5, "I", "works at", "Acme").at(20), 2, false));
    assert_eq!(replica.active(), [1, 2]);
    assert_eq!((replica.links(1).1, replica.links(2).0), (None, vec![]));
    replica.items(patch(says(5, "I", "lives in", "Rome").at(20), 3, false));
    assert_eq!(replica.active(), [2]);
    // A change that left the memory fallen does not raise it, and a patch keeps it fallen.
    let memory =
        NewMemory { index: IndexRow { id: id(1), ..IndexRow::default() }, ..memory("", "older text") };
    let keep = Update { if_version: 1, model: None, vectors_given: false, keep_statements: true, memory };
    replica.items(Write::Update(Box::new(keep)));
    assert_eq!(replica.active(), [2]);
}

#[test]
fn hints_count_only_for_what_they_were_made_of() {
    let mut replica = Replica::new();
    replica.items(add(vec![memory("a", "I usually cycle to work"), memory("b", "I usually walk to work")]));
    replica.items(update("b", "I usually walk to the office", 1));
    let hint = |id: &str| Hint { id: id.into(), version: 1 };
    let item = NewMemory {
        conflicts: vec![hint("a"), hint("b"), hint("gone")],
        ..memory("c", "From now on I take the tram to work")
    };
    let outcome = replica.items(add(vec![item])).remove(0);
    assert_eq!(outcome.possible_conflicts, ["a"]);
    assert_eq!(replica.memory("a").unwrap().0.possible_conflicts, ["c"]);
    assert_eq!(replica.memory("a").unwrap().1.status, Status::Active);
    let older: Vec<bool> = ["a", "b", "c"].iter().map(|id| replica.memory(id).unwrap().1.older).collect();
    assert_eq!(older, [true, false, false]);
    replica.write(delete("c"));
    assert!(!replica.memory("a").unwrap().1.older);
}

#[test]
fn a_repeated_write_is_answered_with_its_links() {
    let mut replica = Replica::new();
    replica.say(says(1, "I", "lives in", "Berlin").now());
    let command = space_command(add(vec![says(2, "I", "lives in", "Paris").now()]), Some(key(7, 7)));
    let first = replica.run(&command);
    let Outcome::Items { items, replayed: true, .. } = replica.run(&command) else { panic!("not replayed") };
    let Outcome::Items { items: before, .. } = first else { panic!("no items") };
    assert_eq!(items, before);
    assert_eq!(items[0].supersedes, [id(1)]);
}

#[test]
fn a_group_is_bounded_and_the_current_fact_stays() {
    let mut replica = Replica::new();
    let max = crate::limits::FACT_GROUP_MAX;
    for n in 0..max + 20 {
        let mut item = says(1, "I", "mood", &format!("mood {n}")).at(i64::try_from(n).unwrap());
        item.statements[0].cardinality = Cardinality::Single;
        item.index.id = format!("m{n}");
        item.content = format!("mood {n}");
        item.text_hash = n as u128;
        replica.say(item);
    }
    assert_eq!(replica.family(Family::Fact), max);
    let active =
        (0..max + 20).filter(|n| replica.memory(&format!("m{n}")).unwrap().1.status == Status::Active);
    assert_eq!(active.collect::<Vec<_>>(), [max + 19]);
    replica.write(delete("m0"));
    replica.write(delete(&format!("m{}", max + 19)));
    assert_eq!(replica.memory(&format!("m{}", max + 18)).unwrap().1.status, Status::Active);
}
