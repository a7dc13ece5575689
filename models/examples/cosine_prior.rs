//! Measures the constants of a model's profile: mean and deviation of the cosine of unrelated
//! texts, and what a text costs.
//!
//! ```text
//! cargo run -p holdfast-models --example cosine_prior -- QUERIES TEXTS
//! ```
//!
//! Both are files of one text a line, of sources that have nothing to do with each other. Every
//! query is compared with every text.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use holdfast_models::{Embedder, default_model_dir, open_builtin};

/// Most lines that are used of a file, evenly spread over it.
const LINES_MAX: usize = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut files = std::env::args().skip(1);
    let (Some(queries), Some(texts)) = (files.next(), files.next()) else {
        return Err("usage: cosine_prior QUERIES TEXTS".into());
    };
    let started = Instant::now();
    let model = open_builtin(&default_model_dir()?)?.ok_or("run scripts/fetch-model.sh first")?;
    println!("loaded in {:?}", started.elapsed());
    let queries = embed_lines(&*model, Path::new(&queries))?;
    let texts = embed_lines(&*model, Path::new(&texts))?;

    let cosines: Vec<f64> =
        queries.iter().flat_map(|query| texts.iter().map(|text| f64::from(dot(query, text)))).collect();
    let count = cosines.len() as f64;
    let mean = cosines.iter().sum::<f64>() / count;
    let variance = cosines.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / count;
    println!("{count} pairs: mean {mean:.4}, deviation {:.4}", variance.sqrt());
    // What one query sees: its own mean and deviation over all texts.
    let per_query: f64 = cosines
        .chunks(texts.len())
        .map(|row| {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            (row.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / row.len() as f64).sqrt()
        })
        .sum::<f64>()
        / queries.len() as f64;
    println!("mean deviation within a query {per_query:.4}");
    Ok(())
}

fn embed_lines(model: &dyn Embedder, path: &Path) -> Result<Vec<Vec<f32>>, Box<dyn Error>> {
    let content = std::fs::read_to_string(path)?;
    let lines: Vec<&str> = content.lines().filter(|line| model.accepts(line)).collect();
    let step = lines.len().div_ceil(LINES_MAX).max(1);
    let lines: Vec<&str> = lines.into_iter().step_by(step).collect();
    let started = Instant::now();
    for line in &lines {
        model.embed(&[line])?;
    }
    let single = started.elapsed();
    let started = Instant::now();
    let vectors = model.embed(&lines)?;
    let together = started.elapsed();
    let count = lines.len().max(1) as u32;
    println!(
        "{}: {count} lines; {:?} a line by itself, {:?} in one call",
        path.display(),
        single / count,
        together / count
    );
    Ok(vectors)
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
