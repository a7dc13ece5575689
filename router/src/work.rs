//! Work that would block: analysing and embedding texts, on a bounded number of threads behind a
//! bounded queue.

use crate::http::problem::{Answer, Problem};
use crate::http::time::Deadline;
use crate::metrics::Metrics;
use futures::stream::{self, StreamExt, TryStreamExt};
use holdfast_core::{Error, ErrorCode};
use holdfast_models::{EmbedError, Embedder};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;

/// Most texts in one piece of work, so that a question never waits behind a whole import.
const BATCH: usize = 16;
/// Most batches of one call that are in the pool at once.
const BATCHES_AT_ONCE: usize = 4;

pub(crate) struct WorkPool {
    running: Arc<Semaphore>,
    admitted: Arc<Semaphore>,
}

impl WorkPool {
    pub(crate) fn new(threads: usize, queue_max: usize) -> Self {
        let threads = threads.max(1);
        Self {
            running: Arc::new(Semaphore::new(threads)),
            admitted: Arc::new(Semaphore::new(threads + queue_max)),
        }
    }

    /// Runs `work` on a thread that may block. Given up at the deadline while it waits; once it
    /// runs it ends, and keeps its place until then.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        deadline: Deadline,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        let Ok(admitted) = self.admitted.clone().try_acquire_owned() else {
            let detail =
                "too much work waits on this router (embedding, assembling, choosing); retry after a moment";
            return Err(Problem::new(ErrorCode::Overloaded, detail));
        };
        let late = || {
            Problem::new(
                ErrorCode::DeadlineExceeded,
                "the work on this request was not done before the deadline",
            )
        };
        let closed = || Problem::new(ErrorCode::Unavailable, "this router is shutting down");
        let waiting = tokio::time::timeout_at(deadline.at(), self.running.clone().acquire_owned()).await;
        let running = waiting.map_err(|_| late())?.map_err(|_| closed())?;
        let task = tokio::task::spawn_blocking(move || {
            let result = work();
            drop((running, admitted));
            result
        });
        let ended = tokio::time::timeout_at(deadline.at(), task).await.map_err(|_| late())?;
        ended.map_err(|error| {
            tracing::error!(%error, "work on texts ended in a panic");
            Problem::new(ErrorCode::Internal, "the text met a defect of the analysis; please report it")
        })
    }
}

/// The built-in embedding model on the pool.
#[derive(Clone)]
pub(crate) struct Embedding {
    embedder: Arc<dyn Embedder>,
    pool: Arc<WorkPool>,
    metrics: Arc<Metrics>,
}

/// The vector of a text: `None` where it holds nothing to embed.
pub(crate) type Embedded = Result<Option<Vec<f32>>, EmbedError>;

/// The answer to a request whose text the model failed on. What the text is does not decide it, so
/// the request may be repeated; nothing of it was done.
pub(crate) fn not_embedded(what: &str, reason: &str) -> Error {
    let detail =
        format!("{what} could not be embedded, and nothing was done: {reason}; retry after a moment");
    Error::new(ErrorCode::Unavailable, detail)
}

/// The answer where one text could not be embedded: one that a service refuses will be refused again.
pub(crate) fn embedding_failed(what: &str, error: &EmbedError) -> Error {
    match error {
        EmbedError::RefusedText { reason } => Error::new(
            ErrorCode::InvalidArgument,
            format!("{what} could not be embedded, and nothing was done: {reason}"),
        ),
        _ => not_embedded(what, &error.to_string()),
    }
}

impl Embedding {
    pub(crate) fn new(embedder: Arc<dyn Embedder>, pool: Arc<WorkPool>, metrics: Arc<Metrics>) -> Self {
        Self { embedder, pool, metrics }
    }

    pub(crate) fn embedder(&self) -> &dyn Embedder {
        &*self.embedder
    }

    /// Embeds each text; one that the model fails on fails alone. Batches of one call run side by
    /// side, but few at once, so that a large import leaves room for questions.
    pub(crate) async fn embed(&self, texts: Vec<String>, deadline: Deadline) -> Answer<Vec<Embedded>> {
        let mut rest = texts.into_iter();
        let batches = std::iter::from_fn(|| {
            let batch: Vec<String> = rest.by_ref().take(BATCH).collect();
            (!batch.is_empty()).then_some(batch)
        });
        let running =
            stream::iter(batches).map(|batch| self.embed_batch(batch, deadline)).buffered(BATCHES_AT_ONCE);
        let embedded: Vec<Vec<Embedded>> = running.try_collect().await?;
        Ok(embedded.into_iter().flatten().collect())
    }

    async fn embed_batch(&self, batch: Vec<String>, deadline: Deadline) -> Answer<Vec<Embedded>> {
        let (embedder, metrics) = (self.embedder.clone(), self.metrics.clone());
        let work = move || {
            let started = Instant::now();
            let embedded = embed_batch(&*embedder, &batch);
            metrics.observe_embed(batch.len(), started.elapsed());
            embedded
        };
        self.pool.run(deadline, work).await
    }
}

fn embed_batch(embedder: &dyn Embedder, batch: &[String]) -> Vec<Embedded> {
    let accepted: Vec<&str> =
        batch.iter().map(String::as_str).filter(|text| embedder.accepts(text)).collect();
    let one_by_one =
        || accepted.iter().map(|text| embedder.embed(&[text]).map(|mut one| one.pop())).collect();
    let embedded: Vec<Embedded> = match embedder.embed(&accepted) {
        Ok(vectors) if vectors.len() == accepted.len() => vectors.into_iter().map(|v| Ok(Some(v))).collect(),
        Err(error) if error.concerns_all() => accepted.iter().map(|_| Err(error.clone())).collect(),
        _ => one_by_one(),
    };
    let mut embedded = embedded.into_iter();
    let next =
        |text: &String| if embedder.accepts(text) { embedded.next().unwrap_or(Ok(None)) } else { Ok(None) };
    batch.iter().map(next).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use holdfast_models::ModelProfile;
    use std::time::Duration;

    /// Fails on one word, as a model with damaged weights would.
    struct Picky;

    impl Embedder for Picky {
        fn model_id(&self) -> &str {
            "picky"
        }
        fn dims(&self) -> usize {
            2
        }
        fn profile(&self) -> ModelProfile {
            ModelProfile::CLIENT
        }
        fn accepts(&self, text: &str) -> bool {
            !text.trim().is_empty()
        }
        fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
            match texts.iter().position(|text| *text == "poison") {
                Some(index) => Err(EmbedError::NotAVector { index }),
                None => Ok(texts.iter().map(|text| vec![text.len() as f32, 1.0]).collect()),
            }
        }
    }

    #[tokio::test]
    async fn one_bad_text_fails_alone_and_keeps_the_order() {
        let pool = Arc::new(WorkPool::new(2, 8));
        let embedding = Embedding::new(Arc::new(Picky), pool, Arc::new(Metrics::new().unwrap()));
        let mut texts: Vec<String> = (0..40).map(|n| "x".repeat(n)).collect();
        texts[20] = "poison".into();
        let got = embedding.embed(texts, Deadline::after(Duration::from_secs(5))).await.unwrap();
        assert_eq!(got.len(), 40);
        assert_eq!(got[0], Ok(None));
        assert!(got[20].is_err());
        assert_eq!(got[39], Ok(Some(vec![39.0, 1.0])));
    }

    #[tokio::test]
    async fn a_full_queue_and_a_passed_deadline_are_said() {
        let pool = Arc::new(WorkPool::new(1, 1));
        let slow = |ms: u64| move || std::thread::sleep(Duration::from_millis(ms));
        let deadline = |ms| Deadline::after(Duration::from_millis(ms));
        let (first, second) = (pool.clone(), pool.clone());
        let first = tokio::spawn(async move { first.run(deadline(2000), slow(300)).await });
        tokio::time::sleep(Duration::from_millis(20)).await;
        let second = tokio::spawn(async move { second.run(deadline(50), slow(0)).await });
        tokio::time::sleep(Duration::from_millis(10)).await;
        let third = pool.run(deadline(2000), slow(0)).await.unwrap_err();
        assert_eq!(third.error.code, ErrorCode::Overloaded);
        assert_eq!(second.await.unwrap().unwrap_err().error.code, ErrorCode::DeadlineExceeded);
        first.await.unwrap().unwrap();
        let panic = pool.run(deadline(2000), || panic!("on purpose")).await;
        let panic: Answer<()> = panic;
        assert_eq!(panic.unwrap_err().error.code, ErrorCode::Internal);
        pool.run(deadline(2000), slow(0)).await.unwrap();
    }
}
