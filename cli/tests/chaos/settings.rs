//! How long and with which seed a suite runs.

use rand::SeedableRng;
use rand::rngs::StdRng;

/// Whether the long version runs.
pub fn is_long() -> bool {
    std::env::var("HOLDFAST_TEST_LONG").is_ok_and(|value| value == "1")
}

/// Rounds of a suite: `HOLDFAST_TEST_ROUNDS`, else by the version that runs.
pub fn rounds(short: usize, long: usize) -> usize {
    match std::env::var("HOLDFAST_TEST_ROUNDS") {
        Ok(text) => text.parse().expect("HOLDFAST_TEST_ROUNDS is a number"),
        Err(_) if is_long() => long,
        Err(_) => short,
    }
}

/// The seed of a suite: `HOLDFAST_TEST_SEED`, else a new one. It is printed, so that a failure can be
/// tried again; processes and networks still do as they like.
pub fn seed() -> u64 {
    let seed = match std::env::var("HOLDFAST_TEST_SEED") {
        Ok(text) => text.parse().expect("HOLDFAST_TEST_SEED is a number"),
        Err(_) => rand::random(),
    };
    println!("HOLDFAST_TEST_SEED={seed}");
    seed
}

/// Random choices that follow from a seed.
pub fn choices(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}
