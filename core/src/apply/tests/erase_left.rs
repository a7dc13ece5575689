//! What deletions leave to be done, and erasures that find it.

use super::erase::{begin, derived, id};
use super::*;
use crate::erasure::*;

/// What was made from a memory of the source may be all that is left of it when the erasure comes.
#[test]
fn an_erasure_takes_over_what_a_deletion_has_left() {
    let mut replica = Replica::new();
    let from_file = |n, from: &[usize]| {
        let source = Some(Source { uri: Some("file:秘密".into()), message_ids: vec![] });
        NewMemory { source, ..derived(n, from) }
    };
    replica.write(add(vec![from_file(1, &[])]));
    replica.write(add((2..=90).map(|n| derived(n, &[1])).collect()));
    replica.write(add(vec![derived(100, &[90]), derived(200, &[])]));
    replica.write(delete(&id(1)));
    assert!(replica.family(Family::Memory) > 50, "most of it is left to be done");
    replica.write(begin("e", Selection::Source("file:秘密".into())));
    let (mut steps, after) = (0, replica.counters().last_seq);
    while replica.erasure("e").phase == Phase::Removing {
        // Nothing of the source is there to be selected.
        replica.write(Write::Erase(EraseStep::Remove {
            id: "e".into(),
            memories: vec![],
            after,
            ended: true,
        }));
        steps += 1;
        assert!(steps < 60, "each takes something");
    }
    assert!(steps > 2, "in bounded steps: {steps}");
    assert!(replica.memory(&id(200)).is_some());
    assert_eq!((replica.family(Family::Memory), replica.family(Family::Derived)), (1, 0));
    let row = replica.erasure("e");
    assert_eq!(row.erased.memories, row.erased.derived);
    assert!(row.erased.memories > 50, "it counts what it took: {:?}", row.erased);
    let due = replica.state.scan(&keys::due::prefix(), None, 99).unwrap();
    let due = due.iter().filter_map(|(key, _)| keys::due::Due::parse(key));
    assert!(due.into_iter().all(|due| due.kind != keys::due::DueKind::Derived), "nothing is done twice");
}

/// One that goes on by itself leaves no note, and an erasure of everything none that is due.
#[test]
fn what_is_noted_of_a_deletion_goes_with_it() {
    let filled = || {
        let mut replica = Replica::new();
        replica.write(add((1..=90).map(|n| derived(n, if n == 1 { &[] } else { &[1] })).collect()));
        replica.write(delete(&id(1)));
        replica
    };
    let notes = |replica: &Replica| {
        let prefix = keys::derived::prefix(&space(), &keys::derived::left_of_deletions());
        replica.state.scan(&prefix, None, 99).unwrap().len()
    };
    let mut replica = filled();
    assert_eq!(notes(&replica), 1);
    replica.finish();
    assert_eq!((notes(&replica), replica.family(Family::Derived)), (0, 0));
    let mut replica = filled();
    replica.write(begin("all", Selection::All));
    replica.drop_all("all", 96);
    let due = replica.state.scan(&keys::due::prefix(), None, 99).unwrap();
    let kinds: Vec<_> = due.iter().map(|(key, _)| keys::due::Due::parse(key).unwrap().kind).collect();
    assert_eq!(kinds, [keys::due::DueKind::Tombstone]);
}
