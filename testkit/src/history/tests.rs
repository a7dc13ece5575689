#![allow(clippy::unwrap_used)]

use super::*;

const LIMIT: Duration = Duration::from_secs(60);

fn create(value: &str) -> Change {
    Change::Create { value: value.to_owned() }
}

fn replace(if_version: u64, value: &str) -> Change {
    Change::Replace { if_version, value: value.to_owned() }
}

fn told(change: Change, answer: Answer) -> Operation {
    Operation::Write { change, answer }
}

fn found(version: u64, value: &str) -> Operation {
    Operation::Read { found: Some(Some(Cell { version, value: value.to_owned() })) }
}

fn nothing_found() -> Operation {
    Operation::Read { found: Some(None) }
}

/// A history of operations on one key with the places of their begin and end.
fn history(operations: &[(Operation, u64, Option<u64>)]) -> History {
    let call = |(client, (operation, begin, end)): (u64, &(Operation, u64, Option<u64>))| Call {
        client,
        key: "记忆".to_owned(),
        operation: operation.clone(),
        begin: *begin,
        end: *end,
    };
    History { calls: (0..).zip(operations).map(call).collect() }
}

#[test]
fn what_an_acknowledged_write_left_must_be_read() {
    let write = (told(create("茶"), Answer::Done), 1, Some(2));
    assert_eq!(history(&[write.clone(), (found(1, "茶"), 3, Some(4))]).check(LIMIT), Ok(()));
    let lost = history(&[write.clone(), (nothing_found(), 3, Some(4))]);
    assert!(matches!(lost.check(LIMIT), Err(Violation::NotLinearizable { .. })));
    let at_the_same_time = history(&[write, (nothing_found(), 1, Some(4))]);
    assert_eq!(at_the_same_time.check(LIMIT), Ok(()));
}

#[test]
fn time_does_not_go_back_between_two_readers() {
    let write = (told(create("a"), Answer::Done), 1, Some(9));
    let forth = history(&[write.clone(), (nothing_found(), 2, Some(3)), (found(1, "a"), 4, Some(5))]);
    assert_eq!(forth.check(LIMIT), Ok(()));
    let back = history(&[write, (found(1, "a"), 2, Some(3)), (nothing_found(), 4, Some(5))]);
    assert!(back.check(LIMIT).is_err());
}

#[test]
fn a_write_without_an_answer_happens_late_or_never_but_not_twice() {
    let write = (told(create("a"), Answer::Unknown), 1, Some(2));
    let never = history(&[write.clone(), (nothing_found(), 3, Some(4))]);
    assert_eq!(never.check(LIMIT), Ok(()));
    let late = history(&[write.clone(), (nothing_found(), 3, Some(4)), (found(1, "a"), 5, Some(6))]);
    assert_eq!(late.check(LIMIT), Ok(()), "an answer that says nothing does not end a write");
    let twice = history(&[
        write.clone(),
        (found(1, "a"), 3, Some(4)),
        (told(Change::Delete, Answer::Done), 5, Some(6)),
        (found(1, "a"), 7, Some(8)),
    ]);
    assert!(twice.check(LIMIT).is_err());
    let before = history(&[(found(1, "a"), 0, Some(1)), (write.0, 2, None)]);
    assert!(before.check(LIMIT).is_err(), "it cannot be seen before it was asked for");
}

#[test]
fn of_two_replacements_of_one_version_one_is_made() {
    let begun = (told(create("a"), Answer::Done), 1, Some(2));
    let two = |first: Answer, second: Answer| {
        history(&[
            begun.clone(),
            (told(replace(1, "b"), first), 3, Some(6)),
            (told(replace(1, "c"), second), 4, Some(5)),
        ])
    };
    assert_eq!(two(Answer::Done, Answer::Refused).check(LIMIT), Ok(()));
    assert_eq!(two(Answer::Unknown, Answer::Done).check(LIMIT), Ok(()));
    assert!(two(Answer::Done, Answer::Done).check(LIMIT).is_err());
    assert!(two(Answer::Refused, Answer::Refused).check(LIMIT).is_err());
}

#[test]
fn versions_count_on_behind_a_deletion() {
    let deleted = [
        (told(create("a"), Answer::Done), 1, Some(2)),
        (told(Change::Delete, Answer::Done), 3, Some(4)),
        (told(Change::Delete, Answer::Refused), 5, Some(6)),
        (told(create("b"), Answer::Done), 7, Some(8)),
    ];
    let read = |version| history(&[&deleted[..], &[(found(version, "b"), 9, Some(10))]].concat());
    assert_eq!(read(2).check(LIMIT), Ok(()));
    assert!(read(1).check(LIMIT).is_err());
}

#[test]
fn keys_do_not_explain_each_other() {
    let recorder = Recorder::default();
    recorder.begin(1, "a", Operation::write(create("x"))).end(told(create("x"), Answer::Done));
    recorder.begin(2, "b", Operation::read()).end(found(1, "x"));
    let violation = recorder.history().check(LIMIT).unwrap_err();
    assert!(violation.to_string().contains("\"b\""), "{violation}");
}

#[test]
fn an_operation_that_was_let_go_has_no_known_end() {
    let recorder = Recorder::default();
    drop(recorder.begin(1, "a", Operation::write(create("x"))));
    recorder.begin(1, "a", Operation::write(create("y"))).end_without_effect();
    recorder.begin(2, "a", Operation::read()).end(nothing_found());
    recorder.begin(2, "a", Operation::read()).end(found(1, "x"));
    let history = recorder.history();
    assert_eq!(history.check(LIMIT), Ok(()));
    assert_eq!(history.answered(), 2);
    recorder.begin(2, "a", Operation::read()).end(found(1, "y"));
    assert!(recorder.history().check(LIMIT).is_err());
}

#[test]
fn what_is_not_decided_in_time_fails() {
    // Many replacements of unknown outcome at once, and a read that none of them explains.
    let mut operations: Vec<_> =
        (0..24).map(|n| (told(create(&n.to_string()), Answer::Unknown), n + 1, None)).collect();
    operations.extend((0..24).map(|n| (told(Change::Delete, Answer::Unknown), n + 30, None)));
    operations.push((found(7, "不存在"), 100, Some(101)));
    let limit = Duration::from_millis(20);
    let violation = history(&operations).check(limit).unwrap_err();
    assert!(matches!(violation, Violation::Undecided { operations: 49, .. }), "{violation}");
}

#[test]
fn a_long_history_is_decided() {
    let mut operations = vec![(told(create("0"), Answer::Done), 1, Some(2))];
    for n in 1..150 {
        let place = n * 10;
        let value = n.to_string();
        operations.push((told(replace(n, &value), Answer::Done), place, Some(place + 5)));
        operations.push((told(replace(n, "x"), Answer::Refused), place + 1, Some(place + 7)));
        operations.push((found(n + 1, &value), place + 2, Some(place + 9)));
    }
    assert_eq!(history(&operations).check(LIMIT), Ok(()));
}
