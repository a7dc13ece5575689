//! Which rows stand for all in the statistics of the cosine.

use super::rows::Rows;

/// At most this many rows of a partition give their cosine to the statistics.
pub const SAMPLE_ROWS_MAX: usize = 1_024;

/// The live rows with a vector that have the smallest hashes of their ids, at most
/// [`SAMPLE_ROWS_MAX`], all if there are fewer; in ascending order of the row.
///
/// `id_hash` has one well-mixed hash per row. The choice depends on ids alone, so every replica
/// makes it alike, whatever order it loaded its rows in. Linear time; an image can keep the
/// answer until its rows change.
pub fn sample(rows: &Rows<'_>, id_hash: &[u64]) -> Vec<u32> {
    // Twice as many as are wanted have smaller hashes than this, if hashes are spread evenly and all rows
    // count: then the others need not be looked at.
    let likely = u64::MAX / (rows.len() as u64).max(1);
    let mut chosen = below(rows, id_hash, likely.saturating_mul(2 * SAMPLE_ROWS_MAX as u64));
    if chosen.len() < SAMPLE_ROWS_MAX {
        chosen = below(rows, id_hash, u64::MAX);
    }
    if chosen.len() > SAMPLE_ROWS_MAX {
        chosen.select_nth_unstable(SAMPLE_ROWS_MAX - 1);
        chosen.truncate(SAMPLE_ROWS_MAX);
    }
    let mut rows: Vec<u32> = chosen.into_iter().map(|(_, row)| row).collect();
    rows.sort_unstable();
    rows
}

fn below(rows: &Rows<'_>, id_hash: &[u64], limit: u64) -> Vec<(u64, u32)> {
    (0u32..)
        .zip(id_hash)
        .filter(|&(row, &hash)| hash <= limit && rows.has_vector(row as usize))
        .map(|(row, &hash)| (hash, row))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::{NONE, flag};
    use super::*;
    use std::collections::BTreeSet;

    fn chosen_hashes(hashes: &[u64], flags: &[u8]) -> BTreeSet<u64> {
        let none = vec![NONE; hashes.len()];
        let rows = Rows::new(flags, &none, &none, &none).unwrap();
        let rows = sample(&rows, hashes);
        rows.into_iter().map(|row| hashes[row as usize]).collect()
    }

    #[test]
    fn the_choice_depends_on_ids_not_on_the_order_of_rows() {
        let count = 3_000u64;
        let hashes: Vec<u64> = (0..count).map(|n| xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes())).collect();
        let flags = vec![flag::LIVE | flag::VECTOR; hashes.len()];
        let chosen = chosen_hashes(&hashes, &flags);
        assert_eq!(chosen.len(), SAMPLE_ROWS_MAX);
        let reversed: Vec<u64> = hashes.iter().rev().copied().collect();
        assert_eq!(chosen, chosen_hashes(&reversed, &flags));
        assert!(chosen.iter().max() < hashes.iter().filter(|h| !chosen.contains(h)).min());
    }

    #[test]
    fn dead_rows_and_rows_without_a_vector_are_not_chosen() {
        let flags = [flag::LIVE | flag::VECTOR, flag::VECTOR, flag::LIVE, 0];
        assert_eq!(chosen_hashes(&[5, 6, 7, 8], &flags), BTreeSet::from([5]));
        assert_eq!(chosen_hashes(&[], &[]), BTreeSet::new());
    }
}
