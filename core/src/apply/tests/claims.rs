//! Ids that are claimed in a collection, and what is kept under the key of a request.

use super::*;
use crate::limits::{CLAIM_KEEP_US, CLAIMS_MAX, EXPIRE_ROWS_MAX, KEPT_NUMBERS_MAX};

fn partition(partition: u8) -> SpaceKey {
    SpaceKey::incarnation("acme", "商品", 7, partition).unwrap()
}

fn there(at: u8, write: Write) -> Command {
    Command::Space(Box::new(SpaceCommand { space: partition(at), idempotency: None, write }))
}

impl Replica {
    fn answers(&mut self, command: &Command) -> Vec<ItemOutcome> {
        match self.run(command) {
            Outcome::Items { items, .. } => items,
            other => panic!("expected items, got {other:?}"),
        }
    }

    /// Claims an id in partition 0; answers where it belongs.
    fn claim(&mut self, id: &str, partition: u8) -> u64 {
        let claims = vec![Claim { id: id.into(), partition, obeys: true }];
        self.answers(&there(0, Write::Claim(claims)))[0].version
    }

    fn claims(&self) -> usize {
        self.state.scan(&keys::family_prefix(&partition(0), Family::Claim), None, usize::MAX).unwrap().len()
    }

    fn sweep_all(&mut self) {
        for _ in 0..99 {
            if let Outcome::Swept { more: false, .. } = self.run(&Command::Sweep { limit: 16 }) {
                return;
            }
        }
        panic!("the sweep does not end");
    }
}

#[test]
fn the_first_to_claim_an_id_says_where_it_belongs() {
    let mut replica = Replica::new();
    for id in ["一", "🙂"] {
        assert_eq!(replica.claim(id, 3), 3);
        assert_eq!(replica.claim(id, 5), 3, "it is taken");
    }
    assert_eq!(replica.claim("other", 5), 5);
    // Twice in one request.
    let twice = |at| Claim { id: "twice".into(), partition: at, obeys: true };
    let items = replica.answers(&there(0, Write::Claim(vec![twice(1), twice(2)])));
    assert_eq!(items.iter().map(|item| item.version).collect::<Vec<_>>(), [1, 1]);
    assert!(items.iter().all(|item| item.id == "twice"));
}

#[test]
fn a_memory_goes_nowhere_else_than_its_claim() {
    let mut replica = Replica::new();
    let add_one = |id: &str| add(vec![memory(id, "x")]);
    replica.claim("a", 3);
    match replica.run(&there(0, add_one("a"))) {
        Outcome::Failed(error) => {
            assert_eq!((error.code, error.field.as_deref()), (ErrorCode::Unavailable, Some("claim")));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(replica.answers(&there(3, add_one("a")))[0].status, ItemStatus::Created);
    // The other way round: what is here belongs here.
    assert_eq!(replica.answers(&there(0, add_one("b")))[0].status, ItemStatus::Created);
    assert_eq!(replica.claim("b", 3), 0);
    // A claim of this partition holds nobody up; ids that were made are nobody's to claim.
    assert_eq!(replica.claim("c", 0), 0);
    assert_eq!(replica.answers(&there(0, add_one("c")))[0].status, ItemStatus::Created);
    let made = add(vec![NewMemory { id_chosen: false, ..memory("a", "y") }]);
    assert_eq!(replica.answers(&there(0, made))[0].status, ItemStatus::Created);
    // A partial write leaves the one out.
    let Write::Add(mut both) = add(vec![memory("d", "d"), memory("e", "e")]) else { panic!("an add") };
    both.partial = true;
    replica.claim("d", 9);
    let items = replica.answers(&there(0, Write::Add(both)));
    assert_eq!((items[0].status, items[1].status), (ItemStatus::Rejected, ItemStatus::Created));
}

#[test]
fn claims_hold_as_long_as_somebody_relies_on_them_and_leave_nothing() {
    let mut replica = Replica::new();
    assert_eq!(replica.claim("a", 3), 3);
    for _ in 0..5 {
        replica.clock_us += CLAIM_KEEP_US - 1_000;
        replica.sweep_all();
        assert_eq!(replica.claim("a", 5), 3, "who came before may still be under way");
    }
    replica.clock_us += 2 * CLAIM_KEEP_US;
    assert_eq!(replica.claim("a", 5), 5, "before any sweep");
    for n in 0..2 * EXPIRE_ROWS_MAX {
        replica.claim(&format!("n{n}"), 1);
    }
    assert!(replica.claims() > 2 * EXPIRE_ROWS_MAX);
    replica.clock_us += 2 * CLAIM_KEEP_US;
    replica.sweep_all();
    assert_eq!((replica.claims(), replica.due()), (0, 0));
}

#[test]
fn what_a_request_concerns_is_kept_with_its_key() {
    let mut replica = Replica::new();
    let keep = |numbers: &[u64], identity| {
        let write = Write::Keep { numbers: numbers.to_vec() };
        Command::Space(Box::new(SpaceCommand { space: partition(2), idempotency: identity, write }))
    };
    let numbers = |items: Vec<ItemOutcome>| items.iter().map(|item| item.version).collect::<Vec<_>>();
    for (n, first) in [(1, vec![0, 63, u64::MAX]), (2, vec![])] {
        assert_eq!(numbers(replica.answers(&keep(&first, Some(key(n, 1))))), first);
        assert_eq!(numbers(replica.answers(&keep(&[7, 8, 9, 10], Some(key(n, 1))))), first);
        match replica.run(&keep(&first, Some(key(n, 2)))) {
            Outcome::Failed(error) => {
                assert_eq!(error.code, ErrorCode::Conflict);
                assert_eq!(error.field.as_deref(), Some("Idempotency-Key"));
            }
            other => panic!("{other:?}"),
        }
    }
    replica.clock_us += IDEMPOTENCY_KEEP_US;
    assert_eq!(
        numbers(replica.answers(&keep(&[5], Some(key(1, 2))))),
        [5],
        "a day later it is another request"
    );
}

#[test]
fn what_is_claimed_and_kept_is_checked() {
    let claim = |id: &str, partition| Claim { id: id.into(), partition, obeys: true };
    let in_user = space_command(Write::Claim(vec![claim("a", 0)]), None);
    let many = vec![claim("a", 0); CLAIMS_MAX + 1];
    let numbers = vec![0; KEPT_NUMBERS_MAX + 1];
    let kept = |numbers| space_command(Write::Keep { numbers }, Some(key(1, 1)));
    for (command, field) in [
        (in_user, "claims"),
        (there(0, Write::Claim(vec![])), "claims"),
        (there(0, Write::Claim(many)), "claims"),
        (there(0, Write::Claim(vec![claim("", 0)])), "claims.id"),
        (there(0, Write::Claim(vec![claim("a\0b", 0)])), "claims.id"),
        (there(0, Write::Claim(vec![claim("a", 64)])), "claims.partition"),
        (space_command(Write::Keep { numbers: vec![] }, None), "idempotency"),
        (kept(numbers), "numbers"),
    ] {
        assert_eq!(command.check().unwrap_err().field.as_deref(), Some(field));
    }
    assert!(there(0, Write::Claim(vec![claim("一", 63); CLAIMS_MAX])).check().is_ok());
    assert!(kept(vec![]).check().is_ok());
}

#[test]
fn who_does_not_obey_renews_nothing() {
    let mut replica = Replica::new();
    assert_eq!(replica.claim("a", 3), 3);
    let refused = Claim { id: "a".into(), partition: 0, obeys: false };
    let mut answers = Vec::new();
    for _ in 0..4 {
        replica.clock_us += CLAIM_KEEP_US * 9 / 10;
        answers.push(replica.answers(&there(0, Write::Claim(vec![refused.clone()])))[0].version);
    }
    assert_eq!((answers[0], answers[3]), (3, 0), "{answers:?}");
    // What was expired is new under its id.
    let mut short = memory("b", "one");
    short.index.expires_us = Some(replica.clock_us + 1_000);
    let first = replica.answers(&there(1, add(vec![short])));
    replica.clock_us += 2_000;
    let again = replica.answers(&there(1, add(vec![memory("b", "one")])));
    assert_eq!((again[0].status, again[0].version), (ItemStatus::Created, first[0].version + 1));
}
