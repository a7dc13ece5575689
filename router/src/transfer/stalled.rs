//! A body that is made piece by piece, and given up where its client stops taking them: a place among the
//! exports and imports of a router is held only by clients that go on.

use bytes::Bytes;
use futures::stream::{self, Stream};
use std::io;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Where the pieces of a body go.
pub(super) struct Out {
    pieces: mpsc::Sender<Bytes>,
    idle_max: Duration,
}

impl Out {
    /// Gives one piece, once there is room for it.
    ///
    /// # Errors
    /// If the client is gone, or takes nothing for too long.
    pub(super) async fn send(&self, piece: Bytes) -> io::Result<()> {
        match tokio::time::timeout(self.idle_max, self.pieces.send(piece)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_gone)) => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
            Err(_elapsed) => {
                let seconds = self.idle_max.as_secs();
                tracing::info!(seconds, "an export was given up: its client takes nothing any more");
                Err(io::Error::from(io::ErrorKind::TimedOut))
            }
        }
    }
}

/// Runs `work`, which makes the body, beside the answer. It holds `place` until it ends, which it does when the
/// client is gone or takes no piece for `idle_max`. Then the body breaks off, so that it is not taken for
/// whole.
pub(super) fn guarded<F, W>(
    idle_max: Duration,
    place: OwnedSemaphorePermit,
    work: W,
) -> impl Stream<Item = io::Result<Bytes>> + use<F, W>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
    W: FnOnce(Out) -> F,
{
    let (pieces, taken) = mpsc::channel(1);
    let made = work(Out { pieces, idle_max });
    let working = tokio::spawn(async move {
        let ended = made.await;
        drop(place);
        ended
    });
    stream::unfold(Some((taken, working)), |running| async move {
        let (mut taken, working) = running?;
        match taken.recv().await {
            Some(piece) => Some((Ok(piece), Some((taken, working)))),
            None => match working.await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some((Err(error), None)),
                Err(panicked) => Some((Err(io::Error::other(panicked)), None)),
            },
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use futures::StreamExt;
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    const IDLE: Duration = Duration::from_secs(30);

    async fn pieces(out: Out) -> io::Result<()> {
        for n in 0..100u8 {
            out.send(Bytes::from(vec![n; 4])).await?;
        }
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_goes_on_gets_everything_and_one_that_stalls_loses_its_place() {
        let places = Arc::new(Semaphore::new(1));
        let place = || places.clone().try_acquire_owned();
        let mut slow = Box::pin(guarded(IDLE, place().unwrap(), pieces));
        for n in 0..100u8 {
            assert_eq!(slow.next().await.unwrap().unwrap()[..], [n; 4]);
            tokio::time::sleep(IDLE / 2).await;
        }
        assert!(slow.next().await.is_none());
        let mut stalled = Box::pin(guarded(IDLE, place().unwrap(), pieces));
        assert!(stalled.next().await.unwrap().is_ok());
        assert!(place().is_err(), "it holds its place while it may go on");
        tokio::time::sleep(IDLE * 2).await;
        assert!(place().is_ok(), "the place is free, though the body was not dropped");
        let mut rest = Vec::new();
        while let Some(piece) = stalled.next().await {
            rest.push(piece);
        }
        let broken = rest.pop().unwrap();
        assert_eq!(broken.unwrap_err().kind(), io::ErrorKind::TimedOut, "nobody takes it for whole");
        assert!(rest.len() <= 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_gone_gives_its_place_back_at_once() {
        let places = Arc::new(Semaphore::new(1));
        let body = guarded(IDLE, places.clone().try_acquire_owned().unwrap(), pieces);
        drop(body);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(places.available_permits(), 1);
    }
}
