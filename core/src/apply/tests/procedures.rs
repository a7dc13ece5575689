//! Procedures, alone and against a model that is too simple to be wrong.

use super::*;
use crate::keys::procedure as procedure_keys;
use crate::limits::{PROCEDURE_BYTES_MAX, PROCEDURE_VERSIONS_MAX, PROCEDURES_MAX, WORKFLOW_STEPS_MAX};
use crate::tiers::TierRow;
use crate::tiers::procedure::{
    Body, ProcedureChange, ProcedureRow, ProcedureWrite, VersionRow, VersionState, WorkflowStep,
};
use proptest::prelude::*;

fn write(name: &str, change: ProcedureChange) -> ProcedureWrite {
    ProcedureWrite { name: name.into(), if_version: None, change }
}

fn change(name: &str, change: ProcedureChange) -> Write {
    Write::Procedure(Box::new(write(name, change)))
}

fn template(text: &str) -> ProcedureChange {
    let body = Body::Template { text: text.into() };
    ProcedureChange::Put { body, description: String::new(), placeholders: vec![] }
}

fn workflow(steps: usize, text: &str) -> ProcedureChange {
    let step = WorkflowStep { name: "步骤".into(), text: text.into(), tool: Some("search".into()) };
    let body = Body::Workflow { steps: vec![step; steps] };
    ProcedureChange::Put { body, description: "how to".into(), placeholders: vec![] }
}

const ACTIVATE: ProcedureChange = ProcedureChange::Activate { version: None };
const ROLL_BACK: ProcedureChange = ProcedureChange::Rollback { from: None };

impl Replica {
    fn procedure(&self, name: &str) -> Option<ProcedureRow> {
        let value = self.state.get(&procedure_keys::key(&space(), name)).unwrap()?;
        Some(ProcedureRow::decode(&value).unwrap())
    }

    fn versions_of(&self, name: &str) -> Vec<VersionRow> {
        let rows = self.state.scan(&procedure_keys::versions_of(&space(), name), None, usize::MAX).unwrap();
        rows.iter().map(|(_, value)| VersionRow::decode(value).unwrap()).collect()
    }

    /// A version that is verified.
    fn verified(&mut self, name: &str, text: &str) -> u64 {
        let version = self.items(change(name, template(text)))[0].version;
        self.items(change(name, ProcedureChange::Verify { version }));
        version
    }
}

#[test]
fn a_version_is_verified_activated_and_rolled_back() {
    let mut replica = Replica::new();
    assert_eq!(failed(replica.write(change("greet", ACTIVATE))), ErrorCode::NotFound);
    let made = replica.items(change("greet", template("你好 {{name}}")));
    assert_eq!((made[0].version, made[0].status), (1, ItemStatus::Created));
    assert_eq!(failed(replica.write(change("greet", ACTIVATE))), ErrorCode::Conflict, "not verified");
    assert_eq!(
        failed(replica.write(change("greet", ProcedureChange::Activate { version: Some(1) }))),
        ErrorCode::Conflict
    );
    replica.items(change("greet", ProcedureChange::Verify { version: 1 }));
    assert_eq!(replica.items(change("greet", ACTIVATE))[0].version, 1);
    assert_eq!(failed(replica.write(change("greet", ROLL_BACK))), ErrorCode::Conflict, "nothing was before");

    let second = replica.verified("greet", "Hi");
    replica.items(change("greet", template("draft")));
    assert_eq!(replica.procedure("greet").unwrap().active, Some(1), "a new version is not used yet");
    assert_eq!(replica.items(change("greet", ACTIVATE))[0].version, second);
    let states: Vec<_> = replica.versions_of("greet").iter().map(|row| row.state).collect();
    assert_eq!(states, [VersionState::Superseded, VersionState::Active, VersionState::Draft]);
    for success in [true, true, false] {
        replica.items(change("greet", ProcedureChange::Report { version: None, success }));
    }
    // The one that was followed, whichever is used by now.
    replica.items(change("greet", ProcedureChange::Rollback { from: Some(second) }));
    replica.items(change("greet", ProcedureChange::Report { version: Some(second), success: false }));
    assert_eq!(replica.procedure("greet").unwrap().active, Some(1));
    let row = &replica.versions_of("greet")[1];
    assert_eq!((row.successes, row.failures, row.state), (2, 2, VersionState::Superseded));
    assert_eq!(
        failed(replica.write(change("greet", ProcedureChange::Rollback { from: Some(second) }))),
        ErrorCode::Conflict,
        "asked for twice"
    );
    // What was active once may be again, without another look.
    replica.items(change("greet", ProcedureChange::Activate { version: Some(second) }));
    assert_eq!(
        failed(replica.write(change("greet", ProcedureChange::Verify { version: 9 }))),
        ErrorCode::NotFound
    );

    replica.items(change("greet", ProcedureChange::Delete));
    assert!(replica.procedure("greet").is_none() && replica.versions_of("greet").is_empty());
    assert_eq!(replica.counters().bytes, 0);
    assert_eq!(replica.items(change("greet", template("new")))[0].version, 4, "numbers go on");
}

#[test]
fn a_report_counts_once() {
    let mut replica = Replica::new();
    replica.verified("p", "x");
    replica.items(change("p", ACTIVATE));
    let report = change("p", ProcedureChange::Report { version: None, success: true });
    for _ in 0..3 {
        replica.run(&space_command(report.clone(), Some(key(1, 1))));
    }
    assert_eq!(replica.versions_of("p")[0].successes, 1);
}

#[test]
fn versions_are_bounded_and_those_in_use_stay() {
    let mut replica = Replica::new();
    replica.verified("p", "first");
    replica.items(change("p", ACTIVATE));
    let second = replica.verified("p", "second");
    replica.items(change("p", ACTIVATE));
    for n in 0..2 * PROCEDURE_VERSIONS_MAX {
        replica.items(change("p", template(&format!("draft {n}"))));
    }
    let kept: Vec<u64> = replica.versions_of("p").iter().map(|row| row.version).collect();
    assert_eq!(kept.len(), PROCEDURE_VERSIONS_MAX);
    assert_eq!((kept[0], kept[1]), (1, second), "the active one, and the one to go back to");
    assert_eq!(replica.procedure("p").unwrap().kept, kept);
    let bytes: u64 = replica.versions_of("p").iter().map(VersionRow::stored_bytes).sum();
    assert_eq!(replica.counters().bytes, bytes);
    assert_eq!(replica.items(change("p", ROLL_BACK))[0].version, 1);
    for n in 1..PROCEDURES_MAX {
        replica.items(change(&format!("p{n}"), template("x")));
    }
    assert_eq!(failed(replica.write(change("one more", template("x")))), ErrorCode::QuotaExceeded);
}

#[test]
fn what_no_procedure_can_be_is_refused_before_the_log() {
    let max = usize::try_from(PROCEDURE_BYTES_MAX).unwrap();
    for (name, change, field) in [
        ("", template("x"), "name"),
        ("a\nb", ACTIVATE, "name"),
        ("p", template(" \n"), "template"),
        ("p", template(&"x".repeat(max + 1)), "template"),
        ("p", workflow(0, "x"), "steps"),
        ("p", workflow(WORKFLOW_STEPS_MAX + 1, "x"), "steps"),
        ("p", workflow(2, &"x".repeat(max / 2 + 1)), "steps"),
    ] {
        let error = space_command(self::change(name, change), None).check().unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
    }
    assert!(space_command(self::change("p", workflow(WORKFLOW_STEPS_MAX, "x")), None).check().is_ok());
    let mut replica = Replica::new();
    replica.items(self::change("p", template("x")));
    let stale = ProcedureWrite { if_version: Some(7), ..write("p", template("y")) };
    assert_eq!(failed(replica.write(Write::Procedure(Box::new(stale)))), ErrorCode::Conflict);
}

fn op() -> impl Strategy<Value = (&'static str, ProcedureChange)> {
    let name = prop_oneof![Just("p"), Just("步骤")];
    let version = || proptest::option::of(1u64..30);
    let change = prop_oneof![
        6 => (0usize..5).prop_map(|n| template(&"x".repeat(n + 1))),
        6 => (1u64..30).prop_map(|version| ProcedureChange::Verify { version }),
        4 => version().prop_map(|version| ProcedureChange::Activate { version }),
        2 => version().prop_map(|from| ProcedureChange::Rollback { from: from.filter(|from| *from < 6) }),
        2 => (version(), any::<bool>()).prop_map(|(version, success)| ProcedureChange::Report { version, success }),
        1 => Just(ProcedureChange::Delete),
    ];
    (name, change)
}

/// Versions with their state and reports; the active one; the order of activations.
#[derive(Debug, Clone, Default)]
struct Simple {
    versions: BTreeMap<u64, (bool, u64)>,
    active: Option<u64>,
    before: Vec<u64>,
    last: u64,
}

impl Simple {
    /// Whether the change is done.
    fn take(&mut self, change: &ProcedureChange) -> bool {
        let known = |version: u64| self.versions.contains_key(&version);
        match change {
            ProcedureChange::Put { .. } => {
                self.last += 1;
                self.versions.insert(self.last, (false, 0));
                while self.versions.len() > PROCEDURE_VERSIONS_MAX {
                    let keep = [self.active, self.before.last().copied(), Some(self.last)];
                    let Some(oldest) = self.versions.keys().find(|n| !keep.contains(&Some(**n))).copied()
                    else {
                        break;
                    };
                    self.versions.remove(&oldest);
                    self.before.retain(|n| *n != oldest);
                }
            }
            ProcedureChange::Verify { version } => match self.versions.get_mut(version) {
                Some(row) => row.0 = true,
                None => return false,
            },
            ProcedureChange::Activate { version } => {
                let waits = |n: &u64| self.versions[n].0 && !self.ever(*n);
                let Some(version) =
                    version.or_else(|| self.versions.keys().rev().find(|n| waits(n)).copied())
                else {
                    return false;
                };
                if !known(version) || !self.versions[&version].0 {
                    return false;
                }
                if self.active != Some(version) {
                    self.before.extend(self.active);
                    let too_many = self.before.len().saturating_sub(10);
                    self.before.drain(..too_many);
                    self.active = Some(version);
                    self.versions.entry(version).and_modify(|row| row.1 |= 1 << 32);
                }
            }
            ProcedureChange::Rollback { from } => {
                if from.is_some() && *from != self.active {
                    return false;
                }
                let mut before = self.before.clone();
                while self.active.is_some() && before.last().copied() == self.active {
                    before.pop();
                }
                let Some(version) = before.pop() else { return false };
                (self.active, self.before) = (Some(version), before);
            }
            ProcedureChange::Report { version, .. } => {
                match version.or(self.active).and_then(|version| self.versions.get_mut(&version)) {
                    Some(row) => row.1 += 1,
                    None => return false,
                }
            }
            ProcedureChange::Delete => {}
        }
        true
    }

    /// Whether a version was ever active.
    fn ever(&self, version: u64) -> bool {
        self.versions[&version].1 >> 32 == 1
    }
}

proptest! {
    /// Whatever is put, verified, activated, taken back, reported and deleted, in whatever order: the
    /// versions are those of the simple model, at most one is active, and only one that was verified.
    #[test]
    fn procedures_are_what_the_simple_model_says(ops in proptest::collection::vec(op(), 1..120)) {
        let mut replica = Replica::new();
        let (mut model, mut floor): (BTreeMap<&str, Simple>, u64) = (BTreeMap::new(), 0);
        for (name, change) in ops {
            let outcome = replica.write(self::change(name, change.clone()));
            let is_new = !model.contains_key(name);
            let expected = if is_new && !matches!(change, ProcedureChange::Put { .. }) {
                false
            } else {
                let last = floor;
                model.entry(name).or_insert_with(|| Simple { last, ..Simple::default() }).take(&change)
            };
            prop_assert_eq!(expected, matches!(outcome, Outcome::Items { .. }), "{:?} {:?}", change, outcome);
            if expected && change == ProcedureChange::Delete {
                floor = floor.max(model.remove(name).unwrap().last);
            }
            let mut bytes = 0;
            for name in ["p", "步骤"] {
                let (row, versions) = (replica.procedure(name), replica.versions_of(name));
                bytes += versions.iter().map(VersionRow::stored_bytes).sum::<u64>();
                prop_assert_eq!(row.is_some(), model.contains_key(name));
                let Some(simple) = model.get(name) else {
                    prop_assert!(versions.is_empty());
                    continue;
                };
                let row = row.unwrap();
                prop_assert_eq!((row.active, row.last_version, &row.previous), (simple.active, simple.last, &simple.before));
                let numbers: Vec<u64> = versions.iter().map(|row| row.version).collect();
                prop_assert_eq!(&numbers, &simple.versions.keys().copied().collect::<Vec<_>>());
                prop_assert_eq!(&numbers, &row.kept);
                for version in versions {
                    let (verified, reports) = simple.versions[&version.version];
                    prop_assert_eq!(version.state != VersionState::Draft, verified);
                    prop_assert_eq!(version.state == VersionState::Active, row.active == Some(version.version));
                    prop_assert_eq!(version.successes + version.failures, reports & u64::from(u32::MAX));
                }
            }
            prop_assert_eq!(replica.counters().bytes, bytes);
            let tier = replica.state.get(&procedure_keys::tier(&space())).unwrap();
            prop_assert_eq!(tier.map_or(0, |value| TierRow::decode(&value).unwrap().count) as usize, model.len());
        }
    }
}
