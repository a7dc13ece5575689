//! Token ids to one unit vector: n-gram convolutions, then a deep averaging network.
//!
//! The architecture is that of Yang et al., *Multilingual Universal Sentence Encoder for
//! Semantic Retrieval* (2019), in its convolutional form. The token embeddings are projected to
//! 3 x 256 and normalised; each third passes two convolutions with residuals, of order 2, 3 and
//! 5; embeddings and the three results side by side are normalised, projected to 512 and
//! averaged with 1/sqrt(length); a residual network of four layers follows.

use super::matrix::LeftRows;
use super::weights::{BRANCH, Branch, EMBEDDING, FEATURES, PROJECTED, Weights};

/// Tokens that are computed together: enough to stream the weights rarely, few enough that the
/// working set (about 14 KiB a token) stays in the cache.
const BATCH_TOKENS: usize = 96;
/// Zero rows around each sentence; the widest convolution reaches two tokens to each side.
const GAP: usize = 2;

/// Buffers of one call, sized by its largest batch.
#[derive(Default)]
struct Scratch {
    left: LeftRows,
    product: Vec<f32>,
    /// One row of [`FEATURES`] a token: embedding, then one part a branch.
    features: Vec<f32>,
    /// One row of [`PROJECTED`] a token: the inputs of the branches.
    projected: Vec<f32>,
    /// Branch rows with [`GAP`] zero rows before, between and after sentences.
    spaced: Vec<f32>,
    convolved: Vec<f32>,
}

/// Encodes each sentence by itself; none is empty. Vectors have length 1.
pub(super) fn encode(weights: &Weights, sentences: &[Vec<u32>]) -> Vec<Vec<f32>> {
    let mut scratch = Scratch::default();
    let mut out = Vec::with_capacity(sentences.len());
    let mut rest = sentences;
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(batch_size(rest));
        encode_batch(weights, batch, &mut scratch, &mut out);
        rest = after;
    }
    out
}

/// How many sentences from the front fit one batch; a long one is a batch by itself.
fn batch_size(sentences: &[Vec<u32>]) -> usize {
    let mut tokens = 0;
    let fitting = sentences
        .iter()
        .take_while(|sentence| {
            tokens += sentence.len();
            tokens <= BATCH_TOKENS
        })
        .count();
    fitting.max(1)
}

fn encode_batch(weights: &Weights, sentences: &[Vec<u32>], scratch: &mut Scratch, out: &mut Vec<Vec<f32>>) {
    let tokens: usize = sentences.iter().map(Vec::len).sum();
    scratch.features.clear();
    scratch.features.resize(tokens * FEATURES, 0.0);
    let ids = sentences.iter().flatten();
    for (row, id) in scratch.features.chunks_exact_mut(FEATURES).zip(ids) {
        weights.embedding.read(*id, &mut row[..EMBEDDING]);
    }
    project(weights, tokens, scratch);
    let positions = spaced_positions(sentences);
    for (index, branch) in weights.branches.iter().enumerate() {
        run_branch(branch, index, &positions, scratch);
    }
    for row in scratch.features.chunks_exact_mut(FEATURES) {
        layer_norm(row, &weights.features_gain, &weights.features_bias, weights.epsilon);
    }
    let sums = sum_tokens(sentences, &scratch.features);
    run_network(weights, sentences, &sums, scratch, out);
}

/// Where each token's row is in a buffer with gaps between sentences.
fn spaced_positions(sentences: &[Vec<u32>]) -> Vec<usize> {
    let mut positions = Vec::with_capacity(sentences.iter().map(Vec::len).sum());
    let mut next = GAP;
    for sentence in sentences {
        positions.extend(next..next + sentence.len());
        next += sentence.len() + GAP;
    }
    positions
}

/// Projects the embeddings and normalises the result over all branches together.
fn project(weights: &Weights, tokens: usize, scratch: &mut Scratch) {
    let Scratch { left, features, projected, .. } = scratch;
    left.fill(tokens, EMBEDDING, |token| &features[token * FEATURES..][..EMBEDDING]);
    weights.projection.multiply(left, projected);
    for row in projected.chunks_exact_mut(PROJECTED) {
        add(row, &weights.projection_bias);
        layer_norm(row, &weights.projected_gain, &weights.projected_bias, weights.epsilon);
    }
}

/// Convolves part `index` of the projected rows twice; the result goes to that part of the
/// features.
fn run_branch(branch: &Branch, index: usize, positions: &[usize], scratch: &mut Scratch) {
    let Scratch { left, product, features, projected, spaced, convolved } = scratch;
    let tokens = positions.len();
    let rows = positions.last().map_or(0, |last| last + 1 + GAP);
    for buffer in [&mut *spaced, &mut *convolved] {
        buffer.clear();
        buffer.resize(rows * BRANCH, 0.0);
    }

    for (row, position) in projected.chunks_exact(PROJECTED).zip(positions) {
        let part = &row[index * BRANCH..][..BRANCH];
        spaced[position * BRANCH..][..BRANCH].copy_from_slice(part);
    }

    // Rows of a sentence are neighbours, so a window of n tokens is one slice of n rows.
    let width = branch.order * BRANCH;
    let window = |position: usize| (position - branch.before) * BRANCH;
    left.fill(tokens, width, |token| &spaced[window(positions[token])..][..width]);
    branch.first.multiply(left, product);
    for (values, position) in product.chunks_exact_mut(BRANCH).zip(positions) {
        add_rectified(values, &branch.first_bias, &spaced[position * BRANCH..]);
        convolved[position * BRANCH..][..BRANCH].copy_from_slice(values);
    }

    left.fill(tokens, width, |token| &convolved[window(positions[token])..][..width]);
    branch.second.multiply(left, product);
    let rows = features.chunks_exact_mut(FEATURES);
    for ((values, position), row) in product.chunks_exact_mut(BRANCH).zip(positions).zip(rows) {
        add_rectified(values, &branch.second_bias, &convolved[position * BRANCH..]);
        row[EMBEDDING + index * BRANCH..][..BRANCH].copy_from_slice(values);
    }
}

/// Sum of each sentence's rows. The projection that follows is linear, so it is applied to
/// the sum instead of to every token.
fn sum_tokens(sentences: &[Vec<u32>], features: &[f32]) -> Vec<f32> {
    let mut sums = vec![0.0; sentences.len() * FEATURES];
    let mut rows = features.chunks_exact(FEATURES);
    for (sum, sentence) in sums.chunks_exact_mut(FEATURES).zip(sentences) {
        for row in rows.by_ref().take(sentence.len()) {
            add(sum, row);
        }
    }
    sums
}

/// Projects the sums, runs the four dense layers with their two shortcuts, and normalises.
fn run_network(
    weights: &Weights,
    sentences: &[Vec<u32>],
    sums: &[f32],
    scratch: &mut Scratch,
    out: &mut Vec<Vec<f32>>,
) {
    let Scratch { left, product, .. } = scratch;
    let count = sentences.len();
    let mut apply = |matrix: &super::matrix::Matrix, input: &[f32]| -> Vec<f32> {
        let width = input.len() / count;
        left.fill(count, width, |row| &input[row * width..(row + 1) * width]);
        matrix.multiply(left, product);
        product.clone()
    };
    let mut mean = apply(&weights.output, sums);
    for (row, sentence) in mean.chunks_exact_mut(EMBEDDING).zip(sentences) {
        let length = sentence.len() as f32;
        for (value, bias) in row.iter_mut().zip(&weights.output_bias) {
            *value = (*value + length * bias) / length.sqrt();
        }
    }
    let mut first = apply(&weights.dense[0], &mean);
    rectify(&mut first);
    let mut second = apply(&weights.dense[1], &first);
    add(&mut second, &apply(&weights.first_shortcut, &mean));
    rectify(&mut second);
    let mut third = apply(&weights.dense[2], &second);
    rectify(&mut third);
    let mut last = apply(&weights.dense[3], &third);
    add(&mut last, &apply(&weights.second_shortcut, &second));
    for row in last.chunks_exact_mut(EMBEDDING) {
        for value in row.iter_mut() {
            *value = value.tanh();
        }
        let scale = dot(row, row).max(weights.epsilon).sqrt().recip();
        out.push(row.iter().map(|value| value * scale).collect());
    }
}

fn add(values: &mut [f32], other: &[f32]) {
    for (value, other) in values.iter_mut().zip(other) {
        *value += other;
    }
}

fn rectify(values: &mut [f32]) {
    for value in values {
        *value = value.max(0.0);
    }
}

/// `values = max(values + bias, 0) + residual`.
fn add_rectified(values: &mut [f32], bias: &[f32], residual: &[f32]) {
    for ((value, bias), residual) in values.iter_mut().zip(bias).zip(residual) {
        *value = (*value + bias).max(0.0) + residual;
    }
}

/// Shifts to mean 0, scales to deviation 1, then applies gain and bias.
fn layer_norm(values: &mut [f32], gain: &[f32], bias: &[f32], epsilon: f32) {
    let count = values.len() as f32;
    let mean = sum(values) / count;
    for value in values.iter_mut() {
        *value -= mean;
    }
    let scale = (dot(values, values) / count + epsilon).sqrt().recip();
    for ((value, gain), bias) in values.iter_mut().zip(gain).zip(bias) {
        *value = *value * scale * gain + bias;
    }
}

/// Partial sums that the compiler can keep in vector registers, and that lose less precision
/// than one running sum. All lengths here are multiples of it.
const LANES: usize = 16;

fn sum(values: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    for chunk in values.as_chunks::<LANES>().0 {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += value;
        }
    }
    sums.iter().sum()
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn batches_are_bounded_and_never_empty() {
        let sentences =
            |lengths: &[usize]| -> Vec<Vec<u32>> { lengths.iter().map(|length| vec![5; *length]).collect() };
        assert_eq!(batch_size(&sentences(&[BATCH_TOKENS + 1, 3])), 1);
        assert_eq!(batch_size(&sentences(&[BATCH_TOKENS - 3, 3, 1])), 2);
        assert_eq!(batch_size(&sentences(&[1; 500])), BATCH_TOKENS);
    }

    #[test]
    fn layer_norm_of_a_constant_is_the_bias() {
        let mut values = [3.0; LANES];
        layer_norm(&mut values, &[2.0; LANES], &[0.5; LANES], 1e-12);
        assert_eq!(values, [0.5; LANES]);
    }
}
