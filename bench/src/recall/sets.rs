//! What is recalled: spaces of clustered vectors, always the same for the same seed, and the true
//! nearest of them.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::client::{NewMemory, RecallRequest, Situation};
use crate::load::statement;

/// Name of the model that the vectors are said to be of.
const MODEL: &str = "bench";
/// How many memories an answer has at most.
pub(super) const TOP_K: usize = 10;
/// Memories have a number below this, equally often, by which a filter can let through a share of them.
pub(super) const SHARES: usize = 1_000;
/// Largest space of a set of users.
const SPACE_MAX: usize = 20_000;
/// Spread of the sizes of spaces: the deviation of their logarithm.
const SIZE_SPREAD: f64 = 1.5;
/// Length of the noise around a centre, whose length is 1.
const NOISE: f32 = 0.8;
/// Length of what a question's vector differs by from a memory's.
const QUESTION_NOISE: f32 = 0.5;
/// Bytes of a memory's text that a question repeats.
const QUESTION_BYTES: usize = 48;
/// A hit that is as near as the last of the true ones within this is right: vectors are stored as f16.
const TIE: f32 = 1e-3;
/// When questions are asked; memories happened in the 90 days before.
pub(super) const NOW: &str = "2026-06-30T12:00:00Z";

/// Which spaces there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(super) enum Shape {
    /// One space of so many memories.
    One {
        /// The memories.
        memories: usize,
    },
    /// Users whose memories differ in number, most of them with fewer than the mean.
    Users {
        /// The users.
        users: usize,
        /// Memories of a user, about.
        mean: usize,
    },
}

/// Spaces with their vectors.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) dims: usize,
    pub(super) spaces: Vec<Range<usize>>,
    /// Of unit length, one behind the other.
    vectors: Vec<f32>,
    seed: u64,
}

/// A question and the space that it is asked in.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) space: usize,
    vector: Vec<f32>,
    text: String,
}

/// What a recall weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// The default profile: words, vector, recency and importance.
    Composite,
    /// The nearest vectors alone.
    Vector,
}

impl Mode {
    pub(super) const ALL: [Self; 2] = [Self::Composite, Self::Vector];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Composite => "composite",
            Self::Vector => "vector",
        }
    }
}

impl Set {
    pub(super) fn new(shape: Shape, dims: usize, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let spaces = spaces(shape, &mut rng);
        let rows = spaces.last().map_or(0, |space| space.end);
        let mut vectors = Vec::with_capacity(rows * dims);
        for space in &spaces {
            let centres = space.len().isqrt().max(1);
            let centres: Vec<Vec<f32>> = (0..centres).map(|_| direction(dims, &mut rng)).collect();
            for _ in space.clone() {
                let centre = &centres[rng.random_range(0..centres.len())];
                vectors.extend(near(centre, NOISE, &mut rng));
            }
        }
        Self { dims, spaces, vectors, seed }
    }

    pub(super) fn memories(&self) -> usize {
        self.vectors.len() / self.dims
    }

    /// The user of a space.
    pub(super) fn user(space: usize) -> String {
        format!("user-{space}")
    }

    /// The id of a row.
    pub(super) fn id(row: usize) -> String {
        format!("m{row}")
    }

    fn vector(&self, row: usize) -> &[f32] {
        &self.vectors[row * self.dims..(row + 1) * self.dims]
    }

    fn text(&self, row: usize) -> String {
        let mut rng = StdRng::seed_from_u64(self.seed ^ (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        format!("{} (note {row})", statement(&mut rng))
    }

    /// A row as it is stored.
    pub(super) fn memory(&self, row: usize) -> NewMemory {
        let mut rng = StdRng::seed_from_u64(self.seed.wrapping_add(row as u64));
        let (month, day, hour) =
            (rng.random_range(4..=6), rng.random_range(1..=29), rng.random_range(0..=23));
        NewMemory {
            id: Some(Self::id(row)),
            content: self.text(row),
            importance: Some(f64::from(rng.random_range(0..=10u8)) / 10.0),
            event_time: Some(format!("2026-{month:02}-{day:02}T{hour:02}:00:00Z")),
            metadata: Some(Map::from_iter([("share".to_owned(), Value::from(row * 7 % SHARES))])),
            embedding: Some(encoded(self.vector(row))),
            embedding_model: Some(MODEL.to_owned()),
            ..NewMemory::default()
        }
    }

    /// Questions in spaces of which the first is asked most (Zipf's law with exponent 1).
    pub(super) fn questions(&self, count: usize) -> Vec<Question> {
        let mut rng = StdRng::seed_from_u64(!self.seed);
        let mut sums = Vec::with_capacity(self.spaces.len());
        let mut sum = 0.0;
        for rank in 1..=self.spaces.len() {
            sum += 1.0 / rank as f64;
            sums.push(sum);
        }
        (0..count)
            .map(|_| {
                let at = rng.random_range(0.0..sum);
                let space = sums.partition_point(|sum| *sum <= at).min(self.spaces.len() - 1);
                self.question(space, &mut rng)
            })
            .collect()
    }

    /// A question for each of the first spaces.
    pub(super) fn one_for_each(&self, spaces_max: usize) -> Vec<Question> {
        let mut rng = StdRng::seed_from_u64(self.seed.rotate_left(7));
        (0..self.spaces.len().min(spaces_max)).map(|space| self.question(space, &mut rng)).collect()
    }

    fn question(&self, space: usize, rng: &mut StdRng) -> Question {
        let row = rng.random_range(self.spaces[space].clone());
        let mut text = self.text(row);
        text.truncate(text.floor_char_boundary(QUESTION_BYTES));
        Question { space, vector: near(self.vector(row), QUESTION_NOISE, rng), text }
    }

    /// The part of the true nearest that an answer has, given the ids that it names. Cosines below 0 count
    /// as 0, as in the score: rows that point away from the question are all alike.
    pub(super) fn recall(&self, question: &Question, found: &[String]) -> f64 {
        let rows = self.spaces[question.space].clone();
        let mut cosines: Vec<f32> =
            rows.clone().map(|row| dot(self.vector(row), &question.vector).max(0.0)).collect();
        let of_row: Vec<f32> = cosines.clone();
        cosines.sort_by(|a, b| b.total_cmp(a));
        let wanted = TOP_K.min(cosines.len());
        let Some(last) = wanted.checked_sub(1).map(|last| cosines[last]) else { return 1.0 };
        let row_of = |id: &String| id.strip_prefix('m').and_then(|row| row.parse::<usize>().ok());
        let right = found
            .iter()
            .take(wanted)
            .filter_map(row_of)
            .filter(|row| rows.contains(row) && of_row[row - rows.start] >= last - TIE)
            .count();
        right as f64 / wanted as f64
    }
}

impl Question {
    /// The call that asks it for so many hits among so many in 1,000 memories.
    pub(super) fn request(&self, mode: Mode, top_k: usize, per_mille: usize) -> RecallRequest {
        let vector = mode == Mode::Vector;
        RecallRequest {
            query: if vector { String::new() } else { self.text.clone() },
            embedding: Some(encoded(&self.vector)),
            embedding_model: Some(MODEL.to_owned()),
            top_k: u32::try_from(top_k).unwrap_or(u32::MAX),
            filter: (per_mille < SHARES).then(|| json!({"metadata.share": {"$lt": per_mille}})),
            relevance: vector.then(|| "vector".to_owned()),
            // Some of the texts say that something changed; what they seem to replace is to be found, too.
            conflicts: Some("all".to_owned()),
            profile: vector.then(|| "relevance".to_owned()),
            situation: Some(Situation { now: Some(NOW.to_owned()) }),
            ..RecallRequest::default()
        }
    }
}

fn spaces(shape: Shape, rng: &mut StdRng) -> Vec<Range<usize>> {
    let sizes: Vec<usize> = match shape {
        Shape::One { memories } => vec![memories],
        Shape::Users { users, mean } => (0..users)
            .map(|_| {
                // Log-normal: its mean is exp(m + s^2 / 2).
                let size = mean as f64 * (SIZE_SPREAD * normal(rng) - SIZE_SPREAD * SIZE_SPREAD / 2.0).exp();
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let size = size.round().clamp(1.0, SPACE_MAX as f64) as usize;
                size
            })
            .collect(),
    };
    let mut start = 0;
    let next = |size: usize| {
        let space = start..start + size;
        start = space.end;
        space
    };
    sizes.into_iter().map(next).collect()
}

/// Normally distributed (Box and Muller 1958).
fn normal(rng: &mut StdRng) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// A random vector of unit length.
#[allow(clippy::cast_possible_truncation)]
fn direction(dims: usize, rng: &mut StdRng) -> Vec<f32> {
    unit((0..dims).map(|_| normal(rng) as f32).collect())
}

/// A vector of unit length that differs from `centre` by about `noise` before it is normalised.
fn near(centre: &[f32], noise: f32, rng: &mut StdRng) -> Vec<f32> {
    let away = direction(centre.len(), rng);
    unit(centre.iter().zip(away).map(|(centre, away)| centre + noise * away).collect())
}

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = dot(&vector, &vector).sqrt().max(f32::MIN_POSITIVE);
    vector.iter_mut().for_each(|value| *value /= length);
    vector
}

/// In eight sums, so that the compiler can use wide registers.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + rest
}

fn encoded(vector: &[f32]) -> Value {
    let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
    Value::String(STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_repeatable_and_of_the_size_that_is_asked_for() {
        let shape = Shape::Users { users: 400, mean: 50 };
        let (set, again) = (Set::new(shape, 8, 3), Set::new(shape, 8, 3));
        assert_eq!((&set.spaces, &set.vectors), (&again.spaces, &again.vectors));
        assert_eq!(set.spaces.len(), 400);
        let mean = set.memories() / 400;
        assert!((30..90).contains(&mean), "{mean}");
        let sizes: Vec<usize> = set.spaces.iter().map(ExactSizeIterator::len).collect();
        assert!(sizes.iter().filter(|size| **size < 50).count() > 200, "a long tail");
        assert!(sizes.iter().all(|size| (1..=SPACE_MAX).contains(size)));
        let one = Set::new(Shape::One { memories: 77 }, 16, 3);
        assert_eq!((one.memories(), one.spaces.len()), (77, 1));
        assert_ne!(one.memory(3).content, one.memory(4).content);
        assert!(one.vectors.chunks(16).all(|vector| (dot(vector, vector) - 1.0).abs() < 1e-5));
    }

    #[test]
    fn the_true_nearest_are_all_of_the_recall_and_others_none() {
        let set = Set::new(Shape::Users { users: 5, mean: 60 }, 24, 9);
        for question in set.questions(20) {
            let rows = set.spaces[question.space].clone();
            let mut by_cosine: Vec<usize> = rows.collect();
            let cosine = |row: usize| dot(set.vector(row), &question.vector);
            by_cosine.sort_by(|a, b| cosine(*b).total_cmp(&cosine(*a)));
            let best: Vec<String> = by_cosine.iter().take(TOP_K).map(|row| Set::id(*row)).collect();
            assert!((set.recall(&question, &best) - 1.0).abs() < 1e-9);
            assert!(set.recall(&question, &best[..1]) <= 0.5 || best.len() < 2);
            let worst: Vec<String> = by_cosine.iter().rev().take(2).map(|row| Set::id(*row)).collect();
            assert!(by_cosine.len() < 30 || set.recall(&question, &worst) < 1e-9);
            assert!(set.recall(&question, &["m999999".into(), "其他".into()]) < 1e-9);
        }
    }

    #[test]
    fn the_first_users_are_asked_most() {
        let set = Set::new(Shape::Users { users: 100, mean: 3 }, 4, 1);
        let questions = set.questions(5_000);
        let of = |space| questions.iter().filter(|question| question.space == space).count();
        assert!(of(0) > 5 * of(20).max(1), "{} {}", of(0), of(20));
        assert_eq!(
            set.one_for_each(7).iter().map(|question| question.space).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 5, 6]
        );
    }
}
