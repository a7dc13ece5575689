//! The threads on which states apply entries: few, so that they leave cores to searches, and never
//! tokio workers, which must not block.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::error::ApplierError;

/// Jobs that may wait. Each group has at most one at a time, so groups beyond this many wait in turn.
const QUEUE_JOBS_MAX: usize = 256;

type Job = Box<dyn FnOnce() + Send>;

/// A handle to the apply threads. They end when the last handle is dropped.
#[derive(Clone)]
pub(crate) struct ApplyPool {
    /// Without threads the calls run where they are awaited, for a simulation on one thread.
    jobs: Option<mpsc::Sender<Job>>,
}

impl ApplyPool {
    /// Starts the threads.
    pub(crate) fn start(threads: usize) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>(QUEUE_JOBS_MAX);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..threads.max(1) {
            let queue = queue.clone();
            std::thread::Builder::new().name(format!("raft-apply-{number}")).spawn(move || {
                loop {
                    // Taken out of the `while let`, so that the lock is free while the job runs.
                    let job = queue.lock().blocking_recv();
                    match job {
                        Some(job) => job(),
                        None => return,
                    }
                }
            })?;
        }
        Ok(ApplyPool { jobs: Some(jobs) })
    }

    /// No threads.
    #[cfg(test)]
    pub(crate) fn here() -> Self {
        ApplyPool { jobs: None }
    }

    /// Half of the cores, at least one.
    pub(crate) fn default_threads() -> usize {
        std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
    }

    /// Runs a call on an apply thread and waits for its result. A panic becomes an error.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T, ApplierError> + Send + 'static,
    ) -> Result<T, ApplierError> {
        let call = move || {
            catch_unwind(AssertUnwindSafe(call))
                .unwrap_or_else(|_panic| Err(ApplierError("the state panicked; see the log".into())))
        };
        let Some(jobs) = &self.jobs else { return call() };
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move || {
            let result = call();
            // Nobody waits when the group is being dropped.
            let _ = answer.send(result);
        });
        let stopped = || ApplierError("the apply threads have stopped".into());
        jobs.send(job).await.map_err(|_closed| stopped())?;
        answered.await.map_err(|_dropped| stopped())?
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_thread_lives_on() {
        let pool = ApplyPool::start(1).unwrap();
        let failed = pool.run(|| -> Result<(), _> { panic!("没有这样的行") }).await;
        assert!(failed.is_err());
        assert_eq!(pool.run(|| Ok(7)).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn jobs_run_off_the_tokio_workers() {
        let pool = ApplyPool::start(2).unwrap();
        let name = pool.run(|| Ok(std::thread::current().name().map(str::to_owned))).await.unwrap();
        assert!(name.unwrap().starts_with("raft-apply-"));
    }
}
