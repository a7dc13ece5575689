//! The stored form of log entries, votes and memberships: ours, not openraft's.
//!
//! Every value starts with a format byte. A record is `format, index, term, node, body` in postcard;
//! the log engine reads the index back from its first bytes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use openraft::EntryPayload as RaftPayload;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::types::{
    EntryPayload, LogPosition, NodeId, Proposal, RaftEntry, RaftMembership, RaftStoredMembership, RaftVote,
    Submitted,
};

/// Format of records, votes and memberships that this version writes. Persisted: never reuse a number.
pub(crate) const FORMAT: u8 = 1;

/// Bytes that could not be decoded, or hold what they must not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("unknown format {0}: written by a newer version?")]
    Format(u8),
    #[error("malformed bytes: {0}")]
    Malformed(String),
}

/// A log entry as stored and as sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    format: u8,
    pub(crate) index: u64,
    pub(crate) term: u64,
    pub(crate) node: NodeId,
    body: Body,
}

/// Variant numbers are persisted: append only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Body {
    Blank,
    Commands { format: u8, stamp_us: u64, commands: Vec<Bytes> },
    Membership(Members),
}

/// Who takes part in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Members {
    /// One set of voters, or two while the group moves from the first to the second.
    voters: Vec<BTreeSet<NodeId>>,
    /// Nodes that receive the log without a vote.
    learners: BTreeSet<NodeId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredMembers {
    format: u8,
    position: Option<LogPosition>,
    members: Members,
}

/// A vote as stored and as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoteRecord {
    format: u8,
    term: u64,
    node: NodeId,
    committed: bool,
}

impl From<&RaftEntry> for Record {
    fn from(entry: &RaftEntry) -> Self {
        let body = match &entry.payload {
            RaftPayload::Blank => Body::Blank,
            RaftPayload::Normal(proposal) => Body::Commands {
                format: proposal.payload.format,
                stamp_us: proposal.payload.stamp_us,
                commands: proposal.payload.commands.clone(),
            },
            RaftPayload::Membership(membership) => Body::Membership(membership.into()),
        };
        let position = LogPosition::from(entry.log_id);
        Record { format: FORMAT, index: position.index, term: position.term, node: position.node, body }
    }
}

impl Record {
    pub(crate) fn position(&self) -> LogPosition {
        LogPosition { term: self.term, node: self.node, index: self.index }
    }

    /// The bytes that the entry roughly takes: what limits count.
    pub(crate) fn approximate_bytes(entry: &RaftEntry) -> usize {
        let body = match &entry.payload {
            RaftPayload::Normal(proposal) => {
                proposal.payload.command_bytes() + proposal.payload.commands.len() * 8
            }
            RaftPayload::Blank | RaftPayload::Membership(_) => 0,
        };
        body + 64
    }

    pub(crate) fn into_entry(self) -> Result<RaftEntry, DecodeError> {
        if self.format != FORMAT {
            return Err(DecodeError::Format(self.format));
        }
        let log_id = self.position().into();
        let payload = match self.body {
            Body::Blank => RaftPayload::Blank,
            Body::Commands { format, stamp_us, commands } => RaftPayload::Normal(Proposal {
                payload: EntryPayload { format, stamp_us, commands },
                submitted: Submitted::default(),
            }),
            Body::Membership(members) => RaftPayload::Membership(members.into()),
        };
        Ok(RaftEntry { log_id, payload })
    }

    /// The index at the head of an encoded record.
    pub(crate) fn index_of(bytes: &[u8]) -> Result<u64, DecodeError> {
        let ((format, index), _rest) = postcard::take_from_bytes::<(u8, u64)>(bytes).map_err(malformed)?;
        if format == FORMAT { Ok(index) } else { Err(DecodeError::Format(format)) }
    }
}

impl From<&RaftMembership> for Members {
    fn from(membership: &RaftMembership) -> Self {
        Members {
            voters: membership.get_joint_config().clone(),
            learners: membership.learner_ids().collect(),
        }
    }
}

impl From<Members> for RaftMembership {
    fn from(members: Members) -> Self {
        let learners: BTreeMap<NodeId, ()> = members.learners.into_iter().map(|id| (id, ())).collect();
        RaftMembership::new(members.voters, learners)
    }
}

impl From<&RaftVote> for VoteRecord {
    fn from(vote: &RaftVote) -> Self {
        VoteRecord {
            format: FORMAT,
            term: vote.leader_id.term,
            node: vote.leader_id.node_id,
            committed: vote.committed,
        }
    }
}

impl VoteRecord {
    pub(crate) fn into_vote(self) -> Result<RaftVote, DecodeError> {
        if self.format != FORMAT {
            return Err(DecodeError::Format(self.format));
        }
        let mut vote = RaftVote::new(self.term, self.node);
        vote.committed = self.committed;
        Ok(vote)
    }
}

/// Encodes a value of this module, or a message of `wire`.
///
/// Postcard fails only on types of unknown length, which none of ours has; the error is passed on
/// all the same.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, DecodeError> {
    postcard::to_allocvec(value).map_err(malformed)
}

/// Decodes a whole value whose first byte is its format.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    match bytes.first() {
        None => return Err(DecodeError::Malformed("no bytes".into())),
        Some(&format) if format != FORMAT => return Err(DecodeError::Format(format)),
        Some(_) => {}
    }
    let (value, rest) = postcard::take_from_bytes::<T>(bytes).map_err(malformed)?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(DecodeError::Malformed(format!("{} bytes too many", rest.len())))
    }
}

/// The bytes that a state stores as its membership.
pub(crate) fn encode_membership(membership: &RaftStoredMembership) -> Result<Vec<u8>, DecodeError> {
    encode(&StoredMembers {
        format: FORMAT,
        position: membership.log_id().map(LogPosition::from),
        members: membership.membership().into(),
    })
}

/// Reads what [`encode_membership`] wrote; no bytes mean no membership.
pub(crate) fn decode_membership(bytes: &[u8]) -> Result<RaftStoredMembership, DecodeError> {
    if bytes.is_empty() {
        return Ok(RaftStoredMembership::default());
    }
    let stored: StoredMembers = decode(bytes)?;
    Ok(RaftStoredMembership::new(stored.position.map(Into::into), stored.members.into()))
}

fn malformed(error: postcard::Error) -> DecodeError {
    DecodeError::Malformed(error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::raft::types::RaftLogId;

    fn entry(index: u64, payload: RaftPayload<crate::raft::types::TypeConfig>) -> RaftEntry {
        let position = LogPosition { term: 3, node: 7, index };
        RaftEntry { log_id: RaftLogId::from(position), payload }
    }

    fn round_trip(entry: &RaftEntry) -> RaftEntry {
        let bytes = encode(&Record::from(entry)).unwrap();
        assert_eq!(Record::index_of(&bytes).unwrap(), entry.log_id.index);
        decode::<Record>(&bytes).unwrap().into_entry().unwrap()
    }

    #[test]
    fn entries_survive_the_round_trip() {
        let commands = vec![Bytes::from_static("今天想吃微辣川菜 🌶".as_bytes()), Bytes::new()];
        let proposal = Proposal {
            payload: EntryPayload { format: 1, stamp_us: u64::MAX, commands: commands.clone() },
            submitted: Submitted::default(),
        };
        let back = round_trip(&entry(u64::MAX, RaftPayload::Normal(proposal)));
        assert_eq!(back.log_id.index, u64::MAX);
        match back.payload {
            RaftPayload::Normal(proposal) => assert_eq!(proposal.payload.commands, commands),
            other => panic!("unexpected {other:?}"),
        }
        assert!(matches!(round_trip(&entry(0, RaftPayload::Blank)).payload, RaftPayload::Blank));
        let joint = RaftMembership::new(
            vec![BTreeSet::from([1, 2, 3]), BTreeSet::from([2, 3, 4])],
            BTreeMap::from([(9, ())]),
        );
        match round_trip(&entry(1, RaftPayload::Membership(joint.clone()))).payload {
            RaftPayload::Membership(back) => assert_eq!(back, joint),
            other => panic!("unexpected {other:?}"),
        }
    }

    #[test]
    fn damaged_bytes_are_errors() {
        assert!(matches!(decode::<Record>(&[]), Err(DecodeError::Malformed(_))));
        assert!(matches!(decode::<Record>(&[9, 0, 0]), Err(DecodeError::Format(9))));
        let mut bytes = encode(&Record::from(&entry(5, RaftPayload::Blank))).unwrap();
        bytes.push(0);
        assert!(matches!(decode::<Record>(&bytes), Err(DecodeError::Malformed(_))));
        bytes.truncate(3);
        assert!(matches!(decode::<Record>(&bytes), Err(DecodeError::Malformed(_))));
    }

    #[test]
    fn votes_and_memberships_survive_the_round_trip() {
        for committed in [false, true] {
            let mut vote = RaftVote::new(12, 3);
            vote.committed = committed;
            let bytes = encode(&VoteRecord::from(&vote)).unwrap();
            assert_eq!(decode::<VoteRecord>(&bytes).unwrap().into_vote().unwrap(), vote);
        }
        let membership = RaftStoredMembership::new(
            Some(RaftLogId::from(LogPosition { term: 1, node: 2, index: 3 })),
            RaftMembership::new(vec![BTreeSet::from([1, 2])], BTreeMap::new()),
        );
        let bytes = encode_membership(&membership).unwrap();
        assert_eq!(decode_membership(&bytes).unwrap(), membership);
        assert_eq!(decode_membership(&[]).unwrap(), RaftStoredMembership::default());
    }
}
