//! The messages between replicas: our encoding of openraft's requests and replies.

use bytes::Bytes;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::freshness::{Fresh, Stamp};
use super::record::{DecodeError, FORMAT, Record, VoteRecord, decode, encode};
use super::types::{LogPosition, NodeId, RaftVote, TypeConfig};
use super::witness::Mark;
use crate::snapshot::FileId;

/// The largest message that a node sends or accepts, bytes: a full append (4 MiB and one entry more
/// of 1 MiB) with room to spare.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8 << 20;

#[derive(Serialize, Deserialize)]
struct Append {
    format: u8,
    vote: VoteRecord,
    prev: Option<LogPosition>,
    committed: Option<LogPosition>,
    records: Vec<Record>,
    remembered: Option<Mark>,
    fresh: Option<Fresh>,
}

#[derive(Serialize, Deserialize)]
struct AppendReply {
    format: u8,
    result: AppendResult,
    stamp: Stamp,
}

/// What goes with an append beside openraft's request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aside {
    /// What the sender remembers of the receiver.
    pub(crate) remembered: Option<Mark>,
    /// How fresh the state at the sender's commit index is.
    pub(crate) fresh: Option<Fresh>,
}

/// Variant numbers travel between versions: append only.
#[derive(Serialize, Deserialize)]
enum AppendResult {
    Success,
    Partial(Option<LogPosition>),
    Conflict,
    HigherVote(VoteRecord),
}

#[derive(Serialize, Deserialize)]
struct Vote {
    format: u8,
    vote: VoteRecord,
    last: Option<LogPosition>,
    remembered: Option<Mark>,
}

#[derive(Serialize, Deserialize)]
struct VoteReply {
    format: u8,
    vote: VoteRecord,
    granted: bool,
    last: Option<LogPosition>,
}

/// A leader's file for a follower whose entries are purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) vote: RaftVote,
    pub(crate) id: FileId,
    pub(crate) bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct OfferMessage {
    format: u8,
    vote: VoteRecord,
    id: FileId,
    bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct OfferReply {
    format: u8,
    vote: VoteRecord,
}

/// Asks for the bytes of a file from `at` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadPiece {
    format: u8,
    pub(crate) file: Wanted,
    pub(crate) at: u64,
}

/// Which file is asked for. Variant numbers travel between versions: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wanted {
    /// This one.
    Id(FileId),
    /// The newest one that ends at this index or later; written first if there is none.
    AtLeast(u64),
}

impl ReadPiece {
    pub(crate) fn new(file: Wanted, at: u64) -> Self {
        ReadPiece { format: FORMAT, file, at }
    }
}

/// A piece of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    format: u8,
    pub(crate) id: FileId,
    /// Of the whole file.
    pub(crate) bytes: u64,
    pub(crate) at: u64,
    checksum: u64,
    pub(crate) data: Bytes,
}

impl Piece {
    pub(crate) fn new(id: FileId, bytes: u64, at: u64, data: Bytes) -> Self {
        let checksum = xxh3_64_with_seed(&data, at);
        Piece { format: FORMAT, id, bytes, at, checksum, data }
    }

    /// Whether the data are those that were sent, for that place.
    pub(crate) fn is_whole(&self) -> bool {
        xxh3_64_with_seed(&self.data, self.at) == self.checksum
    }
}

/// A leader's request to take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandOver {
    /// The leader's own vote: a request of an earlier leader is void.
    pub(crate) vote: RaftVote,
    /// Its last entry, which the new leader must have.
    pub(crate) last_index: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct HandOverMessage {
    format: u8,
    vote: VoteRecord,
    last_index: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct HandOverReply {
    format: u8,
    accepted: bool,
}

pub(crate) fn encode_hand_over(request: &HandOver) -> Result<Vec<u8>, DecodeError> {
    encode(&HandOverMessage { format: FORMAT, vote: (&request.vote).into(), last_index: request.last_index })
}

pub(crate) fn decode_hand_over(bytes: &[u8]) -> Result<HandOver, DecodeError> {
    let HandOverMessage { vote, last_index, .. } = decode(bytes)?;
    Ok(HandOver { vote: vote.into_vote()?, last_index })
}

pub(crate) fn encode_hand_over_reply(accepted: bool) -> Result<Vec<u8>, DecodeError> {
    encode(&HandOverReply { format: FORMAT, accepted })
}

pub(crate) fn decode_hand_over_reply(bytes: &[u8]) -> Result<bool, DecodeError> {
    Ok(decode::<HandOverReply>(bytes)?.accepted)
}

pub(crate) fn encode_offer(offer: &Offer) -> Result<Vec<u8>, DecodeError> {
    let Offer { vote, id, bytes } = offer;
    encode(&OfferMessage { format: FORMAT, vote: vote.into(), id: *id, bytes: *bytes })
}

pub(crate) fn decode_offer(bytes: &[u8]) -> Result<Offer, DecodeError> {
    let OfferMessage { vote, id, bytes, .. } = decode(bytes)?;
    Ok(Offer { vote: vote.into_vote()?, id, bytes })
}

pub(crate) fn encode_offer_reply(reply: &SnapshotResponse<NodeId>) -> Result<Vec<u8>, DecodeError> {
    encode(&OfferReply { format: FORMAT, vote: (&reply.vote).into() })
}

pub(crate) fn decode_offer_reply(bytes: &[u8]) -> Result<SnapshotResponse<NodeId>, DecodeError> {
    let reply: OfferReply = decode(bytes)?;
    Ok(SnapshotResponse::new(reply.vote.into_vote()?))
}

pub(crate) fn encode_read(read: &ReadPiece) -> Result<Vec<u8>, DecodeError> {
    encode(read)
}

pub(crate) fn decode_read(bytes: &[u8]) -> Result<ReadPiece, DecodeError> {
    decode(bytes)
}

pub(crate) fn encode_piece(piece: &Piece) -> Result<Vec<u8>, DecodeError> {
    encode(piece)
}

pub(crate) fn decode_piece(bytes: &[u8]) -> Result<Piece, DecodeError> {
    decode(bytes)
}

pub(crate) fn encode_append(
    request: &AppendEntriesRequest<TypeConfig>,
    aside: Aside,
) -> Result<Vec<u8>, DecodeError> {
    encode(&Append {
        format: FORMAT,
        vote: (&request.vote).into(),
        prev: request.prev_log_id.map(Into::into),
        committed: request.leader_commit.map(Into::into),
        records: request.entries.iter().map(Record::from).collect(),
        remembered: aside.remembered,
        fresh: aside.fresh,
    })
}

/// Decodes an append and checks that its entries follow `prev` without a hole: openraft trusts that.
pub(crate) fn decode_append(bytes: &[u8]) -> Result<(AppendEntriesRequest<TypeConfig>, Aside), DecodeError> {
    let append: Append = decode(bytes)?;
    let first = append.prev.map_or(0, |prev| prev.index.saturating_add(1));
    let mut entries = Vec::with_capacity(append.records.len());
    for (index, record) in (first..).zip(append.records) {
        if record.index != index {
            return Err(DecodeError::Malformed(format!("entry {} where {index} must be", record.index)));
        }
        entries.push(record.into_entry()?);
    }
    let request = AppendEntriesRequest {
        vote: append.vote.into_vote()?,
        prev_log_id: append.prev.map(Into::into),
        entries,
        leader_commit: append.committed.map(Into::into),
    };
    Ok((request, Aside { remembered: append.remembered, fresh: append.fresh }))
}

/// `stamp`: when the reply is made.
pub(crate) fn encode_append_reply(
    reply: &AppendEntriesResponse<NodeId>,
    stamp: Stamp,
) -> Result<Vec<u8>, DecodeError> {
    let result = match reply {
        AppendEntriesResponse::Success => AppendResult::Success,
        AppendEntriesResponse::PartialSuccess(matching) => AppendResult::Partial(matching.map(Into::into)),
        AppendEntriesResponse::Conflict => AppendResult::Conflict,
        AppendEntriesResponse::HigherVote(vote) => AppendResult::HigherVote(vote.into()),
    };
    encode(&AppendReply { format: FORMAT, result, stamp })
}

pub(crate) fn decode_append_reply(
    bytes: &[u8],
) -> Result<(AppendEntriesResponse<NodeId>, Stamp), DecodeError> {
    let reply: AppendReply = decode(bytes)?;
    let response = match reply.result {
        AppendResult::Success => AppendEntriesResponse::Success,
        AppendResult::Partial(matching) => AppendEntriesResponse::PartialSuccess(matching.map(Into::into)),
        AppendResult::Conflict => AppendEntriesResponse::Conflict,
        AppendResult::HigherVote(vote) => AppendEntriesResponse::HigherVote(vote.into_vote()?),
    };
    Ok((response, reply.stamp))
}

/// `remembered`: what the candidate remembers of the receiver.
pub(crate) fn encode_vote(
    request: &VoteRequest<NodeId>,
    remembered: Option<Mark>,
) -> Result<Vec<u8>, DecodeError> {
    let (vote, last) = ((&request.vote).into(), request.last_log_id.map(Into::into));
    encode(&Vote { format: FORMAT, vote, last, remembered })
}

pub(crate) fn decode_vote(bytes: &[u8]) -> Result<(VoteRequest<NodeId>, Option<Mark>), DecodeError> {
    let vote: Vote = decode(bytes)?;
    Ok((VoteRequest::new(vote.vote.into_vote()?, vote.last.map(Into::into)), vote.remembered))
}

pub(crate) fn encode_vote_reply(reply: &VoteResponse<NodeId>) -> Result<Vec<u8>, DecodeError> {
    encode(&VoteReply {
        format: FORMAT,
        vote: (&reply.vote).into(),
        granted: reply.vote_granted,
        last: reply.last_log_id.map(Into::into),
    })
}

pub(crate) fn decode_vote_reply(bytes: &[u8]) -> Result<VoteResponse<NodeId>, DecodeError> {
    let reply: VoteReply = decode(bytes)?;
    let vote: RaftVote = reply.vote.into_vote()?;
    Ok(VoteResponse::new(vote, reply.last.map(Into::into), reply.granted))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use openraft::EntryPayload as RaftPayload;

    use super::*;
    use crate::raft::types::{RaftEntry, RaftLogId};

    fn blank(index: u64) -> RaftEntry {
        let position = LogPosition { term: 2, node: 1, index };
        RaftEntry { log_id: RaftLogId::from(position), payload: RaftPayload::Blank }
    }

    #[test]
    fn appends_survive_the_round_trip() {
        let request = AppendEntriesRequest::<TypeConfig> {
            vote: RaftVote::new_committed(2, 1),
            prev_log_id: Some(blank(4).log_id),
            entries: vec![blank(5), blank(6)],
            leader_commit: Some(blank(3).log_id),
        };
        let aside = Aside {
            remembered: Some(Mark { term: 2, acknowledged: Some(4), committed: None }),
            fresh: Some(Fresh { commit: 3, quorum_age_us: 7, echo: Stamp { run: u64::MAX, at_us: 1 } }),
        };
        let (back, aside_back) = decode_append(&encode_append(&request, aside).unwrap()).unwrap();
        assert_eq!(aside_back, aside);
        assert_eq!((back.vote, back.prev_log_id), (request.vote, request.prev_log_id));
        assert_eq!((back.entries.len(), back.leader_commit), (2, request.leader_commit));
        assert_eq!(back.entries[1].log_id, blank(6).log_id);
    }

    #[test]
    fn an_append_with_a_hole_is_refused() {
        for (prev, entries) in [(Some(blank(4)), vec![blank(6)]), (None, vec![blank(0), blank(2)])] {
            let request = AppendEntriesRequest::<TypeConfig> {
                vote: RaftVote::new_committed(2, 1),
                prev_log_id: prev.map(|entry| entry.log_id),
                entries,
                leader_commit: None,
            };
            assert!(decode_append(&encode_append(&request, Aside::default()).unwrap()).is_err());
        }
    }

    #[test]
    fn replies_survive_the_round_trip() {
        let position = blank(9).log_id;
        for reply in [
            AppendEntriesResponse::Success,
            AppendEntriesResponse::PartialSuccess(Some(position)),
            AppendEntriesResponse::Conflict,
            AppendEntriesResponse::HigherVote(RaftVote::new(8, 3)),
        ] {
            let stamp = Stamp { run: 3, at_us: u64::MAX };
            let bytes = encode_append_reply(&reply, stamp).unwrap();
            assert_eq!(decode_append_reply(&bytes).unwrap(), (reply, stamp));
        }
        let reply = VoteResponse::new(RaftVote::new(8, 3), Some(position), true);
        assert_eq!(decode_vote_reply(&encode_vote_reply(&reply).unwrap()).unwrap(), reply);
        let request = VoteRequest::new(RaftVote::new(8, 3), None);
        let remembered = Some(Mark { term: 6, acknowledged: None, committed: Some(1) });
        let back = decode_vote(&encode_vote(&request, remembered).unwrap()).unwrap();
        assert_eq!(back, (request, remembered));
        let reply = SnapshotResponse::new(RaftVote::new_committed(8, 3));
        assert_eq!(decode_offer_reply(&encode_offer_reply(&reply).unwrap()).unwrap().vote, reply.vote);
        assert!(decode_vote(b"\x01garbage \xff\xff").is_err());
    }

    #[test]
    fn hand_overs_survive_the_round_trip() {
        for last_index in [None, Some(0), Some(u64::MAX)] {
            let request = HandOver { vote: RaftVote::new_committed(7, 2), last_index };
            assert_eq!(decode_hand_over(&encode_hand_over(&request).unwrap()).unwrap(), request);
        }
        for accepted in [false, true] {
            assert_eq!(decode_hand_over_reply(&encode_hand_over_reply(accepted).unwrap()).unwrap(), accepted);
        }
        assert!(decode_hand_over(&[]).is_err());
    }

    #[test]
    fn pieces_of_files_survive_the_round_trip_and_show_damage() {
        let id = FileId { index: 7, head: u64::MAX };
        let offer = Offer { vote: RaftVote::new_committed(2, 1), id, bytes: 1 << 40 };
        assert_eq!(decode_offer(&encode_offer(&offer).unwrap()).unwrap(), offer);
        for file in [Wanted::Id(id), Wanted::AtLeast(12)] {
            let read = ReadPiece::new(file, 99);
            assert_eq!(decode_read(&encode_read(&read).unwrap()).unwrap(), read);
        }
        let piece = Piece::new(id, 1_000, 99, Bytes::from_static("一段".as_bytes()));
        let back = decode_piece(&encode_piece(&piece).unwrap()).unwrap();
        assert_eq!(back, piece);
        assert!(back.is_whole());
        assert!(!Piece { at: 98, ..back.clone() }.is_whole(), "for another place");
        assert!(!Piece { data: Bytes::from_static(b"other"), ..back }.is_whole());
    }
}
