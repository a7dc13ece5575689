//! `holdfast bench recall`: recalls of a whole cluster of processes, by vector and composite.
//!
//! For each set of spaces a cluster of three nodes and a router starts on this machine, takes the
//! memories through the REST interface, is restarted (so that its first answers are cold), and is
//! asked: by 1 and by 16 clients that each wait for their answer, which gives throughput and
//! processor time, and by arrivals at half of the rate reached, which gives latencies. Vectors are
//! the client's. What an answer should have been is known: for vectors by comparing with all of
//! them, for the composite score by asking the same cluster once more without its graphs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

mod curves;
mod measure;
mod plot;
mod report;
mod result;
mod sets;

use crate::client::RecallAnswer;
use crate::cluster::Cluster;
use crate::load::Machine;
use measure::{arm, ask, composite_recall, store};
use result::{Arm, Outcome, SetResult, Setup};
use sets::{Mode, Set, Shape};

/// Seed of the sets.
const SEED: u64 = 6;
/// Shards of the cluster.
const SHARDS: u16 = 8;
/// Distinct questions of a set.
const QUESTIONS: usize = 2_000;
/// Spaces that are asked a first question after the restart.
const COLD_MAX: usize = 200;
/// How long replicas may take to be equal, after the memories were stored and after a restart.
const EQUAL_MAX: Duration = Duration::from_secs(600);
/// Nodes make graphs of spaces with at least so many vectors, by default.
const GRAPH_FROM: usize = 20_000;
/// What a node has once it has put the vectors of a space into lists. While they are in a file in no order, the
/// index is called `ivf` already.
const LISTS_BUILT: &str = "holdfast_lists_built_total";
/// Memory of the images of active spaces.
const IMAGES_BYTES: &str = "holdfast_spaces_bytes";
/// How long graphs or lists may take to be built after the first question.
const BUILD_MAX: Duration = Duration::from_secs(1_800);
/// Time between two looks at whether they are.
const BUILD_PAUSE: Duration = Duration::from_millis(500);
/// Makes the nodes of a cluster answer without graphs and lists, with memory for that, so that the answers are the
/// exact ones.
const EXACT: [(&str, &str); 3] = [
    ("HOLDFAST_NODE__GRAPH_FROM_VECTORS", "0"),
    ("HOLDFAST_NODE__IVF_FROM_VECTORS", "0"),
    ("HOLDFAST_NODE__SPACES_BYTES", "8589934592"),
];

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// A few thousand memories, in about a minute
    Small,
    /// 1,000 users, and spaces of up to 200,000 memories
    Medium,
    /// 20,000 users, 1,000,000 memories of 384 dimensions, 500,000 of 1,536
    Large,
}

/// Arguments of `holdfast bench recall`.
#[derive(Debug, Args)]
pub struct RecallArgs {
    /// How much is measured
    #[arg(long, value_enum, default_value = "small")]
    scale: Scale,
    /// Measure one space of so many memories, in place of the sets of a scale
    #[arg(long, value_name = "N", conflicts_with = "scale", value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    memories: Option<u32>,
    /// Numbers of its vectors
    #[arg(long, value_name = "N", requires = "memories", default_value_t = 384, value_parser = clap::value_parser!(u16).range(2..=4_096))]
    dims: u16,
    /// Measured seconds of each of the six loops of a set, and of each point of a curve
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Folder for the data of the servers, on the disk to be measured; made if it is missing, and
    /// what is made in it is removed
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as Markdown to this file, and its plot as SVG beside it
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl RecallArgs {
    /// What is to be measured, and the arguments that say so.
    fn shapes(&self) -> (Vec<(Shape, usize)>, String) {
        if let Some(memories) = self.memories {
            let named = format!("--memories {memories} --dims {}", self.dims);
            return (vec![(Shape::One { memories: memories as usize }, usize::from(self.dims))], named);
        }
        let scale = self.scale.to_possible_value();
        let named = scale.map_or_else(String::new, |value| format!("--scale {}", value.get_name()));
        (shapes(self.scale), named)
    }
}

/// Measures every set of the scale, and reports.
///
/// # Errors
/// A server that cannot be started, a memory that is not stored, a file that cannot be written.
pub async fn run(args: &RecallArgs) -> Result<()> {
    std::fs::create_dir_all(&args.folder)
        .with_context(|| format!("cannot make {}", args.folder.display()))?;
    let time = Duration::from_secs(args.seconds.into());
    let mut sets = Vec::new();
    let (shapes, named) = args.shapes();
    let alone = |shape: &Shape| if let Shape::One { memories } = shape { *memories } else { 0 };
    let largest = shapes.iter().max_by_key(|(shape, _)| alone(shape)).copied();
    for (shape, dims) in shapes {
        let folder = tempfile::Builder::new().prefix("holdfast-bench-").tempdir_in(&args.folder)?;
        // Every set takes its time; curves are of one of them.
        let curves = (args.memories.is_none() && Some((shape, dims)) == largest).then_some(args.scale);
        let result = measure_set(folder.path(), shape, dims, time, curves).await?;
        eprint!("{}", report::set(&result));
        sets.push(result);
    }
    let machine = Machine::this();
    let outcome = Outcome {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: format!("holdfast bench recall {named} --seconds {}", args.seconds),
        setup: Setup {
            day: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            cores: machine.cores,
            processor: machine.processor,
            kernel: machine.kernel,
            debug_build: machine.debug_build,
            measured: named,
            seconds: args.seconds,
        },
        sets,
    };
    print!("{}", report::summary(&outcome));
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&outcome)? + "\n";
        std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &args.report {
        let drawing = path.with_extension("svg");
        plot::draw(&outcome, &drawing)?;
        let name = drawing.file_name().unwrap_or_default().to_string_lossy().into_owned();
        std::fs::write(path, report::markdown(&outcome, &name))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn shapes(scale: Scale) -> Vec<(Shape, usize)> {
    let one = |memories| Shape::One { memories };
    let users = |users, mean| Shape::Users { users, mean };
    match scale {
        Scale::Small => vec![(users(40, 25), 384), (one(200), 384), (one(1_000), 384), (one(4_000), 384)],
        Scale::Medium => vec![
            (users(1_000, 50), 384),
            (users(1_000, 50), 512),
            (one(1_000), 384),
            (one(10_000), 384),
            (one(50_000), 384),
            (one(200_000), 384),
        ],
        Scale::Large => vec![(users(20_000, 50), 384), (one(1_000_000), 384), (one(500_000), 1_536)],
    }
}

async fn measure_set(
    folder: &Path,
    shape: Shape,
    dims: usize,
    time: Duration,
    with_curves: Option<Scale>,
) -> Result<SetResult> {
    let set = Set::new(shape, dims, SEED);
    let mut cluster = Cluster::start(folder, SHARDS, true).await?;
    let stored_per_s = store(&cluster.rest_client()?, &set).await?;
    cluster.wait_equal(EQUAL_MAX).await?;
    let disk_bytes_per_memory = cluster.disk_bytes(0)? as f64 / set.memories() as f64;

    restart(&mut cluster, &[]).await?;
    let client = cluster.rest_client()?;
    let idle_bytes = cluster.nodes_resident_bytes()?;
    let (_, cold) = ask(&client, &set.one_for_each(COLD_MAX), Mode::Composite, 1).await?;
    // From here on every space that the questions go to is active.
    let questions = Arc::new(set.questions(QUESTIONS));
    wait_built(&cluster, &set).await?;
    ask(&client, &questions, Mode::Composite, 8).await?;
    let grown = cluster.nodes_resident_bytes()?.saturating_sub(idle_bytes);
    let images = cluster.nodes_metric(IMAGES_BYTES).await?;
    let active = active_memories(&set, &questions);
    let per_active = |bytes: f64| (active > 0).then(|| bytes / active as f64);

    let mut arms: Vec<(Arm, Vec<RecallAnswer>)> = Vec::new();
    for mode in Mode::ALL {
        arms.push(arm(&cluster, &set, &questions, mode, time).await?);
    }
    let curves = match with_curves {
        Some(scale) => curves::curves(&cluster, scale, &questions, time).await?,
        None => Vec::new(),
    };
    if arms.iter().any(|(arm, _)| arm.mode == Mode::Composite && arm.exact < 1.0) {
        restart(&mut cluster, &EXACT).await?;
        for (arm, answers) in arms.iter_mut().filter(|(arm, _)| arm.mode == Mode::Composite) {
            let asked = &questions[..answers.len()];
            let (exact, _) = ask(&cluster.rest_client()?, asked, Mode::Composite, 1).await?;
            arm.recall_at_10 = Some(composite_recall(answers, &exact));
        }
    }
    cluster.stop().await;
    Ok(SetResult {
        shape,
        dims,
        spaces: set.spaces.len(),
        memories: set.memories(),
        stored_per_s,
        disk_bytes_per_memory,
        idle_bytes,
        grown_bytes_per_memory: per_active(grown as f64),
        image_bytes_per_memory: per_active(images),
        cold,
        arms: arms.into_iter().map(|(arm, _)| arm).collect(),
        curves,
    })
}

/// Restarts all nodes, one after the other, with these settings of the environment.
async fn restart(cluster: &mut Cluster, settings: &[(&str, &str)]) -> Result<()> {
    cluster.set_node_env(settings);
    for node in 0..3 {
        cluster.kill_node(node).await?;
        cluster.start_node(node).await?;
    }
    cluster.wait_equal(EQUAL_MAX).await
}

/// Waits until the largest space is answered by the index that it is to have: while a graph is built,
/// answers are exact.
async fn wait_built(cluster: &Cluster, set: &Set) -> Result<()> {
    let largest = set.spaces.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    if largest < GRAPH_FROM {
        return Ok(());
    }
    let space = set.spaces.iter().position(|space| space.len() == largest).unwrap_or(0);
    let client = cluster.rest_client()?;
    let questions: Vec<_> = set.one_for_each(space + 1).into_iter().skip(space).collect();
    let begin = std::time::Instant::now();
    loop {
        let (answers, _) = ask(&client, &questions, Mode::Vector, 1).await?;
        let index = answers.first().and_then(|answer| answer.index.as_deref());
        let is_built = match index {
            Some("ivf") => cluster.nodes_metric(LISTS_BUILT).await? > 0.0,
            index => index != Some("exact"),
        };
        if is_built {
            return Ok(());
        }
        if begin.elapsed() > BUILD_MAX {
            eprintln!("the index of {largest} memories was not built within {BUILD_MAX:?}");
            return Ok(());
        }
        tokio::time::sleep(BUILD_PAUSE).await;
    }
}

/// Memories of the spaces that are asked.
fn active_memories(set: &Set, questions: &[sets::Question]) -> usize {
    let mut spaces: Vec<usize> = questions.iter().map(|question| question.space).collect();
    // What was asked cold is in memory as well.
    spaces.extend(0..set.spaces.len().min(COLD_MAX));
    spaces.sort_unstable();
    spaces.dedup();
    spaces.into_iter().map(|space| set.spaces[space].len()).sum()
}
