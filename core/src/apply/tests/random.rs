use super::*;
use crate::erasure::{EraseStep, Selection};
use crate::tenant::TenantStep;
use crate::tiers::block::{BlockChange, BlockWrite};
use crate::tiers::procedure::{Body, ProcedureChange, ProcedureWrite};
use crate::tiers::task::{Step, StepKind, TaskChange, TaskWrite};
use holdfast_testkit::invariants::{EqualStates, Held, LogTime};
use proptest::prelude::*;

fn write() -> impl Strategy<Value = Write> {
    let id = prop_oneof![Just("a"), Just("b"), Just("c"), Just("记")];
    let content = prop_oneof![Just("one"), Just("two"), Just("三"), Just("🙂")];
    let verdict = prop_oneof![Just(Verdict::Adopted), Just(Verdict::Useless)];
    prop_oneof![
        4 => (id.clone(), content.clone()).prop_map(|(id, text)| add(vec![memory(id, text)])),
        2 => (0u8..5, content.clone()).prop_map(|(n, text)| add(vec![made(n, text), made(n + 100, "fixed")])),
        2 => (id.clone(), content, 0u64..4).prop_map(|(id, text, v)| update(id, text, v)),
        2 => id.clone().prop_map(delete),
        3 => beside(),
        4 => upkeep(),
        1 => Just(add(vec![chunks::long(50, "one. two.", &["one.", "two."])])),
        1 => Just(delete(&crate::apply::add::uuid_text([50; 16]))),
        1 => Just(delete(&crate::apply::add::uuid_text([150; 16]))),
        2 => (id.clone(), 1usize..4).prop_map(|(id, n)| {
            sessions::turns(id, vec![sessions::turn("user", "说"); n])
        }),
        1 => id.clone().prop_map(|id| Write::EndSession { session: id.into(), if_version: None }),
        1 => id.clone().prop_map(|id| Write::DeleteSession { session: id.into(), if_version: None }),
        2 => (id, verdict).prop_map(|(id, verdict)| Write::Feedback {
            items: vec![FeedbackItem { id: id.into(), verdict }]
        }),
    ]
}

/// What a job may have found, most of it of an earlier state.
fn upkeep() -> impl Strategy<Value = Write> {
    let id = || prop_oneof![Just("a"), Just("b"), Just("c"), Just("记")];
    let pair = (id(), 1u64..3, id(), 1u64..3);
    (0u64..4, 0u64..3, proptest::collection::vec(pair, 0..3))
        .prop_map(|(base, more, pairs)| merged::duplicates(base, base + more, &pairs))
}

/// What is kept beside memories, with an episode that is one.
fn beside() -> impl Strategy<Value = Write> {
    let name = prop_oneof![Just("a"), Just("记")];
    let block = prop_oneof![
        Just(BlockChange::Put { value: None, description: None, limit_chars: Some(5), read_only: None }),
        Just(BlockChange::Insert { text: "茶".into(), line: Some(0) }),
        Just(BlockChange::Delete),
    ];
    let step = Step { kind: StepKind::Tool, tool: None, content: "🙂".into(), success: None };
    let Write::Add(episode) = add(vec![made(200, "episode")]) else { unreachable!() };
    let task = prop_oneof![
        Just(TaskChange::Put { goal: None, session: None, agent: None, plan: None, ttl_s: Some(1) }),
        Just(TaskChange::Steps { steps: vec![step], plan: vec![] }),
        Just(TaskChange::End { episode: Some(Box::new(episode)) }),
    ];
    let body = Body::Template { text: "x".into() };
    let procedure = prop_oneof![
        Just(ProcedureChange::Put { body, description: String::new(), placeholders: vec![] }),
        Just(ProcedureChange::Verify { version: 1 }),
        Just(ProcedureChange::Activate { version: None }),
        Just(ProcedureChange::Delete),
    ];
    prop_oneof![
        (name.clone(), block).prop_map(|(name, change)| {
            Write::Block(Box::new(BlockWrite {
                label: name.into(),
                if_version: None,
                by_admin: false,
                change,
            }))
        }),
        (name.clone(), task, 1u64..3).prop_map(|(name, change, version)| {
            let if_version = matches!(change, TaskChange::End { .. }).then_some(version);
            Write::Task(Box::new(TaskWrite { id: name.into(), if_version, change }))
        }),
        (name, procedure).prop_map(|(name, change)| {
            Write::Procedure(Box::new(ProcedureWrite { name: name.into(), if_version: None, change }))
        }),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let identity = proptest::option::of((0u128..6, 0u64..2).prop_map(|(k, r)| key(k, r)));
    prop_oneof![
        12 => (write(), identity).prop_map(|(write, identity)| space_command(write, identity)),
        1 => Just(Command::Sweep { limit: 16 }),
        1 => Just(Command::HashPoint),
    ]
}

/// What must hold of replicas of one log.
#[derive(Default)]
struct Observed {
    states: EqualStates,
    time: LogTime,
}

impl Observed {
    fn look_at(&mut self, number: u64, replica: &Replica) -> Held {
        let time_us = last_applied_us(&replica.state).unwrap().unwrap_or(i64::MIN);
        self.time.after(0, replica.log_index, time_us)?;
        self.states.state(number, 0, replica.log_index, replica.hash.0)
    }
}

proptest! {
    /// Whatever the history: one log gives one state, however it is cut into batches; the
    /// running hash is the hash of the rows; rows that belong together exist together.
    #[test]
    fn one_log_one_state(commands in proptest::collection::vec(command(), 1..60), cut in 1usize..7) {
        let mut one = Replica::new();
        let mut observed = Observed::default();
        let mut outcomes = Vec::new();
        for command in &commands {
            outcomes.push(one.run(command));
            prop_assert_eq!(observed.look_at(1, &one), Ok(()));
            merged::check(&one);
        }

        let mut two = Replica::new();
        let mut outcomes_two = Vec::new();
        for batch in commands.chunks(cut) {
            let mut overlay = Overlay::new(&two.state);
            for command in batch {
                two.log_index += 1;
                two.clock_us += 10;
                let position = Position { log_index: two.log_index, stamp_us: two.clock_us };
                outcomes_two.push(apply(&mut overlay, position, command).unwrap().outcome);
            }
            let changes = overlay.into_changes().unwrap();
            two.hash.follow(&changes);
            two.state.commit(changes);
            prop_assert_eq!(observed.look_at(2, &two), Ok(()));
        }
        prop_assert_eq!(outcomes, outcomes_two);
        prop_assert_eq!(&one.state, &two.state);
        prop_assert_eq!(one.hash, two.hash);

        let mut hash = StateHash::default();
        one.state.rows().for_each(|(key, value)| hash.add(key, value));
        prop_assert_eq!(one.hash, hash);

        let counters = one.counters();
        prop_assert_eq!(one.family(Family::Memory) as u64, counters.memories);
        prop_assert_eq!(one.family(Family::IndexRow) as u64, counters.memories);
        prop_assert_eq!(one.family(Family::Tombstone) as u64, counters.tombstones);
        prop_assert_eq!(one.family(Family::Idempotency), counters.idempotency_rows as usize);
        let rows = one.state.scan(&keys::family_prefix(&space(), Family::TextHash), None, 99).unwrap();
        for (_, value) in rows {
            prop_assert!(one.memory(keys::text_hash::id(&value).unwrap()).is_some(), "a text names a memory");
        }
    }

    /// Damaged or foreign bytes are refused, never a panic.
    #[test]
    fn random_bytes_are_no_command(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Command::decode(&bytes).map(|command| command.check());
    }
}

#[test]
fn commands_wait_for_replicas_that_know_what_they_mean() {
    let block =
        BlockWrite { label: "a".into(), if_version: None, by_admin: true, change: BlockChange::Delete };
    let end = |episode| {
        let change = TaskChange::End { episode };
        space_command(Write::Task(Box::new(TaskWrite { id: "t".into(), if_version: None, change })), None)
    };
    let Write::Add(made) = add(vec![memory("a", "x")]) else { panic!("an add") };
    let begin = EraseStep::Begin { id: "e".into(), selection: Selection::All };
    let known = [
        (Command::HashPoint, 1),
        (space_command(Write::Block(Box::new(block)), None), 8),
        (end(None), 8),
        (space_command(Write::Relink { id: "a".into(), due_us: 1, conflicts: vec![] }, None), 8),
        (space_command(Write::EndSession { session: "s".into(), if_version: None }, None), 4),
        (space_command(Write::Feedback { items: vec![] }, None), 0),
        // All that stores memories or takes them out has another form or another meaning since then.
        (space_command(Write::Add(made.clone()), None), 8),
        (space_command(update("a", "y", 1), None), 8),
        (end(Some(Box::new(made))), 8),
        (space_command(delete("a"), None), 8),
        (space_command(Write::DeleteSession { session: "s".into(), if_version: None }, None), 8),
        (space_command(Write::Erase(begin), None), 8),
        (space_command(Write::Import(vec![]), None), 8),
        (space_command(Write::Erase(EraseStep::Close { id: "e".into() }), None), 8),
        (space_command(merged::duplicates(0, 0, &[]), None), 8),
        (space_command(Write::Claim(vec![]), None), 8),
        (space_command(Write::Keep { numbers: vec![] }, None), 8),
        (Command::Sweep { limit: 1 }, 8),
        (Command::Meta(Box::new(MetaCommand::PutCollection(Default::default()))), 6),
        (Command::Meta(Box::new(MetaCommand::SetCollection(Default::default()))), 8),
        (
            Command::Meta(Box::new(MetaCommand::SetScoring {
                scoring: Default::default(),
                if_version: None,
            })),
            8,
        ),
        (Command::Tenant(Box::new(TenantStep::Begin { tenant: "t".into(), id: "e".into() })), 7),
        (Command::Meta(Box::new(MetaCommand::EraseTenant { tenant: "t".into(), id: "e".into() })), 7),
    ];
    for (command, since) in known {
        assert_eq!(command.known_since(), since, "{command:?}");
        assert!(since <= crate::apply::STATE_VERSION);
    }
    assert_eq!(crate::apply::STATE_VERSION, 8, "a new version says here what it changes");
}
