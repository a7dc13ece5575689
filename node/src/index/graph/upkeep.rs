//! Building graphs and lists and keeping them up to date, on threads of their own.

use super::file::{SaveError, Site};
use super::{Graph, GraphError, Step};
use crate::index::files::{FileError, Files};
use crate::index::image::{LiveImage, SharedImage};
use crate::index::lists;
use crate::index::settings::IndexSettings;
use crate::index::spaces::{Choices, Tables};
use holdfast_core::space::SpaceKey;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashSet, VecDeque};
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
    /// Graphs that came from their files.
    pub(in crate::index) loaded: u64,
    /// Lists that came to serve.
    pub(in crate::index) listed: u64,
    /// Time for making lists.
    pub(in crate::index) listing: Duration,
    /// Lists given up for want of room.
    pub(in crate::index) lists_refused: u64,
    /// Files of graphs that were damaged or could not be written.
    pub(in crate::index) files_failed: u64,
}

/// What a thread does. Making lists of a million vectors takes minutes, for which no graph should wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trade {
    Graphs,
    Lists,
}

impl Trade {
    fn of(step: &Step) -> Self {
        if matches!(step, Step::List(_)) { Self::Lists } else { Self::Graphs }
    }
}

/// The threads, which start with the first image that needs them.
#[derive(Debug)]
pub(in crate::index) struct Upkeep {
    shared: Arc<Shared>,
    /// By their names.
    threads: Mutex<BTreeMap<String, JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    settings: IndexSettings,
    choices: Arc<Choices>,
    table: Arc<Tables>,
    files: Arc<Files>,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Job>,
    /// The spaces of the jobs that wait, so that there is at most one for each.
    asked: HashSet<SpaceKey>,
    /// The spaces that a thread is busy with: a graph has one writer, and so has a file of lists.
    busy: HashSet<SpaceKey>,
    stopped: bool,
    done: Done,
}

#[derive(Debug)]
struct Job {
    space: SpaceKey,
    image: Weak<LiveImage>,
    /// Whose turn it is, as far as is known.
    trade: Trade,
}

impl Upkeep {
    pub(in crate::index) fn new(
        settings: IndexSettings,
        choices: Arc<Choices>,
        table: Arc<Tables>,
        files: Arc<Files>,
    ) -> Self {
        let shared =
            Shared { settings, choices, table, files, state: Mutex::default(), wake: Condvar::new() };
        Self { shared: Arc::new(shared), threads: Mutex::default() }
    }

    /// The settings for a space.
    pub(in crate::index) fn settings_of(&self, space: &SpaceKey) -> IndexSettings {
        self.shared.settings.chosen(self.shared.choices.of(space))
    }

    pub(in crate::index) fn done(&self) -> Done {
        self.shared.state.lock().done
    }

    /// Looks after an image soon. Asking twice is asking once.
    pub(in crate::index) fn ask(&self, space: &SpaceKey, image: &SharedImage) {
        self.start();
        let job = Job { space: space.clone(), image: Arc::downgrade(image), trade: Trade::Graphs };
        self.shared.state.lock().ask(job);
        self.shared.wake.notify_all();
    }

    /// Whether nothing waits and nobody is busy.
    #[cfg(test)]
    pub(in crate::index) fn is_idle(&self) -> bool {
        let state = self.shared.state.lock();
        state.waiting.is_empty() && state.busy.is_empty()
    }

    fn start(&self) {
        let mut threads = self.threads.lock();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let graphs =
            (0..(cores / 4).clamp(1, THREADS_MAX)).map(|number| (Trade::Graphs, format!("graphs-{number}")));
        for (trade, name) in graphs.chain([(Trade::Lists, "lists-0".to_owned())]) {
            if threads.contains_key(&name) {
                continue;
            }
            let shared = Arc::clone(&self.shared);
            match std::thread::Builder::new().name(name.clone()).spawn(move || shared.run(trade)) {
                Ok(thread) => drop(threads.insert(name, thread)),
                // Without threads the scan goes on answering.
                Err(error) => {
                    tracing::warn!(%error, name, "no thread for building indices; it is tried again")
                }
            }
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.shared.state.lock().stopped = true;
        self.shared.wake.notify_all();
        for thread in std::mem::take(&mut *self.threads.lock()).into_values() {
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
    fn run(&self, trade: Trade) {
        // Of this thread alone, on Linux. Without it building competes with answering.
        if let Err(error) = rustix::process::nice(NICENESS) {
            tracing::debug!(%error, "building graphs has the priority of everything else");
        }
        while let Some(job) = self.next(trade) {
            let next = self.turn(&job);
            let mut state = self.state.lock();
            state.busy.remove(&job.space);
            // An image that was loaded anew meanwhile has asked for itself.
            if let Some(trade) = next.filter(|_| !state.asked.contains(&job.space)) {
                state.ask(Job { trade, ..job });
            }
            // Another thread may have passed over a job of the same space, and this one may be for another.
            self.wake.notify_all();
        }
    }

    /// The next job, whose space is busy then. None at the end.
    fn next(&self, trade: Trade) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            let is_free = |job: &Job| job.trade == trade && !state.busy.contains(&job.space);
            let free = state.waiting.iter().position(is_free);
            if let Some(job) = free.and_then(|at| state.waiting.remove(at)) {
                state.asked.remove(&job.space);
                state.busy.insert(job.space.clone());
                return Some(job);
            }
            self.wake.wait(&mut state);
        }
    }

    /// A few steps for one image. Answers whose turn it is then, if there are more.
    fn turn(&self, job: &Job) -> Option<Trade> {
        for _ in 0..TURN_STEPS {
            let image = job.image.upgrade()?;
            if !self.is_wanted(&job.space, &image) {
                return None;
            }
            let settings = self.settings.chosen(self.choices.of(&job.space));
            let step = image.read().next_step(&settings)?;
            if Trade::of(&step) != job.trade {
                return Some(Trade::of(&step));
            }
            match self.take(&job.space, &image, &step) {
                Ok(()) => {}
                Err(SaveError::File(FileError::GivenUp)) => return None,
                Err(error) => self.refuse(&job.space, &image, &step, &error),
            }
            self.table.resize(&job.space, &image);
        }
        Some(job.trade)
    }

    /// Whether an image is the live one of its space, and there is time.
    fn is_wanted(&self, space: &SpaceKey, image: &SharedImage) -> bool {
        let stopped = self.state.lock().stopped;
        !stopped && self.table.lock().is_live(space, image)
    }

    fn refuse(&self, space: &SpaceKey, image: &SharedImage, step: &Step, error: &SaveError) {
        match step {
            Step::List(_) => {
                tracing::warn!(%space, %error, "the vectors of a space stay where they are, without new lists");
                image.write().graphs.refuse_lists();
                self.state.lock().done.lists_refused += 1;
            }
            Step::Save(_, graph) => {
                tracing::warn!(%space, %error, "the graph of a space is not saved; it will be built anew");
                graph.note_saved(usize::MAX);
                self.state.lock().done.files_failed += 1;
            }
            _ => {
                tracing::warn!(%space, %error, "no graph for a space; scans answer");
                image.write().graphs.refuse();
                self.state.lock().done.refused += 1;
            }
        }
    }

    fn take(&self, space: &SpaceKey, image: &SharedImage, step: &Step) -> Result<(), SaveError> {
        let is_wanted = || self.is_wanted(space, image);
        let site = |arena| Site { files: &self.files, space, image, arena, is_wanted: &is_wanted };
        match step {
            Step::Begin(arena) => {
                let graph = match self.load(&site(*arena))? {
                    Some(graph) => graph,
                    None => {
                        let (graph, vectors) = image.read().new_graph(*arena)?;
                        self.fits(image, &graph, vectors)?;
                        graph.grow(vectors)?;
                        graph
                    }
                };
                image.write().begin(*arena, graph);
            }
            Step::Serve(arena) => {
                let (before, is_built) = image.write().serve(*arena);
                drop(before);
                let done = &mut self.state.lock().done;
                *if is_built { &mut done.built } else { &mut done.loaded } += 1;
            }
            Step::Drop(arena) => {
                let before = image.write().drop_graphs(*arena);
                drop(before);
                if self.files.are_kept()
                    && let Err(error) = site(*arena).discard()
                {
                    tracing::warn!(%space, %error, "the file of a graph that is not needed stays");
                }
            }
            Step::Add(graph, rows, upto) => {
                let began = Instant::now();
                if graph.size() + rows.len() > graph.capacity() {
                    let twice = graph.capacity().saturating_mul(2);
                    self.fits(image, graph, twice)?;
                    graph.grow(twice)?;
                }
                graph.add(rows, *upto)?;
                self.state.lock().done.adding += began.elapsed();
            }
            Step::Save(arena, graph) => {
                if self.files.are_kept() {
                    site(*arena).save(graph)?;
                } else {
                    graph.note_saved(usize::MAX);
                }
            }
            Step::List(arena) => {
                let began = Instant::now();
                let site = lists::Site { files: &self.files, space, image, is_wanted: &is_wanted };
                let built = lists::build(&site, *arena)?;
                let before = image.write().adopt(*arena, built);
                drop(before.ok_or(FileError::Damaged("a vector is missing"))?);
                let done = &mut self.state.lock().done;
                done.listed += 1;
                done.listing += began.elapsed();
            }
        }
        Ok(())
    }

    /// The graph in the file, if there is none in memory that is to be replaced, and the file is sound.
    fn load(&self, site: &Site<'_>) -> Result<Option<Arc<Graph>>, SaveError> {
        let number = u32::try_from(site.arena).unwrap_or(u32::MAX);
        if site.image.read().graphs.serving(number).is_some() {
            return Ok(None);
        }
        match site.load(|graph, size| self.fits(site.image, graph, size)) {
            Err(error @ SaveError::File(FileError::Damaged(_) | FileError::Foreign)) => {
                tracing::warn!(space = %site.space, %error, "the file of a graph is of no use; it is built anew");
                self.state.lock().done.files_failed += 1;
                site.discard()?;
                Ok(None)
            }
            loaded => loaded,
        }
    }

    /// Whether the image of a graph of so many nodes could stay in memory, if it were alone.
    fn fits(&self, image: &SharedImage, graph: &Graph, vectors: usize) -> Result<(), GraphError> {
        let bytes = image.read().bytes() + graph.bytes_at(vectors).saturating_sub(graph.bytes());
        let budget = self.table.lock().budget();
        if bytes > budget {
            let detail = format!("with it the space needs {bytes} bytes, of {budget} for all spaces");
            return Err(GraphError(detail));
        }
        Ok(())
    }
}
