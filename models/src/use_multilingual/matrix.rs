//! Matrix product for few rows against fixed weights.
//!
//! A sentence has some dozen tokens, so the time goes into streaming the weights once from
//! memory, not into arithmetic. The weights are therefore laid out at load time in the order
//! in which the product reads them: panels of [`PANEL`] columns, row after row. The rows of the
//! left side are interleaved in blocks of [`BLOCK`], so that each weight that is read is used
//! for a whole block.

use pulp::{Arch, Simd, WithSimd};

/// Columns of a panel: two AVX2 registers, four of 128 bits.
const PANEL: usize = 16;
/// Rows of the left side that are multiplied at once: 6 x 2 sums fit AVX2's 16 registers.
const BLOCK: usize = 6;

/// A matrix that stands on the right of products.
#[derive(Debug)]
pub(super) struct Matrix {
    rows: usize,
    columns: usize,
    /// Element (r, c) is at `(c / PANEL * rows + r) * PANEL + c % PANEL`.
    panels: Vec<f32>,
}

/// The left side of products, filled row by row and reused.
#[derive(Debug, Default)]
pub(super) struct LeftRows {
    rows: usize,
    width: usize,
    /// Blocks of `BLOCK` rows; element k of row i of a block is at `k * BLOCK + i`.
    blocks: Vec<f32>,
}

impl LeftRows {
    /// Takes the rows that `row(0..rows)` gives, each of `width` elements.
    pub(super) fn fill<'a>(&mut self, rows: usize, width: usize, row: impl Fn(usize) -> &'a [f32]) {
        self.rows = rows;
        self.width = width;
        // The last block is filled up with zeros; what they give is not written out.
        self.blocks.clear();
        self.blocks.resize(rows.div_ceil(BLOCK) * BLOCK * width, 0.0);
        for (index, block) in self.blocks.chunks_exact_mut(BLOCK * width).enumerate() {
            for lane in 0..BLOCK.min(rows - index * BLOCK) {
                let (slots, _) = block.as_chunks_mut::<BLOCK>();
                for (slot, value) in slots.iter_mut().zip(row(index * BLOCK + lane)) {
                    slot[lane] = *value;
                }
            }
        }
    }
}

impl Matrix {
    /// Takes `rows * columns` elements in row-major order; `columns` is a multiple of
    /// [`PANEL`]. `None` if the sizes do not fit.
    pub(super) fn from_row_major(rows: usize, columns: usize, elements: &[f32]) -> Option<Self> {
        if !columns.is_multiple_of(PANEL) || rows == 0 || elements.len() != rows * columns {
            return None;
        }
        let mut panels = Vec::with_capacity(elements.len());
        for panel in 0..columns / PANEL {
            for row in elements.chunks_exact(columns) {
                panels.extend_from_slice(&row[panel * PANEL..(panel + 1) * PANEL]);
            }
        }
        Some(Self { rows, columns, panels })
    }

    /// The columns of all `parts`, which have equally many rows. `None` if they do not.
    pub(super) fn side_by_side(parts: &[Self]) -> Option<Self> {
        let rows = parts.first()?.rows;
        parts.iter().all(|part| part.rows == rows).then(|| Self {
            rows,
            columns: parts.iter().map(|part| part.columns).sum(),
            // Panels are whole columns, so those of the parts follow one another.
            panels: parts.iter().flat_map(|part| &part.panels).copied().collect(),
        })
    }

    /// `out = left * self`, row-major. `left` is as wide as the matrix has rows.
    pub(super) fn multiply(&self, left: &LeftRows, out: &mut Vec<f32>) {
        debug_assert_eq!(left.width, self.rows);
        out.clear();
        out.resize(left.rows * self.columns, 0.0);
        Arch::new().dispatch(Product { matrix: self, left, out });
    }
}

/// One product, generic over the machine's vector instructions.
struct Product<'a> {
    matrix: &'a Matrix,
    left: &'a LeftRows,
    out: &'a mut [f32],
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { matrix, left, out } = self;
        let panels = matrix.panels.chunks_exact(matrix.rows * PANEL);
        for (index, panel) in panels.enumerate() {
            let blocks = left.blocks.chunks_exact(BLOCK * left.width);
            for (block, rows) in blocks.zip(out.chunks_mut(BLOCK * matrix.columns)) {
                let sums = match S::F32_LANES {
                    8 => block_times_panel::<S, 2>(simd, block, panel),
                    4 => block_times_panel::<S, 4>(simd, block, panel),
                    _ => block_times_panel_plain(block, panel),
                };
                let first = index * PANEL;
                for (row, sum) in rows.chunks_exact_mut(matrix.columns).zip(&sums) {
                    row[first..first + PANEL].copy_from_slice(sum);
                }
            }
        }
    }
}

/// `BLOCK x PANEL` sums, in `VECTORS` registers a row; `VECTORS` times the lanes is `PANEL`.
#[inline(always)]
fn block_times_panel<S: Simd, const VECTORS: usize>(
    simd: S,
    block: &[f32],
    panel: &[f32],
) -> [[f32; PANEL]; BLOCK] {
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; BLOCK];
    let (weights, _) = S::as_simd_f32s(panel);
    let (weights, _) = weights.as_chunks::<VECTORS>();
    let (lefts, _) = block.as_chunks::<BLOCK>();
    for (left, weight) in lefts.iter().zip(weights) {
        for (sum, value) in sums.iter_mut().zip(left) {
            let value = simd.splat_f32s(*value);
            for (sum, weight) in sum.iter_mut().zip(weight) {
                *sum = simd.mul_add_e_f32s(value, *weight, *sum);
            }
        }
    }
    // A copy, so that no address of `sums` is taken and the loop keeps it in registers.
    let finished = sums;
    let mut out = [[0.0; PANEL]; BLOCK];
    for (out, sum) in out.iter_mut().zip(&finished) {
        let (out, _) = S::as_mut_simd_f32s(out);
        out.copy_from_slice(sum);
    }
    out
}

/// The same for a machine that pulp has no vectors for; the compiler vectorises what it can.
#[inline(always)]
fn block_times_panel_plain(block: &[f32], panel: &[f32]) -> [[f32; PANEL]; BLOCK] {
    let mut sums = [[0.0; PANEL]; BLOCK];
    let (weights, _) = panel.as_chunks::<PANEL>();
    let (lefts, _) = block.as_chunks::<BLOCK>();
    for (left, weight) in lefts.iter().zip(weights) {
        for (sum, value) in sums.iter_mut().zip(left) {
            for (sum, weight) in sum.iter_mut().zip(weight) {
                *sum += value * weight;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// Small whole numbers, so that every order of summing gives the same.
    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 31 + seed * 17) % 13) as f32 - 6.0).collect()
    }

    #[test]
    fn equals_the_definition() {
        for (m, k, n) in [(1, 1, 16), (5, 7, 32), (6, 16, 16), (13, 33, 48), (24, 5, 16)] {
            let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
            let matrix = Matrix::from_row_major(k, n, &b).unwrap();
            let mut left = LeftRows::default();
            let mut out = numbers(7, 3);
            left.fill(m, k, |row| &a[row * k..(row + 1) * k]);
            matrix.multiply(&left, &mut out);
            let expected: Vec<f32> =
                (0..m * n).map(|i| (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]).sum()).collect();
            assert_eq!(out, expected, "{m} x {k} x {n}");

            let plain = block_times_panel_plain(&left.blocks[..BLOCK * k], &matrix.panels[..k * PANEL]);
            assert_eq!(plain[0][..], expected[..PANEL]);
        }
    }

    #[test]
    fn reuse_leaves_nothing_behind() {
        let matrix = Matrix::from_row_major(1, 16, &[1.0; 16]).unwrap();
        let (mut left, mut out) = (LeftRows::default(), Vec::new());
        left.fill(9, 1, |_| &[5.0]);
        matrix.multiply(&left, &mut out);
        left.fill(2, 1, |_| &[1.0]);
        matrix.multiply(&left, &mut out);
        assert_eq!(out, [1.0; 32]);
        left.fill(0, 1, |_| &[1.0]);
        matrix.multiply(&left, &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn side_by_side_is_one_matrix() {
        let (a, b) = (numbers(2 * 16, 1), numbers(2 * 32, 2));
        let both: Vec<f32> =
            (0..2).flat_map(|row| [&a[row * 16..][..16], &b[row * 32..][..32]].concat()).collect();
        let parts = [(16, &a), (32, &b)].map(|(n, m)| Matrix::from_row_major(2, n, m).unwrap());
        let joined = Matrix::side_by_side(&parts).unwrap();
        let whole = Matrix::from_row_major(2, 48, &both).unwrap();
        assert_eq!((joined.columns, joined.panels), (48, whole.panels.clone()));
        let other = Matrix::from_row_major(1, 16, &[0.0; 16]).unwrap();
        assert!(Matrix::side_by_side(&[whole, other]).is_none());
    }

    #[test]
    fn refuses_sizes_that_do_not_fit() {
        assert!(Matrix::from_row_major(2, 15, &[0.0; 30]).is_none());
        assert!(Matrix::from_row_major(2, 16, &[0.0; 31]).is_none());
        assert!(Matrix::from_row_major(0, 16, &[]).is_none());
    }
}
