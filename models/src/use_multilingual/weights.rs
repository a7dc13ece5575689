//! The encoder's tensors: their names and shapes in the model file, and their form in memory.

use super::matrix::Matrix;
use crate::error::ModelError;
use crate::format::{Dtype, ModelReader, TensorSpec};

/// Width of a token embedding and of the result.
pub(super) const EMBEDDING: usize = 512;
/// Width of one n-gram branch.
pub(super) const BRANCH: usize = 256;
/// Width of all branches side by side.
pub(super) const PROJECTED: usize = 3 * BRANCH;
/// Width of the features of one token.
pub(super) const FEATURES: usize = EMBEDDING + PROJECTED;
/// Width of the narrow layers of the network.
const HIDDEN: usize = 320;
/// Name of the embedding table in a model file.
pub(super) const EMBEDDING_TENSOR: &str = "embedding";
/// The embedding table is quantised in parts, each with a scale of its own; token t is row
/// t / 17 of part t % 17.
pub(super) const PARTS: usize = 17;
/// Rows of each part of the embedding table.
const PART_ROWS: usize = 7530;
/// n of each branch's n-grams, and how many of the n tokens come before the token itself.
const ORDERS: [(usize, usize); 3] = [(2, 0), (3, 1), (5, 2)];

/// The tensors of a model file, in its order. The names are those of the package's archive,
/// except that the embedding's parts (`q1` to `q17` there) are one tensor.
pub(super) fn specs() -> Vec<TensorSpec> {
    let f32 = |name: &str, shape: &[usize]| TensorSpec::new(name, Dtype::F32, shape);
    let mut specs = vec![
        TensorSpec::new(EMBEDDING_TENSOR, Dtype::U8, &[PARTS, PART_ROWS, EMBEDDING]),
        f32("scale", &[PARTS]),
        f32("lo", &[PARTS]),
    ];
    for (order, _) in ORDERS {
        let window = order * BRANCH;
        specs.extend([
            f32(&format!("proj{order}"), &[EMBEDDING, BRANCH]),
            f32(&format!("proj_b{order}"), &[BRANCH]),
            f32(&format!("ln_g{order}"), &[BRANCH]),
            f32(&format!("ln_b{order}"), &[BRANCH]),
            f32(&format!("w1_{order}"), &[window, BRANCH]),
            f32(&format!("b1_{order}"), &[BRANCH]),
            f32(&format!("w2_{order}"), &[window, BRANCH]),
            f32(&format!("b2_{order}"), &[BRANCH]),
        ]);
    }
    specs.extend([
        f32("ln_g", &[FEATURES]),
        f32("ln_b", &[FEATURES]),
        f32("cnn_W", &[FEATURES, EMBEDDING]),
        f32("cnn_b", &[EMBEDDING]),
        f32("d0", &[EMBEDDING, HIDDEN]),
        f32("d1", &[HIDDEN, HIDDEN]),
        f32("d2", &[HIDDEN, EMBEDDING]),
        f32("d3", &[EMBEDDING, EMBEDDING]),
        f32("p1", &[EMBEDDING, HIDDEN]),
        f32("p3", &[HIDDEN, EMBEDDING]),
        f32("eps", &[1]),
    ]);
    specs
}

/// Token embeddings, 8 bits an element.
#[derive(Debug)]
pub(super) struct EmbeddingTable {
    levels: Vec<u8>,
    scale: Vec<f32>,
    low: Vec<f32>,
}

impl EmbeddingTable {
    /// Number of tokens that have a row.
    pub(super) const TOKENS: usize = PARTS * PART_ROWS;

    /// Writes the embedding of `token`, which is below [`Self::TOKENS`].
    pub(super) fn read(&self, token: u32, out: &mut [f32]) {
        let token = token as usize;
        let (part, row) = (token % PARTS, token / PARTS);
        let levels = &self.levels[(part * PART_ROWS + row) * EMBEDDING..][..EMBEDDING];
        let (scale, low) = (self.scale[part], self.low[part]);
        for (value, level) in out.iter_mut().zip(levels) {
            *value = f32::from(*level) * scale + low;
        }
    }
}

/// One n-gram branch.
#[derive(Debug)]
pub(super) struct Branch {
    /// Tokens in a window.
    pub(super) order: usize,
    /// Tokens of the window before the one it stands for.
    pub(super) before: usize,
    pub(super) first: Matrix,
    pub(super) first_bias: Vec<f32>,
    pub(super) second: Matrix,
    pub(super) second_bias: Vec<f32>,
}

/// All of the encoder.
#[derive(Debug)]
pub(super) struct Weights {
    pub(super) embedding: EmbeddingTable,
    /// From an embedding to the inputs of all branches, side by side.
    pub(super) projection: Matrix,
    pub(super) projection_bias: Vec<f32>,
    /// Gain and bias of the normalisation over all branches together.
    pub(super) projected_gain: Vec<f32>,
    pub(super) projected_bias: Vec<f32>,
    pub(super) branches: Vec<Branch>,
    pub(super) features_gain: Vec<f32>,
    pub(super) features_bias: Vec<f32>,
    pub(super) output: Matrix,
    pub(super) output_bias: Vec<f32>,
    /// The layers one after the other.
    pub(super) dense: [Matrix; 4],
    /// From before the first layer to after the second.
    pub(super) first_shortcut: Matrix,
    /// From after the second layer to after the fourth.
    pub(super) second_shortcut: Matrix,
    /// Keeps divisions by a deviation or a length finite.
    pub(super) epsilon: f32,
}

impl Weights {
    /// Reads the tensors in the order of [`specs`], which the reader has checked.
    pub(super) fn read(reader: &mut ModelReader) -> Result<Self, ModelError> {
        let embedding = EmbeddingTable {
            levels: reader.u8s(EMBEDDING_TENSOR)?,
            scale: reader.f32s("scale")?,
            low: reader.f32s("lo")?,
        };
        let mut branches = Vec::with_capacity(ORDERS.len());
        for (order, before) in ORDERS {
            branches.push(Branch {
                order,
                before,
                first: matrix(reader, &format!("w1_{order}"))?,
                first_bias: reader.f32s(&format!("b1_{order}"))?,
                second: matrix(reader, &format!("w2_{order}"))?,
                second_bias: reader.f32s(&format!("b2_{order}"))?,
            });
        }
        let projections = ORDERS
            .iter()
            .map(|(order, _)| matrix(reader, &format!("proj{order}")))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            embedding,
            projection: Matrix::side_by_side(&projections)
                .ok_or_else(|| reader.damaged("the projections do not fit together"))?,
            projection_bias: joined(reader, "proj_b")?,
            projected_gain: joined(reader, "ln_g")?,
            projected_bias: joined(reader, "ln_b")?,
            branches,
            features_gain: reader.f32s("ln_g")?,
            features_bias: reader.f32s("ln_b")?,
            output: matrix(reader, "cnn_W")?,
            output_bias: reader.f32s("cnn_b")?,
            dense: [
                matrix(reader, "d0")?,
                matrix(reader, "d1")?,
                matrix(reader, "d2")?,
                matrix(reader, "d3")?,
            ],
            first_shortcut: matrix(reader, "p1")?,
            second_shortcut: matrix(reader, "p3")?,
            epsilon: reader.f32s("eps")?.first().copied().unwrap_or_default(),
        })
    }
}

/// The branches' vectors of this name, one after the other.
fn joined(reader: &mut ModelReader, name: &str) -> Result<Vec<f32>, ModelError> {
    let mut out = Vec::with_capacity(PROJECTED);
    for (order, _) in ORDERS {
        out.extend(reader.f32s(&format!("{name}{order}"))?);
    }
    Ok(out)
}

/// Reads a two-dimensional tensor.
fn matrix(reader: &mut ModelReader, name: &str) -> Result<Matrix, ModelError> {
    let [rows, columns] = reader.shape(name)?[..] else {
        return Err(reader.damaged("a matrix has other than two dimensions"));
    };
    Matrix::from_row_major(rows, columns, &reader.f32s(name)?)
        .ok_or_else(|| reader.damaged("a matrix does not have its size"))
}
