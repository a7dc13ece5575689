//! Tasks, alone and against a model that is too simple to be wrong.

use super::*;
use crate::keys::task as task_keys;
use crate::limits::{STEP_BYTES_MAX, TASK_STEP_BYTES_MAX, TASK_STEPS_MAX, TASKS_MAX};
use crate::outcome::Heartbeat;
use crate::tiers::TierRow;
use crate::tiers::task::{
    PlanItem, PlanOp, PlanStatus, Step, StepKind, StepRow, TaskChange, TaskRow, TaskWrite,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn write(id: &str, change: TaskChange) -> TaskWrite {
    TaskWrite { id: id.into(), if_version: None, change }
}

fn change(id: &str, change: TaskChange) -> Write {
    Write::Task(Box::new(write(id, change)))
}

fn put(ttl_s: Option<u32>, plan: &[&str]) -> TaskChange {
    let item = |text: &&str| PlanItem { text: (*text).into(), status: PlanStatus::Open };
    let plan = (!plan.is_empty()).then(|| plan.iter().map(item).collect());
    TaskChange::Put { goal: None, session: None, agent: None, plan, ttl_s }
}

fn step(kind: StepKind, content: &str) -> Step {
    Step { kind, tool: None, content: content.into(), success: None }
}

fn steps(steps: Vec<Step>) -> TaskChange {
    TaskChange::Steps { steps, plan: vec![] }
}

fn plan(ops: Vec<PlanOp>) -> TaskChange {
    TaskChange::Steps { steps: vec![], plan: ops }
}

fn end(episode: Option<NewMemory>, if_version: Option<u64>) -> Write {
    let episode = episode.map(|memory| {
        let Write::Add(add) = add(vec![memory]) else { unreachable!() };
        Box::new(add)
    });
    Write::Task(Box::new(TaskWrite { if_version, ..write("t", TaskChange::End { episode }) }))
}

impl Replica {
    fn task(&self, id: &str) -> Option<TaskRow> {
        let value = self.state.get(&task_keys::key(&space(), id)).unwrap()?;
        Some(TaskRow::decode(&value).unwrap())
    }

    fn steps(&self, id: &str) -> Vec<(u64, StepRow)> {
        let rows = self.state.scan(&task_keys::steps_of(&space(), id), None, usize::MAX).unwrap();
        let read = |(key, value): &(Vec<u8>, Vec<u8>)| {
            (task_keys::number(key).unwrap(), StepRow::decode(value).unwrap())
        };
        rows.iter().map(read).collect()
    }

    fn tasks(&self) -> u32 {
        let tier = self.state.get(&task_keys::tier(&space())).unwrap();
        tier.map_or(0, |value| TierRow::decode(&value).unwrap().count)
    }

    fn later(&mut self, seconds: i64) {
        self.clock_us += seconds * 1_000_000;
    }
}

#[test]
fn a_task_is_planned_worked_on_and_ended() {
    let mut replica = Replica::new();
    assert_eq!(
        failed(replica.write(change("t", steps(vec![step(StepKind::Thought, "x")])))),
        ErrorCode::NotFound
    );
    let made = replica.items(change("t", put(None, &["订机票", "book a hotel"])));
    assert_eq!((made[0].version, made[0].status), (1, ItemStatus::Created));
    replica.items(change(
        "t",
        TaskChange::Steps {
            steps: vec![step(StepKind::Tool, "search"), step(StepKind::Observation, "🛫 3 flights")],
            plan: vec![
                PlanOp::Mark { at: None, status: PlanStatus::Done },
                PlanOp::Push { text: "pay".into() },
                PlanOp::Mark { at: Some(0), status: PlanStatus::Failed },
            ],
        },
    ));
    replica.items(change("t", plan(vec![PlanOp::Pop])));
    let task = replica.task("t").unwrap();
    let plan: Vec<_> = task.plan.iter().map(|item| (item.text.as_str(), item.status)).collect();
    assert_eq!(plan, [("订机票", PlanStatus::Failed), ("book a hotel", PlanStatus::Done)]);
    let set = BTreeMap::from([("city".to_owned(), "\"柏林\"".to_owned()), ("n".to_owned(), "2".to_owned())]);
    replica.items(change("t", TaskChange::Variables { set, remove: BTreeSet::new() }));
    let (set, remove) =
        (BTreeMap::from([("n".into(), "3".into())]), BTreeSet::from(["city".into(), "none".into()]));
    replica.items(change("t", TaskChange::Variables { set, remove }));
    let task = replica.task("t").unwrap();
    assert_eq!(task.variables, BTreeMap::from([("n".to_owned(), "3".to_owned())]));
    assert_eq!((replica.steps("t").len(), task.version), (2, 5));
    assert_eq!(replica.counters().bytes, task.stored_bytes());

    replica.items(end(None, Some(5)));
    assert!(replica.task("t").is_none() && replica.steps("t").is_empty());
    // What is due is the end of its tombstone.
    assert_eq!((replica.counters().bytes, replica.due(), replica.tasks()), (0, 1, 0));
    assert_eq!(replica.items(change("t", put(None, &[])))[0].version, 6, "versions go on");
}

#[test]
fn a_task_and_its_episode_are_one() {
    let mut replica = Replica::new();
    replica.items(change("t", put(None, &["x"])));
    replica.write(add(vec![memory("taken", "something else")]));
    // The memory is refused: the task goes on.
    assert_eq!(
        failed(replica.write(end(Some(memory("taken", "episode")), Some(1)))),
        ErrorCode::AlreadyExists
    );
    assert!(replica.task("t").is_some());
    assert_eq!(failed(replica.write(end(Some(memory("e", "episode")), Some(9)))), ErrorCode::Conflict);
    assert!(replica.memory("e").is_none());
    let command = space_command(end(Some(made(7, "做完了")), Some(1)), Some(key(1, 1)));
    let Outcome::Items { items, .. } = replica.run(&command) else { panic!() };
    assert_eq!((items[0].status, items[1].status), (ItemStatus::Deleted, ItemStatus::Created));
    assert!(replica.task("t").is_none() && replica.memory(&items[1].id).is_some());
    // Asked again, when the task is no longer there to make the episode of.
    let Outcome::Items { items: again, replayed: true, .. } =
        replica.run(&space_command(end(None, None), Some(key(1, 1))))
    else {
        panic!()
    };
    assert_eq!(again, items);
    assert_eq!(failed(replica.write(end(None, None))), ErrorCode::NotFound);
}

#[test]
fn a_task_that_nobody_touches_ends_by_log_time() {
    let mut replica = Replica::new();
    replica.items(change("t", put(Some(60), &["x"])));
    replica.items(change("long", put(Some(3600), &["y"])));
    for _ in 0..5 {
        replica.later(50);
        replica.items(change("t", steps(vec![step(StepKind::Observation, "still there")])));
        replica.run(&Command::Sweep { limit: 16 });
        assert!(replica.task("t").is_some(), "every change begins its time anew");
    }
    assert_eq!(replica.due(), 2, "one row for each");
    replica.later(61);
    // Over, and not swept yet: it takes no more steps, and a new one of the name begins empty.
    assert_eq!(failed(replica.write(change("t", plan(vec![PlanOp::Pop])))), ErrorCode::NotFound);
    assert_eq!(failed(replica.write(end(None, None))), ErrorCode::NotFound);
    let mut twin = Replica { state: replica.state.clone(), events: vec![], ..replica };
    assert_eq!(twin.items(change("t", put(None, &[])))[0].status, ItemStatus::Created);
    assert_eq!((twin.task("t").unwrap().plan.len(), twin.steps("t").len()), (0, 0));
    replica = Replica { events: vec![], ..twin };
    replica.later(90_000);
    assert_eq!(replica.run(&Command::Sweep { limit: 16 }), Outcome::Swept { done: 2, more: false });
    assert_eq!((replica.tasks(), replica.due(), replica.counters().bytes), (0, 0, 0));
}

#[test]
fn the_newest_steps_are_kept() {
    let mut replica = Replica::new();
    replica.items(change("t", put(None, &[])));
    for n in 0..TASK_STEPS_MAX + 20 {
        replica.items(change("t", steps(vec![step(StepKind::Observation, &n.to_string())])));
    }
    let kept = replica.steps("t");
    assert_eq!((kept.len() as u64, kept[0].0), (TASK_STEPS_MAX, 21));
    assert_eq!(kept.last().unwrap().1.step.content, (TASK_STEPS_MAX + 19).to_string());
    // By bytes, too.
    let large = "字".repeat(STEP_BYTES_MAX / 3);
    for _ in 0..40 {
        replica.items(change("t", steps(vec![step(StepKind::Observation, &large)])));
    }
    let task = replica.task("t").unwrap();
    assert!(task.step_bytes <= TASK_STEP_BYTES_MAX && task.steps_kept() < 40, "{}", task.step_bytes);
    assert_eq!(replica.steps("t").len() as u64, task.steps_kept());
    assert_eq!(replica.counters().bytes, task.stored_bytes());
    assert_eq!(task.next_step, TASK_STEPS_MAX + 61, "and they are counted on");
}

#[test]
fn silence_is_told_until_something_is_said() {
    let mut replica = Replica::new();
    replica.items(change("t", put(None, &[])));
    let mut beat = |kinds: &[StepKind], number: u128| {
        let write = change("t", steps(kinds.iter().map(|kind| step(*kind, "x")).collect()));
        match replica.run(&space_command(write, Some(key(number, 1)))) {
            Outcome::Items { items, .. } => items[0].heartbeat.clone(),
            other => panic!("{other:?}"),
        }
    };
    let silent = vec![Heartbeat::SilentSteps3];
    assert_eq!(beat(&[StepKind::Tool, StepKind::Tool, StepKind::Thought], 1), []);
    assert_eq!(beat(&[StepKind::Observation, StepKind::Tool], 2), silent);
    assert_eq!(beat(&[StepKind::Observation, StepKind::Tool], 2), silent, "asked again");
    assert_eq!(beat(&[StepKind::Thought], 3), silent);
    assert_eq!(beat(&[StepKind::Message], 4), []);
    assert_eq!(beat(&[StepKind::Message, StepKind::Tool, StepKind::Tool, StepKind::Tool], 5), silent);
}

#[test]
fn what_a_task_cannot_take_is_refused() {
    let mut replica = Replica::new();
    let long = "x".repeat(STEP_BYTES_MAX + 1);
    for (id, change, field) in [
        ("", put(None, &[]), "id"),
        ("t", put(Some(0), &[]), "ttl_s"),
        ("t", put(Some(u32::MAX), &[]), "ttl_s"),
        ("t", put(None, &[" "]), "plan"),
        ("t", put(None, &["x"; 65]), "plan"),
        ("t", put(None, &[&long[..1025]]), "plan"),
        ("t", steps(vec![]), "steps"),
        ("t", steps(vec![step(StepKind::Tool, &long)]), "steps[0].content"),
        ("t", steps(vec![step(StepKind::Tool, "x"); 101]), "steps"),
        ("t", steps(vec![step(StepKind::Tool, &long[1..]); 17]), "steps"),
        ("t", TaskChange::Variables { set: BTreeMap::new(), remove: BTreeSet::new() }, "variables"),
        (
            "t",
            TaskChange::Variables {
                set: BTreeMap::from([(String::new(), "1".into())]),
                remove: BTreeSet::new(),
            },
            "variables",
        ),
        (
            "t",
            TaskChange::Variables {
                set: BTreeMap::from([("v".into(), long.repeat(5))]),
                remove: BTreeSet::new(),
            },
            "variables",
        ),
    ] {
        let error = space_command(self::change(id, change), None).check().unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
    }
    replica.items(change("t", put(None, &["one"])));
    for ops in [
        vec![PlanOp::Pop, PlanOp::Pop],
        vec![PlanOp::Pop, PlanOp::Mark { at: None, status: PlanStatus::Done }],
        vec![PlanOp::Mark { at: Some(1), status: PlanStatus::Done }],
    ] {
        assert_eq!(failed(replica.write(change("t", plan(ops)))), ErrorCode::Conflict);
    }
    let push = PlanOp::Push { text: "x".into() };
    assert_eq!(failed(replica.write(change("t", plan(vec![push; 64])))), ErrorCode::TooLarge);
    assert_eq!(replica.task("t").unwrap().plan.len(), 1, "all or nothing");
    let many = |from: u32| (from..from + 60).map(|n| (n.to_string(), "1".to_owned())).collect();
    replica.items(change("t", TaskChange::Variables { set: many(0), remove: BTreeSet::new() }));
    let more = TaskChange::Variables { set: many(100), remove: BTreeSet::new() };
    assert_eq!(failed(replica.write(change("t", more))), ErrorCode::TooLarge);
    for n in 1..TASKS_MAX {
        replica.items(change(&n.to_string(), put(None, &[])));
    }
    assert_eq!(failed(replica.write(change("one more", put(None, &[])))), ErrorCode::QuotaExceeded);
}

#[derive(Debug, Clone)]
enum Op {
    Write(TaskWrite),
    Wait(i64),
    Sweep,
}

fn op() -> impl Strategy<Value = Op> {
    let id = prop_oneof![Just("t"), Just("tt"), Just("任务")];
    let text = || prop_oneof![Just("a"), Just("二"), Just("🙂🙂")];
    let kind = prop_oneof![Just(StepKind::Tool), Just(StepKind::Message), Just(StepKind::Thought)];
    let step = (kind, text()).prop_map(|(kind, content)| step(kind, content));
    let plan_op = prop_oneof![
        3 => text().prop_map(|text| PlanOp::Push { text: text.into() }),
        1 => Just(PlanOp::Pop),
        1 => proptest::option::of(0u32..3).prop_map(|at| PlanOp::Mark { at, status: PlanStatus::Done }),
    ];
    let change = prop_oneof![
        3 => proptest::option::of(1u32..30).prop_map(|ttl_s| put(ttl_s, &["p"])),
        4 => (proptest::collection::vec(step, 0..4), proptest::collection::vec(plan_op, 1..3))
            .prop_map(|(steps, plan)| TaskChange::Steps { steps, plan }),
        2 => (text(), text()).prop_map(|(name, value)| TaskChange::Variables {
            set: BTreeMap::from([(name.to_owned(), format!("\"{value}\""))]),
            remove: BTreeSet::from([value.to_owned()]),
        }),
        1 => Just(TaskChange::End { episode: None }),
    ];
    prop_oneof![
        8 => (id, proptest::option::weighted(0.2, 1u64..6), change)
            .prop_map(|(id, if_version, change)| Op::Write(TaskWrite { id: id.into(), if_version, change })),
        2 => (0i64..20).prop_map(Op::Wait),
        1 => Just(Op::Sweep),
    ]
}

/// One task of the model.
#[derive(Debug, Clone, Default, PartialEq)]
struct Simple {
    version: u64,
    plan: Vec<(String, bool)>,
    variables: BTreeMap<String, String>,
    steps: Vec<(u64, String)>,
    silent: u32,
    ttl_s: i64,
    ends_us: i64,
}

#[derive(Default)]
struct Model {
    tasks: BTreeMap<String, Simple>,
    floor: u64,
}

impl Model {
    fn over(&mut self, now_us: i64) {
        for task in self.tasks.values().filter(|task| task.ends_us <= now_us) {
            self.floor = self.floor.max(task.version);
        }
        self.tasks.retain(|_, task| task.ends_us > now_us);
    }

    /// Whether the write is done.
    fn take(&mut self, write: &TaskWrite, now_us: i64) -> bool {
        // A task whose time is over is not there, but takes part in nothing until it is swept or met.
        let met = self.tasks.get(&write.id).filter(|task| task.ends_us <= now_us).cloned();
        let before = self.tasks.clone();
        let floor = self.floor;
        if let Some(task) = met {
            self.tasks.remove(&write.id);
            self.floor = self.floor.max(task.version);
        }
        let done = self.change(write, now_us);
        if !done {
            (self.tasks, self.floor) = (before, floor);
        }
        done
    }

    fn change(&mut self, write: &TaskWrite, now_us: i64) -> bool {
        let old = self.tasks.get(&write.id);
        if write.if_version.is_some_and(|version| old.is_none_or(|old| old.version != version)) {
            return false;
        }
        let fresh = Simple { version: self.floor, ttl_s: 86_400, ..Simple::default() };
        let mut new = match (old, &write.change) {
            (Some(old), _) => old.clone(),
            (None, TaskChange::Put { .. }) => fresh,
            _ => return false,
        };
        match &write.change {
            TaskChange::Put { plan, ttl_s, .. } => {
                if let Some(plan) = plan {
                    new.plan = plan.iter().map(|item| (item.text.clone(), false)).collect();
                }
                new.ttl_s = ttl_s.map_or(new.ttl_s, i64::from);
            }
            TaskChange::Steps { steps, plan } => {
                for step in steps {
                    let number = new.steps.last().map_or(1, |last| last.0 + 1);
                    new.steps.push((number, step.content.clone()));
                    new.silent = match step.kind {
                        StepKind::Tool => new.silent + 1,
                        StepKind::Message => 0,
                        _ => new.silent,
                    };
                }
                for op in plan {
                    match op {
                        PlanOp::Push { text } => new.plan.push((text.clone(), false)),
                        PlanOp::Pop => {
                            if new.plan.pop().is_none() {
                                return false;
                            }
                        }
                        PlanOp::Mark { at, .. } => {
                            let at = at.map_or(new.plan.len().wrapping_sub(1), |at| at as usize);
                            let Some(item) = new.plan.get_mut(at) else { return false };
                            item.1 = true;
                        }
                    }
                }
            }
            TaskChange::Variables { set, remove } => {
                new.variables.retain(|name, _| !remove.contains(name));
                new.variables.extend(set.clone());
            }
            TaskChange::End { .. } => {
                self.floor = self.floor.max(new.version);
                self.tasks.remove(&write.id);
                return true;
            }
        }
        new.version += 1;
        new.ends_us = now_us + new.ttl_s * 1_000_000;
        self.tasks.insert(write.id.clone(), new);
        true
    }
}

proptest! {
    /// Whatever is planned, done, waited for and ended, in whatever order: the tasks are those of the
    /// simple model, and nothing is left behind.
    #[test]
    fn tasks_are_what_the_simple_model_says(ops in proptest::collection::vec(op(), 1..60)) {
        let (mut replica, mut model) = (Replica::new(), Model::default());
        for op in ops {
            match op {
                Op::Write(write) => {
                    let outcome = replica.write(Write::Task(Box::new(write.clone())));
                    let done = model.take(&write, replica.clock_us);
                    prop_assert_eq!(done, matches!(outcome, Outcome::Items { .. }), "{:?} {:?}", write, outcome);
                }
                Op::Wait(seconds) => replica.later(seconds),
                Op::Sweep => {
                    replica.run(&Command::Sweep { limit: 16 });
                    model.over(replica.clock_us);
                }
            }
            let mut bytes = 0;
            for id in ["t", "tt", "任务"] {
                let found = replica.task(id).map(|row| {
                    bytes += row.stored_bytes();
                    Simple {
                        version: row.version,
                        plan: row.plan.iter().map(|item| (item.text.clone(), item.status == PlanStatus::Done)).collect(),
                        variables: row.variables,
                        steps: replica.steps(id).into_iter().map(|(n, row)| (n, row.step.content)).collect(),
                        silent: row.silent_steps,
                        ttl_s: i64::from(row.ttl_s),
                        ends_us: row.expires_us,
                    }
                });
                prop_assert_eq!(found.as_ref(), model.tasks.get(id), "{}", id);
                prop_assert!(found.is_some() || replica.steps(id).is_empty());
            }
            prop_assert_eq!(replica.counters().bytes, bytes);
            prop_assert_eq!(replica.tasks() as usize, model.tasks.len());
            // The tombstones of a space have one row together.
            let tombstones = usize::from(replica.counters().tombstone_due_us.is_some());
            prop_assert_eq!(replica.due(), model.tasks.len() + tombstones);
        }
    }
}
