//! The state machine, one command at a time, on a map in memory that holds a thousand memories, or
//! a thousand keys.

use crate::data;
use criterion::{BatchSize, Criterion};
use holdfast_core::access::{ApiKeyRow, Rights, TenantRow};
use holdfast_core::apply::{Position, apply};
use holdfast_core::collection::CollectionRow;
use holdfast_core::command::Claim as IdClaim;
use holdfast_core::command::{
    Add, AppendTurns, ChangeDialogue, Command, Digest, DigestResult, FeedbackItem, Hint, Idempotency, Merge,
    MetaCommand, NewMemory, NewTurn, Origin, SWEEP_ROWS_MAX, SpaceCommand, Update, Upkeep, Verdict, Write,
};
use holdfast_core::facts::own::FactRulesRow;
use holdfast_core::facts::registry::Registry;
use holdfast_core::facts::statement::{Claim, statement};
use holdfast_core::keys::text_hash;
use holdfast_core::limits::{
    BLOCK_BYTES_MAX, BLOCK_CHARS_MAX, FACT_GROUP_MAX, GRAPH_NAMES_MAX, TASK_STEPS_MAX,
};
use holdfast_core::memory::{Fact, ModelTag};
use holdfast_core::outcome::Outcome;
use holdfast_core::session::{Phase, TurnRow};
use holdfast_core::space::SpaceKey;
use holdfast_core::state::{BTreeState, Overlay};
use holdfast_core::text::normalize;
use holdfast_core::tiers::block::{BlockChange, BlockWrite};
use holdfast_core::tiers::procedure::{Body, ProcedureChange, ProcedureWrite};
use holdfast_core::tiers::task::{Step, StepKind, TaskChange, TaskWrite};
use std::collections::BTreeSet;
use std::hint::black_box;

const MEMORIES: usize = 1_000;
const KEYS: usize = 1_000;
/// One memory in so many expires, an hour from now.
const EXPIRING: usize = 10;
const HOUR_US: i64 = 3_600_000_000;

/// A command to measure.
struct Case {
    name: &'static str,
    state: BTreeState,
    stamp_us: i64,
    command: Command,
}

/// Every command there is. A new one does not compile before it has a name here; whoever adds it
/// measures it too, or [`benches`] fails.
fn kind(command: &Command) -> &'static str {
    match command {
        Command::Space(command) => match &command.write {
            Write::Add(_) => "add",
            Write::Update(_) => "update",
            Write::Delete { .. } => "delete",
            Write::Feedback { .. } => "feedback",
            Write::Retract { .. } => "retract",
            Write::Resolve { .. } => "resolve",
            Write::Block(_) => "block",
            Write::Task(_) => "task",
            Write::Procedure(_) => "procedure",
            Write::MergeEntities { .. } => "merge_entities",
            Write::SplitEntities { .. } => "split_entities",
            Write::Relink { .. } => "relink",
            Write::Turns(_) => "turns",
            Write::Dialogue(_) => "dialogue",
            Write::EndSession { .. } => "end_session",
            Write::DeleteSession { .. } => "delete_session",
            Write::Digest(_) => "digest",
            Write::Erase(_) => "erase",
            Write::Import(_) => "import",
            Write::Upkeep(_) => "upkeep",
            Write::Claim(_) => "claim",
            Write::Keep { .. } => "keep",
        },
        Command::Sweep { .. } => "sweep",
        Command::HashPoint => "hash_point",
        Command::Tenant(_) => "tenant",
        Command::Meta(command) => match &**command {
            MetaCommand::InitCluster { .. } => "init_cluster",
            MetaCommand::CreateTenant(_) => "create_tenant",
            MetaCommand::CreateKey(_) => "create_key",
            MetaCommand::RevokeKey { .. } => "revoke_key",
            MetaCommand::SetFactRules { .. } => "set_fact_rules",
            MetaCommand::PutCollection(_) => "put_collection",
            MetaCommand::DeleteCollection { .. } => "delete_collection",
            MetaCommand::EraseTenant { .. } => "erase_tenant",
            MetaCommand::SetCollection(_) => "set_collection",
            MetaCommand::SetScoring { .. } => "set_scoring",
        },
    }
}
const KINDS: [&str; 29] = [
    "add",
    "block",
    "claim",
    "create_key",
    "create_tenant",
    "delete",
    "delete_collection",
    "delete_session",
    "dialogue",
    "digest",
    "end_session",
    "feedback",
    "hash_point",
    "init_cluster",
    "keep",
    "merge_entities",
    "procedure",
    "put_collection",
    "relink",
    "resolve",
    "retract",
    "revoke_key",
    "set_fact_rules",
    "split_entities",
    "sweep",
    "task",
    "turns",
    "update",
    "upkeep",
];

fn space(write: Write, key_hash: u128) -> Command {
    let space = SpaceKey::user("bench", "ann").unwrap();
    let idempotency = Some(Idempotency { key_hash, request_hash: 1 });
    Command::Space(Box::new(SpaceCommand { space, idempotency, write }))
}

/// A hundred ids that are claimed for another partition than this one.
fn claim_100() -> Command {
    let claim = |number: u32| IdClaim { id: format!("new-{number}"), partition: 1, obeys: true };
    let space = SpaceKey::shared("bench", "kb", 0).unwrap();
    let write = Write::Claim((0..100).map(claim).collect());
    Command::Space(Box::new(SpaceCommand { space, idempotency: None, write }))
}

fn memory(number: usize) -> NewMemory {
    let mut random = data::random();
    let content = format!("{} number {number}", data::text(&mut random));
    let mut index = data::row(number, &content, &mut random);
    index.expires_us = number.is_multiple_of(EXPIRING).then_some(data::NOW_US + HOUR_US);
    NewMemory {
        id_chosen: true,
        tokens: 20,
        text_hash: text_hash::hash(&normalize(&content), index.speaker.as_deref()),
        content,
        confidence: 1.0,
        statements: Vec::new(),
        whole: false,
        conflicts: Vec::new(),
        source: None,
        derived_from: Vec::new(),
        chunks: Vec::new(),
        index,
        event_given: true,
    }
}

/// The text of a stored memory, under an id that the router made.
fn known(number: usize) -> NewMemory {
    let mut memory = memory(number);
    memory.id_chosen = false;
    memory.index.id = format!("00000000-0000-7000-8000-{number:012x}");
    memory
}

/// A memory that states where somebody lives, as the number-th of a chain of moves.
fn stated(number: usize) -> NewMemory {
    let fact = Fact {
        subject: "I".into(),
        predicate: "lives in".into(),
        object: format!("city {number}"),
        ..Fact::default()
    };
    let statement = statement(Claim { fact, ..Claim::default() }, None, &Registry::default());
    NewMemory { statements: statement.into_iter().collect(), whole: true, ..memory(MEMORIES + number) }
}

fn model() -> Option<ModelTag> {
    Some(ModelTag { id: "bench".into(), dims: u16::try_from(data::DIMS).unwrap() })
}

fn add(items: Vec<NewMemory>, key_hash: u128) -> Command {
    let add = Add { origin: Origin::Caller, model: model(), vectors_given: false, partial: false, items };
    space(Write::Add(add), key_hash)
}

fn add_numbers(numbers: std::ops::Range<usize>) -> Command {
    let key_hash = numbers.start as u128;
    add(numbers.map(memory).collect(), key_hash)
}

/// New turns of the session of the benchmark.
fn turns(count: usize, key_hash: u128) -> Command {
    let turn = |number: usize| NewTurn {
        row: TurnRow {
            role: "user".into(),
            content: data::text(&mut data::random()),
            tokens: 20,
            pinned: number == 0 && count > 1,
            ..TurnRow::default()
        },
        event_given: false,
    };
    space(Write::Turns(AppendTurns { session: "s".into(), turns: (0..count).map(turn).collect() }), key_hash)
}

fn tenant(id: &str) -> TenantRow {
    TenantRow { id: id.into(), name: id.into(), created_us: 0 }
}

fn key(id: &str) -> ApiKeyRow {
    ApiKeyRow {
        id: id.into(),
        secret_sha256: [7; 32],
        tenant: "bench".into(),
        user: None,
        rights: Rights::ALL,
        name: "bench".into(),
        created_us: 0,
        expires_us: None,
        revoked_us: None,
        created_by: None,
    }
}

fn meta(command: MetaCommand) -> Command {
    Command::Meta(Box::new(command))
}

fn init_cluster() -> Command {
    meta(MetaCommand::InitCluster { cluster_id: 7, shards: 64, tenant: tenant("bench"), key: key("first") })
}

/// A state after some commands.
fn after(commands: impl IntoIterator<Item = Command>) -> BTreeState {
    after_on(&BTreeState::new(), commands)
}

/// Another state after some commands.
fn after_on(state: &BTreeState, commands: impl IntoIterator<Item = Command>) -> BTreeState {
    let mut state = state.clone();
    for (at, command) in commands.into_iter().enumerate() {
        let mut overlay = Overlay::new(&state);
        let position = Position { log_index: at as u64, stamp_us: data::NOW_US };
        let applied = apply(&mut overlay, position, &command).unwrap();
        assert!(!matches!(applied.outcome, Outcome::Failed(_)), "{:?}", applied.outcome);
        let changes = overlay.into_changes().unwrap();
        state.commit(changes);
    }
    state
}

fn block(change: BlockChange) -> Write {
    Write::Block(Box::new(BlockWrite { label: "human".into(), if_version: None, by_admin: false, change }))
}

/// As long as a block may be, all of it the same but the end: the longest search.
fn whole_block() -> Write {
    let value = Some("a".repeat(BLOCK_BYTES_MAX - 1) + "b");
    block(BlockChange::Put { value, description: None, limit_chars: Some(BLOCK_CHARS_MAX), read_only: None })
}

fn task(change: TaskChange) -> Write {
    Write::Task(Box::new(TaskWrite { id: "trip".into(), if_version: None, change }))
}

fn new_task() -> Write {
    task(TaskChange::Put { goal: None, session: None, agent: None, plan: None, ttl_s: None })
}

fn step() -> Write {
    let (tool, content) = (Some("search".into()), "three flights on Monday".into());
    let step = Step { kind: StepKind::Tool, tool, content, success: Some(true) };
    task(TaskChange::Steps { steps: vec![step], plan: Vec::new() })
}

fn procedure() -> Write {
    let body = Body::Template { text: "Dear {{name}}".into() };
    let (description, placeholders) = (String::new(), vec!["name".into()]);
    let change = ProcedureChange::Put { body, description, placeholders };
    Write::Procedure(Box::new(ProcedureWrite { name: "greet".into(), if_version: None, change }))
}

fn replace_in_block() -> Write {
    block(BlockChange::Replace { old: "aaab".into(), new: "aaac".into() })
}

/// A session of 600 turns.
fn session_cases(stamp_us: i64) -> Vec<Case> {
    let talk = after((0..6).map(|number| turns(100, (1 << 71) + number)));
    let session = || "s".to_owned();
    let change =
        ChangeDialogue { session: session(), phase: Some(Phase::Waiting), ..ChangeDialogue::default() };
    let digest = Digest {
        session: session(),
        created_us: data::NOW_US,
        base: 0,
        through: 500,
        result: DigestResult::Summary(Vec::new()),
    };
    let write = |name, write| Case { name, state: talk.clone(), stamp_us, command: space(write, 1 << 67) };
    vec![
        Case { name: "turns_2", state: talk.clone(), stamp_us, command: turns(2, 1 << 67) },
        Case { name: "turns_100", state: talk.clone(), stamp_us, command: turns(100, 1 << 67) },
        write("dialogue", Write::Dialogue(Box::new(change))),
        write("digest_summary", Write::Digest(Box::new(digest))),
        write("end_session", Write::EndSession { session: session(), if_version: None }),
        write("delete_session_256_turns", Write::DeleteSession { session: session(), if_version: None }),
    ]
}

fn cases() -> Vec<Case> {
    let memories = after((0..MEMORIES).step_by(100).map(|number| add_numbers(number..number + 100)));
    let key_names = (0..KEYS).map(|number| format!("key{number}"));
    let keys = after(
        std::iter::once(init_cluster()).chain(key_names.map(|id| meta(MetaCommand::CreateKey(key(&id))))),
    );
    let update = Update {
        if_version: 1,
        model: model(),
        vectors_given: false,
        keep_statements: true,
        memory: memory(501),
    };
    let feedback = (0..10).map(|n| FeedbackItem { id: format!("memory-{n}"), verdict: Verdict::Adopted });
    let known = (0..100).map(known).collect();
    let sweep = || Command::Sweep { limit: SWEEP_ROWS_MAX };
    let case =
        |name, state: &BTreeState, stamp_us, command| Case { name, state: state.clone(), stamp_us, command };
    // Half of a full group: the rows that a change of it reads.
    let moves =
        after((0..FACT_GROUP_MAX / 2).map(|number| add(vec![stated(number)], (1 << 70) + number as u128)));
    let blocks = after([space(whole_block(), 1 << 69)]);
    // Full: each step takes the place of another.
    let steps = (0..TASK_STEPS_MAX).map(|number| space(step(), (1 << 74) + u128::from(number)));
    let tasks = after(std::iter::once(space(new_task(), 1 << 73)).chain(steps));
    let moved = |number: usize| stated(number).index.id;
    let (now, later) = (data::NOW_US + 1_000_000, data::NOW_US + 2 * HOUR_US);
    let mut cases = vec![
        case("add_1", &memories, now, add_numbers(MEMORIES..MEMORIES + 1)),
        case("add_100", &memories, now, add_numbers(MEMORIES..MEMORIES + 100)),
        case("add_100_known_texts", &memories, now, add(known, 1 << 63)),
        case("add_100_repeated_request", &memories, now, add_numbers(0..100)),
        case("update", &memories, now, space(Write::Update(Box::new(update)), 1 << 64)),
        case(
            "delete",
            &memories,
            now,
            space(Write::Delete { id: "memory-7".into(), if_version: None }, 1 << 65),
        ),
        case("add_1_fact", &memories, now, add(vec![stated(0)], 1 << 67)),
        case("add_1_superseding", &moves, now, add(vec![stated(FACT_GROUP_MAX / 2)], 1 << 67)),
        case("retract", &moves, now, space(Write::Retract { id: moved(64), ordinal: 0 }, 1 << 67)),
        case(
            "resolve",
            &moves,
            now,
            space(Write::Resolve { keep: moved(0), retire: vec![moved(64), moved(65)] }, 1 << 67),
        ),
        case("block_replace", &blocks, now, space(replace_in_block(), 1 << 68)),
        case("task_step", &tasks, now, space(step(), 1 << 71)),
        case("procedure_put", &tasks, now, space(procedure(), 1 << 72)),
        case("feedback_10", &memories, now, space(Write::Feedback { items: feedback.collect() }, 1 << 66)),
        case("claim_100", &memories, now, claim_100()),
        case("keep_100", &memories, now, space(Write::Keep { numbers: (0..100).collect() }, 1 << 75)),
        case("hash_point", &memories, now, Command::HashPoint),
        case("sweep_idle", &memories, now, sweep()),
        case("sweep_16_expired", &memories, later, sweep()),
        case("init_cluster", &BTreeState::new(), now, init_cluster()),
        case("create_tenant", &keys, now, meta(MetaCommand::CreateTenant(tenant("other")))),
        case("create_key", &keys, now, meta(MetaCommand::CreateKey(key("new")))),
        case(
            "revoke_key",
            &keys,
            now,
            meta(MetaCommand::RevokeKey { id: "key7".into(), tenant: None, by: Rights::ALL }),
        ),
    ];
    cases.extend(session_cases(now));
    cases.extend(decisions(&memories, &keys));
    cases
}

/// Sixteen pairs that say the same.
fn upkeep() -> Write {
    let hint = |number: usize| Hint { id: format!("memory-{number}"), version: 1 };
    let merge =
        |number: usize| Merge { stands: hint(number), merged: hint(number + 500), cosine_milli: Some(990) };
    let merges = (1..).filter(|number| number % EXPIRING != 0).take(16).map(merge).collect();
    Write::Upkeep(Box::new(Upkeep::Duplicates { base: 0, through: 1_000, merges }))
}

/// Decisions about names and rules, and links that are found late.
fn decisions(memories: &BTreeState, keys: &BTreeState) -> Vec<Case> {
    let names: Vec<String> = (0..GRAPH_NAMES_MAX).map(|number| format!("name {number}")).collect();
    let merge = space(Write::MergeEntities { into: "anna".into(), names: names.clone() }, 1 << 67);
    let merged = after([merge.clone()]);
    let split = space(Write::SplitEntities { from: "anna".into(), names }, 1 << 68);
    let conflicts = vec![Hint { id: "memory-8".into(), version: 1 }];
    let relink = Write::Relink { id: "memory-7".into(), due_us: data::NOW_US, conflicts };
    let rules = FactRulesRow { tenant: "bench".into(), ..FactRulesRow::default() };
    let rules = meta(MetaCommand::SetFactRules { rules, if_version: None });
    let put = |number: usize| {
        meta(MetaCommand::PutCollection(CollectionRow {
            tenant: "bench".into(),
            name: format!("collection {number}"),
            partitions: 8,
            model: Some(ModelTag { id: "client".into(), dims: 512 }),
            ..CollectionRow::default()
        }))
    };
    let collections = after_on(keys, (0..100).map(put));
    // The eighth command of the state, at index 7 from 0.
    let (tenant, name) = ("bench".to_owned(), "collection 7".to_owned());
    let delete = MetaCommand::DeleteCollection { tenant, name, incarnation: 7, key_hash: 1 };
    let case = |name, state: &BTreeState, command| {
        let (state, stamp_us) = (state.clone(), data::NOW_US + 1_000_000);
        Case { name, state, stamp_us, command }
    };
    vec![
        case("merge_entities_16", memories, merge),
        case("split_entities_16", &merged, split),
        case("relink", memories, space(relink, 1 << 67)),
        case("upkeep_16_merges", memories, space(upkeep(), 1 << 67)),
        case("set_fact_rules", keys, rules),
        case("put_collection", &collections, put(100)),
        case("delete_collection", &collections, meta(delete)),
    ]
}

/// A name says what happens only if it does.
fn check(name: &str, outcome: &Outcome) {
    let as_named = match (name, outcome) {
        (_, Outcome::Failed(_)) => false,
        ("add_100_repeated_request", Outcome::Items { replayed, .. }) => *replayed,
        ("add_100_known_texts", Outcome::Items { items, .. }) => {
            items.iter().all(|item| item.status.as_str() == "merged")
        }
        ("sweep_idle", Outcome::Swept { done, .. }) => *done == 0,
        ("sweep_16_expired", Outcome::Swept { done, .. }) => *done == u32::from(SWEEP_ROWS_MAX),
        (_, Outcome::Items { replayed, .. }) => !replayed,
        _ => true,
    };
    assert!(as_named, "{name}: {outcome:?}");
}

pub fn benches(criterion: &mut Criterion) {
    let cases = cases();
    let measured: BTreeSet<&str> = cases.iter().map(|case| kind(&case.command)).collect();
    assert!(measured.iter().eq(KINDS.iter()), "every command is measured, and named in KINDS: {measured:?}");
    let mut group = criterion.benchmark_group("apply");
    for Case { name, state, stamp_us, command } in &cases {
        let position = Position { log_index: 2_000, stamp_us: *stamp_us };
        group.bench_function(*name, |bencher| {
            let applied = apply(&mut Overlay::new(state), position, command).unwrap();
            check(name, &applied.outcome);
            bencher.iter_batched(
                || Overlay::new(state),
                |mut overlay| {
                    let applied = apply(&mut overlay, position, command).unwrap();
                    black_box((applied, overlay.into_changes().unwrap()))
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}
