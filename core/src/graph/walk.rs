use super::read::{Direction, Edge, Fault, Graph};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How far a walk goes. Where it ends for one of these, it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Relations between the first entity and the last.
    pub depth: u32,
    /// Relations that are followed from one entity.
    pub fan_out: usize,
    /// Entities that are reached.
    pub entities: usize,
}

/// What a walk reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walked {
    /// The entities with their distance from the first, nearest first.
    pub entities: Vec<(String, u32)>,
    /// The relations between them that were followed, each once.
    pub edges: Vec<Edge>,
    /// Whether a bound left something out.
    pub truncated: bool,
}

/// A way from one entity to another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Path {
    /// Its relations in their order; empty if there is no way, or the two are one.
    pub edges: Vec<Edge>,
    /// Whether there is one.
    pub found: bool,
    /// Whether a bound left something out: with none found, there may be one nevertheless.
    pub truncated: bool,
}

impl Graph<'_> {
    /// Everything around an entity, breadth first.
    ///
    /// # Errors
    /// [`Fault`] if the store cannot be read.
    pub fn traverse(
        &mut self,
        from: &str,
        direction: Direction,
        wanted: &dyn Fn(&str) -> bool,
        bounds: Bounds,
    ) -> Result<Walked, Fault> {
        let start = self.entity(from)?;
        let mut walked = Walked { entities: vec![(start.name.clone(), 0)], ..Walked::default() };
        let mut known = BTreeSet::from([start.name.clone()]);
        // A relation between two entities is met from both of its ends.
        let mut followed: BTreeSet<(u64, u8)> = BTreeSet::new();
        let mut queue = VecDeque::from([(start.name, 0)]);
        while let Some((name, depth)) = queue.pop_front() {
            if depth == bounds.depth {
                break;
            }
            let entity = self.entity(&name)?;
            let (edges, more) = self.edges(&entity, direction, wanted, bounds.fan_out)?;
            walked.truncated |= more;
            for edge in edges {
                let other = if edge.subject == name { &edge.object } else { &edge.subject };
                if !known.contains(other) {
                    if walked.entities.len() == bounds.entities {
                        walked.truncated = true;
                        continue;
                    }
                    known.insert(other.clone());
                    walked.entities.push((other.clone(), depth + 1));
                    queue.push_back((other.clone(), depth + 1));
                }
                if followed.insert((edge.fact.seq, edge.fact.ordinal)) {
                    walked.edges.push(edge);
                }
            }
            if self.is_spent() {
                walked.truncated = true;
                break;
            }
        }
        Ok(walked)
    }

    /// A shortest way from one entity to another.
    ///
    /// # Errors
    /// [`Fault`] if the store cannot be read.
    pub fn path(
        &mut self,
        from: &str,
        to: &str,
        direction: Direction,
        wanted: &dyn Fn(&str) -> bool,
        bounds: Bounds,
    ) -> Result<Path, Fault> {
        let (start, goal) = (self.entity(from)?.name, self.entity(to)?.name);
        let mut path = Path { found: start == goal, ..Path::default() };
        // The relation by which each entity was reached first, and from where.
        let mut reached: BTreeMap<String, Option<(String, Edge)>> = BTreeMap::from([(start.clone(), None)]);
        let mut queue = VecDeque::from([(start, 0)]);
        while let Some((name, depth)) = queue.pop_front() {
            if path.found || depth == bounds.depth {
                break;
            }
            let entity = self.entity(&name)?;
            let (edges, more) = self.edges(&entity, direction, wanted, bounds.fan_out)?;
            path.truncated |= more;
            for edge in edges {
                let other = if edge.subject == name { edge.object.clone() } else { edge.subject.clone() };
                if reached.contains_key(&other) {
                    continue;
                }
                if reached.len() == bounds.entities {
                    path.truncated = true;
                    break;
                }
                path.found |= other == goal;
                reached.insert(other.clone(), Some((name.clone(), edge)));
                queue.push_back((other, depth + 1));
            }
            if self.is_spent() {
                path.truncated = true;
                break;
            }
        }
        let mut at = goal;
        while let Some(Some((before, edge))) = reached.remove(&at) {
            path.edges.push(edge);
            at = before;
        }
        path.edges.reverse();
        Ok(path)
    }
}
