//! Statements against a model that is too simple to be wrong: every question is answered by looking
//! at all pairs.

use super::facts::{id, says};
use super::*;
use crate::facts::timeline::{LINKS_MAX, as_of};
use crate::keys::fact;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Say {
        n: u8,
        group: usize,
        value: usize,
        from_us: i64,
    },
    Delete(u8),
    Retract(u8),
    /// The last write once more, with its key.
    Repeat,
}

const GROUPS: [(&str, &str); 2] = [("I", "lives in"), ("我", "就职于")];
const VALUES: [&str; 3] = ["Berlin", "北京", "Ulm"];
const SPOKEN_MAX: u8 = 12;

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1..=SPOKEN_MAX, 0..GROUPS.len(), 0..VALUES.len(), 0i64..6)
            .prop_map(|(n, group, value, from_us)| Op::Say { n, group, value, from_us }),
        2 => (1..=SPOKEN_MAX).prop_map(Op::Delete),
        1 => (1..=SPOKEN_MAX).prop_map(Op::Retract),
        1 => Just(Op::Repeat),
    ]
}

#[derive(Debug, Clone, PartialEq)]
struct Spoken {
    group: usize,
    value: usize,
    from_us: i64,
    seq: u64,
    recorded_us: i64,
    retracted_us: Option<i64>,
}

impl Spoken {
    fn when(&self) -> (i64, u64) {
        (self.from_us, self.seq)
    }
}

#[derive(Default)]
struct Model {
    said: BTreeMap<u8, Spoken>,
    last_seq: u64,
}

impl Model {
    fn take(&mut self, op: &Op, now_us: i64) {
        match op {
            Op::Say { n, .. } if self.said.contains_key(n) => {}
            Op::Say { n, group, value, from_us } => {
                self.last_seq += 1;
                let (group, value, from_us, seq) = (*group, *value, *from_us, self.last_seq);
                let spoken = Spoken { group, value, from_us, seq, recorded_us: now_us, retracted_us: None };
                self.said.insert(*n, spoken);
            }
            Op::Delete(n) => {
                self.said.remove(n);
            }
            Op::Retract(n) => {
                if let Some(spoken) = self.said.get_mut(n) {
                    spoken.retracted_us.get_or_insert(now_us);
                }
            }
            Op::Repeat => {}
        }
    }

    /// The first that says otherwise after this one.
    fn successor(&self, of: &Spoken) -> Option<(u8, &Spoken)> {
        let other = self.said.iter().filter(|(_, other)| {
            other.group == of.group
                && other.value != of.value
                && other.retracted_us.is_none()
                && other.when() > of.when()
        });
        other.min_by_key(|(_, other)| other.when()).map(|(n, other)| (*n, other))
    }

    fn held(&self, group: usize, valid_us: i64, recorded_us: i64) -> Vec<u8> {
        let believed = |spoken: &Spoken| {
            spoken.group == group
                && spoken.recorded_us <= recorded_us
                && spoken.retracted_us.is_none_or(|retracted_us| retracted_us > recorded_us)
                && spoken.from_us <= valid_us
        };
        let known: Vec<_> = self.said.iter().filter(|(_, spoken)| believed(spoken)).collect();
        let holds = |spoken: &Spoken| {
            known.iter().all(|(_, other)| other.when() <= spoken.when() || other.value == spoken.value)
        };
        known.iter().filter(|(_, spoken)| holds(spoken)).map(|(n, _)| **n).collect()
    }
}

fn command_of(op: &Op, number: u128) -> Option<Command> {
    let write = match op {
        Op::Say { n, group, value, from_us } => {
            let (subject, predicate) = GROUPS[*group];
            let item = says(*n, subject, predicate, VALUES[*value]).at(*from_us);
            add(vec![NewMemory { id_chosen: true, content: n.to_string(), text_hash: (*n).into(), ..item }])
        }
        Op::Delete(n) => delete(&id(*n)),
        Op::Retract(n) => Write::Retract { id: id(*n), ordinal: 0 },
        Op::Repeat => return None,
    };
    Some(space_command(write, Some(key(number, 0))))
}

fn compare(replica: &Replica, model: &Model) -> Result<(), TestCaseError> {
    for (n, spoken) in &model.said {
        let (memory, row) = replica.memory(&id(*n)).unwrap();
        let successor = model.successor(spoken);
        if spoken.retracted_us.is_some() {
            prop_assert_eq!(row.status, Status::Deprecated);
            prop_assert_eq!(row.retracted_us, spoken.retracted_us);
            continue;
        }
        let fallen = if successor.is_some() { Status::Deprecated } else { Status::Active };
        prop_assert_eq!(row.status, fallen, "memory {}", n);
        prop_assert_eq!(row.valid_to_us, successor.map(|(_, other)| other.from_us));
        prop_assert_eq!(&memory.superseded_by, &successor.map(|(n, _)| id(n)));
        if let Some((by, _)) = successor {
            let links = replica.memory(&id(by)).unwrap().0.supersedes;
            prop_assert!(links.contains(&id(*n)) || links.len() == LINKS_MAX, "both ways");
        }
    }
    let live = model.said.keys().map(|n| id(*n));
    prop_assert_eq!(replica.family(Family::Fact), live.count());
    prop_assert_eq!(super::graph::edges_are_facts(replica), Ok(()));
    Ok(())
}

fn compare_past(
    replica: &Replica,
    model: &Model,
    valid_us: i64,
    recorded_us: i64,
) -> Result<(), TestCaseError> {
    for (group, (subject, predicate)) in GROUPS.iter().enumerate() {
        let probe = says(1, subject, predicate, "x").at(0);
        let prefix = fact::group_prefix(&space(), &probe.statements[0]);
        let rows = replica.state.scan(&prefix, None, usize::MAX).unwrap();
        let rows: Vec<FactRow> = rows.iter().map(|(_, value)| FactRow::decode(value).unwrap()).collect();
        let mut held: Vec<String> =
            as_of(&rows, valid_us, recorded_us).iter().map(|(at, _)| rows[*at].id.clone()).collect();
        held.sort_unstable();
        let expected: Vec<String> = model.held(group, valid_us, recorded_us).into_iter().map(id).collect();
        prop_assert_eq!(held, expected);
    }
    Ok(())
}

proptest! {
    /// Whatever is said, repeated, retracted and deleted, in whatever order: what is current, what
    /// took whose place, what was true and what was believed is what the model says.
    #[test]
    fn statements_are_what_the_simple_model_says(
        ops in proptest::collection::vec(op(), 1..40),
        valid_us in 0i64..8,
        back in 0usize..40,
    ) {
        let (mut replica, mut model) = (Replica::new(), Model::default());
        let mut last: Option<(Command, Outcome)> = None;
        let mut times = vec![0];
        for (number, op) in (0u128..).zip(&ops) {
            match (command_of(op, number), &last) {
                (Some(command), _) => {
                    let outcome = replica.run(&command);
                    model.take(op, replica.clock_us);
                    last = Some((command, outcome));
                }
                (None, Some((command, Outcome::Items { items, .. }))) => {
                    let again = replica.run(command);
                    let same = matches!(&again, Outcome::Items { items: now, .. } if now.len() == items.len());
                    prop_assert!(same, "{:?}", again);
                }
                (None, _) => {}
            }
            times.push(replica.clock_us);
            compare(&replica, &model)?;
        }
        compare_past(&replica, &model, valid_us, times[back.min(times.len() - 1)])?;
        compare_past(&replica, &model, valid_us, i64::MAX)?;
        // Nothing is left of what was said when all of it is deleted.
        for n in 1..=SPOKEN_MAX {
            replica.write(delete(&id(n)));
        }
        prop_assert_eq!(replica.family(Family::Fact), 0);
        prop_assert_eq!(replica.family(Family::Edge), 0);
        prop_assert_eq!(replica.family(Family::Memory), 0);
    }
}
