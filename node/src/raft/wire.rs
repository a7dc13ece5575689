//! The messages between replicas: our encoding of openraft's requests and replies.

use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use serde::{Deserialize, Serialize};

use super::record::{DecodeError, FORMAT, Record, VoteRecord, decode, encode};
use super::types::{LogPosition, NodeId, RaftVote, TypeConfig};

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
}

#[derive(Serialize, Deserialize)]
struct AppendReply {
    format: u8,
    result: AppendResult,
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
}

#[derive(Serialize, Deserialize)]
struct VoteReply {
    format: u8,
    vote: VoteRecord,
    granted: bool,
    last: Option<LogPosition>,
}

pub(crate) fn encode_append(request: &AppendEntriesRequest<TypeConfig>) -> Result<Vec<u8>, DecodeError> {
    encode(&Append {
        format: FORMAT,
        vote: (&request.vote).into(),
        prev: request.prev_log_id.map(Into::into),
        committed: request.leader_commit.map(Into::into),
        records: request.entries.iter().map(Record::from).collect(),
    })
}

/// Decodes an append and checks that its entries follow `prev` without a hole: openraft trusts that.
pub(crate) fn decode_append(bytes: &[u8]) -> Result<AppendEntriesRequest<TypeConfig>, DecodeError> {
    let append: Append = decode(bytes)?;
    let first = append.prev.map_or(0, |prev| prev.index.saturating_add(1));
    let mut entries = Vec::with_capacity(append.records.len());
    for (index, record) in (first..).zip(append.records) {
        if record.index != index {
            return Err(DecodeError::Malformed(format!("entry {} where {index} must be", record.index)));
        }
        entries.push(record.into_entry()?);
    }
    Ok(AppendEntriesRequest {
        vote: append.vote.into_vote()?,
        prev_log_id: append.prev.map(Into::into),
        entries,
        leader_commit: append.committed.map(Into::into),
    })
}

pub(crate) fn encode_append_reply(reply: &AppendEntriesResponse<NodeId>) -> Result<Vec<u8>, DecodeError> {
    let result = match reply {
        AppendEntriesResponse::Success => AppendResult::Success,
        AppendEntriesResponse::PartialSuccess(matching) => AppendResult::Partial(matching.map(Into::into)),
        AppendEntriesResponse::Conflict => AppendResult::Conflict,
        AppendEntriesResponse::HigherVote(vote) => AppendResult::HigherVote(vote.into()),
    };
    encode(&AppendReply { format: FORMAT, result })
}

pub(crate) fn decode_append_reply(bytes: &[u8]) -> Result<AppendEntriesResponse<NodeId>, DecodeError> {
    let reply: AppendReply = decode(bytes)?;
    Ok(match reply.result {
        AppendResult::Success => AppendEntriesResponse::Success,
        AppendResult::Partial(matching) => AppendEntriesResponse::PartialSuccess(matching.map(Into::into)),
        AppendResult::Conflict => AppendEntriesResponse::Conflict,
        AppendResult::HigherVote(vote) => AppendEntriesResponse::HigherVote(vote.into_vote()?),
    })
}

pub(crate) fn encode_vote(request: &VoteRequest<NodeId>) -> Result<Vec<u8>, DecodeError> {
    encode(&Vote { format: FORMAT, vote: (&request.vote).into(), last: request.last_log_id.map(Into::into) })
}

pub(crate) fn decode_vote(bytes: &[u8]) -> Result<VoteRequest<NodeId>, DecodeError> {
    let vote: Vote = decode(bytes)?;
    Ok(VoteRequest::new(vote.vote.into_vote()?, vote.last.map(Into::into)))
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
        let back = decode_append(&encode_append(&request).unwrap()).unwrap();
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
            assert!(decode_append(&encode_append(&request).unwrap()).is_err());
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
            assert_eq!(decode_append_reply(&encode_append_reply(&reply).unwrap()).unwrap(), reply);
        }
        let reply = VoteResponse::new(RaftVote::new(8, 3), Some(position), true);
        assert_eq!(decode_vote_reply(&encode_vote_reply(&reply).unwrap()).unwrap(), reply);
        let request = VoteRequest::new(RaftVote::new(8, 3), None);
        assert_eq!(decode_vote(&encode_vote(&request).unwrap()).unwrap(), request);
        assert!(decode_vote(b"\x01garbage \xff\xff").is_err());
    }
}
