//! Snapshot files on their way from one node to another. The one who needs a file pulls it, so that
//! it goes on where it was, whatever broke.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_proto::v1::RaftKind;
use openraft::raft::SnapshotResponse;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::Status;

use super::network::{CallError, Peers};
use super::record::DecodeError;
use super::service::Reachable;
use super::state_machine::snapshot_of;
use super::types::{GroupId, NodeId};
use super::wire::{self, Offer, Piece, ReadPiece, Wanted};
use crate::snapshot::{FileId, Incoming, SnapshotError, SnapshotFile, SnapshotFiles};

/// Bytes in one message.
const PIECE_BYTES: usize = 512 << 10;
/// How long one piece may take.
const PIECE_TIME: Duration = Duration::from_secs(10);
/// How often a piece is asked for before the transfer is given up.
const ATTEMPTS_MAX: u32 = 5;
/// The pause before the first repetition; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Files that a node receives at once.
const RECEIVING_MAX: usize = 2;

/// Why a file did not come.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("node {0} did not answer within {PIECE_TIME:?}")]
    Slow(NodeId),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("a piece came damaged or is not the one that was asked for")]
    Piece,
    #[error(transparent)]
    File(#[from] SnapshotError),
    #[error("writing the file: {0}")]
    Join(#[from] tokio::task::JoinError),
}

/// What was moved since the start.
#[derive(Debug, Default)]
pub(crate) struct TransferStats {
    pub(crate) sent_bytes: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
}

/// Sends and receives the files of all groups of a node.
pub(crate) struct Transfers {
    peers: Arc<Peers>,
    receiving: Semaphore,
    pace: Pace,
    pub(crate) stats: TransferStats,
}

impl Transfers {
    pub(crate) fn new(peers: Arc<Peers>, bytes_per_second: u64) -> Self {
        let receiving = Semaphore::new(RECEIVING_MAX);
        Transfers { peers, receiving, pace: Pace::new(bytes_per_second), stats: TransferStats::default() }
    }

    /// Answers a reader.
    pub(crate) async fn read(&self, group: &Reachable, read: ReadPiece) -> Result<Piece, Status> {
        if !group.applier.may_be_copied() {
            return Err(Status::not_found("this replica is in quarantine: its rows are not to be believed"));
        }
        let files = group.applier.snapshot_files();
        let files = files.ok_or_else(|| Status::unimplemented("this replica has no snapshot files"))?;
        let file = match read.file {
            Wanted::Id(id) => files.by_id(id),
            Wanted::AtLeast(index) => self.at_least(group, &files, index).await?,
        };
        let file = file.ok_or_else(|| Status::not_found("this replica has no such snapshot file"))?;
        let (id, bytes) = (file.id(), file.bytes());
        let data = tokio::task::spawn_blocking(move || file.read_at(read.at, PIECE_BYTES));
        let data = data.await.map_err(|error| Status::internal(error.to_string()))?;
        let data = data.map_err(|error| Status::internal(format!("the snapshot file: {error}")))?;
        self.stats.sent_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(Piece::new(id, bytes, read.at, data.into()))
    }

    /// The newest file if it ends at `index` or later. Else one is written, if the state is as new:
    /// the reader's log begins there, so no older file helps it.
    async fn at_least(
        &self,
        group: &Reachable,
        files: &SnapshotFiles,
        index: u64,
    ) -> Result<Option<Arc<SnapshotFile>>, Status> {
        let new_enough = || files.newest().filter(|newest| newest.id().index >= index);
        if let Some(file) = new_enough() {
            return Ok(Some(file));
        }
        let applied = group.raft.metrics().borrow().last_applied;
        if applied.is_none_or(|applied| applied.index < index) {
            return Ok(None);
        }
        let applier = Arc::clone(&group.applier);
        let built = tokio::task::spawn_blocking(move || applier.build_snapshot()).await;
        let built = built.map_err(|error| Status::internal(error.to_string()))?;
        built.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(new_enough())
    }

    /// Takes a leader's offer: fetches the file, unless this disk has one as new, and installs it.
    pub(crate) async fn take(
        &self,
        group: GroupId,
        from: NodeId,
        replica: &Reachable,
        offer: Offer,
    ) -> Result<SnapshotResponse<NodeId>, Status> {
        let files = replica.applier.snapshot_files();
        let files = files.ok_or_else(|| Status::unimplemented("this replica takes no snapshot files"))?;
        // Not worth a transfer: the offer would be refused at its end.
        let vote = replica.raft.metrics().borrow().vote;
        if vote > offer.vote {
            return Ok(SnapshotResponse::new(vote));
        }
        let _one_at_a_time = replica.receiving.lock().await;
        let file = match files.newest().filter(|newest| newest.id().index >= offer.id.index) {
            Some(newest) => newest,
            None => self.fetch(group, from, &files, offer.id, offer.bytes).await.map_err(|error| {
                tracing::warn!(group, from, %error, "a snapshot file could not be fetched");
                Status::unavailable(error.to_string())
            })?,
        };
        tracing::info!(group, from, index = file.id().index, "installing a snapshot file");
        let snapshot = snapshot_of(file).map_err(|error| Status::internal(error.to_string()))?;
        let installed = replica.raft.install_full_snapshot(offer.vote, snapshot).await;
        installed.map_err(|error| Status::unavailable(error.to_string()))
    }

    /// Fetches a file that ends at `index` or later, whichever the other has.
    pub(crate) async fn fetch_at_least(
        &self,
        group: GroupId,
        from: NodeId,
        files: &Arc<SnapshotFiles>,
        index: u64,
    ) -> Result<Arc<SnapshotFile>, TransferError> {
        // Behind its end: what comes is what the file is, and none of it.
        let file = self.piece(group, from, ReadPiece::new(Wanted::AtLeast(index), u64::MAX)).await?;
        self.fetch(group, from, files, file.id, file.bytes).await
    }

    /// Fetches a file and publishes it among `files`.
    async fn fetch(
        &self,
        group: GroupId,
        from: NodeId,
        files: &Arc<SnapshotFiles>,
        id: FileId,
        bytes: u64,
    ) -> Result<Arc<SnapshotFile>, TransferError> {
        let _slot = self.receiving.acquire().await;
        let files = Arc::clone(files);
        let mut incoming = tokio::task::spawn_blocking(move || files.receive(id, bytes)).await??;
        while !incoming.is_complete() {
            let piece = self.piece(group, from, ReadPiece::new(Wanted::Id(id), incoming.at())).await?;
            let fits = piece.id == id && piece.bytes == bytes && piece.at == incoming.at();
            if !fits || piece.data.is_empty() {
                return Err(TransferError::Piece);
            }
            self.stats.received_bytes.fetch_add(piece.data.len() as u64, Ordering::Relaxed);
            self.pace.wait(piece.data.len()).await;
            let append = move |mut incoming: Incoming| incoming.append(&piece.data).map(|()| incoming);
            incoming = tokio::task::spawn_blocking(move || append(incoming)).await??;
        }
        Ok(tokio::task::spawn_blocking(move || incoming.publish()).await??)
    }

    /// One piece, asked for again where it did not come whole.
    async fn piece(&self, group: GroupId, from: NodeId, read: ReadPiece) -> Result<Piece, TransferError> {
        let mut pause = PAUSE_MIN;
        let mut attempt = 1;
        loop {
            let error = match self.try_piece(group, from, read).await {
                Ok(piece) => return Ok(piece),
                Err(error) => error,
            };
            // There is no such file, or it is replaced: asking again does not bring it.
            let gone = matches!(&error, TransferError::Call(CallError::Refused(status))
                if status.code() == tonic::Code::NotFound);
            if gone || attempt == ATTEMPTS_MAX {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
            attempt += 1;
        }
    }

    async fn try_piece(&self, group: GroupId, from: NodeId, read: ReadPiece) -> Result<Piece, TransferError> {
        let call = self.peers.call(group, from, RaftKind::SnapshotRead, wire::encode_read(&read)?);
        let answer = tokio::time::timeout(PIECE_TIME, call).await;
        let bytes = answer.map_err(|_elapsed| TransferError::Slow(from))??;
        let piece = wire::decode_piece(&bytes)?;
        if piece.is_whole() { Ok(piece) } else { Err(TransferError::Piece) }
    }
}

/// Spreads bytes over time, for all transfers together.
struct Pace {
    bytes_per_second: u64,
    free_at: Mutex<Instant>,
}

impl Pace {
    fn new(bytes_per_second: u64) -> Self {
        Pace { bytes_per_second: bytes_per_second.max(1), free_at: Mutex::new(Instant::now()) }
    }

    /// Waits until so many bytes more are within the rate.
    async fn wait(&self, bytes: usize) {
        tokio::time::sleep_until(self.reserve(bytes, Instant::now())).await;
    }

    /// When so many bytes more are within the rate.
    fn reserve(&self, bytes: usize, now: Instant) -> Instant {
        let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let mut free_at = self.free_at.lock();
        *free_at = (*free_at).max(now) + takes;
        *free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_spread_over_time() {
        let pace = Pace::new(1_000);
        let begin = Instant::now() + Duration::from_secs(1);
        let after = |ms: u64| begin + Duration::from_millis(ms);
        for n in 1..=5 {
            assert_eq!(pace.reserve(500, begin), after(500 * n));
        }
        assert_eq!(pace.reserve(1_000, after(62_500)), after(63_500), "rest is not saved up");
    }
}
