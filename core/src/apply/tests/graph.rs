//! The graph: what it says is what the facts say, and names are one entity where a caller said so.

use super::facts::{id, says};
use super::*;
use crate::graph::{Bounds, Direction, Edge, Graph, When};
use crate::keys::edge;
use crate::limits::{ENTITY_ALIASES_MAX, GRAPH_NAMES_MAX};
use proptest::prelude::*;
use std::collections::BTreeSet;

const WIDE: Bounds = Bounds { depth: 6, fan_out: 1_000, entities: 1_000 };

/// Each fact that names an entity has its way back, and nothing else has one.
pub(super) fn edges_are_facts(replica: &Replica) -> std::result::Result<(), String> {
    let rows = |family| replica.state.scan(&keys::family_prefix(&space(), family), None, usize::MAX).unwrap();
    let facts = rows(Family::Fact).into_iter().filter_map(|(key, value)| {
        let row = FactRow::decode(&value).unwrap();
        (!row.object.is_empty()).then(|| edge::key(&space(), &row.object, &key).unwrap())
    });
    let expected: BTreeSet<Vec<u8>> = facts.collect();
    let stored: BTreeSet<Vec<u8>> = rows(Family::Edge).into_iter().map(|(key, _)| key).collect();
    if expected == stored {
        return Ok(());
    }
    Err(format!("{} ways back for {} facts", stored.len(), expected.len()))
}

impl Replica {
    fn graph<T>(&self, when: When, ask: impl FnOnce(&mut Graph<'_>) -> T) -> T {
        let space = space();
        ask(&mut Graph::new(&self.state, &space, When { now_us: self.clock_us, ..when }, 100_000))
    }

    fn edges(&self, name: &str) -> Vec<(String, String, String)> {
        self.graph(When::default(), |graph| {
            let entity = graph.entity(name).unwrap();
            triples(&graph.edges(&entity, Direction::Both, &|_| true, 1_000).unwrap().0)
        })
    }

    fn state_facts(&mut self, facts: &[(&str, &str, &str)]) {
        for (n, (subject, predicate, object)) in (1u8..).zip(facts) {
            self.write(add(vec![says(n, subject, predicate, object).at(i64::from(n))]));
        }
    }
}

fn triples(edges: &[Edge]) -> Vec<(String, String, String)> {
    let triple = |edge: &Edge| (edge.subject.clone(), edge.relation.clone(), edge.object.clone());
    edges.iter().map(triple).collect()
}

fn triple(subject: &str, relation: &str, object: &str) -> (String, String, String) {
    (subject.to_owned(), relation.to_owned(), object.to_owned())
}

fn merge(into: &str, names: &[&str]) -> Write {
    Write::MergeEntities { into: into.into(), names: names.iter().map(|name| (*name).to_owned()).collect() }
}

fn split(from: &str, names: &[&str]) -> Write {
    Write::SplitEntities { from: from.into(), names: names.iter().map(|name| (*name).to_owned()).collect() }
}

#[test]
fn relations_follow_the_facts() {
    let mut replica = Replica::new();
    replica.state_facts(&[
        ("Anna", "works at", "Acme"),
        ("Anna", "likes", "tea"),
        ("Anna", "does not eat", "meat"),
        ("小明", "认识", "Anna"),
        ("Anna", "works at", "Initech"),
        ("Anna", "no longer works at", "Hooli"),
    ]);
    edges_are_facts(&replica).unwrap();
    let now = [
        triple("anna", "likes", "tea"),
        triple("anna", "works at", "initech"),
        triple("小明", "knows", "anna"),
    ];
    assert_eq!(replica.edges("anna"), now);
    assert_eq!(replica.edges("acme"), [], "it is over");
    let all = replica.graph(When { include_deprecated: true, ..When::default() }, |graph| {
        let entity = graph.entity("acme").unwrap();
        triples(&graph.edges(&entity, Direction::In, &|_| true, 9).unwrap().0)
    });
    assert_eq!(all, [triple("anna", "works at", "acme")]);
    let then = replica.graph(When { as_of: Some((2, i64::MAX)), ..When::default() }, |graph| {
        let entity = graph.entity("anna").unwrap();
        triples(&graph.edges(&entity, Direction::Out, &|_| true, 9).unwrap().0)
    });
    assert_eq!(then, [triple("anna", "likes", "tea"), triple("anna", "works at", "acme")]);
    replica.write(delete(&id(5)));
    assert!(replica.edges("initech").is_empty());
    assert_eq!(replica.edges("acme"), [triple("anna", "works at", "acme")], "current again");
}

#[test]
fn a_memory_that_says_otherwise_takes_its_relations_with_it() {
    let mut replica = Replica::new();
    replica.state_facts(&[("Anna", "knows", "Bo")]);
    let item = says(1, "Anna", "knows", "Cy").at(1);
    let item = NewMemory { index: IndexRow { id: id(1), ..item.index.clone() }, ..item };
    let update =
        Update { if_version: 1, model: None, vectors_given: false, keep_statements: false, memory: item };
    replica.write(Write::Update(Box::new(update)));
    edges_are_facts(&replica).unwrap();
    assert_eq!((replica.edges("bo").len(), replica.edges("cy").len()), (0, 1));
}

#[test]
fn merged_names_are_one_entity_until_they_are_split() {
    let mut replica = Replica::new();
    replica.state_facts(&[("Anna", "knows", "Bo"), ("Annie", "knows", "Cy"), ("Bo", "knows", "Annie")]);
    let before = replica.state.clone();
    replica.items(merge("anna", &["annie"]));
    let both = [triple("anna", "knows", "bo"), triple("anna", "knows", "cy"), triple("bo", "knows", "anna")];
    assert_eq!(replica.edges("annie"), both);
    assert_eq!(replica.edges("anna"), both);
    replica.items(merge("annie", &["ann"]));
    assert_eq!(
        replica.graph(When::default(), |graph| graph.entity("ann").unwrap().aliases),
        ["ann", "annie"]
    );
    replica.items(merge("anna", &["ann"]));
    assert_eq!(replica.family(Family::Entity), 3, "once more changes nothing");

    for (write, code) in [
        (merge("bo", &["annie"]), ErrorCode::Conflict),
        (merge("anna", &["anna"]), ErrorCode::InvalidArgument),
        (split("anna", &["bo"]), ErrorCode::NotFound),
        (split("anna", &["ann", "ann"]), ErrorCode::NotFound),
    ] {
        assert_eq!(failed(replica.write(write)), code);
    }
    replica.items(split("annie", &["annie", "ann"]));
    assert_eq!(replica.edges("anna"), [triple("anna", "knows", "bo")]);
    assert_eq!(replica.family(Family::Entity), 0);
    let left =
        before.rows().filter(|(key, value)| replica.state.get(key).unwrap().as_deref() != Some(*value));
    assert_eq!(left.count(), 1, "but for the clock all is as before");
}

#[test]
fn an_entity_that_joins_another_brings_its_names() {
    let mut replica = Replica::new();
    replica.items(merge("a", &["b"]));
    replica.items(merge("c", &["a"]));
    let entity = replica.graph(When::default(), |graph| graph.entity("b").unwrap());
    assert_eq!(
        (entity.name.as_str(), entity.aliases.as_slice()),
        ("c", &["a".to_owned(), "b".to_owned()][..])
    );
}

#[test]
fn names_are_bounded() {
    let mut replica = Replica::new();
    let names: Vec<String> = (0..=ENTITY_ALIASES_MAX).map(|n| format!("n{n}")).collect();
    for chunk in names[..ENTITY_ALIASES_MAX].chunks(GRAPH_NAMES_MAX) {
        replica.items(Write::MergeEntities { into: "x".into(), names: chunk.to_vec() });
    }
    let one_more = Write::MergeEntities { into: "x".into(), names: vec![names[ENTITY_ALIASES_MAX].clone()] };
    assert_eq!(failed(replica.write(one_more)), ErrorCode::TooLarge);
    let refused = |names: Vec<String>| {
        space_command(Write::MergeEntities { into: "x".into(), names }, None).check().unwrap_err().code
    };
    for names in [vec![], vec!["n".into(); GRAPH_NAMES_MAX + 1], vec![String::new()], vec!["a\0b".into()]] {
        assert_eq!(refused(names), ErrorCode::InvalidArgument);
    }
}

#[test]
fn a_repeated_merge_is_answered_again() {
    let mut replica = Replica::new();
    let command = space_command(merge("a", &["b"]), Some(key(1, 1)));
    let first = replica.run(&command);
    let Outcome::Items { items, replayed, .. } = replica.run(&command) else { panic!("no items") };
    assert!(replayed && matches!(first, Outcome::Items { items: ref before, .. } if *before == items));
    assert_eq!(items[0].id, "a");
}

#[test]
fn walks_end_where_they_are_bounded_and_say_so() {
    let mut replica = Replica::new();
    let names: Vec<String> = (0..30).map(|n| format!("n{n:02}")).collect();
    let chain: Vec<(&str, &str, &str)> =
        names.windows(2).map(|pair| (pair[0].as_str(), "knows", pair[1].as_str())).collect();
    replica.state_facts(&chain);
    let walk = |bounds| {
        replica.graph(When::default(), |graph| {
            let walked = graph.traverse("n00", Direction::Out, &|_| true, bounds).unwrap();
            (walked.entities.len(), walked.edges.len(), walked.truncated)
        })
    };
    assert_eq!(walk(Bounds { depth: 3, ..WIDE }), (4, 3, false));
    assert_eq!(walk(Bounds { depth: 9, entities: 5, ..WIDE }), (5, 4, true));
    let path = |to: &str, depth| {
        replica.graph(When::default(), |graph| {
            graph.path("n00", to, Direction::Both, &|_| true, Bounds { depth, ..WIDE }).unwrap()
        })
    };
    assert_eq!((path("n05", 5).edges.len(), path("n05", 5).found), (5, true));
    assert_eq!((path("n06", 5).edges.len(), path("n06", 5).found), (0, false));
    assert!(path("n00", 1).found && path("n00", 1).edges.is_empty());
    let starved = {
        let space = space();
        let mut graph =
            Graph::new(&replica.state, &space, When { now_us: replica.clock_us, ..When::default() }, 6);
        graph.traverse("n00", Direction::Both, &|_| true, WIDE).unwrap()
    };
    assert!(starved.truncated && starved.entities.len() < 7, "{starved:?}");
}

mod random {
    use super::*;

    #[derive(Debug, Clone)]
    enum Op {
        Relate { n: u8, subject: usize, relation: usize, object: usize },
        Delete(u8),
        Retract(u8),
        Merge { into: usize, name: usize },
        Split { name: usize },
    }

    const NAMES: [&str; 6] = ["anna", "bo", "小明", "cy", "d", "é"];
    /// Both hold many objects: nothing is superseded, so that the model stays simple.
    const RELATIONS: [&str; 2] = ["knows", "visited"];

    fn op() -> impl Strategy<Value = Op> {
        let name = 0..NAMES.len();
        prop_oneof![
            6 => (1..=14u8, name.clone(), 0..RELATIONS.len(), name.clone())
                .prop_map(|(n, subject, relation, object)| Op::Relate { n, subject, relation, object }),
            1 => (1..=14u8).prop_map(Op::Delete),
            1 => (1..=14u8).prop_map(Op::Retract),
            2 => (name.clone(), name.clone()).prop_map(|(into, name)| Op::Merge { into, name }),
            1 => name.prop_map(|name| Op::Split { name }),
        ]
    }

    #[derive(Default)]
    struct Model {
        facts: BTreeMap<u8, (usize, usize, usize, bool)>,
        /// Which entity each other name stands for.
        same_as: BTreeMap<usize, usize>,
    }

    impl Model {
        fn entity(&self, name: usize) -> usize {
            self.same_as.get(&name).copied().unwrap_or(name)
        }

        fn take(&mut self, op: &Op) {
            match *op {
                Op::Relate { n, subject, relation, object } => {
                    self.facts.entry(n).or_insert((subject, relation, object, true));
                }
                Op::Delete(n) => drop(self.facts.remove(&n)),
                Op::Retract(n) => {
                    if let Some(fact) = self.facts.get_mut(&n) {
                        fact.3 = false;
                    }
                }
                Op::Merge { into, name } => {
                    let into = self.entity(into);
                    if name != into && !self.same_as.contains_key(&name) {
                        self.same_as.values_mut().filter(|of| **of == name).for_each(|of| *of = into);
                        self.same_as.insert(name, into);
                    }
                }
                Op::Split { name } => drop(self.same_as.remove(&name)),
            }
        }

        fn edges(&self) -> BTreeSet<(u8, usize, usize)> {
            let live = self.facts.iter().filter(|(_, fact)| fact.3);
            live.map(|(n, (subject, _, object, _))| (*n, self.entity(*subject), self.entity(*object)))
                .collect()
        }

        /// Distances from an entity, by looking at all edges again and again.
        fn distances(&self, from: usize) -> BTreeMap<usize, u32> {
            let mut distances = BTreeMap::from([(self.entity(from), 0)]);
            for _ in 0..NAMES.len() {
                for (_, a, b) in self.edges() {
                    for (a, b) in [(a, b), (b, a)] {
                        if let Some(distance) = distances.get(&a).copied() {
                            let known = distances.entry(b).or_insert(u32::MAX);
                            *known = (*known).min(distance + 1);
                        }
                    }
                }
            }
            distances
        }
    }

    fn command_of(op: &Op, model: &Model, number: u128) -> Command {
        let write = match *op {
            Op::Relate { n, subject, relation, object } => {
                let item = says(n, NAMES[subject], RELATIONS[relation], NAMES[object]).at(1);
                add(vec![NewMemory { id_chosen: true, text_hash: number, content: n.to_string(), ..item }])
            }
            Op::Delete(n) => delete(&id(n)),
            Op::Retract(n) => Write::Retract { id: id(n), ordinal: 0 },
            Op::Merge { into, name } => merge(NAMES[into], &[NAMES[name]]),
            Op::Split { name } => split(NAMES[model.entity(name)], &[NAMES[name]]),
        };
        space_command(write, None)
    }

    proptest! {
        /// Whatever is related, retracted, deleted, merged and split: edges are facts, and entities,
        /// distances and paths are those of a model that looks at everything.
        #[test]
        fn the_graph_is_what_the_simple_model_says(ops in proptest::collection::vec(op(), 1..40)) {
            let (mut replica, mut model) = (Replica::new(), Model::default());
            for (number, op) in (0u128..).zip(&ops) {
                replica.run(&command_of(op, &model, number));
                model.take(op);
                prop_assert_eq!(edges_are_facts(&replica), Ok(()));
            }
            let edges = model.edges();
            for (at, name) in NAMES.iter().enumerate() {
                let entity = model.entity(at);
                let found = replica.graph(When::default(), |graph| {
                    let found = graph.entity(name).unwrap();
                    let edges = graph.edges(&found, Direction::Both, &|_| true, 1_000).unwrap().0;
                    (found.name, edges)
                });
                prop_assert_eq!(found.0.as_str(), NAMES[entity]);
                let place = |name: &str| NAMES.iter().position(|known| *known == name).unwrap();
                let shown: BTreeSet<(u8, usize, usize)> = found.1.iter().map(|edge| {
                    let n = (1..=14).find(|n| id(*n) == edge.fact.id).unwrap();
                    (n, place(&edge.subject), place(&edge.object))
                }).collect();
                prop_assert_eq!(shown.len(), found.1.len(), "each once");
                let expected: BTreeSet<(u8, usize, usize)> =
                    edges.iter().filter(|(_, a, b)| *a == entity || *b == entity).copied().collect();
                prop_assert_eq!(shown, expected);

                let distances = model.distances(at);
                let walked = replica.graph(When::default(), |graph| {
                    graph.traverse(name, Direction::Both, &|_| true, WIDE).unwrap()
                });
                let reached: BTreeMap<usize, u32> =
                    walked.entities.iter().map(|(name, depth)| (place(name), *depth)).collect();
                prop_assert_eq!(&reached, &distances);
                for (to, other) in NAMES.iter().enumerate() {
                    let path = replica.graph(When::default(), |graph| {
                        graph.path(name, other, Direction::Both, &|_| true, WIDE).unwrap()
                    });
                    let distance = distances.get(&model.entity(to)).copied();
                    prop_assert_eq!(path.found.then_some(path.edges.len()), distance.map(|n| n as usize));
                }
            }
        }
    }
}
