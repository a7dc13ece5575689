//! Building graphs and keeping them up to date, on threads of their own.

use super::{Graph, GraphError, Step};
use crate::index::image::{Image, SharedImage};
use crate::index::settings::IndexSettings;
use crate::index::spaces::Table;
use holdfast_core::space::SpaceKey;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Steps of one image before it is the turn of the next.
const TURN_STEPS: usize = 16;
/// Threads at the most: building is for idle cores.
const THREADS_MAX: usize = 4;
/// How much less the scheduler gives a building thread than one that answers.
const NICENESS: i32 = 10;

/// What the threads have done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::index) struct Done {
    /// Graphs that came to serve.
    pub(in crate::index) built: u64,
    /// Time for adding vectors.
    pub(in crate::index) adding: Duration,
    /// Graphs given up for want of memory.
    pub(in crate::index) refused: u64,
}

/// The threads, which start with the first image that needs them.
#[derive(Debug)]
pub(in crate::index) struct Upkeep {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    settings: IndexSettings,
    table: Arc<Mutex<Table>>,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Job>,
    /// The spaces of the jobs that wait, so that there is at most one for each.
    asked: HashSet<SpaceKey>,
    /// The spaces that a thread is busy with: a graph has one writer.
    busy: HashSet<SpaceKey>,
    stopped: bool,
    done: Done,
}

#[derive(Debug)]
struct Job {
    space: SpaceKey,
    image: Weak<RwLock<Image>>,
}

impl Upkeep {
    pub(in crate::index) fn new(settings: IndexSettings, table: Arc<Mutex<Table>>) -> Self {
        let shared = Shared { settings, table, state: Mutex::default(), wake: Condvar::new() };
        Self { shared: Arc::new(shared), threads: Mutex::default() }
    }

    pub(in crate::index) fn settings(&self) -> &IndexSettings {
        &self.shared.settings
    }

    pub(in crate::index) fn done(&self) -> Done {
        self.shared.state.lock().done
    }

    /// Looks after an image soon. Asking twice is asking once.
    pub(in crate::index) fn ask(&self, space: &SpaceKey, image: &SharedImage) {
        self.start();
        self.shared.state.lock().ask(Job { space: space.clone(), image: Arc::downgrade(image) });
        self.shared.wake.notify_one();
    }

    /// Whether nothing waits and nobody is busy.
    #[cfg(test)]
    pub(in crate::index) fn is_idle(&self) -> bool {
        let state = self.shared.state.lock();
        state.waiting.is_empty() && state.busy.is_empty()
    }

    fn start(&self) {
        let mut threads = self.threads.lock();
        if !threads.is_empty() {
            return;
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for number in 0..(cores / 4).clamp(1, THREADS_MAX) {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name(format!("graphs-{number}"));
            match thread.spawn(move || shared.run()) {
                Ok(thread) => threads.push(thread),
                // Without threads the scan goes on answering.
                Err(error) => tracing::warn!(%error, "no thread for building graphs; it is tried again"),
            }
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.shared.state.lock().stopped = true;
        self.shared.wake.notify_all();
        for thread in self.threads.lock().drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl State {
    fn ask(&mut self, job: Job) {
        if self.asked.insert(job.space.clone()) {
            self.waiting.push_back(job);
        } else if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.space == job.space) {
            // The image may have been loaded anew.
            waiting.image = job.image;
        }
    }
}

impl Shared {
    fn run(&self) {
        // Of this thread alone, on Linux. Without it building competes with answering.
        if let Err(error) = rustix::process::nice(NICENESS) {
            tracing::debug!(%error, "building graphs has the priority of everything else");
        }
        while let Some(job) = self.next() {
            let more = self.turn(&job);
            let mut state = self.state.lock();
            state.busy.remove(&job.space);
            // An image that was loaded anew meanwhile has asked for itself.
            if more && !state.asked.contains(&job.space) {
                state.ask(job);
            }
            // Another thread may have passed over a job of the same space.
            self.wake.notify_one();
        }
    }

    /// The next job, whose space is busy then. None at the end.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            let free = state.waiting.iter().position(|job| !state.busy.contains(&job.space));
            if let Some(job) = free.and_then(|at| state.waiting.remove(at)) {
                state.asked.remove(&job.space);
                state.busy.insert(job.space.clone());
                return Some(job);
            }
            self.wake.wait(&mut state);
        }
    }

    /// A few steps for one image. Answers whether there are more.
    fn turn(&self, job: &Job) -> bool {
        for _ in 0..TURN_STEPS {
            let Some(image) = job.image.upgrade() else { return false };
            let is_live = self.table.lock().is_live(&job.space, &image);
            if !is_live || self.is_stopped() {
                return false;
            }
            let step = image.read().next_step(&self.settings);
            let Some(step) = step else { return false };
            if let Err(error) = self.take(&image, &step) {
                tracing::warn!(space = %job.space, %error, "no graph for a space; scans answer");
                image.write().graphs.refuse();
                self.state.lock().done.refused += 1;
                return false;
            }
            // Under the image's lock: what is counted last is what it has.
            let reading = image.read();
            self.table.lock().resize(&job.space, &image, reading.size(), false);
        }
        true
    }

    fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    fn take(&self, image: &SharedImage, step: &Step) -> Result<(), GraphError> {
        match step {
            Step::Begin(arena) => {
                let (graph, vectors) = image.read().new_graph(*arena)?;
                self.make_room(image, &graph, vectors)?;
                image.write().begin(*arena, graph);
            }
            Step::Serve(arena) => {
                image.write().serve(*arena);
                self.state.lock().done.built += 1;
            }
            Step::Drop(arena) => image.write().drop_graphs(*arena),
            Step::Add(graph, rows, upto) => {
                let began = Instant::now();
                if graph.size() + rows.len() > graph.capacity() {
                    self.make_room(image, graph, graph.capacity().saturating_mul(2))?;
                }
                graph.add(rows, *upto)?;
                self.state.lock().done.adding += began.elapsed();
            }
        }
        Ok(())
    }

    /// Grows a graph, unless its image could then not stay in memory even if it were alone.
    fn make_room(&self, image: &SharedImage, graph: &Graph, vectors: usize) -> Result<(), GraphError> {
        let bytes = image.read().bytes() + graph.bytes_at(vectors).saturating_sub(graph.bytes());
        let budget = self.table.lock().budget();
        if bytes > budget {
            let detail = format!("with it the space needs {bytes} bytes, of {budget} for all spaces");
            return Err(GraphError(detail));
        }
        graph.grow(vectors)
    }
}
