//! The state machine, one command at a time, on a map in memory that holds a thousand memories.

use crate::data;
use criterion::{BatchSize, Criterion};
use holdfast_core::apply::{Position, apply};
use holdfast_core::command::{
    Add, Command, FeedbackItem, Idempotency, NewMemory, Origin, SWEEP_ROWS_MAX, SpaceCommand, Update,
    Verdict, Write,
};
use holdfast_core::keys::text_hash;
use holdfast_core::memory::ModelTag;
use holdfast_core::outcome::Outcome;
use holdfast_core::space::SpaceKey;
use holdfast_core::state::{BTreeState, Overlay};
use holdfast_core::text::normalize;
use std::hint::black_box;

const MEMORIES: usize = 1_000;

fn space(write: Write, key_hash: u128) -> Command {
    let space = SpaceKey::user("bench", "ann").unwrap();
    let idempotency = Some(Idempotency { key_hash, request_hash: 1 });
    Command::Space(Box::new(SpaceCommand { space, idempotency, write }))
}

fn memory(number: usize) -> NewMemory {
    let mut random = data::random();
    let content = format!("{} number {number}", data::text(&mut random));
    let index = data::row(number, &content, &mut random);
    NewMemory {
        id_chosen: true,
        tokens: 20,
        text_hash: text_hash::hash(&normalize(&content), index.speaker.as_deref()),
        content,
        confidence: 1.0,
        fact: None,
        source: None,
        derived_from: Vec::new(),
        index,
        event_given: true,
    }
}

fn model() -> Option<ModelTag> {
    Some(ModelTag { id: "bench".into(), dims: u16::try_from(data::DIMS).unwrap() })
}

fn add(numbers: std::ops::Range<usize>) -> Command {
    let key_hash = numbers.start as u128;
    let items = numbers.map(memory).collect();
    let add = Add { origin: Origin::Caller, model: model(), vectors_given: false, partial: false, items };
    space(Write::Add(add), key_hash)
}

fn at(log_index: u64) -> Position {
    Position { log_index, stamp_us: data::NOW_US }
}

fn filled() -> BTreeState {
    let mut state = BTreeState::new();
    for number in (0..MEMORIES).step_by(100) {
        let mut overlay = Overlay::new(&state);
        let applied = apply(&mut overlay, at(number as u64), &add(number..number + 100)).unwrap();
        assert!(matches!(applied.outcome, Outcome::Items { .. }), "{:?}", applied.outcome);
        let changes = overlay.into_changes().unwrap();
        state.commit(changes);
    }
    state
}

pub fn benches(criterion: &mut Criterion) {
    let state = filled();
    let update = Update { if_version: 1, model: model(), vectors_given: false, memory: memory(500) };
    let feedback = (0..10).map(|n| FeedbackItem { id: format!("memory-{n}"), verdict: Verdict::Adopted });
    let commands = [
        ("add_1", add(MEMORIES..MEMORIES + 1)),
        ("add_100", add(MEMORIES..MEMORIES + 100)),
        ("add_again", add(0..100)),
        ("update", space(Write::Update(Box::new(update)), 1 << 64)),
        ("delete", space(Write::Delete { id: "memory-7".into(), if_version: None }, 1 << 65)),
        ("feedback_10", space(Write::Feedback { items: feedback.collect() }, 1 << 66)),
        ("sweep_idle", Command::Sweep { limit: SWEEP_ROWS_MAX }),
    ];
    let mut group = criterion.benchmark_group("apply");
    for (name, command) in &commands {
        group.bench_function(*name, |bencher| {
            bencher.iter_batched(
                || Overlay::new(&state),
                |mut overlay| {
                    let applied = apply(&mut overlay, at(2_000), command).unwrap();
                    assert!(!matches!(applied.outcome, Outcome::Failed(_)), "{:?}", applied.outcome);
                    black_box((applied, overlay.into_changes().unwrap()))
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}
