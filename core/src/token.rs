//! Tokens: what a writer or reader has seen, so that a later read never sees less.

use crate::codec::{Stored, stored};
use crate::space::Shard;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// Most shards that one token names.
const SEEN_MAX: usize = 256;

/// A position in the history of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Which shard.
    pub shard: Shard,
    /// Which life of it: changes on restore and slot move, which start a new history.
    pub incarnation: u32,
    /// The visible index.
    pub index: u64,
}

/// What was seen, shard by shard. Bound to a tenant, so that it tells another one nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    tenant: u64,
    seen: Vec<Seen>,
}

stored!(Token);

impl Token {
    /// A token of `tenant` that has seen nothing yet.
    pub fn new(tenant: &str) -> Self {
        Self { tenant: xxh3_64(tenant.as_bytes()), seen: Vec::new() }
    }

    /// Adds a position; of two positions of one shard in one life the later one stays, and a new
    /// life takes the place of an old one.
    pub fn observe(&mut self, seen: Seen) {
        match self.seen.iter_mut().find(|known| known.shard == seen.shard) {
            Some(known) if (known.incarnation, known.index) < (seen.incarnation, seen.index) => *known = seen,
            Some(_) => {}
            None => self.seen.push(seen),
        }
    }

    /// The position in a shard, if it was seen at all.
    pub fn seen(&self, shard: Shard) -> Option<Seen> {
        self.seen.iter().find(|seen| seen.shard == shard).copied()
    }

    /// The bytes of the token with a checksum in front, so that a damaged one is recognised.
    ///
    /// # Errors
    /// [`crate::ErrorCode::Internal`] if it cannot be encoded, which does not happen.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let body = self.encode().map_err(|e| Error::new(crate::ErrorCode::Internal, e.to_string()))?;
        let mut bytes = checksum(&body).to_vec();
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    /// Reads the bytes of a token of `tenant`.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] if it is damaged or belongs to another tenant.
    pub fn from_bytes(bytes: &[u8], tenant: &str) -> Result<Self> {
        let damaged = || {
            Error::invalid(
                "token",
                "this is not a token of this service; leave it out or send one as it was received",
            )
        };
        let (sum, body) = bytes.split_first_chunk::<4>().ok_or_else(damaged)?;
        if *sum != checksum(body) {
            return Err(damaged());
        }
        let token = Self::decode(body).map_err(|_| damaged())?;
        if token.tenant != xxh3_64(tenant.as_bytes()) || token.seen.len() > SEEN_MAX {
            return Err(damaged());
        }
        Ok(token)
    }
}

fn checksum(body: &[u8]) -> [u8; 4] {
    let [a, b, c, d, ..] = xxh3_64(body).to_be_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(shard: u16, incarnation: u32, index: u64) -> Seen {
        Seen { shard: Shard(shard), incarnation, index }
    }

    #[test]
    fn keeps_the_latest_of_each_shard() {
        let mut token = Token::new("acme");
        for position in [seen(1, 0, 5), seen(1, 0, 3), seen(2, 0, 9), seen(2, 1, 1), seen(2, 0, 99)] {
            token.observe(position);
        }
        assert_eq!(token.seen(Shard(1)), Some(seen(1, 0, 5)));
        assert_eq!(token.seen(Shard(2)), Some(seen(2, 1, 1)));
        assert_eq!(token.seen(Shard(3)), None);
    }

    #[test]
    fn is_bound_to_its_tenant_and_recognises_damage() {
        let mut token = Token::new("acme");
        token.observe(seen(7, 1, u64::MAX));
        let bytes = token.to_bytes().expect("encodes");
        assert_eq!(Token::from_bytes(&bytes, "acme"), Ok(token));
        assert!(Token::from_bytes(&bytes, "acme-corp").is_err());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(Token::from_bytes(&damaged, "acme").is_err(), "byte {at}");
            assert!(Token::from_bytes(&bytes[..at], "acme").is_err(), "cut at {at}");
        }
    }
}
