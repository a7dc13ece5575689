//! What an erasure takes out next.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::select::next_step;
use crate::raft::Applier;
use crate::shard::ShardState;
use crate::shard::tests::{boot, entry, open, space};
use holdfast_core::codec::Stored;
use holdfast_core::command::{Add, Command, NewMemory, Origin, SpaceCommand, Update, Write};
use holdfast_core::erasure::{ERASE_STEP_MAX, EraseStep, ErasureRow, Phase, Selection};
use holdfast_core::keys;
use holdfast_core::memory::{IndexRow, Source};
use holdfast_core::state::Reader;

struct Shard {
    state: ShardState,
    index: u64,
    _dir: tempfile::TempDir,
}

fn memory(id: &str, session: &str) -> NewMemory {
    NewMemory {
        id_chosen: true,
        content: format!("memory {id}"),
        tokens: 0,
        text_hash: keys::text_hash::hash(id, None),
        confidence: 1.0,
        statements: vec![],
        whole: false,
        conflicts: vec![],
        source: Some(Source { uri: Some(format!("file:{session}")), message_ids: vec![format!("m-{id}")] }),
        derived_from: vec![],
        chunks: vec![],
        index: IndexRow { id: id.into(), session: Some(session.into()), ..IndexRow::default() },
        event_given: false,
    }
}

impl Shard {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { state: open(dir.path(), &boot(1)), index: 0, _dir: dir }
    }

    fn write(&mut self, write: Write) {
        self.index += 1;
        let command = SpaceCommand { space: space(), idempotency: None, write };
        let bytes = Command::Space(Box::new(command)).encode().unwrap();
        self.state.apply(vec![entry(self.index, vec![bytes.into()])]).unwrap();
    }

    fn add(&mut self, id: &str, session: &str) {
        let items = vec![memory(id, session)];
        self.write(Write::Add(Add {
            origin: Origin::Caller,
            model: None,
            vectors_given: false,
            partial: false,
            items,
        }));
    }

    fn move_to(&mut self, id: &str, session: &str, if_version: u64) {
        let memory = memory(id, session);
        let update = Update { if_version, model: None, vectors_given: false, keep_statements: true, memory };
        self.write(Write::Update(Box::new(update)));
    }

    fn begin(&mut self, id: &str, selection: Selection) {
        self.write(Write::Erase(EraseStep::Begin { id: id.into(), selection }));
    }

    fn row(&self, id: &str) -> ErasureRow {
        let value = self.state.reader().get(&keys::erasure::key(&space(), id)).unwrap().unwrap();
        ErasureRow::decode(&value).unwrap()
    }

    /// Works an erasure off; answers what each step named.
    fn work_off(&mut self, id: &str) -> Vec<Vec<String>> {
        let mut steps = Vec::new();
        while self.row(id).phase == Phase::Removing {
            let step = next_step(&self.state, &space(), id, &self.row(id)).unwrap();
            if let EraseStep::Remove { memories, .. } = &step {
                steps.push(memories.clone());
            }
            self.write(Write::Erase(step));
            assert!(steps.len() < 100, "it ends");
        }
        steps
    }

    fn holds(&self, id: &str) -> bool {
        self.state.reader().get(&keys::memory::key(&space(), id)).unwrap().is_some()
    }
}

#[test]
fn what_counts_is_what_a_memory_was_when_the_erasure_began() {
    for selection in [
        Selection::Session("a".into()),
        Selection::Source("file:a".into()),
        Selection::Filter(r#"{"session":{"$eq":"a"}}"#.into()),
    ] {
        let mut shard = Shard::new();
        shard.add("stays-there", "a");
        shard.add("leaves", "a");
        shard.add("comes", "b");
        shard.add("never", "b");
        shard.begin("e", selection.clone());
        shard.move_to("leaves", "b", 1);
        shard.move_to("leaves", "c", 2);
        shard.move_to("comes", "a", 1);
        shard.add("late", "a");
        shard.work_off("e");
        let left: Vec<bool> =
            ["stays-there", "leaves", "comes", "never", "late"].iter().map(|id| shard.holds(id)).collect();
        assert_eq!(left, [false, false, true, true, true], "{selection:?}");
        assert_eq!(shard.row("e").erased.memories, 2);
    }
}

#[test]
fn one_message_is_a_source_too_and_ids_are_taken_in_turn() {
    let mut shard = Shard::new();
    let ids: Vec<String> = (0..40).map(|n| format!("id-{n}")).collect();
    ids.iter().for_each(|id| shard.add(id, "s"));
    shard.begin("m", Selection::Source("m-id-7".into()));
    shard.work_off("m");
    assert!(!shard.holds("id-7") && shard.holds("id-8"));
    shard.begin("i", Selection::Ids(ids[..35].to_vec()));
    let steps = shard.work_off("i");
    assert_eq!(steps.iter().map(Vec::len).collect::<Vec<_>>(), [ERASE_STEP_MAX, ERASE_STEP_MAX, 3]);
    assert_eq!(shard.row("i").erased.memories, 34);
    assert!(shard.holds("id-39"));
}

#[test]
fn many_rows_are_looked_at_in_steps_and_all_of_a_space_goes() {
    let mut shard = Shard::new();
    for n in 0..1_200 {
        shard.add(&format!("id-{n}"), if n == 1_150 { "rare" } else { "s" });
    }
    shard.begin("r", Selection::Session("rare".into()));
    let steps = shard.work_off("r");
    assert!(steps.len() >= 2, "no step looks at everything");
    assert_eq!(steps.concat(), ["id-1150"]);
    shard.begin("all", Selection::All);
    shard.work_off("all");
    assert_eq!(shard.row("all").erased.memories, 1_199);
    assert_eq!(shard.state.memories().of(holdfast_core::memory::Kind::Semantic), 0, "the counters follow");
    assert_eq!(shard.state.recompute_hash().unwrap(), shard.state.hash());
}
